"""Similarities of two bags of tokens, each by its definition in float64, and what they are fitted on.

DynaMax alone has a second, fast form, because searching and re-ranking use it. Unknown words (zero vectors)
do not count, and a text without known words is similar to nothing (0).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core._terms import inverse_frequencies
from surprise_rerank.core.arrays import (
    Float32Array,
    Float64Array,
    FloatArray,
    matrix,
    require_rows,
    unit_rows,
)
from surprise_rerank.similarities._bags import Bag, Input, Texts, as_float64, same_dimension
from surprise_rerank.similarities._dynamax import DynaMax, Measure, SetMeasure

# Of a text's m words, (m,) weights of at least 0.
Weights: TypeAlias = Callable[[Sequence[str]], Float64Array]
Pooling: TypeAlias = Literal["max", "avg", "sum", "min"]

VECTORS, WORDS, BOTH = (frozenset[Input](i) for i in (("vectors",), ("words",), ("vectors", "words")))
# Sums of terms that cancel have at most this size, relative to theirs, because of rounding.
_CANCELLED = 1e-5
_FITTED_ON = "fit it on vectors of the same encoder"
_CANCELLED_SUM = 1e-6
# SIF's a: the frequency that halves a weight (Arora et al.).
_SIF = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Similarity:
    """A similarity of two texts, at most 1 for most; no score of a pair depends on the rest of a pool."""

    of: Callable[[Bag, Bag], float]  # as defined, of the query and the document
    inputs: frozenset[Input] = VECTORS  # what it reads; `query words` are without those of documents
    fast: Callable[[Bag, Texts], Float64Array] | None = None  # of n documents: DynaMax's kernels

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined; a DataError if dimensions differ, or words are missing."""
        if "vectors" in self.inputs:
            same_dimension(query.vectors, document.vectors.shape[1])
        return self.of(query, document)

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document; raises as `pair`."""
        if self.fast is not None:
            return self.fast(query, documents)
        return np.array([self.pair(query, documents[i]) for i in range(len(documents))], dtype=np.float64)


# Words of a corpus


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """How often each word occurs in a corpus, and in how many of its texts. Two statistics can be added.

    >>> (WordStatistics.of([["a", "b", "a"], ["a"]]) + WordStatistics.of([["c"]])).counts
    {'a': 3, 'b': 1, 'c': 1}
    """

    counts: Mapping[str, float] = field(default_factory=dict)
    document_frequencies: Mapping[str, int] = field(default_factory=dict)
    documents: int = 0
    total: float = field(init=False)

    def __post_init__(self) -> None:
        bad = next((w for w, count in self.counts.items() if not 0 <= count < math.inf), None)
        if bad is not None:
            border.refuse(f"the count of {bad!r}", self.counts[bad], "a number of at least 0", "leave it out")
        object.__setattr__(self, "total", sum(self.counts.values()))

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> WordStatistics:
        """The statistics of texts that are lists of words; they may stream."""
        counts: Counter[str] = Counter()
        frequencies: Counter[str] = Counter()
        documents = 0
        for words in texts:
            if isinstance(words, str):
                border.refuse("a text", words, "a list of words", "split it")
            counts.update(words)
            frequencies.update(set(words))
            documents += 1
        return cls(dict(counts), dict(frequencies), documents)

    def __add__(self, other: WordStatistics) -> WordStatistics:
        """The statistics of both corpora together."""
        return WordStatistics(
            dict(Counter(self.counts) + Counter(other.counts)),
            dict(Counter(self.document_frequencies) + Counter(other.document_frequencies)),
            self.documents + other.documents,
        )

    def sif(self, words: Sequence[str]) -> Float64Array:
        """(m,) a / (a + p(w)), a = .001: 1 for words that the corpus lacks; of Arora et al., ICLR 2017."""
        shares = np.array([self.counts.get(word, 0.0) for word in words], np.float64)
        return _SIF / (_SIF + shares / (self.total or 1.0))

    def idf(self, words: Sequence[str]) -> Float64Array:
        """(m,) BM25's weights of words by how few texts have them."""
        counts = [self.document_frequencies.get(word, 0) for word in words]
        return inverse_frequencies(self.documents, counts)


def once_per_word(words: Sequence[str]) -> Float64Array:
    """(m,) texts as sets: k occurrences of a word in a text weigh 1/k each.

    >>> once_per_word(["to", "be", "or", "not", "to", "be"]).tolist()
    [0.5, 0.5, 1.0, 1.0, 0.5, 0.5]
    """
    counts = Counter(words)
    return np.array([1 / counts[word] for word in words], dtype=np.float64)


def jaccard_of_words(*, counts: bool) -> Similarity:
    """|A n B| / |A u B| of the words, as bags (`counts`) or as sets.

    >>> a, b = Bag(words=("a", "a", "b")), Bag(words=("a", "c"))
    >>> [jaccard_of_words(counts=counts).pair(a, b) for counts in (False, True)]
    [0.3333333333333333, 0.25]
    """

    def of(query: Bag, document: Bag) -> float:
        a, b = (Counter(text.names if counts else set(text.names)) for text in (query, document))
        union = (a | b).total()
        return (a & b).total() / union if union else 0.0

    return Similarity(of, WORDS)


def soft_jaccard(*, counts: bool) -> Similarity:
    """Jaccard of soft cardinalities (Jimenez et al., 'Text Comparison Using Soft Cardinality', SPIRE 2010).

        |A|' = sum over i of n_i / (sum over j of n_j max(0, cosine(i, j)))
        (|A|' + |B|' - |A u B|') / |A u B|'

    In the union a word has the larger of its two counts; where it has several vectors (in context), they
    share it. The published code divides a product by the square of one length in place of both; over
    unit vectors, where it is the definition, the two agree. A union can be smaller than its parts, so
    scores may exceed 1.
    """

    def cardinality(unit: Float64Array, words: Sequence[str], wanted: Counter[str]) -> float:
        here = Counter(words)
        copies = np.array([(wanted[w] if counts else 1) / here[w] for w in words], dtype=np.float64)
        return float((copies / (np.maximum(unit @ unit.T, 0.0) @ copies)).sum())

    def of(query: Bag, document: Bag) -> float:
        a, b = query.known(), document.known()
        if not len(a.vectors) or not len(b.vectors):
            return 0.0
        x, y = as_float64(a.vectors, unit=True), as_float64(b.vectors, unit=True)
        a_counts, b_counts = Counter(a.names), Counter(b.names)
        union = cardinality(np.concatenate([x, y]), (*a.names, *b.names), a_counts | b_counts)
        return (cardinality(x, a.names, a_counts) + cardinality(y, b.names, b_counts) - union) / union

    return Similarity(of, BOTH)


# Fuzzy sets


def weighted_dynamax(dynamax: DynaMax, weights: Weights | None = None) -> Similarity:
    """DynaMax where an element of the universe has the weight of its word; 1 without weights."""
    joint = dynamax.universe == "joint"

    def pair(query: Bag, document: Bag) -> float:
        query_weights = None if weights is None else weights(query.names)
        document_weights = weights(document.names) if weights is not None and joint else None
        return dynamax.pair(
            query.vectors,
            document.vectors,
            query_weights=query_weights,
            document_weights=document_weights,
        )

    def pool(query: Bag, documents: Texts) -> Float64Array:
        query_weights = None if weights is None else weights(query.names)
        document_weights = None
        if weights is not None and joint:
            document_weights = np.concatenate([np.zeros(0), *map(weights, documents.names)])
        return dynamax.pool(
            query.vectors,
            documents.batch,
            query_weights=query_weights,
            document_weights=document_weights,
        )

    words: tuple[Input, ...] = () if weights is None else ("words",) if joint else ("query words",)
    return Similarity(pair, VECTORS | {*words}, pool)


def scaled_dynamax(weights: Weights, *, unit: bool) -> Similarity:
    """DynaMax-Jaccard of vectors multiplied by their words' weights, as SIF weights are published for it.

    The weights change the products, and so which words are nearest; `weighted_dynamax` weighs the sums.
    """
    dynamax = DynaMax("jaccard", "joint", unit_tokens=False)

    def scaled(text: Bag) -> Float64Array:
        return as_float64(text.vectors, unit=unit) * weights(text.names)[:, None]

    return Similarity(lambda query, document: dynamax.pair(scaled(query), scaled(document)), BOTH)


def fuzzy_bag(
    pooling: Pooling = "max",
    measure: Measure = "jaccard",
    universe: FloatArray | Literal["joint"] | None = None,
    *,
    unit: bool,
) -> Similarity:
    """Fuzzy sets over a universe U, compared like sets (Zhao and Mao, IEEE TFS 26 (2), 2018).

    The membership of u in a text is pooled over its tokens x: max(0, max <x, u>), or min in place of the
    inner max, or, as the paper's ablation, the mean or sum of <x, u>, which can be negative.

    Args:
        pooling: of the products of a text's tokens with u.
        measure: of the two fuzzy sets.
        universe: (K, d), taken as it is; None for the identity, which with `max` is max-pooling; `joint` for
            the two texts' own tokens, which with `max` is DynaMax.
        unit: whether tokens are scaled to length 1 first; the paper uses raw ones.
    """
    is_joint, fixed = isinstance(universe, str), None
    if not isinstance(universe, str) and universe is not None:
        fixed = matrix(universe, "the universe").astype(np.float64)
    sets = SetMeasure(measure)
    cancels = pooling in ("avg", "sum") and measure != "cosine"  # whose terms cannot cancel
    poolings: dict[Pooling, Callable[..., Float64Array]] = {
        "max": np.max,
        "min": np.min,
        "avg": np.mean,
        "sum": np.sum,
    }

    def memberships(tokens: Float64Array, vectors: Float64Array | None) -> Float64Array:
        if vectors is not None:
            border.equal("the universe's dimension", vectors.shape[1], tokens.shape[1], _FITTED_ON)
        products = tokens if vectors is None else tokens @ vectors.T
        if not len(tokens):
            return np.zeros(products.shape[1])
        values = poolings[pooling](products, axis=0)
        return np.maximum(values, 0.0) if pooling in ("max", "min") else values

    def of(query: Bag, document: Bag) -> float:
        x, y = (as_float64(text.known().vectors, unit=unit) for text in (query, document))
        vectors = np.concatenate([x, y]) if is_joint else fixed
        a, b = memberships(x, vectors), memberships(y, vectors)
        if not a.any() or not b.any():
            return 0.0
        smallest = np.array(_CANCELLED_SUM * (np.abs(a).sum() + np.abs(b).sum()) if cancels else 0.0)
        common, a_size, b_size = sets.overlap(a, b).sum(axis=-1, dtype=np.float64)[:, None]
        return float(sets.quotient(common, a_size, b_size, smallest)[0])

    return Similarity(of)


def vocabulary(texts: Texts, size: int | None = None, *, unit: bool) -> Float32Array:
    """(V, d) the vectors of a corpus' most frequent words; a word of several vectors has their mean.

    All words without a size. With `unit`, vectors are scaled to length 1 before the mean, and the mean after.
    """
    bags = [texts[i].known() for i in range(len(texts))]
    ranked = [word for word, _ in Counter(w for text in bags for w in text.names).most_common(size)]
    border.some("the known words of texts to fit on", ranked, "give more texts")
    row = {word: i for i, word in enumerate(ranked)}
    sums, times = np.zeros((len(ranked), texts.batch.dimension)), np.zeros(len(ranked))
    for text in bags:
        rows = np.array([row.get(word, -1) for word in text.names], dtype=np.int64)
        kept = rows >= 0
        np.add.at(sums, rows[kept], as_float64(text.vectors, unit=unit)[kept])
        np.add.at(times, rows[kept], 1)
    means = (sums / times[:, None]).astype(np.float32)
    return unit_rows(means) if unit else means


def principal_axes(vectors: FloatArray) -> Float32Array:
    """(k, d) unit axes about the mean, the largest variance first, their largest component positive.

    >>> principal_axes(np.array([[0.0, -2.0], [0.0, 2.0], [1.0, 0.0], [-1.0, 0.0]])).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    rows = np.asarray(vectors, np.float64)
    axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return (axes * np.where(largest < 0, -1.0, 1.0)).astype(np.float32)


def centroids(vectors: FloatArray, size: int) -> Float32Array:
    """(k, d) the centroids of k-means, at most as many as there are different vectors."""
    from sklearn.cluster import KMeans  # here, because it takes a second, and other universes do not need it

    k = min(size, len(np.unique(vectors, axis=0)))
    fitted = KMeans(n_clusters=k, n_init=1, random_state=0).fit(vectors)
    return np.asarray(fitted.cluster_centers_, dtype=np.float32)


# Averages and transport


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """The part that is removed from vectors first: v -> (v - c) - sum over axes u of <v - c, u> u."""

    centre: Float64Array  # (d,) c; zeros where nothing is subtracted
    axes: Float64Array  # (k, d) unit vectors at right angles

    @classmethod
    def of(cls, vectors: FloatArray, size: int, *, centred: bool) -> Removal:
        """The first principal components of (n, d) vectors, at least one of them not zero.

        Not centred, of sentences: SIF's (Arora et al., ICLR 2017). Centred, of words: all but the top (Mu and
        Viswanath, ICLR 2018). A DataError if there is nothing to fit on, or values are NaN or infinite.
        """
        rows = np.atleast_2d(np.asarray(vectors, np.float64))
        require_rows(rows, "the vectors to fit on")
        rows = rows[np.any(rows != 0, axis=1)]
        border.some("the vectors to fit on that are not zero", rows, "give more texts")
        centre = rows.mean(axis=0) if centred else np.zeros(rows.shape[1])
        _, values, axes = np.linalg.svd(rows - centre, full_matrices=False)
        return cls(centre, axes[:size][values[:size] > _CANCELLED * values[0]])

    def __call__(self, vectors: FloatArray) -> Float64Array:
        """(n, d) the vectors without that part; a DataError if it was fitted in another dimension."""
        border.equal("the components' dimension", len(self.centre), vectors.shape[-1], _FITTED_ON)
        centred = vectors - self.centre
        removed: Float64Array = centred - (centred @ self.axes.T) @ self.axes
        return removed


def average(
    text: Bag, weights: Weights | None = None, *, unit: bool, from_tokens: Removal | None = None
) -> Float64Array:
    """(d,) (sum over the known tokens of w_i x_i) / m; zeros without known words, or where they cancel."""
    bag = text.known()
    tokens = as_float64(bag.vectors, unit=unit)
    if not len(tokens):
        return np.zeros(tokens.shape[1])
    shares = np.ones(len(tokens)) if weights is None else weights(bag.names)
    length = (shares * np.linalg.norm(tokens, axis=1)).mean()
    mean = (shares[:, None] * (tokens if from_tokens is None else from_tokens(tokens))).mean(axis=0)
    return _unless_cancelled(mean, length)


def cosine_of_averages(
    weights: Weights | None = None,
    *,
    unit: bool,
    from_tokens: Removal | None = None,
    from_texts: Removal | None = None,
) -> Similarity:
    """The cosine of two texts' averages, in [-1, 1]; a part of tokens or averages may be removed first."""

    def vector(text: Bag) -> Float64Array:
        mean = average(text, weights, unit=unit, from_tokens=from_tokens)
        if from_texts is None or not mean.any():
            return mean
        return _unless_cancelled(from_texts(mean[None])[0], float(np.linalg.norm(mean)))

    def of(query: Bag, document: Bag) -> float:
        a, b = vector(query), vector(document)
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        return float(a @ b) / lengths if lengths > 0 else 0.0

    return Similarity(of, VECTORS if weights is None else BOTH)


def word_movers(*, unit: bool) -> Similarity:
    """1 / (1 + Word Mover's Distance) (Kusner et al., ICML 2015), by POT: the order of the distance.

    A linear correlation is of the distance itself: `NamedSimilarity.linear` has it.
    """

    def of(query: Bag, document: Bag) -> float:
        x, y = (as_float64(text.known().vectors, unit=unit) for text in (query, document))
        solve = import_extra("ot", "transport").emd2
        if not len(x) or not len(y):
            return 0.0
        p, q = (np.full(len(tokens), 1 / len(tokens)) for tokens in (x, y))
        costs: npt.NDArray[np.float64] = np.linalg.norm(x[:, None, :] - y[None, :, :], axis=2)
        return 1 / (1 + float(solve(p, q, costs)))

    return Similarity(of)


def _unless_cancelled(vector: Float64Array, length: float) -> Float64Array:
    return vector if np.linalg.norm(vector) > _CANCELLED * length else np.zeros_like(vector)
