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
from surprise_rerank.kernels import pool_maxima
from surprise_rerank.tokens import TokenBatch

Measure: TypeAlias = Literal["jaccard", "otsuka", "dice", "tversky", "inclusion"]
Universe: TypeAlias = Literal["joint", "query"]


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
        joint = self.universe == "joint"
        maxima = pool_maxima(x, documents, unit_tokens=self.unit_tokens, of_documents=joint)
        own = membership(x, x)
        in_query = maxima.of_query.astype(np.float64)
        total = np.full(len(documents), own.sum())
        sizes = np.stack([np.minimum(own, in_query).sum(axis=1), total, in_query.sum(axis=1)])
        if maxima.of_documents is not None:
            a, b = maxima.of_documents, self._own_membership(documents)
            sizes += _sums(np.stack([np.minimum(a, b), a, b]), documents)
        return self._quotient(*sizes)

    def _own_membership(self, documents: TokenBatch) -> Float32Array:
        """(total,) membership of every document token in its own document."""
        if self.unit_tokens:
            # A unit token has similarity 1 to itself, and nothing is more similar than that.
            return (documents.scales * documents.norms > 0).astype(np.float32)
        own = [membership(t, t).astype(np.float32) for t in (documents[i] for i in range(len(documents)))]
        return np.concatenate([np.zeros(0, np.float32), *own])

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


def _sums(values: Float32Array, documents: TokenBatch) -> Float64Array:
    """(k, total) values of document tokens to (k, n) sums over each document."""
    sums = np.zeros((len(values), len(documents)))
    filled = np.flatnonzero(documents.lengths)
    if len(filled):
        sums[:, filled] = np.add.reduceat(values, documents.offsets[filled], axis=1, dtype=np.float64)
    return sums
