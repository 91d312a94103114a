"""Jaccard of sets and bags of words, also with soft cardinality, which partly counts similar words as one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from surprise_rerank.core.arrays import Float64Array, FloatArray
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import Bag, Input, Texts, as_float64, same_dimension


@dataclass(frozen=True, slots=True)
class WordJaccard:
    """|A n B| / |A u B| of two texts' words; 0 where both are empty.

    >>> a, b = Bag(words=("a", "a", "b")), Bag(words=("a", "c"))
    >>> WordJaccard(counts=False).pair(a, b), WordJaccard(counts=True).pair(a, b)
    (0.3333333333333333, 0.25)

    Attributes:
        counts: whether a word counts as often as it occurs (bags: the intersection has the smaller of two
            counts, the union the larger), or once (sets).
    """

    counts: bool = False

    @property
    def inputs(self) -> frozenset[Input]:
        """Words."""
        return frozenset({"words"})

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined: the reference form."""
        a, b = self._bag(query.names), self._bag(document.names)
        union = (a | b).total()
        return (a & b).total() / union if union else 0.0

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document: the fast form, which looks up the query's words.

        Raises:
            DataError: if words are missing.
        """
        a = self._bag(query.names)
        size = a.total()
        scores = np.zeros(len(documents))
        for i, words in enumerate(documents.names):
            b = Counter(words) if self.counts else dict.fromkeys(words, 1)
            common = sum(min(count, b.get(word, 0)) for word, count in a.items())
            union = size + (len(words) if self.counts else len(b)) - common
            scores[i] = common / union if union else 0.0
        return scores

    def _bag(self, words: tuple[str, ...]) -> Counter[str]:
        return Counter(words if self.counts else set(words))


@dataclass(frozen=True, slots=True)
class SoftJaccard:
    """Jaccard with soft cardinalities, (|A|' + |B|' - |A u B|') / |A u B|'.

    (Jimenez, Gonzalez and Gelbukh, 'Text Comparison Using Soft Cardinality', SPIRE 2010.) The soft
    cardinality of elements i that occur n_i times is

        |A|' = sum over i of n_i / (sum over j of n_j sim(i, j)^p),    sim = max(0, cosine),

    so that two words of similarity 1 count as one and two of similarity 0 as two. In the union a word has
    the larger of its two counts. Where it has several vectors (in context), they share that count, which for
    word vectors is the multiset union of the published code. That code divides a product by the square of one
    length in place of both lengths; over unit vectors, where it is the definition, the two agree.

    Unknown words (zero vectors) do not count. A text without known words is similar to nothing (0). A text
    has similarity 1 to itself, but others can have more: a union can be smaller than its parts, because a
    word between two others makes both count less.

    Attributes:
        counts: whether a word counts as often as it occurs, or once.
        power: p; the larger, the less similar words count as one.
    """

    counts: bool = True
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.power < np.inf:
            raise DataError(f"soft cardinality's power must be above 0, got {self.power}")

    @property
    def inputs(self) -> frozenset[Input]:
        """Vectors and words."""
        return frozenset({"vectors", "words"})

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined: the reference form."""
        same_dimension(query.vectors, document.vectors.shape[1])
        a, b = query.known(), document.known()
        if not len(a.vectors) or not len(b.vectors):
            return 0.0
        x, y = as_float64(a.vectors, unit=True), as_float64(b.vectors, unit=True)
        size_a = self._cardinality(x, self._copies(a.names, Counter(a.names)))
        size_b = self._cardinality(y, self._copies(b.names, Counter(b.names)))
        words = (*a.names, *b.names)
        both = self._cardinality(
            np.concatenate([x, y]), self._copies(words, Counter(a.names) | Counter(b.names))
        )
        return (size_a + size_b - both) / both

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document: the fast form, blocks of the union's matrix.

        Raises:
            DataError: if the dimensions differ, or words are missing.
        """
        if len(documents):
            same_dimension(query.vectors, documents.batch.dimension)
        a, texts = query.known(), documents.known()
        scores = np.zeros(len(documents))
        if not len(a.vectors):
            return scores
        x = as_float64(a.vectors, unit=True).astype(np.float32)
        ours = Counter(a.names)
        within_x = self._similarities(x @ x.T)
        own = self._copies(a.names, ours)
        size_a = float((own / (within_x @ own)).sum())
        for i in np.flatnonzero(texts.batch.lengths):
            y = texts.batch.text(int(i), unit=True)
            words = texts.names[i]
            theirs = Counter(words)
            within_y, across = self._similarities(y @ y.T), self._similarities(x @ y.T)
            own = self._copies(words, theirs)
            size_b = float((own / (within_y @ own)).sum())
            copies = self._copies((*a.names, *words), ours | theirs)
            left, right = copies[: len(x)], copies[len(x) :]
            both = float((left / (within_x @ left + across @ right)).sum())
            both += float((right / (within_y @ right + across.T @ left)).sum())
            scores[i] = (size_a + size_b - both) / both
        return scores

    def _cardinality(self, unit: Float64Array, copies: Float64Array) -> float:
        return float((copies / (self._similarities(unit @ unit.T) @ copies)).sum())

    def _similarities(self, cosines: FloatArray) -> Float64Array:
        floored = np.maximum(cosines, 0.0).astype(np.float64)
        return floored if self.power == 1 else np.power(floored, self.power)

    def _copies(self, words: tuple[str, ...], counts: Counter[str]) -> Float64Array:
        """(m,) how often each of these vectors counts, where a word is to count so often in all."""
        here = Counter(words)
        return np.array([(counts[w] if self.counts else 1) / here[w] for w in words], dtype=np.float64)
