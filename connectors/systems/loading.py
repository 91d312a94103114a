"""Pipelines and re-rankers from a few names: for the command line, the server, and adapters in files."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qdrant_client import models

from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever, LexicalIndex
from surprise_rerank.connectors.qdrant.retrievers.stored import StoredCandidates
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.qdrant.storage.folder import require_index
from surprise_rerank.connectors.systems.backgrounds import background_for, load_background
from surprise_rerank.connectors.systems.building import build_system, with_scorers
from surprise_rerank.connectors.systems.built import BuiltSystem
from surprise_rerank.connectors.systems.inputs import inputs_of
from surprise_rerank.connectors.systems.register import SYSTEMS, find_system, resolved
from surprise_rerank.encoders.adapting import as_encoder
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder, load_question_encoder
from surprise_rerank.errors import DataError, refuse_unknown
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.rerank.diversity import NO_DIVERSITY, Diversity
from surprise_rerank.rerank.rerankers import CosineReranker, Reranker
from surprise_rerank.text_reranker import TextReranker
from surprise_rerank.thresholds.background import QuestionBackground, require_background

# Whoever asks for an index in this process gets the same one, so that its changes are seen by all.
_open: weakref.WeakValueDictionary[tuple[str, ...], QdrantIndex] = weakref.WeakValueDictionary()
_opening = threading.Lock()


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """A pipeline or a re-ranker in names and numbers, so that it can be written to a file.

    `PipelineSettings.of(**names)` makes them of names that a user gave.

    Attributes:
        index: folder of an index; None where documents are not stored, or on a server.
        url: of a Qdrant server instead; its key comes from the environment variable QDRANT_API_KEY.
        collection: on the server.
        model: of the encoder; the index's own where there is one, else all-MiniLM-L6-v2.
        system: what ranks, by its name in the register; the best that the index stores enough for by default,
            or without an index `dynamax`, and `cosine` for an encoder without token vectors.
        depth: size of the candidate pool that a pipeline re-ranks.
        min_surprise: leave out what is less surprising; the index must have a background for the system.
        background: file of a background (`QuestionBackground.save`), for texts that are ranked without index.
        encoder: in place of a model's name: an `Encoder`, an embedding function, a host's embeddings, or
            whatever else `as_encoder` takes. It cannot be written to a file.
        diversity: different documents first, from 0 (by relevance alone) to 1; see `rerank/diversity.py`.
        mmr: the same as 1 - diversity.
        collapse: fold what has this cosine to a better document into it.

    Raises:
        DataError: if both an index and a url, or both a model and an encoder are given, or a background for
            an index, or both diversity and mmr; if there is no such system, or a number is out of its range.
    """

    index: str | None = None
    url: str | None = None
    collection: str = "documents"
    model: str | None = None
    system: str | None = None
    depth: int = 100
    min_surprise: float | None = None
    background: str | None = None
    encoder: object | None = field(default=None, repr=False)
    diversity: float | None = None
    mmr: float | None = None
    collapse: float | None = None

    def __post_init__(self) -> None:
        _ = self.variety
        if self.system is not None:
            find_system(self.system)
        _ = self.location
        if self.model is not None and self.encoder is not None:
            raise DataError(f"model={self.model!r} and encoder= are both given; give one of the two")
        if self.background is not None and self.location.is_given:
            raise DataError(
                f"background={self.background!r} is for texts without an index, and there is one; store it "
                "with the index ('surprise-rerank background set'), or leave it out"
            )

    @classmethod
    def of(cls, names: Mapping[str, Any], of: str, beside: Iterable[str] = ()) -> PipelineSettings:
        """Settings that a user gave by name.

        Args:
            names: attributes and their values.
            of: what they are settings of, for errors.
            beside: other names that it has.

        Raises:
            DataError: if one is not known, which names the nearest and all that there are; as the class.
        """
        refuse_unknown(names, [*beside, *(own.name for own in fields(cls))], of)
        return cls(**names)

    @property
    def location(self) -> Location:
        """Where the index is.

        Raises:
            DataError: if both an index and a url are given.
        """
        return Location(self.index, self.url, self.collection)

    @property
    def variety(self) -> Diversity:
        """Diversity, mmr and collapse in one.

        Raises:
            DataError: if one is out of its range, or both diversity and mmr are given.
        """
        return NO_DIVERSITY.changed(diversity=self.diversity, mmr=self.mmr, collapse=self.collapse)

    def open_index(self) -> QdrantIndex:
        """The index with its model; the same one for all who ask while it is in use.

        Raises:
            DataError: if there is none in the settings.
            StoreError: if it cannot be opened, or does not exist.
            IndexMismatchError: if it is of another model.
        """
        if not self.location.is_given:
            raise DataError("which index? give index=FOLDER, or url=URL with collection=NAME")
        folder = "" if self.index is None else os.path.realpath(self.index)
        url = ",".join(self.location.urls)
        key = (folder, url, self.collection if url else "")
        with _opening:
            found = _open.get(key)
            if found is None or found.is_closed:
                found = _open[key] = self._opened()
        if self.encoder is not None:
            found.manifest.check(Manifest.of(as_encoder(self.encoder)), found.where)
        if self.model not in (None, found.manifest.model, found.encoder.name):
            assert self.model is not None
            found.manifest.check(Manifest.of(load_encoder(self.model, backend="auto")), found.where)
        return found

    def require_possible(self) -> None:
        """Refuse what cannot be, before a model is loaded.

        Raises:
            StoreError: if the folder holds no index.
            DataError: if the system cannot rank texts without one, or min_surprise has no background.
        """
        if self.index is not None:
            require_index(Path(self.index))
        if self.location.is_given:
            return
        if self.system is not None:
            reranker_of_texts(self.system)
        if self.min_surprise is not None and self.background is None:
            require_background(None, self.min_surprise)

    def pipeline(self) -> Pipeline:
        """A pipeline on the index.

        Raises:
            SurpriseRerankError: as `open_index`; if the index lacks what the system, or min_surprise, needs.
        """
        return pipeline_of(
            self.open_index(),
            self.system,
            depth=self.depth,
            min_surprise=self.min_surprise,
            diversity=self.variety,
        )

    def text_reranker(self) -> TextReranker:
        """A re-ranker of texts, which fetches the vectors of those that the index holds.

        Raises:
            SurpriseRerankError: as `pipeline`; if the system cannot rank given texts.
        """
        if self.location.is_given:
            return text_reranker_of(
                self.open_index(), self.system, min_surprise=self.min_surprise, diversity=self.variety
            )
        if self.encoder is None:
            model = load_encoder(self.model or DEFAULT_MODEL, backend="auto")
        else:
            model = as_encoder(self.encoder)
        background = None if self.background is None else QuestionBackground.load(self.background)
        name = self.system or ("cosine" if token_dimension(model) is None else "dynamax")
        reranker = reranker_of_texts(name)
        return TextReranker(
            model, reranker, background=background, min_surprise=self.min_surprise, diversity=self.variety
        )

    def _opened(self) -> QdrantIndex:
        if self.encoder is not None:
            return self._connected(as_encoder(self.encoder))
        with self._connected(None) as index:
            name, precision = self.model or index.manifest.model, index.manifest.precision
        return self._connected(load_question_encoder(name, precision))

    def _connected(self, encoder: Encoder | None) -> QdrantIndex:
        return QdrantIndex.open(self.location, encoder)


def pipeline_of(
    index: Searched,
    system: str | None = None,
    *,
    depth: int = 100,
    min_surprise: float | None = None,
    filter: models.Filter | None = None,  # noqa: A002 - the option's name
    mode: SurpriseMode | None = None,
    diversity: Diversity = NO_DIVERSITY,
    scorers: Sequence[object] = (),
    weights: Mapping[str, float] = MappingProxyType({}),
    first_background: bool = False,
) -> Pipeline:
    """A system as a pipeline, with its background where there is one.

    Args:
        index: opened with its encoder.
        system: which; the best that there is enough for by default.
        depth: size of the candidate pool.
        min_surprise: leave out what is less surprising.
        filter: only documents that it lets through.
        mode: where surprise is computed; its usual place by default.
        diversity: of what a search shows.
        scorers: more of them; see `with_scorers`, as of weights.
        weights: of parts.
        first_background: whether to measure a background where no system has one.

    Raises:
        DataError: if what the system or the mode needs is not there, or min_surprise is given and there is no
            background for the system.
    """
    options = NO_OPTIONS if filter is None else SearchOptions(filter=filter)
    built = build_system(system or inputs_of(index).default, index, options, mode)
    background = background_for(index, built, index.encoder, min_surprise, first=first_background)
    own = with_scorers(built, scorers, weights)
    return pipeline_with(index, own, background, depth, min_surprise, diversity)


def pipeline_with(
    index: Searched,
    built: BuiltSystem,
    background: QuestionBackground | None,
    depth: int,
    min_surprise: float | None,
    diversity: Diversity,
) -> Pipeline:
    """The same of a system that is built, with its background; see `Pipeline`."""
    return Pipeline(
        index.encoder,
        built.retriever,
        built.reranker,
        depth,
        background,
        min_surprise,
        diversity,
        encodes=find_system(built.name).encodes,
    )


def text_reranker_of(
    index: Searched,
    system: str | None = None,
    *,
    min_surprise: float | None = None,
    diversity: Diversity = NO_DIVERSITY,
    scorers: Sequence[object] = (),
    weights: Mapping[str, float] = MappingProxyType({}),
    first_background: bool = False,
) -> TextReranker:
    """A re-ranker of given texts that fetches the vectors of those that are stored, by their ids.

    Args:
        index: opened with its encoder.
        system: one that ranks texts; the best that there is enough for by default.
        min_surprise: leave out what is less surprising.
        diversity: of what it shows.
        scorers: more of them; see `with_scorers`, as of weights.
        weights: of parts.
        first_background: as for `pipeline_of`.

    Raises:
        DataError: if the system cannot rank given texts or lacks what it needs, or min_surprise is given and
            there is no background for the system.
    """
    inputs = inputs_of(index)
    name = system or inputs.default
    chosen = find_system(name)
    if not chosen.ranks_texts:
        able = ", ".join(other.name for other in SYSTEMS.values() if other.ranks_texts)
        raise DataError(f"the system {name!r} ranks inside Qdrant; given texts take one of {able}")
    words: LexicalIndex | None = None
    if chosen.text_reranker and not chosen.fits and not scorers and not weights:
        cosine = name == "cosine"
        reranker: Reranker | None = (
            CosineReranker(index.similarity) if cosine else resolved(chosen.text_reranker)()
        )
        background = load_background(index, name, min_surprise)
    else:
        built = build_system(name, index, of_texts=True)
        background = background_for(index, built, index.encoder, min_surprise, first=first_background)
        built = with_scorers(built, scorers, weights)
        reranker = inputs.surprise_of_texts() if name == "surprise" else built.reranker
        words = built.retriever.lexical if isinstance(built.retriever, HybridRetriever) else None
    if reranker is None:
        raise DataError(
            f"the system {name!r} has no re-ranker, so it cannot rank given texts; choose another"
        )
    stored = StoredCandidates(index, words)
    return TextReranker(index.encoder, reranker, stored, background, min_surprise, diversity=diversity)


def reranker_of_texts(system: str) -> Reranker:
    """What ranks texts without any index.

    Raises:
        DataError: if the system needs an index.
    """
    path = find_system(system).text_reranker
    if not path:
        able = ", ".join(other.name for other in SYSTEMS.values() if other.text_reranker)
        raise DataError(
            f"the system {system!r} needs an index, for the statistics of its documents; give one, or choose "
            f"of {able}"
        )
    reranker: Reranker = resolved(path)()
    return reranker
