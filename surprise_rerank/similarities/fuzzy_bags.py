"""Fuzzy sets of bags: DynaMax with weights, and the fuzzy bag of words over a universe that is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, matrix
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import Bag, Input, Texts, as_float64, same_dimension, with_lengths
from surprise_rerank.similarities.dynamax import DynaMax, SetMeasure
from surprise_rerank.similarities.kernels import pool_maxima
from surprise_rerank.similarities.word_weights import WordWeights, stacked

Pooling: TypeAlias = Literal["max", "avg", "sum", "min"]

# Elements of a universe that are multiplied at a time: their products with a pool take less than 20 MiB.
_ELEMENTS = 256
# The sum of terms that cancel has at most this size, relative to theirs, because of rounding.
_CANCELLED = 1e-6


@dataclass(frozen=True, slots=True)
class WeightedDynaMax:
    """DynaMax over bags, where an element of the universe has the weight of its word.

    Inclusion over the query's universe with IDF weights is MaxSim with more weight for rare words.
    `OncePerWord` turns bags into sets. With weights of 1 it is DynaMax as published.

    Attributes:
        similarity: over token vectors.
        weights: of the universe's elements; None for 1 each.
    """

    similarity: DynaMax = field(default_factory=DynaMax)
    weights: WordWeights | None = None

    @property
    def inputs(self) -> frozenset[Input]:
        """Vectors; with weights, the words whose vectors are in the universe."""
        if self.weights is None:
            return frozenset({"vectors"})
        return frozenset({"vectors", "words" if self.similarity.universe == "joint" else "query words"})

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined: the reference form."""
        ours, theirs = self._of(query), None
        if self.weights is not None and self.similarity.universe == "joint":
            theirs = self.weights(document.names)
        return self.similarity.pair(
            query.vectors, document.vectors, query_weights=ours, document_weights=theirs
        )

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document: the fast form.

        Raises:
            DataError: if the dimensions differ, or words are missing.
        """
        ours, theirs = self._of(query), None
        if self.weights is not None and self.similarity.universe == "joint":
            theirs = stacked(self.weights, documents.names)
        return self.similarity.pool(
            query.vectors, documents.batch, query_weights=ours, document_weights=theirs
        )

    def _of(self, query: Bag) -> Float64Array | None:
        return None if self.weights is None else self.weights(query.names)


@dataclass(frozen=True, slots=True)
class ScaledDynaMax:
    """DynaMax over vectors that are multiplied by the weights of their words.

    This is how SIF weights are published for DynaMax. The weights change the products, and so which words are
    nearest. Those of `WeightedDynaMax` change the sums.

    Attributes:
        weights: of the words.
        similarity: over the scaled vectors. With its `unit_tokens`, vectors are scaled to length 1 *before*
            the weights.
    """

    weights: WordWeights
    similarity: DynaMax = field(default_factory=lambda: DynaMax("jaccard", "joint"))

    @property
    def inputs(self) -> frozenset[Input]:
        """Vectors and words."""
        return frozenset({"vectors", "words"})

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined: the reference form."""
        return self._raw.pair(self._scaled(query), self._scaled(document))

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document: the fast form.

        Raises:
            DataError: if the dimensions differ, or words are missing.
        """
        batch, weights = documents.batch, stacked(self.weights, documents.names)
        lengths = weights if self.similarity.unit_tokens else weights * batch.norms
        return self._raw.pool(self._scaled(query), with_lengths(batch, lengths))

    @property
    def _raw(self) -> DynaMax:
        s = self.similarity
        return DynaMax(s.measure, s.universe, s.alpha, s.beta, unit_tokens=False)

    def _scaled(self, bag: Bag) -> Float64Array:
        vectors = as_float64(bag.vectors, unit=self.similarity.unit_tokens)
        return vectors * self.weights(bag.names)[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class FuzzyBagOfWords:
    """Fuzzy sets over a given universe U, compared like sets.

    (Zhao and Mao, 'Fuzzy Bag-of-Words Model for Document Representation', IEEE Transactions on Fuzzy Systems
    26 (2), 2018; Zhelezniak et al., ICLR 2019.) The membership of u in a text is pooled over its tokens x:

    ======= ===================================== =========================================================
    max     max(0, max <x, u>)                    the union of its tokens; over the identity, max-pooling
    min     max(0, min <x, u>)                    their intersection: 0 for most texts of many words
    avg     mean <x, u>                           no fuzzy set (it can be negative): the paper's ablation
    sum     sum <x, u>                            the same, not independent of length
    ======= ===================================== =========================================================

    A text without known words has no members and is similar to nothing (0). With max and min, memberships
    are floored and every measure lies in [0, 1]; with avg and sum it can be any number.

    Attributes:
        universe: (K, d) vectors; None for the identity, whose K is d.
        pooling: of the products of a text's tokens with an element.
        measure: of two fuzzy sets.
        unit_tokens: whether tokens are scaled to length 1 first; the paper uses raw ones. The universe is
            taken as it is.
    """

    universe: Float32Array | None = None
    pooling: Pooling = "max"
    measure: SetMeasure = field(default_factory=SetMeasure)
    unit_tokens: bool = True

    def __post_init__(self) -> None:
        if self.pooling not in get_args(Pooling):
            choices = ", ".join(get_args(Pooling))
            raise DataError(f"the pooling {self.pooling!r} is not known; choose of {choices}")
        if self.universe is not None:
            object.__setattr__(self, "universe", matrix(self.universe, "the universe"))

    @property
    def inputs(self) -> frozenset[Input]:
        """Vectors."""
        return frozenset({"vectors"})

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined: the reference form."""
        same_dimension(query.vectors, document.vectors.shape[1])
        return float(self._compared(self.memberships(query), self.memberships(document)[None, :])[0])

    def memberships(self, text: Bag) -> Float64Array:
        """(K,) the text's fuzzy set.

        Raises:
            DataError: if the universe has another dimension.
        """
        tokens = as_float64(text.known().vectors, unit=self.unit_tokens)
        d = tokens.shape[1]
        universe = self._universe(d)
        if not len(tokens):
            return np.zeros(d if universe is None else len(universe))
        products = tokens if universe is None else tokens @ universe.astype(np.float64).T
        pooled: Float64Array
        match self.pooling:
            case "max":
                pooled = np.maximum(products.max(axis=0), 0.0)
            case "min":
                pooled = np.maximum(products.min(axis=0), 0.0)
            case "avg":
                pooled = products.mean(axis=0)
            case "sum":
                pooled = products.sum(axis=0)
        return pooled

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document: the fast form.

        Raises:
            DataError: if the dimensions differ.
        """
        batch = documents.batch
        if len(batch):
            same_dimension(query.vectors, batch.dimension)
        a = self.memberships(query)
        universe = self._universe(query.vectors.shape[1])
        b = np.zeros((len(batch), len(a)))
        if universe is not None and self.pooling == "max":
            for start in range(0, len(universe), _ELEMENTS):
                part = universe[start : start + _ELEMENTS]
                maxima = pool_maxima(part, batch, unit_tokens=self.unit_tokens, of_documents=False)
                b[:, start : start + _ELEMENTS] = maxima.of_query
            return self._compared(a, b)
        known = documents.known().batch
        for i in np.flatnonzero(known.lengths):
            b[i] = self._pooled(known.text(int(i), unit=self.unit_tokens), universe)
        return self._compared(a, b)

    def _compared(self, a: Float64Array, b: Float64Array) -> Float64Array:
        """(n,) the measure of the query's set (K,) and the documents' (n, K)."""
        smallest: Float64Array | float = 0.0
        if self.pooling in ("avg", "sum") and self.measure.name != "cosine":  # whose terms cannot cancel
            smallest = _CANCELLED * (np.abs(a).sum() + np.abs(b).sum(axis=1))
        both, ours, theirs = self.measure.overlap(a, b).sum(axis=-1)
        scores = self.measure.quotient(both, ours, theirs, smallest)
        scores[~(b.any(axis=1) & a.any())] = 0.0
        return scores

    def _pooled(self, tokens: Float32Array, universe: Float32Array | None) -> FloatArray:
        """(K,) memberships of one document that has tokens."""
        match self.pooling:
            case "avg" | "sum":
                # The products are linear, so the tokens are pooled first and multiplied afterwards.
                total = tokens.sum(axis=0, dtype=np.float64)
                mean = total / len(tokens) if self.pooling == "avg" else total
                return np.asarray(mean if universe is None else universe.astype(np.float64) @ mean)
            case _:
                products = tokens if universe is None else tokens @ universe.T
                best = products.min(axis=0) if self.pooling == "min" else products.max(axis=0)
                return np.asarray(np.maximum(best, 0.0))

    def _universe(self, d: int) -> Float32Array | None:
        if self.universe is not None and self.universe.shape[1] != d:
            raise DataError(
                f"the universe has dimension {self.universe.shape[1]}, the token vectors have dimension {d}; "
                "fit it on vectors of the same encoder"
            )
        return self.universe
