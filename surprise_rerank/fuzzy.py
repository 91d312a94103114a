"""DynaMax: fuzzy sets over token vectors.

(Zhelezniak et al., 'Don't Settle for Average, Go for the Max: Fuzzy Sets and Max-Pooled Word Vectors', ICLR
2019.) A text X (m tokens) is the fuzzy set over a universe U of vectors with memberships

    mu_X(u) = max(0, max over x in X of <x, u>).                                        (membership)

DynaMax takes the tokens of the two texts themselves as the universe. Two texts are compared like sets, with
minimum as intersection: |A n B| = sum over U of min(mu_A, mu_B), |A| = sum over U of mu_A.

`DynaMax.pair` is the definition, read straight off the paper; `DynaMax.pool` scores a whole candidate pool
with one matrix product, because everything that depends on the pair is the row and column maxima of X Y'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank.arrays import Float32Array, Float64Array, FloatArray, unit_rows
from surprise_rerank.errors import DataError
from surprise_rerank.kernels import token_similarities
from surprise_rerank.tokens import TokenBatch

Measure: TypeAlias = Literal["jaccard", "otsuka", "dice", "tversky", "inclusion"]
Universe: TypeAlias = Literal["joint", "query"]

# What a chunk's products and copies take stays in the processor's cache, and below the size from which the
# allocator asks the system for fresh pages every time.
_CHUNK_TOKENS = 8192


def membership(tokens: FloatArray, universe: FloatArray) -> Float64Array:
    """(u,) memberships of a text's fuzzy set: max(0, max over tokens of <token, u>); zeros without tokens.

    Args:
        tokens: (m, d) token vectors of the text.
        universe: (u, d) vectors of the universe.
    """
    if len(tokens) == 0:
        return np.zeros(len(universe))
    similarities = np.asarray(tokens, np.float64) @ np.asarray(universe, np.float64).T
    best: Float64Array = np.maximum(similarities.max(axis=0), 0.0)
    return best


@dataclass(frozen=True, slots=True)
class DynaMax:
    """A similarity of two texts by their token vectors.

    With A the query's and B the document's fuzzy set and I = |A n B|:

    ========== ==========================================================================
    jaccard    I / (|A| + |B| - I)
    otsuka     I / sqrt(|A| |B|)
    dice       2 I / (|A| + |B|)
    tversky    I / (I + alpha |A without B| + beta |B without A|)
    inclusion  I / |A|: how much of the query the document covers; Tversky's (1, 0)
    ========== ==========================================================================

    A quotient whose denominator is 0 (a text without tokens, say) is 0.

    Attributes:
        measure: which quotient.
        universe: `joint` takes the tokens of both texts (DynaMax as published); `query` only the query's, in
            which case `inclusion` over unit tokens is ColBERT's MaxSim divided by the number of query tokens.
        alpha: Tversky's weight of what only the query has.
        beta: Tversky's weight of what only the document has.
        unit_tokens: whether tokens are scaled to length 1 first, which makes memberships lie in [0, 1]. The
            paper uses raw dot products, for word vectors.
    """

    measure: Measure = "inclusion"
    universe: Universe = "query"
    alpha: float = 1.0
    beta: float = 1.0
    unit_tokens: bool = True

    def __post_init__(self) -> None:
        for name, choices in (("measure", get_args(Measure)), ("universe", get_args(Universe))):
            if getattr(self, name) not in choices:
                raise DataError(f"DynaMax.{name} is {getattr(self, name)!r}; choose of {', '.join(choices)}")
        if not (0 <= self.alpha < np.inf and 0 <= self.beta < np.inf):
            raise DataError(f"Tversky's alpha and beta must be at least 0, got {self.alpha} and {self.beta}")

    def pair(self, query: FloatArray, document: FloatArray) -> float:
        """The similarity of one pair, as defined: the reference form.

        Args:
            query: (m, d) token vectors.
            document: (k, d) token vectors.
        """
        x, y = (unit_rows(query), unit_rows(document)) if self.unit_tokens else (query, document)
        universe = np.concatenate([x, y]) if self.universe == "joint" else x
        a, b = membership(x, universe), membership(y, universe)
        sizes = (np.atleast_1d(s) for s in (np.minimum(a, b).sum(), a.sum(), b.sum()))
        return float(self._quotient(*sizes)[0])

    def pool(self, query: FloatArray, documents: TokenBatch) -> Float64Array:
        """The similarity of a query to every document of a pool: the fast form.

        Args:
            query: (m, d) token vectors.
            documents: n texts of dimension d.

        Returns:
            (n,) scores.

        Raises:
            DataError: if the dimensions differ.
        """
        x = np.array(query, dtype=np.float32, order="C")  # a copy: torch refuses reversed views
        if x.ndim != 2 or (len(documents) and x.shape[1] != documents.dimension):
            raise DataError(f"query tokens have shape {x.shape}, expected (m, {documents.dimension})")
        if self.unit_tokens:
            x = unit_rows(x)
        n = len(documents)
        in_query = np.zeros((n, len(x)))  # membership of the query's tokens in each document
        in_both = np.zeros((3, n))  # over the documents' own tokens: |A n B|, |A|, |B|
        if len(x):
            for start, stop in _chunks(documents.offsets):
                maxima = self._maxima(x, documents.between(start, stop))
                in_query[start:stop], in_both[:, start:stop] = maxima
        own = membership(x, x)
        sizes = np.stack([np.minimum(own, in_query).sum(axis=1), np.full(n, own.sum()), in_query.sum(axis=1)])
        if self.universe == "joint":
            sizes += in_both
        return self._quotient(*sizes)

    def _maxima(self, x: Float32Array, documents: TokenBatch) -> tuple[Float64Array, Float64Array]:
        """From one product: (n, m) memberships of query tokens, (3, n) sums over document tokens."""
        n = len(documents)
        in_query, sums = np.zeros((n, len(x))), np.zeros((3, n))
        filled = np.flatnonzero(documents.lengths)
        if not len(filled):
            return in_query, sums
        starts = documents.offsets[filled]
        similarities = token_similarities(x, documents, unit_tokens=self.unit_tokens).clamp_min_(0.0)
        in_query[filled] = np.maximum.reduceat(similarities.numpy(), starts, axis=1).T
        if self.universe == "joint":
            a = similarities.amax(dim=0).numpy()
            b = self._own_membership(documents)
            memberships = np.stack([np.minimum(a, b), a, b])
            sums[:, filled] = np.add.reduceat(memberships, starts, axis=1, dtype=np.float64)
        return in_query, sums

    def _own_membership(self, documents: TokenBatch) -> Float32Array:
        """(total,) membership of every document token in its own document."""
        if self.unit_tokens:
            # A unit token has similarity 1 to itself, and nothing is more similar than that.
            return (documents.scales * documents.norms > 0).astype(np.float32)
        own = [membership(t, t).astype(np.float32) for t in (documents[i] for i in range(len(documents)))]
        return np.concatenate(own)

    def _quotient(self, both: Float64Array, a: Float64Array, b: Float64Array) -> Float64Array:
        """The measure from |A n B|, |A| and |B|, each (n,)."""
        match self.measure:
            case "jaccard":
                denominator = a + b - both
            case "otsuka":
                denominator = np.sqrt(a * b)
            case "dice":
                denominator = (a + b) / 2
            case "inclusion":
                denominator = a
            case "tversky":
                denominator = both + self.alpha * (a - both) + self.beta * (b - both)
        return np.divide(both, denominator, out=np.zeros_like(both), where=denominator > 0)


def _chunks(offsets: np.ndarray) -> list[tuple[int, int]]:
    """Runs of consecutive texts of at most _CHUNK_TOKENS tokens together (a longer text stands alone)."""
    chunks = []
    start, n = 0, len(offsets) - 1
    while start < n:
        stop = int(np.searchsorted(offsets, offsets[start] + _CHUNK_TOKENS, side="right")) - 1
        stop = min(max(stop, start + 1), n)
        chunks.append((start, stop))
        start = stop
    return chunks
