"""Texts as bags of tokens, with vectors and words.

A token whose vector is zero is a word that the encoder does not know. Every similarity of vectors omits it,
so that an unknown word changes no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float64Array, FloatArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder, Kind, require_token_encoder
from surprise_rerank.errors import DataError

T = TypeVar("T")
_ONE_ENCODER = "take both from one encoder and one text, as it was indexed"
Input: TypeAlias = Literal["vectors", "words", "query words"]


@dataclass(frozen=True, slots=True, eq=False)
class Bag:
    """One text: (m, d) token vectors and m words, each None where nobody made them."""

    tokens: FloatArray | None = None
    words: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.tokens is None:
            return
        if self.tokens.ndim != 2:
            raise DataError(f"token vectors have shape {self.tokens.shape}, expected (tokens, d)")
        if not np.isfinite(self.tokens).all():
            raise DataError("token vectors hold NaN or infinite values; remove or replace them first")
        if self.words is not None and len(self.words) != len(self.tokens):
            raise DataError(f"{len(self.words)} words for {len(self.tokens)} token vectors; {_ONE_ENCODER}")

    @property
    def vectors(self) -> FloatArray:
        """(m, d) token vectors."""
        return _there(self.tokens, "token vectors", "encode it")

    @property
    def names(self) -> tuple[str, ...]:
        """The m words."""
        return _there(self.words, "words", "fill `words` with Encoder.words")

    def known(self) -> Bag:
        """The bag without the tokens whose vector is zero."""
        kept = np.any(self.vectors != 0, axis=1)
        if kept.all():
            return self
        words = None if self.words is None else tuple(self.words[i] for i in np.flatnonzero(kept))
        return Bag(self.vectors[kept], words)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """n texts, as `Bag`s that share their arrays: token vectors, none of them merged, and words."""

    tokens: TokenBatch | None = None
    words: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.tokens is None or self.words is None:
            return
        if len(self.words) != len(self.tokens):
            raise DataError(f"the words of {len(self.words)} texts for the vectors of {len(self.tokens)}")
        lengths = np.array([len(words) for words in self.words], dtype=np.int64)
        wrong = np.flatnonzero(lengths != self.tokens.lengths)
        if len(wrong):
            i = int(wrong[0])
            raise DataError(
                f"text {i} has {lengths[i]} words for {self.tokens.lengths[i]} token vectors; {_ONE_ENCODER}"
            )

    @classmethod
    def encode(
        cls,
        encoder: Encoder,
        texts: Sequence[str],
        inputs: frozenset[Input],
        kind: Kind = "document",
        *,
        reads_words: bool = False,
    ) -> Texts:
        """Texts with what a similarity reads; `reads_words` where it reads those of a query alone."""
        wants_words = reads_words or "words" in inputs
        tokens = encoder.encode(texts, kind=kind).require_tokens() if "vectors" in inputs else None
        return cls(tokens, word_lists(encoder, texts, kind) if wants_words else None)

    def __len__(self) -> int:
        part = self.tokens if self.tokens is not None else self.words
        return 0 if part is None else len(part)

    def __getitem__(self, i: int) -> Bag:
        """Text i."""
        return Bag(
            None if self.tokens is None else self.tokens[i], None if self.words is None else self.words[i]
        )

    @property
    def batch(self) -> TokenBatch:
        """The token vectors."""
        return _there(self.tokens, "token vectors", "encode it")

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The words of each text."""
        return _there(self.words, "words", "fill `words` with Encoder.words")


def _there(part: T | None, what: str, remedy: str) -> T:
    if part is None:
        raise DataError(f"this similarity reads {what}, and the text has none; {remedy} first")
    return part


def word_lists(
    encoder: Encoder, texts: Sequence[str], kind: Kind = "document"
) -> tuple[tuple[str, ...], ...]:
    """The words of each text, aligned with the encoder's token vectors."""
    own = require_token_encoder(encoder).words(texts, kind=kind)
    return tuple(tuple(words) for words in own)


def known_tokens(tokens: TokenBatch) -> npt.NDArray[np.bool_]:
    """(total,) whether a token's vector is not zero."""
    known: npt.NDArray[np.bool_] = (tokens.norms > 0) & tokens.directions.any(axis=1)
    return known


def require_finite(tokens: FloatArray, whose: str) -> None:
    """Refuse token vectors that are no matrix of finite numbers."""
    if np.ndim(tokens) != 2 or not np.isfinite(tokens).all():
        raise DataError(
            f"the {whose}'s token vectors have shape {np.shape(tokens)}, expected finite numbers (m, d)"
        )


def same_dimension(query: FloatArray, dimension: int) -> None:
    """Refuse to compare vectors of two dimensions."""
    if query.ndim != 2 or query.shape[1] != dimension:
        raise DataError(
            f"the query's token vectors have shape {query.shape}, expected (m, {dimension}), the documents' "
            "dimension; use one encoder for both"
        )


def as_float64(vectors: FloatArray, *, unit: bool) -> Float64Array:
    """(m, d) rows in float64, scaled to length 1 where asked; rows of zeros stay zeros."""
    rows = np.asarray(vectors, np.float64)
    if not unit:
        return rows
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Float64Array = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return scaled
