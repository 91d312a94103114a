"""Encoders: texts in, dense vectors and token vectors out, from one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from surprise_rerank.candidates import Query
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.core.tokens import TokenBatch

Kind: TypeAlias = Literal["query", "document"]
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """n encoded texts.

    Attributes:
        dense: (n, d) unit vectors.
        tokens: n lists of token vectors, without the tokenizer's special tokens.
    """

    dense: Float32Array
    tokens: TokenBatch


class Encoder(Protocol):
    """A model that makes vectors of texts."""

    @property
    def name(self) -> str:
        """The model's name, as a user would write it."""
        ...

    @property
    def dimension(self) -> int:
        """Dimension d of the dense and token vectors."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digits that differ where the weights differ; an index stores them."""
        ...

    @property
    def window(self) -> int | None:
        """Tokens of a document's text that `encode` reads, without prompt and special tokens; None: all."""
        ...

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense and token vectors of texts, in their order."""
        ...

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The word of each token vector: one string for every row of `encode(texts, kind).tokens`."""
        ...

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, of any length: (n, 2) first characters and ends.

        Special tokens and the prompt have none. The characters are those of `encodable(text)`.
        """
        ...


def encode_queries(
    encoder: Encoder,
    texts: Sequence[str],
    ids: Sequence[str] | None = None,
    on_progress: Progress | None = None,
) -> list[Query]:
    """Queries with their vectors.

    Args:
        encoder: of the model that the documents were encoded with.
        texts: n questions.
        ids: n names; empty where not given.
        on_progress: called with the number of texts of every finished batch.
    """
    encoded = encoder.encode(texts, kind="query", on_progress=on_progress)
    names = [""] * len(texts) if ids is None else list(ids)
    return [
        Query(text=text, dense=encoded.dense[i], tokens=encoded.tokens[i], id=name)
        for i, (text, name) in enumerate(zip(texts, names, strict=True))
    ]


def even_spans(length: int, count: int) -> IntArray:
    """(n, 2) characters of n tokens that share a text evenly."""
    ends = np.arange(max(count, 0) + 1) * length // max(count, 1)
    return np.stack([ends[:-1], ends[1:]], axis=1)
