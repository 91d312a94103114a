"""Pipelines and re-rankers from names and files: for the command line, the server, and adapters in files."""

from __future__ import annotations

import os
import threading
import tomllib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

from surprise_rerank import border
from surprise_rerank.answers import SearchOptions, SearchSettings
from surprise_rerank.candidates import Unit
from surprise_rerank.connectors.attached.collection import Collection
from surprise_rerank.connectors.document_index import DocumentIndex
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.storage.folder import require_index
from surprise_rerank.connectors.systems.register import SYSTEMS, find_system, resolved
from surprise_rerank.core.files import cache_folder
from surprise_rerank.core.process import PerProcess
from surprise_rerank.encoders.adapting import as_encoder
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.encoders.endpoint import OpenAIEncoder
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder, load_question_encoder
from surprise_rerank.encoders.paired import paired_encoder
from surprise_rerank.errors import DataError, ForeignCollectionError, IndexMismatchError, refuse_unknown
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.rerank.scorers import Reranker
from surprise_rerank.text_reranker import TextReranker
from surprise_rerank.thresholds.background import QuestionBackground, require_background

# Whoever asks for an index in this process gets the same one, so that its changes are seen by all.
_open: weakref.WeakValueDictionary[tuple[str, ...], DocumentIndex] = weakref.WeakValueDictionary()
_opening = PerProcess(threading.Lock)
_NAMES = ("text", "title", "id", "metadata", "vector", "multivector", "sparse_vector")
_STRINGS = (*_NAMES, "keep", "model", "token_model", "bm25")
_OF_INDEX = ("embedding", "token_model")  # what may be said of an index, too
_EMBEDDING = frozenset(
    {"model", "url", "key_variable", "dimensions", "prompts", "timeout", "batch", "window", "cache"}
)


def read_toml(file: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file of settings says; a DataError if it cannot be read."""
    try:
        return tomllib.loads(Path(file).read_text("utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{os.fspath(file)} cannot be read as TOML: {error}") from error


@dataclass(frozen=True, slots=True)
class ForeignParts:
    """What a file says of a collection that somebody else made, or of an index's model; `read` reads it.

    It may have these strings: `text`, `title`, `id`, `metadata`, `vector`, `multivector`, `sparse_vector` and
    `keep` as for `Collection.attach` (a folder of the cache by default); `model`, of the dense vectors, and
    `token_model`, where that has no tokens, as `load_encoder` takes them; `bm25`, the language of sparse
    vectors that are Qdrant's BM25. A table `[embedding]` has arguments of `OpenAIEncoder`, in place of
    `model`; its key is in the environment. An index takes this table and `token_model` alone.
    """

    said: Mapping[str, Any]

    @classmethod
    def read(cls, file: str | os.PathLike[str] | None) -> Self:
        """What a TOML file says; nothing, where there is none.

        Raises:
            DataError: if it cannot be read, or says what is not known.
        """
        if file is None:
            return cls({})
        said, where = read_toml(file), os.fspath(file)
        said.pop("server", None)  # which `surprise-rerank serve` reads
        refuse_unknown(said, (*_STRINGS, "embedding"), where)
        for name, value in said.items():
            expected, kind = (dict, "a table") if name == "embedding" else (str, "a string")
            if not isinstance(value, expected):
                border.refuse(f"{where}: {name}", value, kind)
        if "embedding" in said:
            refuse_unknown(said["embedding"], _EMBEDDING, f"{where}: [embedding]")
            if "model" not in said["embedding"] or "model" in said:
                raise DataError(
                    f"{where}: give the model once: model = of one that is loaded here, or model = in "
                    "[embedding] of one behind a url"
                )
        return cls(said)

    def attach(
        self, location: Location, model: str | None = None, encoder: object | None = None
    ) -> Collection:
        """The collection with its model: an encoder, or what is named here or by the file.

        Raises:
            DataError: if no model is named; as `Collection.attach`.
            ModelError: if it cannot be loaded.
        """
        name = model or self.said.get("model")
        if encoder is None and model is None and "embedding" in self.said:
            encoder = OpenAIEncoder(**self.said["embedding"])
        elif encoder is None and name is not None:
            encoder = load_question_encoder(name, "float32")
        if encoder is None:
            raise DataError(
                f"{location} was made by somebody else, and does not know the model of its vectors: give "
                "--model NAME (model=), or a file that names it with --config (config=)"
            )
        return self.look(location, encoder, self._tokens())

    def require_of_index(self, location: Location) -> None:
        """Refuse, by an IndexMismatchError, what an index of ours knows itself: all but its model."""
        if self.said and ("embedding" not in self.said or set(self.said) - set(_OF_INDEX)):
            raise IndexMismatchError(
                f"{location} is an index of surprise-rerank, which knows its parts; leave --config (config=) "
                "out, or all but [embedding], of a model behind an endpoint, and token_model"
            )

    def of_index(self, location: Location) -> Encoder | None:
        """The model of an index of ours, if the file names one; see `require_of_index`."""
        self.require_of_index(location)
        return paired_encoder(OpenAIEncoder(**self.said["embedding"]), self._tokens()) if self.said else None

    def _tokens(self) -> Encoder | None:
        name = self.said.get("token_model")
        return None if name is None else load_encoder(name)

    def look(
        self, location: Location, encoder: object | None = None, tokens: Encoder | None = None
    ) -> Collection:
        """The collection with these models, or without any, for what asks no questions."""
        language = self.said.get("bm25")
        return Collection.attach(
            location,
            location.collection,
            embed=encoder,
            token_encoder=tokens,
            sparse=None if language is None else Bm25(language=language),
            keep=self.said.get("keep") or cache_folder() / "collections",
            **cast(Any, {name: self.said.get(name) for name in _NAMES}),
        )


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
    config: str | None = None  # file of the names in a collection of others, see `ForeignParts`
    unit: Unit | None = None  # what a pipeline finds: documents (by default), or passages
    max_per_document: int | None = None  # the most passages of one document

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
        parts = ForeignParts.read(self.config)
        try:
            index = self._shared(location, parts)
        except ForeignCollectionError:
            return parts.attach(location, self.model, self.encoder)
        parts.require_of_index(location)
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
        """A pipeline on the index; errors are those of `open_index` and of `Ranked.pipeline`."""
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

    def _shared(self, location: Location, parts: ForeignParts) -> DocumentIndex:
        folder = "" if location.folder is None else os.path.realpath(location.folder)
        url = ",".join(location.urls)
        key = (folder, url, location.collection if url else "")
        with _opening.get():
            index = _open.get(key)
            if index is None or index.is_closed:
                index = _open[key] = self._opened(location, parts)
        return index

    def _opened(self, location: Location, parts: ForeignParts) -> DocumentIndex:
        if self.encoder is not None:
            return DocumentIndex.open(location, as_encoder(self.encoder))
        with DocumentIndex.open(location, None) as index:
            name, precision = self.model or index.manifest.model, index.manifest.precision
        model = None if self.model else parts.of_index(location)
        return DocumentIndex.open(location, model or load_question_encoder(name, precision))
