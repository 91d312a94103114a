"""The similarities of texts by name: those of the fuzzy-set papers, and their baselines.

Every name works on strings alone (`TextSimilarity`), in the re-ranker (`SimilarityReranker`) and as a system
of `rerank-eval`. Tokens have length 1. The same name with the ending `-raw` takes their own lengths, as the
papers do with word vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.errors import DataError, near_or_all
from surprise_rerank.similarities.averages import AverageCosine, Removal
from surprise_rerank.similarities.bags import BagSimilarity, Texts, word_lists
from surprise_rerank.similarities.dynamax import DynaMax, Measure, SetMeasure
from surprise_rerank.similarities.fuzzy_bags import FuzzyBagOfWords, Pooling, ScaledDynaMax, WeightedDynaMax
from surprise_rerank.similarities.universes import centroids, principal_axes, random_vectors, vocabulary
from surprise_rerank.similarities.wmd import EXTRA, MODULE, WordMoversSimilarity
from surprise_rerank.similarities.word_overlap import SoftJaccard, WordJaccard
from surprise_rerank.similarities.word_weights import (
    InverseDocumentFrequency,
    InverseFrequency,
    OncePerWord,
    WordStatistics,
    WordWeights,
)

FittedOn: TypeAlias = Literal["statistics", "texts"]

# Words of the corpus in the universe `fbow-vocabulary`; a pool of 100 abstracts takes 0.3 s.
_VOCABULARY = 1000
# Tversky's weights, (query, document): a point between Jaccard's (1, 1) and inclusion's (1, 0), not tuned.
_TVERSKY = (1.0, 0.1)


@dataclass(frozen=True, slots=True, eq=False)
class CorpusStatistics:
    """What similarities are fitted on.

    Attributes:
        dimension: d of the token vectors.
        texts: a sample of the corpus, with vectors and words.
        statistics: of the words of the whole corpus.
    """

    dimension: int
    texts: Texts = field(default_factory=Texts)
    statistics: WordStatistics = field(default_factory=WordStatistics)

    @classmethod
    def encode(
        cls,
        encoder: Encoder,
        texts: Sequence[str],
        fitted_on: frozenset[FittedOn],
        statistics: WordStatistics | None = None,
    ) -> CorpusStatistics:
        """What of these texts a similarity is fitted on.

        Args:
            encoder: makes the vectors and cuts the words.
            texts: the corpus, or a sample of it.
            fitted_on: `NamedSimilarity.fitted_on`.
            statistics: of a larger corpus; those of `texts` by default.

        Raises:
            DataError: if there are no texts.
        """
        if not len(texts):
            raise DataError("there are no texts to fit on; give some of the corpus")
        words = word_lists(encoder, texts)
        sample = Texts()
        if "texts" in fitted_on:
            sample = Texts(encoder.encode(texts).require_tokens(), words)
        return cls(token_dimension(encoder) or 0, sample, statistics or WordStatistics.of(words))


@dataclass(frozen=True, slots=True)
class NamedSimilarity:
    """A similarity by name.

    Attributes:
        summary: one line for lists and reports.
        build: makes it of what it is fitted on.
        fitted_on: what `build` reads of the corpus; nothing, where it is empty.
        symmetric: whether the order of the two texts makes no difference.
        module: an optional one that it needs.
        extra: the extra of this package that installs the module.
    """

    summary: str
    build: Callable[[CorpusStatistics], BagSimilarity]
    fitted_on: frozenset[FittedOn] = frozenset()
    symmetric: bool = True
    module: str = ""
    extra: str = ""


def similarity_names() -> tuple[str, ...]:
    """The names of all similarities."""
    return tuple(SIMILARITIES)


def find_similarity(name: str) -> NamedSimilarity:
    """The similarity of this name.

    Raises:
        DataError: if it is not known; names the nearest.
    """
    if name not in SIMILARITIES:
        raise DataError(f"unknown similarity {name!r}; {near_or_all(name, SIMILARITIES)}")
    return SIMILARITIES[name]


# Builds a similarity from what it is fitted on; the flag is whether tokens have length 1.
_Build: TypeAlias = Callable[[CorpusStatistics, bool], BagSimilarity]


@dataclass(frozen=True, slots=True)
class _Row:
    """A similarity of vectors, which has a name for unit tokens and one for raw tokens."""

    name: str
    summary: str
    build: _Build
    fitted_on: tuple[FittedOn, ...] = ()
    symmetric: bool = True
    module: str = ""
    extra: str = ""

    def named(self, *, unit: bool) -> tuple[str, NamedSimilarity]:
        suffix, note = ("", "") if unit else ("-raw", ", raw token lengths")
        return self.name + suffix, NamedSimilarity(
            self.summary + note,
            lambda corpus: self.build(corpus, unit),
            frozenset(self.fitted_on),
            self.symmetric,
            self.module,
            self.extra,
        )


def _inclusion(unit: bool, weights: WordWeights | None = None) -> BagSimilarity:
    return WeightedDynaMax(DynaMax("inclusion", "query", unit_tokens=unit), weights)


def _joint(measure: Measure, unit: bool, weights: WordWeights | None = None) -> BagSimilarity:
    alpha, beta = _TVERSKY if measure == "tversky" else (1.0, 1.0)
    return WeightedDynaMax(DynaMax(measure, "joint", alpha, beta, unit), weights)


def _over(universe: Float32Array, unit: bool) -> BagSimilarity:
    return FuzzyBagOfWords(universe, unit_tokens=unit)


def _pooled(pooling: Pooling, measure: Measure, unit: bool) -> BagSimilarity:
    return FuzzyBagOfWords(None, pooling, SetMeasure(measure), unit)


def _sif_without_component(corpus: CorpusStatistics, unit: bool) -> BagSimilarity:
    sif = InverseFrequency(corpus.statistics)
    sentences = AverageCosine(sif, unit).vectors(corpus.texts)
    return AverageCosine(sif, unit, from_texts=Removal.of_sentences(sentences))


def _all_but_the_top(corpus: CorpusStatistics, unit: bool) -> BagSimilarity:
    words = vocabulary(corpus.texts, unit_tokens=unit)
    return AverageCosine(None, unit, from_tokens=Removal.of_words(words))


_OF_VECTORS = (
    _Row(
        "dynamax",
        "fuzzy inclusion over the query's universe",
        lambda corpus, unit: _inclusion(unit),
        symmetric=False,
    ),
    _Row(
        "dynamax-idf",
        "fuzzy inclusion over the query's universe, its words weighted by IDF",
        lambda corpus, unit: _inclusion(unit, InverseDocumentFrequency(corpus.statistics)),
        ("statistics",),
        symmetric=False,
    ),
    _Row(
        "dynamax-sif",
        "fuzzy inclusion over the query's universe, its words weighted by SIF",
        lambda corpus, unit: _inclusion(unit, InverseFrequency(corpus.statistics)),
        ("statistics",),
        symmetric=False,
    ),
    _Row(
        "dynamax-inclusion",
        "fuzzy inclusion over the joint universe",
        lambda corpus, unit: _joint("inclusion", unit),
        symmetric=False,
    ),
    _Row(
        "dynamax-tversky",
        "DynaMax-Tversky, alpha = 1 and beta = .1",
        lambda corpus, unit: _joint("tversky", unit),
        symmetric=False,
    ),
    _Row("dynamax-jaccard", "DynaMax-Jaccard", lambda corpus, unit: _joint("jaccard", unit)),
    _Row("dynamax-otsuka", "DynaMax-Otsuka", lambda corpus, unit: _joint("otsuka", unit)),
    _Row("dynamax-dice", "DynaMax-Dice", lambda corpus, unit: _joint("dice", unit)),
    _Row("dynamax-cosine", "cosine of DynaMax's fuzzy sets", lambda corpus, unit: _joint("cosine", unit)),
    _Row(
        "dynamax-jaccard-set",
        "DynaMax-Jaccard of sets: equal words of a text count once",
        lambda corpus, unit: _joint("jaccard", unit, OncePerWord()),
    ),
    _Row(
        "dynamax-jaccard-sif",
        "DynaMax-Jaccard of vectors multiplied by their SIF weights",
        lambda corpus, unit: ScaledDynaMax(
            InverseFrequency(corpus.statistics), DynaMax("jaccard", "joint", unit_tokens=unit)
        ),
        ("statistics",),
    ),
    _Row(
        "max-jaccard",
        "Jaccard of max-pooled vectors (fuzzy bag of words over the identity)",
        lambda corpus, unit: _pooled("max", "jaccard", unit),
    ),
    _Row("max-cosine", "cosine of max-pooled vectors", lambda corpus, unit: _pooled("max", "cosine", unit)),
    _Row(
        "min-jaccard", "Jaccard of min-pooled vectors", lambda corpus, unit: _pooled("min", "jaccard", unit)
    ),
    _Row("avg-jaccard", "Jaccard of averaged vectors", lambda corpus, unit: _pooled("avg", "jaccard", unit)),
    _Row("sum-jaccard", "Jaccard of summed vectors", lambda corpus, unit: _pooled("sum", "jaccard", unit)),
    _Row(
        "fbow-axes",
        "fuzzy bag of words over the principal axes of the corpus' words",
        lambda corpus, unit: _over(principal_axes(vocabulary(corpus.texts, unit_tokens=unit)), unit),
        ("texts",),
    ),
    _Row(
        "fbow-kmeans",
        "fuzzy bag of words over the d k-means centroids of the corpus' words",
        lambda corpus, unit: _over(
            centroids(vocabulary(corpus.texts, unit_tokens=unit), corpus.dimension), unit
        ),
        ("texts",),
    ),
    _Row(
        "fbow-random",
        "fuzzy bag of words over d random vectors",
        lambda corpus, unit: _over(random_vectors(corpus.dimension, corpus.dimension), unit),
    ),
    _Row(
        "fbow-vocabulary",
        f"fuzzy bag of words over the corpus' {_VOCABULARY} commonest words",
        lambda corpus, unit: _over(vocabulary(corpus.texts, _VOCABULARY, unit_tokens=unit), unit),
        ("texts",),
    ),
    _Row(
        "wmd",
        "1 / (1 + Word Mover's Distance)",
        lambda corpus, unit: WordMoversSimilarity(unit_tokens=unit),
        module=MODULE,
        extra=EXTRA,
    ),
    _Row("avg-cosine", "cosine of averaged tokens", lambda corpus, unit: AverageCosine(None, unit)),
    _Row(
        "avg-cosine-set",
        "cosine of averaged tokens, equal words of a text counting once",
        lambda corpus, unit: AverageCosine(OncePerWord(), unit),
    ),
    _Row(
        "idf-cosine",
        "cosine of IDF-weighted averages",
        lambda corpus, unit: AverageCosine(InverseDocumentFrequency(corpus.statistics), unit),
        ("statistics",),
    ),
    _Row(
        "sif-cosine",
        "cosine of SIF-weighted averages",
        lambda corpus, unit: AverageCosine(InverseFrequency(corpus.statistics), unit),
        ("statistics",),
    ),
    _Row(
        "sif-pc-cosine",
        "cosine of SIF-weighted averages without the corpus' first principal component",
        _sif_without_component,
        ("statistics", "texts"),
    ),
    _Row(
        "abtt-cosine",
        "cosine of averaged all-but-the-top vectors: without mean and d / 100 components",
        _all_but_the_top,
        ("texts",),
    ),
)

# They read words or directions alone, so that lengths make no difference.
_OF_WORDS = {
    "set-jaccard": NamedSimilarity("Jaccard of the sets of words", lambda corpus: WordJaccard()),
    "bag-jaccard": NamedSimilarity("Jaccard of the bags of words", lambda corpus: WordJaccard(counts=True)),
    "soft-jaccard": NamedSimilarity("Jaccard of bags by soft cardinality", lambda corpus: SoftJaccard()),
    "soft-jaccard-set": NamedSimilarity(
        "Jaccard of sets by soft cardinality", lambda corpus: SoftJaccard(counts=False)
    ),
}

SIMILARITIES: dict[str, NamedSimilarity] = {
    **dict(row.named(unit=True) for row in _OF_VECTORS),
    **_OF_WORDS,
    **dict(row.named(unit=False) for row in _OF_VECTORS),
}
