"""How often words occur in a corpus, and the weights that follow from it: SIF and IDF."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """How often each word occurs in a corpus, and in how many of its texts. Two statistics can be added.

    >>> first = WordStatistics.of([["a", "b", "a"], ["a"]])
    >>> first.probability("a"), first.documents, first.document_frequencies["a"]
    (0.75, 2, 2)
    >>> (first + WordStatistics.of([["c"]])).documents
    3

    Attributes:
        counts: word -> how often it occurs in the corpus.
        document_frequencies: word -> in how many texts it occurs.
        documents: number N of texts.
        total: number of words in all, repetitions included.
    """

    counts: Mapping[str, float] = field(default_factory=dict)
    document_frequencies: Mapping[str, int] = field(default_factory=dict)
    documents: int = 0
    total: float = field(init=False)

    def __post_init__(self) -> None:
        bad = next((w for w, count in self.counts.items() if not 0 <= count < math.inf), None)
        if bad is not None:
            raise DataError(f"the count of the word {bad!r} is {self.counts[bad]}; counts are at least 0")
        object.__setattr__(self, "total", sum(self.counts.values()))

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> WordStatistics:
        """The statistics of texts that are lists of words; they may stream."""
        counts: Counter[str] = Counter()
        frequencies: Counter[str] = Counter()
        documents = 0
        for words in texts:
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

    def probability(self, word: str) -> float:
        """p(w), the word's share of all words; 0 for a word that the corpus lacks."""
        return self.counts.get(word, 0.0) / self.total if self.total else 0.0

    def inverse_document_frequency(self, word: str) -> float:
        """ln(1 + (N - n + .5) / (n + .5)), n of N texts have the word: BM25's form, which is always above 0.

        A word that the corpus lacks has n = 0 and so the largest value, ln(2 N + 2).
        """
        n = self.document_frequencies.get(word, 0)
        return math.log1p((self.documents - n + 0.5) / (n + 0.5))


class WordWeights(Protocol):
    """The weight of each word of a text."""

    def __call__(self, words: Sequence[str]) -> Float64Array:
        """(m,) weights, at least 0, of a text's m words."""
        ...


@dataclass(frozen=True, slots=True)
class InverseFrequency:
    """Smooth inverse frequency, a / (a + p(w)): 1 for words that the corpus lacks, less for frequent ones.

    (Arora et al., 'A Simple but Tough-to-Beat Baseline for Sentence Embeddings', ICLR 2017, whose a is 1e-3.)

    Attributes:
        statistics: of the corpus that words are frequent in.
        a: the frequency that halves a weight.
    """

    statistics: WordStatistics
    a: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.a < math.inf:
            raise DataError(f"SIF's a must be above 0, got {self.a}")

    def __call__(self, words: Sequence[str]) -> Float64Array:
        """(m,) weights in (0, 1]."""
        shares = [self.statistics.probability(word) for word in words]
        return self.a / (self.a + np.array(shares, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class InverseDocumentFrequency:
    """IDF as BM25 has it, `WordStatistics.inverse_document_frequency`; a word in more texts has less weight.

    Attributes:
        statistics: of the corpus.
    """

    statistics: WordStatistics

    def __call__(self, words: Sequence[str]) -> Float64Array:
        """(m,) weights above 0."""
        weights = [self.statistics.inverse_document_frequency(word) for word in words]
        return np.array(weights, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class OncePerWord:
    """Texts as sets in place of bags: k occurrences of a word in a text weigh 1/k each, 1 together.

    >>> OncePerWord()(["to", "be", "or", "not", "to", "be"]).tolist()
    [0.5, 0.5, 1.0, 1.0, 0.5, 0.5]
    """

    def __call__(self, words: Sequence[str]) -> Float64Array:
        """(m,) weights in (0, 1]."""
        counts = Counter(words)
        return np.array([1 / counts[word] for word in words], dtype=np.float64)


def stacked(weights: WordWeights, texts: Iterable[Sequence[str]]) -> Float64Array:
    """(total,) weights of the words of texts, text after text."""
    return np.concatenate([np.zeros(0), *(weights(words) for words in texts)])
