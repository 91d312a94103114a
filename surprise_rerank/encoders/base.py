"""Encoders: texts in, dense vectors out, and token vectors where the model has them, from one pass.

A class is an encoder when it has the members of `Encoder`; nothing is inherited. Those of `TokenEncoder` are
for models that give a vector for every token.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Query
from surprise_rerank._errors import ModelError
from surprise_rerank.core._process import SharedByCopies
from surprise_rerank.core._tracing import Known, span
from surprise_rerank.core.arrays import Float32Array, IntArray, require_rows
from surprise_rerank.core.tokens import TokenBatch

Kind: TypeAlias = Literal["query", "document"]
Precision: TypeAlias = Literal["float32", "bfloat16", "int8"]
Progress: TypeAlias = Callable[[int], None]

# Texts whose token vectors are in memory at a time.
_TEXTS_AT_ONCE = 2048
_NO_TOKENS = (
    "take the tokens of another model beside it (token_encoder=load_encoder()), or a system that reads dense "
    "vectors (cosine, surprise)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The vectors of n texts: dense ones, and those of tokens where the model has them.

    Dense vectors (n, d) have length 1 unless the encoder says otherwise. Token vectors are without the
    tokenizer's special tokens and the prompt; None where the encoder has none. A DataError if a number is NaN
    or infinite: no search would find such a text, and statistics of all others would be lost by it.
    """

    dense: Float32Array
    tokens: TokenBatch | None = None

    def __post_init__(self) -> None:
        require_rows(self.dense, "an encoder's dense vectors")

    def __len__(self) -> int:
        return len(self.dense)

    def require_tokens(self) -> TokenBatch:
        """The token vectors; a DataError if the encoder has none."""
        return border.present("the encoder's token vectors", self.tokens, _NO_TOKENS)

    def take(self, rows: Sequence[int]) -> Encoded:
        """The texts at these positions, in this order."""
        return Encoded(self.dense[list(rows)], None if self.tokens is None else self.tokens.take(rows))


class Encoder(Protocol):
    """A model that makes vectors of texts. Only dense vectors are compulsory."""

    @property
    def name(self) -> str:
        """The model's name, as a user would write it; shown in messages and stored in an index."""

    @property
    def dimension(self) -> int:
        """Dimension d of the dense vectors; an index is made for it."""

    @property
    def fingerprint(self) -> str:
        """Digits that differ where the weights differ; an index stores them, and refuses another model's."""

    @property
    def window(self) -> int | None:
        """Tokens of a document that `encode` reads, without prompt and special tokens; None for all."""

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """The vectors of any texts, in their order, empty ones and lone surrogates included.

        `kind` chooses the side of models that treat questions and documents differently; `on_progress` is
        called with the number of texts of every finished batch.
        """

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, of any length: (n, 2) first characters and ends.

        Long texts are divided by them. Special tokens and the prompt have none. The characters are those of
        `encodable(text)`. A model whose tokens are not known may give words.
        """


class TokenEncoder(Encoder, Protocol):
    """A model that makes a vector for every token, too: what DynaMax and MaxSim compare."""

    @property
    def token_dimension(self) -> int:
        """Dimension of the token vectors."""

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The word of each token vector: one string for every row of `encode(texts, kind).tokens`."""


class PortableEncoder(SharedByCopies):
    """What our encoders inherit: copies share the model, and a pickle has its name, if it was loaded by one.

    The other process loads it again. A model that somebody gave is pickled itself.

    Attributes:
        loaded_by: loads the encoder again; it can be pickled and hashed. None for a given model.
    """

    loaded_by: Callable[[], PortableEncoder] | None = None
    _settings: ClassVar[tuple[str, ...]] = ("name",)  # attributes that are set after it was loaded
    name: str

    def is_changed(self) -> bool:
        """Whether the model is another than was loaded, such as one that was trained since."""
        return False

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.loaded_by is None or self.is_changed():
            return super().__reduce_ex__(protocol)
        settings = {setting: getattr(self, setting) for setting in self._settings}
        return _loaded_again, (self.loaded_by, cast(Encoder, self).fingerprint), settings


# Tasks of joblib or Celery come with an encoder each; what they name is loaded once.
_loaded = lru_cache(maxsize=4)(lambda load: load())


def _loaded_again(load: Callable[[], PortableEncoder], fingerprint: str) -> PortableEncoder:
    """Load what a pickle names; a ModelError if it has other weights than the encoder that was pickled."""
    encoder: PortableEncoder = _loaded(load)
    if encoder.is_changed():
        encoder = load()
    has = cast(Encoder, encoder).fingerprint
    if has != fingerprint:
        raise ModelError(
            f"the model {encoder.name!r} has the fingerprint {has} here, and {fingerprint} where it was "
            "pickled; put the same files into both places"
        )
    return encoder.__copy__()


def token_dimension(encoder: Encoder) -> int | None:
    """Of an encoder's token vectors; None where it has none. With `words` alone it is the dense vectors'."""
    usual = encoder.dimension if callable(getattr(encoder, "words", None)) else None
    dimension: int | None = getattr(encoder, "token_dimension", usual)
    return dimension


def precision_of(encoder: Encoder) -> str:
    """The precision that an encoder computes in; `float32` for encoders that do not say."""
    precision: str = getattr(encoder, "precision", "float32")
    return precision


def require_token_encoder(encoder: Encoder) -> TokenEncoder:
    """The same encoder, if it has token vectors; else a DataError."""
    border.present(f"token vectors of the encoder {encoder.name!r}", token_dimension(encoder), _NO_TOKENS)
    return cast(TokenEncoder, encoder)


def encode_queries(
    encoder: Encoder,
    texts: Sequence[str],
    ids: Sequence[str] | None = None,
    on_progress: Progress | None = None,
) -> list[Query]:
    """Encode questions as queries with names; without tokens where the encoder has none."""
    encoded = _traced(encoder, texts, "query", on_progress)
    tokens = encoded.tokens
    names = [""] * len(texts) if ids is None else list(ids)
    return [
        Query(text=text, dense=encoded.dense[i], tokens=None if tokens is None else tokens[i], id=name)
        for i, (text, name) in enumerate(zip(texts, names, strict=True))
    ]


def encode_documents(encoder: Encoder, texts: Sequence[str], on_progress: Progress | None = None) -> Encoded:
    """The vectors of documents, or of their passages, in their order."""
    return _traced(encoder, texts, "document", on_progress)


def dense_vectors(
    encoder: Encoder, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
) -> Float32Array:
    """(n, d) unit vectors of n texts, in their order; the arguments are those of `Encoder.encode`."""
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        rows = slice(start, start + _TEXTS_AT_ONCE)
        vectors[rows] = encoder.encode(texts[rows], kind, on_progress).dense
    return vectors


def texts_of(X: Any) -> list[str] | None:  # noqa: N803
    """Texts as a list; None for what is not texts; a DataError for one string, a mixture, or none."""
    if isinstance(X, str | bytes):
        border.refuse("X", X, "a list of texts", "put it into a list")
    if getattr(X, "ndim", 1) != 1 or (isinstance(X, np.ndarray) and X.dtype.kind not in "UOT"):
        return None
    rows = X.tolist() if hasattr(X, "tolist") else X
    if not isinstance(rows, list | tuple):
        return None
    border.some("X", rows, "give texts or vectors")
    if not any(isinstance(row, str) for row in rows):
        return None
    return border.texts("X", list(rows))


def shown_model(encoder: Encoder) -> str:
    """A model's name for others to read; of a folder, the last part only."""
    return os.path.basename(encoder.name) if os.path.isabs(encoder.name) else encoder.name


def _traced(
    encoder: Encoder, texts: Sequence[str], kind: Kind, on_progress: Progress | None = None
) -> Encoded:
    attributes: Known = {"surprise_rerank.texts": len(texts), "surprise_rerank.side": kind}
    with span("EMBEDDING", "CreateEmbeddings", {"embedding.model_name": shown_model(encoder), **attributes}):
        return encoder.encode(texts, kind, on_progress)
