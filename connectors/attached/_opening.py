"""Opens a collection, whoever made it: for Python, commands, the server and adapters in files."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from surprise_rerank import _border as border
from surprise_rerank._errors import (
    DataError,
    ForeignCollectionError,
    IndexMismatchError,
    ModelError,
    refuse_unknown,
)
from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors.attached._collection import Collection
from surprise_rerank.connectors.qdrant._lexical import Bm25
from surprise_rerank.connectors.qdrant._location import Location
from surprise_rerank.core._files import cache_folder
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._endpoint import OpenAIEncoder
from surprise_rerank.encoders._loading import load_encoder, load_question_encoder
from surprise_rerank.encoders._paired import paired_encoder
from surprise_rerank.encoders.base import Encoder

_NAMES = ("text", "title", "id", "metadata", "vector", "multivector", "sparse_vector")
_STRINGS = (*_NAMES, "keep", "model", "token_model", "bm25")
_OF_INDEX = ("embedding", "token_model")  # what may be said of an index, too
_LIMITS = ("timeout", "batch", "window", "cache", "characters", "parallel", "per_minute")
_EMBEDDING = frozenset({"model", "url", "key_variable", "dimensions", "prompts", *_LIMITS})


def open_collection(
    location: Location | str | os.PathLike[str],
    encoder: object | None = None,
    *,
    model: str | None = None,
    config: str | os.PathLike[str] | None = None,
    encodes: bool = True,
) -> DocumentIndex | Collection:
    """Open an index, or a collection of another program, with its model.

    `location` is a folder, http://localhost:6333/papers or a `Location`. The model is `encoder`, the one
    named `model`, the one in the TOML file `config` (`CollectionConfig`), or the one that the index was made
    by. Without `encodes` no model is loaded, for programs that ask no questions.

    Raises:
        StoreError: if it cannot be opened, or does not exist.
        ModelError: if the model cannot be loaded.
        IndexMismatchError: if the model is another one, or the file describes parts of a `DocumentIndex`.
        DataError: if no model is named for a collection that is no `DocumentIndex`; as `Collection.attach`.
    """
    place = Location.of(location)
    border.optional(border.text, "model", model)
    border.optional(border.path, "config", config)
    border.flags(encodes=encodes)
    border.not_both(model=model, encoder=encoder)
    said = CollectionConfig.read(config)
    try:
        index = DocumentIndex.open(place, None)
    except ForeignCollectionError:
        return said.attach(place, model, encoder) if encodes else said.look(place)
    try:
        said.require_of_index(place)
        if encodes:
            index.use_encoder(_model_of(index, encoder, model, said))
    except BaseException:
        index.close()
        raise
    return index


def _model_of(
    index: DocumentIndex, encoder: object | None, name: str | None, said: CollectionConfig
) -> Encoder:
    """Return the model that questions to this index are encoded with."""
    if encoder is not None:
        return as_encoder(encoder)
    if name is None and (endpoint := said.encoder_of_index()) is not None:
        return endpoint
    with finding_model(is_named=name is not None):
        return load_question_encoder(whole_path(name or index.manifest.model), index.manifest.precision)


def whole_path(model: str) -> str:
    """Return the absolute path of a model that is a folder or file, or else its name."""
    return os.path.abspath(model) if os.path.exists(model) else model


@contextlib.contextmanager
def finding_model(*, is_named: bool) -> Iterator[None]:
    """Add to a ModelError of the block how to name the model of an index."""
    try:
        yield
    except ModelError as error:
        if is_named:
            raise
        raise ModelError(
            f"{error}; if the index's model has moved, give --model with its new place (model=); if it is "
            "behind an endpoint, give --config with a table [embedding] (config=)"
        ) from error


def read_toml(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the keys and values of a TOML file; a DataError if it cannot be read."""
    try:
        return tomllib.loads(Path(file).read_text("utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{os.fspath(file)} cannot be read as TOML: {error}") from error


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    """The settings of a collection of another program, or of an index's model, read from a TOML file.

    It may have these strings: `text`, `title`, `id`, `metadata`, `vector`, `multivector`, `sparse_vector` and
    `keep` as for `Collection.attach` (a folder of the cache by default); `model`, of the dense vectors, and
    `token_model`, where that has no tokens, as `load_encoder` takes them; `bm25`, the language of sparse
    vectors that are Qdrant's BM25. A table `[embedding]` has arguments of `OpenAIEncoder`, in place of
    `model`; its key is in the environment. An index takes this table and `token_model` alone.
    """

    values: Mapping[str, Any]

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
        if encoder is None:
            encoder = self.dense_encoder(model)
        if encoder is None:
            raise DataError(
                f"{location} was made by somebody else, and does not know the model of its vectors: give "
                "--model NAME (model=), or a file that names it with --config (config=)"
            )
        return self.look(location, encoder, self._tokens())

    def dense_encoder(self, model: str | None = None) -> Encoder | None:
        """Return the model of the dense vectors that is named here, or else by the file, if any is."""
        if model is None and "embedding" in self.values:
            return OpenAIEncoder(**self.values["embedding"])
        name = model or self.values.get("model")
        return None if name is None else load_question_encoder(name, "float32")

    def require_of_index(self, location: Location) -> None:
        """Raise an IndexMismatchError for keys other than the model's: a `DocumentIndex` knows its parts."""
        if self.values and ("embedding" not in self.values or set(self.values) - set(_OF_INDEX)):
            raise IndexMismatchError(
                f"{location} is an index of surprise-rerank, which knows its parts; leave --config (config=) "
                "out, or all but [embedding], of a model behind an endpoint, and token_model"
            )

    def encoder_of_index(self) -> Encoder | None:
        """Return the model of a `DocumentIndex` behind an endpoint, or None where the file names none."""
        return (
            paired_encoder(OpenAIEncoder(**self.values["embedding"]), self._tokens()) if self.values else None
        )

    def _tokens(self) -> Encoder | None:
        name = self.values.get("token_model")
        return None if name is None else load_encoder(name)

    def look(
        self, location: Location, encoder: object | None = None, tokens: Encoder | None = None
    ) -> Collection:
        """The collection with these models, or without any, for what asks no questions."""
        language = self.values.get("bm25")
        return Collection.attach(
            location,
            location.collection,
            embed=encoder,
            token_encoder=tokens,
            sparse=None if language is None else Bm25(language=language),
            keep=self.values.get("keep") or cache_folder() / "collections",
            **cast(Any, {name: self.values.get(name) for name in _NAMES}),
        )
