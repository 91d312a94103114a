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

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import Float64Array, FloatArray, require_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder, Kind, require_token_encoder

T = TypeVar("T")
_WORDS = "fill `words` with Encoder.words first"
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
        require_rows(self.tokens, "token vectors")
        if self.words is not None:
            border.equal("the number of words", len(self.words), len(self.tokens), _ONE_ENCODER)

    @property
    def vectors(self) -> FloatArray:
        """(m, d) token vectors."""
        return border.present("the text's token vectors", self.tokens, "encode it first")

    @property
    def names(self) -> tuple[str, ...]:
        """The m words."""
        return border.present("the text's words", self.words, _WORDS)

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
        border.equal("the number of texts with words", len(self.words), len(self.tokens))
        lengths = [len(words) for words in self.words]
        border.equal("the numbers of words of texts", lengths, self.tokens.lengths.tolist(), _ONE_ENCODER)

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
        return border.present("the texts' token vectors", self.tokens, "encode them first")

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The words of each text."""
        return border.present("the texts' words", self.words, _WORDS)


def word_lists(
    encoder: Encoder, texts: Sequence[str], kind: Kind = "document"
) -> tuple[tuple[str, ...], ...]:
    """The words of each text, aligned with the encoder's token vectors."""
    lists = require_token_encoder(encoder).words(texts, kind=kind)
    return tuple(tuple(words) for words in lists)


def known_tokens(tokens: TokenBatch) -> npt.NDArray[np.bool_]:
    """(total,) whether a token's vector is not zero."""
    is_known: npt.NDArray[np.bool_] = (tokens.norms > 0) & tokens.directions.any(axis=1)
    return is_known


def same_dimension(query: FloatArray, dimension: int) -> None:
    """Refuse to compare vectors of two dimensions."""
    border.equal("the dimension of the query's tokens", query.shape[1:], (dimension,), "use one encoder")


def as_float64(vectors: FloatArray, *, unit: bool) -> Float64Array:
    """(m, d) rows in float64, scaled to length 1 where asked; rows of zeros stay zeros."""
    rows = np.asarray(vectors, np.float64)
    if not unit:
        return rows
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Float64Array = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return scaled
