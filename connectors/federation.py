"""Several collections asked at once: each ranks its own documents, and the percentile merges them.

Scores of two collections cannot be compared: they depend on the corpus, and perhaps on the model. The share
of unrelated questions whose best document in a collection scores less can. Documents of one share take turns,
by their place in their own collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Unpack

import numpy as np

from surprise_rerank import border
from surprise_rerank.candidates import Hit, Query, Ranking
from surprise_rerank.connectors.ranked import Ranked
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import CallOptions, Pipeline, require_count


@dataclass(frozen=True, slots=True)
class CollectionHit(Hit):
    """One line of a merged ranking.

    Attributes:
        collection: the name of the collection that it is from.
    """

    collection: str = ""


class Collections:
    """Collections that answer a question together. Threads may share it.

    Args:
        collections: name -> an index or an attached collection; or a list of them, whose names are their
            places.
        system: how each ranks its own; the best that it has enough for by default.

    Raises:
        DataError: if there is none, or one has no background of its system.
    """

    def __init__(
        self, collections: Mapping[str, Ranked] | Sequence[Ranked], system: str | None = None
    ) -> None:
        border.optional(border.text, "system", system)
        if not isinstance(collections, Mapping):
            listed = border.instances("collections", collections, Searched)
            collections = {own.where: cast(Ranked, own) for own in listed}
        border.mapping("collections", collections, lambda name, own: border.instance(name, own, Searched))
        if not collections:
            raise DataError("there is no collection to ask; give some, as a list or by name")
        self.pipelines = {name: own.pipeline(system) for name, own in collections.items()}
        for name, own in self.pipelines.items():
            if own.background is None:
                raise DataError(
                    f"{name!r} has no background of its system, by which scores of collections are compared; "
                    "make one with its store_background()"
                )

    def __repr__(self) -> str:
        return f"<Collections: {', '.join(self.pipelines)}>"

    def search(self, question: str, top_k: int = 10, **options: Unpack[CallOptions]) -> list[CollectionHit]:
        """The best documents of all collections. Those of one are in the order that it has them in.

        Args:
            question: in words.
            top_k: the most that are returned.
            options: of `Pipeline.search`, for each collection.

        Raises:
            DataError: if top_k is not positive; as `Pipeline.search`.
        """
        require_count("top_k", top_k)
        asked = {name: own.changed(**options) for name, own in self.pipelines.items()}
        queries: dict[tuple[str, bool], Query] = {}  # collections of one model share the question's vectors
        for own in asked.values():
            if _model(own) not in queries:
                queries[_model(own)] = own.encoded(question)
        with ThreadPoolExecutor(len(asked)) as threads:
            found = threads.map(lambda own: own.shown(queries[_model(own)], top_k), asked.values())
            lines = [line for name, shown in zip(asked, found, strict=True) for line in _lines(name, shown)]
        return [hit for _, hit in sorted(lines, key=lambda line: line[0])[:top_k]]


def _model(pipeline: Pipeline) -> tuple[str, bool]:
    return pipeline.encoder.fingerprint, pipeline.reads_vectors


def _lines(name: str, shown: Ranking) -> list[tuple[tuple[float, int], CollectionHit]]:
    """The best of one collection, each with what it is sorted by: percentile, and its place here."""
    assert shown.percentile is not None
    # Where its own order is not by percentile, a line counts by the best of those below it.
    counted = np.maximum.accumulate(shown.percentile[::-1])[::-1].tolist()
    copied = [own.name for own in fields(Hit)]
    return [
        ((-best, i), CollectionHit(**{own: getattr(hit, own) for own in copied}, collection=name))
        for i, (hit, best) in enumerate(zip(shown, counted, strict=True))
    ]
