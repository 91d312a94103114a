"""DynaMax: fuzzy sets over token vectors.

(Zhelezniak et al., 'Don't Settle for Average, Go for the Max: Fuzzy Sets and Max-Pooled Word Vectors', ICLR
2019.) A text X (m tokens) is the fuzzy set over a universe U of vectors with memberships

    mu_X(u) = max(0, max over x in X of <x, u>).                                        (membership)

DynaMax takes the tokens of the two texts themselves as the universe. Two texts are compared like sets, with
the minimum as intersection: |A n B| = sum over U of min(mu_A, mu_B), |A| = sum over U of mu_A. A token that
occurs twice in a text is in the universe twice: without weights, texts are bags.

`DynaMax.pair` is the definition of the paper. `DynaMax.pool` scores a whole candidate pool with one matrix
product, because only the row and column maxima of X Y' depend on the pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.core._computing import products, row_products
from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, require_rows, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities._bags import known_tokens, same_dimension

Measure: TypeAlias = Literal["jaccard", "otsuka", "dice", "cosine", "tversky", "inclusion"]
Universe: TypeAlias = Literal["joint", "query"]


def membership(tokens: FloatArray, universe: FloatArray) -> Float64Array:
    """(u,) memberships of a text's (m, d) tokens in a (u, d) universe: max(0, max over tokens of <token, u>).

    >>> membership(np.array([[1.0, 0.0], [0.5, 2.0]]), np.array([[1.0, 1.0], [-1.0, 0.0]])).tolist()
    [2.5, 0.0]
    """
    if len(tokens) == 0:
        return np.zeros(len(universe))
    x, u = (np.ascontiguousarray(array, np.float64) for array in (tokens, universe))
    best: Float64Array = np.maximum(products(u, x).max(axis=1), 0.0)
    return best


@dataclass(frozen=True, slots=True)
class SetMeasure:
    """A similarity of two fuzzy sets over one universe.

    With A the query's and B the document's memberships, sums over the universe, and I = sum of min(A, B):

    ========== ==========================================================================
    jaccard    I / (|A| + |B| - I), which is sum of min(A, B) / sum of max(A, B)
    otsuka     I / sqrt(|A| |B|)
    dice       2 I / (|A| + |B|)
    cosine     sum of A B / sqrt(sum of A^2, times sum of B^2)
    tversky    I / (I + alpha |A without B| + beta |B without A|)
    inclusion  I / |A|: how much of the query the document covers; Tversky's (1, 0)
    ========== ==========================================================================

    A quotient whose denominator is 0 (a text without tokens, say) is 0.

    >>> SetMeasure("jaccard").of(np.array([1.0, 0.5, 0.0]), np.array([0.5, 0.5, 1.0]))
    0.4
    """

    name: Measure = "jaccard"
    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        border.choice("measure", self.name, get_args(Measure))
        border.number("alpha", self.alpha, 0)
        border.number("beta", self.beta, 0)

    def of(self, a: FloatArray, b: FloatArray, weights: FloatArray | float = 1.0) -> float:
        """The similarity of the query's and the document's (u,) memberships, by (u,) weights."""
        sizes = (self.overlap(a, b) * weights).sum(axis=-1, dtype=np.float64)
        return float(self.quotient(*sizes[:, None])[0])

    def overlap(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """(3, ...) what is summed over the universe: the common part, A's own and B's own."""
        if self.name == "cosine":
            a, b = (np.asarray(m, np.float64) for m in (a, b))  # the squares of long raw tokens leave float32
            return np.stack([a * b, np.broadcast_to(a * a, b.shape), b * b])
        return np.stack([np.minimum(a, b), np.broadcast_to(a, b.shape), b])

    def quotient(
        self, common: Float64Array, a: Float64Array, b: Float64Array, smallest: Float64Array | float = 0.0
    ) -> Float64Array:
        """(n,) similarities of (n,) sums over the universe: of the common part, A's and B's own.

        A denominator that is not larger than `smallest`, in absolute value, counts as 0.
        """
        match self.name:
            case "jaccard":
                denominator = a + b - common
            case "otsuka" | "cosine":
                denominator = np.sqrt(np.maximum(a * b, 0.0))
            case "dice":
                denominator = (a + b) / 2
            case "inclusion":
                denominator = a
            case "tversky":
                denominator = common + self.alpha * (a - common) + self.beta * (b - common)
        # The absolute value, because average and sum pooling have sums of either sign.
        defined = np.abs(denominator) > smallest
        return np.divide(common, denominator, out=np.zeros_like(common), where=defined)


@dataclass(frozen=True, slots=True)
class DynaMax:
    """A similarity of two texts by their token vectors.

    Attributes:
        measure: which quotient of the two fuzzy sets; `SetMeasure` has the table.
        universe: `joint` takes the tokens of both texts (DynaMax as published); `query` only the query's, in
            which case `inclusion` over unit tokens is ColBERT's MaxSim divided by the number of query tokens.
        alpha: Tversky's weight of the part that only the query has.
        beta: Tversky's weight of the part that only the document has.
        unit_tokens: whether tokens are scaled to length 1 first, for memberships in [0, 1]. The paper uses
            raw dot products, for word vectors.
    """

    measure: Measure = "inclusion"
    universe: Universe = "query"
    alpha: float = 1.0
    beta: float = 1.0
    unit_tokens: bool = True

    def __post_init__(self) -> None:
        border.choice("DynaMax.universe", self.universe, get_args(Universe))
        border.flags(unit_tokens=self.unit_tokens)
        _ = self._sets  # refuses a measure that is none

    def pair(
        self,
        query: FloatArray,
        document: FloatArray,
        *,
        query_weights: FloatArray | None = None,
        document_weights: FloatArray | None = None,
    ) -> float:
        """The similarity of one pair of (m, d) and (k, d) token vectors, as defined: the reference form.

        Weights are those of the tokens in the universe, (m,) and (k,) where it is joint; 1 by default.
        """
        for name, tokens in (("query", query), ("document", document)):
            require_rows(tokens, f"the {name}'s token vectors")
        same_dimension(query, document.shape[1])
        x, y = (unit_rows(query), unit_rows(document)) if self.unit_tokens else (query, document)
        joint = self.universe == "joint"
        universe = np.concatenate([x, y]) if joint else x
        weights = _filled(query_weights, len(x))
        if joint:
            weights = np.concatenate([weights, _filled(document_weights, len(y))])
        return self._sets.of(membership(x, universe), membership(y, universe), weights)

    def pool(
        self,
        query: FloatArray,
        documents: TokenBatch,
        *,
        query_weights: FloatArray | None = None,
        document_weights: FloatArray | None = None,
        threads: int | None = None,
        device: str = "cpu",
    ) -> Float64Array:
        """The similarity of a query to every document of a pool: the fast form.

        Args:
            query: (m, d) token vectors.
            documents: n texts of dimension d.
            query_weights: (m,) of the query's tokens in the universe; 1 by default.
            document_weights: (total,) of the documents' vectors in it, where the universe is joint. A vector
                that stands for several tokens counts as often besides.
            threads: how many to use; see `pool_maxima`.
            device: where to multiply: `cpu`, `cuda`, ...
        """
        from surprise_rerank.similarities._kernels import pool_maxima

        x = np.array(query, dtype=np.float32, order="C")  # a copy: torch refuses reversed views
        if len(documents):
            same_dimension(x, documents.dimension)
        require_rows(x, "the query's token vectors")
        if self.unit_tokens:
            x = unit_rows(x)
        joint = self.universe == "joint"
        maxima = pool_maxima(
            x,
            documents,
            unit_tokens=self.unit_tokens,
            of_documents=joint,
            threads=threads,
            device=device,
        )
        sets, in_query = self._sets, maxima.of_query.astype(np.float64)
        sizes = row_products(sets.overlap(membership(x, x), in_query), _filled(query_weights, len(x)))
        if maxima.of_documents is not None:
            parts = sets.overlap(maxima.of_documents, self._own_membership(documents, threads))
            if documents.members is not None:
                parts = parts * documents.weights
            if document_weights is not None:
                parts = parts * _filled(document_weights, len(documents.norms))
            sizes = sizes + _sums(parts, documents)
        return sets.quotient(*sizes)

    @property
    def _sets(self) -> SetMeasure:
        return SetMeasure(self.measure, self.alpha, self.beta)

    def _own_membership(self, documents: TokenBatch, threads: int | None) -> Float32Array:
        """(total,) membership of every document token in its own document."""
        if self.unit_tokens:
            # A unit token has similarity 1 to itself, and nothing is more similar than that.
            return known_tokens(documents).astype(np.float32)
        from surprise_rerank.similarities._kernels import own_memberships

        return own_memberships(documents, threads=threads)


def _filled(weights: FloatArray | None, size: int) -> Float64Array:
    """The weights of a text's tokens, 1 where there are none given."""
    if weights is None:
        return np.ones(size)
    border.equal("the shape of the weights", np.shape(weights), (size,), "give one for each token")
    return np.asarray(weights, np.float64)


def _sums(values: FloatArray, documents: TokenBatch) -> Float64Array:
    """(k, total) values of document tokens to (k, n) sums over each document."""
    sums = np.zeros((len(values), len(documents)))
    filled = np.flatnonzero(documents.lengths)
    if len(filled):
        sums[:, filled] = np.add.reduceat(values, documents.offsets[filled], axis=1, dtype=np.float64)
    return sums
