"""The similarities of texts by name: those of the fuzzy-set papers, and their baselines.

Every name works on strings alone (`TextSimilarity`), in the re-ranker (`SimilarityReranker`) and in
`rerank-eval --systems`. Tokens have length 1; `-raw` behind a name is the option that keeps their own
lengths, as the papers do with word vectors. It stands with the name so that one run compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import Float32Array, Float64Array, matrix, unit_rows
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.encoders.static import StaticEncoder
from surprise_rerank.similarities import definitions as by
from surprise_rerank.similarities._bags import Texts, word_lists
from surprise_rerank.similarities._dynamax import DynaMax, Measure

FittedOn: TypeAlias = Literal["statistics", "texts", "embedding"]

RAW = "-raw"
# Words of the corpus in the universe `fbow-vocabulary`.
_VOCABULARY = 1000
# Words of the embedding, its first and commonest, in the universe `fbow-words`: as many as fuzzymax reads.
_EMBEDDING = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class CorpusStatistics:
    """What similarities are fitted on."""

    dimension: int  # of the token vectors
    texts: Texts = field(default_factory=Texts)  # a sample of the corpus, with vectors and words
    statistics: by.WordStatistics = field(default_factory=by.WordStatistics)  # of the whole corpus
    embedding: Float32Array | None = None  # (K, d) vectors of the words that the encoder knows

    @classmethod
    def encode(
        cls,
        encoder: Encoder,
        texts: Sequence[str],
        fitted_on: frozenset[FittedOn],
        statistics: by.WordStatistics | None = None,
    ) -> CorpusStatistics:
        """What of these texts a similarity is fitted on; `statistics` may be of a larger corpus."""
        border.some("texts", texts, "give some of the corpus to fit on")
        words = word_lists(encoder, texts)
        sample = Texts()
        if "texts" in fitted_on:
            sample = Texts(encoder.encode(texts).require_tokens(), words)
        embedding = embedding_words(encoder) if "embedding" in fitted_on else None
        return cls(
            token_dimension(encoder) or 0, sample, statistics or by.WordStatistics.of(words), embedding
        )


def embedding_words(encoder: Encoder) -> Float32Array:
    """(K, d) vectors of the 100,000 first words of word vectors; a DataError for another encoder."""
    if not isinstance(encoder, StaticEncoder):
        raise DataError(
            f"fbow-words takes the words of an embedding, and {encoder.name} is no word vectors; give "
            "glove-6b-50d or a file of word vectors, or take fbow-vocabulary"
        )
    return matrix(encoder.vectors.vectors[:_EMBEDDING], "the words' vectors")


@dataclass(frozen=True, slots=True)
class NamedSimilarity:
    """An entry in the table of similarities."""

    summary: str
    make: Callable[[CorpusStatistics, bool], by.Similarity]  # the flag is whether tokens have length 1
    fitted_on: frozenset[FittedOn] = frozenset()  # what `make` reads of the corpus
    module: str = ""  # an optional one that it needs, and the extra of this package that installs it
    extra: str = ""
    has_raw: bool = True  # whether lengths make a difference; not for what reads words or directions alone
    unit_tokens: bool = True
    is_inverted_distance: bool = False  # whether it is 1 / (1 + a distance), 0 where there is none

    def build(self, corpus: CorpusStatistics) -> by.Similarity:
        """The similarity, fitted."""
        return self.make(corpus, self.unit_tokens)

    def linear(self, similarities: Float64Array) -> Float64Array:
        """(n,) what Pearson's r is to be taken of: minus the distance in place of 1 / (1 + distance).

        It is of the values, not of their order. Where there is no distance, it is the largest.
        """
        if not self.is_inverted_distance:
            return similarities
        smallest = similarities[similarities > 0].min(initial=1.0)
        return np.asarray(1 - 1 / np.maximum(similarities, smallest), np.float64)


def similarity_names() -> tuple[str, ...]:
    """The names of all similarities, without `-raw`."""
    return tuple(SIMILARITIES)


def find_similarity(name: str) -> NamedSimilarity:
    """The similarity of this name, over raw lengths with `-raw` behind it; a DataError if it is not known."""
    border.choice("similarity", name, with_raw())
    named = SIMILARITIES[name.removesuffix(RAW)]
    if not name.endswith(RAW):
        return named
    return replace(named, summary=f"{named.summary}, raw token lengths", unit_tokens=False)


def with_raw() -> tuple[str, ...]:
    """Every name, and then those that `-raw` can stand behind, with it."""
    return (*SIMILARITIES, *(name + RAW for name, named in SIMILARITIES.items() if named.has_raw))


def _joint(measure: Measure, unit: bool, beta: float = 1.0) -> by.Similarity:
    return by.weighted_dynamax(DynaMax(measure, "joint", beta=beta, unit_tokens=unit))


def _query(unit: bool, weights: by.Weights | None = None) -> by.Similarity:
    return by.weighted_dynamax(DynaMax(unit_tokens=unit), weights)


def _sif_without_component(corpus: CorpusStatistics, unit: bool) -> by.Similarity:
    sif, texts = corpus.statistics.sif, corpus.texts
    sentences = np.array([by.average(texts[i], sif, unit=unit) for i in range(len(texts))])
    removed = by.Removal.of(sentences, 1, centred=False)
    return by.cosine_of_averages(sif, unit=unit, from_texts=removed)


def _all_but_the_top(corpus: CorpusStatistics, unit: bool) -> by.Similarity:
    size = max(1, round(corpus.dimension / 100))
    removed = by.Removal.of(by.vocabulary(corpus.texts, unit=unit), size, centred=True)
    return by.cosine_of_averages(unit=unit, from_tokens=removed)


def _embedding(corpus: CorpusStatistics, unit: bool) -> Float32Array:
    vectors = border.present("embedding", corpus.embedding, "give the word vectors")
    return unit_rows(vectors) if unit else vectors


_COUNTS: frozenset[FittedOn] = frozenset({"statistics"})
_TEXTS: frozenset[FittedOn] = frozenset({"texts"})
_N = NamedSimilarity

SIMILARITIES: dict[str, NamedSimilarity] = {
    "dynamax": _N("fuzzy inclusion over the query's universe", lambda c, unit: _query(unit)),
    "dynamax-idf": _N(
        "fuzzy inclusion over the query's universe, its words weighted by IDF",
        lambda c, unit: _query(unit, c.statistics.idf), _COUNTS,
    ),
    "dynamax-sif": _N(
        "fuzzy inclusion over the query's universe, its words weighted by SIF",
        lambda c, unit: _query(unit, c.statistics.sif), _COUNTS,
    ),
    "dynamax-inclusion": _N(
        "fuzzy inclusion over the joint universe", lambda c, unit: _joint("inclusion", unit)
    ),
    # A point between Jaccard's (1, 1) and inclusion's (1, 0), not tuned.
    "dynamax-tversky": _N(
        "DynaMax-Tversky, alpha = 1 and beta = .1",
        lambda c, unit: _joint("tversky", unit, 0.1),
    ),
    "dynamax-jaccard": _N("DynaMax-Jaccard", lambda c, unit: _joint("jaccard", unit)),
    "dynamax-otsuka": _N("DynaMax-Otsuka", lambda c, unit: _joint("otsuka", unit)),
    "dynamax-dice": _N("DynaMax-Dice", lambda c, unit: _joint("dice", unit)),
    "dynamax-cosine": _N("cosine of DynaMax's fuzzy sets", lambda c, unit: _joint("cosine", unit)),
    "dynamax-jaccard-set": _N(
        "DynaMax-Jaccard of sets: equal words of a text count once",
        lambda c, unit: by.weighted_dynamax(
            DynaMax("jaccard", "joint", unit_tokens=unit), by.once_per_word
        ),
    ),
    "dynamax-jaccard-sif": _N(
        "DynaMax-Jaccard of vectors multiplied by their SIF weights",
        lambda c, unit: by.scaled_dynamax(c.statistics.sif, unit=unit), _COUNTS,
    ),
    "max-jaccard": _N(
        "Jaccard of max-pooled vectors (fuzzy bag of words over the identity)",
        lambda c, unit: by.fuzzy_bag(unit=unit),
    ),
    "max-cosine": _N(
        "cosine of max-pooled vectors", lambda c, unit: by.fuzzy_bag("max", "cosine", unit=unit)
    ),
    "min-jaccard": _N("Jaccard of min-pooled vectors", lambda c, unit: by.fuzzy_bag("min", unit=unit)),
    "avg-jaccard": _N("Jaccard of averaged vectors", lambda c, unit: by.fuzzy_bag("avg", unit=unit)),
    "sum-jaccard": _N("Jaccard of summed vectors", lambda c, unit: by.fuzzy_bag("sum", unit=unit)),
    # Ablations of DynaMax: other poolings over its universe.
    "dynaavg-jaccard": _N(
        "Jaccard of means over the joint universe",
        lambda c, unit: by.fuzzy_bag("avg", universe="joint", unit=unit),
    ),
    "dynasum-jaccard": _N(
        "Jaccard of sums over the joint universe",
        lambda c, unit: by.fuzzy_bag("sum", universe="joint", unit=unit),
    ),
    "dynamin-jaccard": _N(
        "Jaccard of minima over the joint universe",
        lambda c, unit: by.fuzzy_bag("min", universe="joint", unit=unit),
    ),
    "dynaavg-cosine": _N(
        "cosine of means over the joint universe",
        lambda c, unit: by.fuzzy_bag("avg", "cosine", "joint", unit=unit),
    ),
    "fbow-axes": _N(
        "fuzzy bag of words over the principal axes of the corpus' words",
        lambda c, unit: by.fuzzy_bag(
            universe=by.principal_axes(by.vocabulary(c.texts, unit=unit)), unit=unit
        ), _TEXTS,
    ),
    "fbow-kmeans": _N(
        "fuzzy bag of words over the d k-means centroids of the corpus' words",
        lambda c, unit: by.fuzzy_bag(
            universe=by.centroids(by.vocabulary(c.texts, unit=unit), c.dimension), unit=unit
        ), _TEXTS,
    ),
    "fbow-random": _N(
        "fuzzy bag of words over d random vectors",
        lambda c, unit: by.fuzzy_bag(
            universe=np.random.default_rng(0).standard_normal((c.dimension, c.dimension)), unit=unit
        ),
    ),
    "fbow-vocabulary": _N(
        f"fuzzy bag of words over the corpus' {_VOCABULARY} commonest words",
        lambda c, unit: by.fuzzy_bag(universe=by.vocabulary(c.texts, _VOCABULARY, unit=unit), unit=unit),
        _TEXTS,
    ),
    "fbow-words": _N(
        f"fuzzy bag of words over the first {_EMBEDDING} words of the word vectors",
        lambda c, unit: by.fuzzy_bag(universe=_embedding(c, unit), unit=unit), frozenset({"embedding"}),
    ),
    "wmd": _N(
        "1 / (1 + Word Mover's Distance)",
        lambda c, unit: by.word_movers(unit=unit), module="ot", extra="transport", is_inverted_distance=True,
    ),
    "avg-cosine": _N("cosine of averaged tokens", lambda c, unit: by.cosine_of_averages(unit=unit)),
    "avg-cosine-set": _N(
        "cosine of averaged tokens, equal words of a text counting once",
        lambda c, unit: by.cosine_of_averages(by.once_per_word, unit=unit),
    ),
    "idf-cosine": _N(
        "cosine of IDF-weighted averages",
        lambda c, unit: by.cosine_of_averages(c.statistics.idf, unit=unit), _COUNTS,
    ),
    "sif-cosine": _N(
        "cosine of SIF-weighted averages",
        lambda c, unit: by.cosine_of_averages(c.statistics.sif, unit=unit), _COUNTS,
    ),
    "sif-pc-cosine": _N(
        "cosine of SIF-weighted averages without the corpus' first principal component",
        _sif_without_component, _COUNTS | _TEXTS,
    ),
    "abtt-cosine": _N(
        "cosine of averaged all-but-the-top vectors: without mean and d / 100 components",
        _all_but_the_top, _TEXTS,
    ),
    "set-jaccard": _N(
        "Jaccard of the sets of words", lambda c, unit: by.jaccard_of_words(counts=False), has_raw=False
    ),
    "bag-jaccard": _N(
        "Jaccard of the bags of words", lambda c, unit: by.jaccard_of_words(counts=True), has_raw=False
    ),
    "soft-jaccard": _N(
        "Jaccard of bags by soft cardinality", lambda c, unit: by.soft_jaccard(counts=True), has_raw=False
    ),
    "soft-jaccard-set": _N(
        "Jaccard of sets by soft cardinality", lambda c, unit: by.soft_jaccard(counts=False), has_raw=False
    ),
}  # fmt: skip
