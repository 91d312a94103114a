"""Pipelines and re-rankers from names and files: for the command line, the server, and adapters in files."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from surprise_rerank import _border as border
from surprise_rerank._answers import SearchOptions, SearchSettings
from surprise_rerank._candidates import Unit
from surprise_rerank._errors import DataError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors.attached._collection import Collection
from surprise_rerank.connectors.attached._opening import CollectionConfig, open_collection
from surprise_rerank.connectors.qdrant._location import Location
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._storage.folder import require_index
from surprise_rerank.connectors.systems._register import SYSTEMS, find_system, resolved
from surprise_rerank.core._process import PerProcess
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.encoders.base import token_dimension
from surprise_rerank.rerank._scorers import Reranker
from surprise_rerank.thresholds._background import QuestionBackground, require_background

# Whoever asks for an index in this process gets the same one, so that its changes are seen by all.
_open: weakref.WeakValueDictionary[tuple[str, ...], DocumentIndex] = weakref.WeakValueDictionary()
_opening = PerProcess(threading.Lock)


def reranker_of_texts(system: str) -> Reranker:
    """What ranks texts without any index; a DataError if the system needs one."""
    path = find_system(system).text_reranker
    if not path:
        able = ", ".join(other.name for other in SYSTEMS.values() if other.text_reranker)
        raise DataError(
            f"the system {system!r} needs an index, for the statistics of its documents; give one, or choose "
            f"of {able}"
        )
    reranker: Reranker = resolved(path)()
    return reranker


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """A pipeline or a re-ranker in names and numbers, so that it can be written to a file.

    Raises:
        DataError: if both a model and an encoder are given, or a background for an index; if there is no such
            system, or a number is out of its range.
    """

    # A folder, or a collection on a server as http://host:6333/papers, whose key is in the environment.
    index: str | None = None
    model: str | None = None  # of the encoder; the index's own where there is one, else all-MiniLM-L6-v2
    system: str | None = None  # the best by default; without an index `dynamax`, or `cosine` without tokens
    depth: int = 100  # size of the candidate pool that a pipeline re-ranks
    min_percentile: float | None = None  # leave out documents of a smaller percentile; needs a background
    background: str | None = None  # file of one (`QuestionBackground.save`), for texts without an index
    encoder: object | None = field(default=None, repr=False)  # in place of a model's name; for no file
    diversity: float | None = None  # different documents first, from 0 (by relevance alone) to 1
    collapse: float | None = None  # fold what has this cosine to a better document into it
    tenant: str | None = None  # only documents of this one, of an index with tenants
    config: str | None = None  # file of the names in a collection of others, see `CollectionConfig`
    unit: Unit | None = None  # what a pipeline finds: documents (by default), or passages
    max_per_document: int | None = None  # the most passages of one document
    context: int | None = None  # so many neighbours belong to the text of a passage

    def __post_init__(self) -> None:
        SearchOptions().changed(**self.search_settings)
        if self.system is not None:
            find_system(self.system)
        _ = self.location
        border.not_both(model=self.model, encoder=self.encoder)
        advice = "store a background with the index ('surprise-rerank tune background'), or leave it out"
        border.not_both(advice, index=self.index, background=self.background)

    @property
    def location(self) -> Location:
        """Where the index is, if there is one."""
        return Location() if self.index is None else Location.at(self.index)

    @property
    def search_settings(self) -> SearchSettings:
        """Return the settings that are those of `SearchOptions`."""
        return {
            "depth": self.depth,
            "min_percentile": self.min_percentile,
            "diversity": self.diversity,
            "collapse": self.collapse,
            "tenant": self.tenant,
            "unit": self.unit,
            "max_per_document": self.max_per_document,
            "context": self.context,
        }

    def open_index(self) -> DocumentIndex | Collection:
        """The index with its model, the same one for all who ask while it is in use; or a foreign collection.

        Raises:
            DataError: if there is none in the settings, or the model of a foreign collection is not named.
            StoreError: if it cannot be opened, or does not exist.
            IndexMismatchError: if it is of another model, or names of a foreign one were given for an index.
        """
        location = self.location
        if not location.is_given:
            raise DataError(
                "which index? give index= a folder, or a collection such as http://localhost:6333/papers"
            )
        folder = "" if location.folder is None else os.path.realpath(location.folder)
        url = ",".join(location.urls)
        place = (folder, url, location.collection if url else "")
        with _opening.get():
            index = _open.get(place)
            if index is None or index.is_closed:
                opened = open_collection(location, self.encoder, model=self.model, config=self.config)
                if isinstance(opened, DocumentIndex):
                    _open[place] = opened
                return opened
        CollectionConfig.read(self.config).require_of_index(location)
        if self.encoder is not None:
            index.manifest.check(Manifest.of(as_encoder(self.encoder)), index.where)
        if self.model not in (None, index.manifest.model, index.encoder.name):
            assert self.model is not None
            index.manifest.check(Manifest.of(load_encoder(self.model)), index.where)
        return index

    def require_possible(self) -> None:
        """Refuse what cannot be, before a model is loaded: no index, a system or threshold that needs one."""
        if self.location.folder is not None:
            require_index(Path(self.location.folder))
        if self.location.is_given:
            return
        if self.system is not None:
            reranker_of_texts(self.system)
        if self.min_percentile is not None and self.background is None:
            require_background(None, self.min_percentile)

    def pipeline(self) -> Pipeline:
        """A pipeline on the index; errors are those of `open_index` and `Collection.pipeline`."""
        return self.open_index().pipeline(self.system, **self.search_settings)

    def text_reranker(self) -> TextReranker:
        """A re-ranker of texts, which fetches the vectors of those that the index holds, if there is one."""
        if self.location.is_given:
            return self.open_index().text_reranker(self.system, **self.search_settings)
        encoder = self.encoder
        model = load_encoder(self.model or DEFAULT_MODEL) if encoder is None else as_encoder(encoder)
        background = None if self.background is None else QuestionBackground.load(self.background)
        reranker = reranker_of_texts(
            self.system or ("cosine" if token_dimension(model) is None else "dynamax")
        )
        options = SearchOptions().changed(**self.search_settings)
        return TextReranker(model, reranker, None, background, options)
