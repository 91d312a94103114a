"""Several collections asked at once: each ranks its own documents, and the percentile merges them.

Scores of two collections cannot be compared: they depend on the corpus, and perhaps on the model. The share
of unrelated questions whose best document in a collection scores less can. Documents of one share take turns,
by their place in their own collection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Unpack

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._answers import Answer, SearchSettings
from surprise_rerank._candidates import Query, Ranking
from surprise_rerank._documents import stripped_question
from surprise_rerank._errors import NoBackgroundError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank.connectors._searchable import SearchableCollection
from surprise_rerank.thresholds._verdicts import NO_MATCH

# What one collection says of a question counts before what another one says, in this order.
_STATUSES = ("answered", "weak", "unknown", "off-topic", "no match")


class Federation:
    """Collections that answer a question together. Threads may share it.

    Args:
        collections: name -> an index or an attached collection; or a list of them, whose names are their
            places, if these differ.
        system: how each ranks its own; the best that it has enough for by default.

    Raises:
        DataError: if there is none, or one has no background of its system.
    """

    def __init__(
        self,
        collections: Mapping[str, SearchableCollection] | Sequence[SearchableCollection],
        system: str | None = None,
    ) -> None:
        border.optional(border.text, "system", system)
        if not isinstance(collections, Mapping):
            listed = list(
                border.instances("collections", collections, SearchableCollection, "open or attach one")
            )
            advice = "give them by name, as {name: collection}"
            border.distinct("places of collections", (collection.where for collection in listed), advice)
            collections = {collection.where: collection for collection in listed}
        border.mapping(
            "collections", collections, lambda name, value: border.instance(name, value, SearchableCollection)
        )
        border.some("collections", collections, "give some, as a list or by name")
        self.pipelines = {name: collection.pipeline(system) for name, collection in collections.items()}
        for name, pipeline in self.pipelines.items():
            if pipeline.current_background() is None:
                raise NoBackgroundError(
                    f"{name!r} has no background of its system, by which scores of collections are compared; "
                    "make one with its measure_background()"
                )

    def __repr__(self) -> str:
        return f"<Federation: {', '.join(self.pipelines)}>"

    def search(self, question: str, top_k: int = 10, **settings: Unpack[SearchSettings]) -> Ranking:
        """The best documents of all collections. Those of one are in the order that it has them in.

        `Hit.collection` says where a document is from. The verdict is the best that a collection gives.

        Args:
            question: in words.
            top_k: the most that are returned.
            settings: of `Pipeline.search`, for each collection; but `offset` is of them together.
        """
        offset = border.optional(border.count, "offset", settings.pop("offset", None), 0) or 0
        last = border.count("top_k", top_k) + offset
        text = stripped_question(border.text("question", question))
        queries: dict[tuple[str, bool], Query] = {}  # collections of one model share the question's vectors
        for pipeline in self.pipelines.values():
            if _model(pipeline) not in queries:
                queries[_model(pipeline)] = pipeline.encode([text])[0]

        def answer(pipeline: Pipeline) -> Answer:
            return pipeline.answer(queries[_model(pipeline)], last, **settings)

        with ThreadPoolExecutor(len(self.pipelines)) as threads:
            answers = dict(zip(self.pipelines, threads.map(answer, self.pipelines.values()), strict=True))
        return _merged(answers, last)[offset:]

    async def asearch(self, question: str, top_k: int = 10, **settings: Unpack[SearchSettings]) -> Ranking:
        """`search` for an event loop: threads search, and the loop goes on meanwhile."""
        return await asyncio.to_thread(self.search, question, top_k, **settings)


def _model(pipeline: Pipeline) -> tuple[str, bool]:
    return pipeline.encoder.fingerprint, pipeline.encodes


def _merged(answers: Mapping[str, Answer], last: int) -> Ranking:
    """The lines of all collections by percentile; equal ones take turns by their places."""
    lines = []
    for name, answer in answers.items():
        shown = answer.shown
        assert shown.percentile is not None
        # Where a collection's own order is not by percentile, a line counts by the best of those below it.
        counted = np.maximum.accumulate(shown.percentile[::-1])[::-1].tolist()
        lines += [(-best, place, name) for place, best in enumerate(counted)]
    best_lines = sorted(lines, key=lambda line: line[:2])[:last]
    hits = [answers[name].shown[place] for _, place, name in best_lines]
    names = dict.fromkeys(part for hit in hits for part in hit.parts)
    passages = tuple(hit.passage for hit in hits if hit.passage is not None)
    # The collection that has most to say: the best status, the largest chance.
    verdicts = (answer.verdict or NO_MATCH for answer in answers.values())
    verdict = min(verdicts, key=lambda each: (_STATUSES.index(each.status), -(each.chance or 0.0)))
    return Ranking(
        ids=tuple(hit.id for hit in hits),
        scores=np.array([hit.score for hit in hits]),
        parts={part: np.array([hit.parts.get(part, np.nan) for hit in hits]) for part in names},
        documents=tuple(hit.document for hit in hits if hit.document is not None),
        notes=tuple(dict.fromkeys(note for answer in answers.values() for note in answer.shown.notes)),
        passages=passages if len(passages) == len(hits) else None,
        percentile=np.array([hit.percentile for hit in hits], np.float64),
        duplicates=tuple(hit.duplicates for hit in hits),
        verdict=verdict,
        collections=tuple(name for _, _, name in best_lines),
        unit=next(iter(answers.values())).shown.unit,
    )
