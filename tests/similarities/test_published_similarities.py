"""Every named similarity by hand on two small texts, and what its parts do."""

from math import log, sqrt

import numpy as np
import pytest

from surprise_rerank import DataError, DynaMax
from surprise_rerank.core._extras import is_installed
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities import definitions as by
from surprise_rerank.similarities._bags import Bag, Texts
from surprise_rerank.similarities.table import CorpusStatistics, find_similarity

# Two texts in the plane. The products of their tokens: <a, a> = 1, <a, b> = 0, <b, b> = 4, <c, c> = 2,
# <a, c> = 1, <b, c> = 2.
A, B, C = (1.0, 0.0), (0.0, 2.0), (1.0, 1.0)
X = Bag(np.array([A, B]), ("a", "b"))
Y = Bag(np.array([C]), ("c",))

# Memberships over the joint universe (a, b, c): of X (1, 4, 2), of Y (1, 2, 2).
COMMON, SIZE_X, SIZE_Y = 1 + 2 + 2, 1 + 4 + 2, 1 + 2 + 2

DYNAMAX = {
    "dynamax-jaccard-raw": COMMON / (1 + 4 + 2),
    "dynamax-otsuka-raw": COMMON / sqrt(SIZE_X * SIZE_Y),
    "dynamax-dice-raw": 2 * COMMON / (SIZE_X + SIZE_Y),
    "dynamax-cosine-raw": (1 * 1 + 4 * 2 + 2 * 2) / (sqrt(1 + 16 + 4) * sqrt(1 + 4 + 4)),
    "dynamax-inclusion-raw": COMMON / SIZE_X,
    "dynamax-tversky-raw": COMMON / (COMMON + 1.0 * (SIZE_X - COMMON) + 0.1 * (SIZE_Y - COMMON)),
    # Over the query's universe (a, b): of X (1, 4), of Y (1, 2).
    "dynamax-raw": (1 + 2) / (1 + 4),
}
# Unit tokens: a' = (1, 0), b' = (0, 1), c' = (r, r). Of X (1, 1, r), of Y (r, r, 1), r = sqrt(.5).
R = sqrt(0.5)
UNIT = {
    "dynamax-jaccard": 3 * R / 3,
    "dynamax-otsuka": 3 * R / sqrt((2 + R) * (2 * R + 1)),
    "dynamax-dice": 2 * 3 * R / (2 + R + 2 * R + 1),
    "dynamax-cosine": 3 * R / (sqrt(2 + R * R) * sqrt(1 + 2 * R * R)),
    "dynamax-inclusion": 3 * R / (2 + R),
    "dynamax-tversky": 3 * R / (3 * R + (2 + R - 3 * R) + 0.1 * (2 * R + 1 - 3 * R)),
    "dynamax": 2 * R / 2,
}
POOLED = {
    # Maxima (1, 2) and (1, 1); means (.5, 1); sums (1, 2); minima (0, 0).
    "max-jaccard-raw": (1 + 1) / (1 + 2),
    "max-cosine-raw": (1 * 1 + 2 * 1) / (sqrt(5) * sqrt(2)),
    "avg-jaccard-raw": (0.5 + 1) / (1 + 1),
    "sum-jaccard-raw": (1 + 1) / (1 + 2),
    "min-jaccard-raw": 0.0,
    # Over U = (a, b, c) of X's a (1, 0, 1), b (0, 4, 2) and Y's c (1, 2, 2).
    "dynaavg-jaccard-raw": (0.5 + 2 + 1.5) / (1 + 2 + 2),
    "dynasum-jaccard-raw": (1 + 2 + 2) / (1 + 4 + 3),
    "dynamin-jaccard-raw": (0 + 0 + 1) / (1 + 2 + 2),
    "dynaavg-cosine-raw": (0.5 + 4 + 3) / (sqrt(0.25 + 4 + 2.25) * sqrt(1 + 4 + 4)),
    "avg-cosine-raw": (0.5 * 1 + 1 * 1) / (sqrt(1.25) * sqrt(2)),
    "avg-cosine": (0.5 * R + 0.5 * R) / (sqrt(0.5) * 1),
    "max-jaccard": 2 * R / 2,
}
# The tokens a and b are at right angles, c lies at 45 degrees to both: |X|' = 2, |Y|' = 1.
UNION = 2 / (1 + R) + 1 / (1 + 2 * R)
WORDS = {"soft-jaccard": (2 + 1 - UNION) / UNION, "set-jaccard": 0.0, "bag-jaccard": 0.0}
TRANSPORT = {
    "wmd-raw": 1 / (1 + 0.5 * 1 + 0.5 * sqrt(2)),  # |a - c| = 1, |b - c| = sqrt(2)
    "wmd": 1 / (1 + sqrt((1 - R) ** 2 + R**2)),
}
CASES = {**DYNAMAX, **UNIT, **POOLED, **WORDS, **(TRANSPORT if is_installed("ot") else {})}


def assert_scored(similarity: by.Similarity, query: Bag, document: Bag, expected: float) -> None:
    """By the definition, and as a pool of one."""
    words = None if document.words is None else (document.words,)
    texts = Texts(None if document.tokens is None else TokenBatch.from_arrays([document.tokens]), words)
    assert similarity.pair(query, document) == pytest.approx(expected, abs=1e-6)
    assert similarity.pool(query, texts)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_name_means_its_published_definition(name):
    assert_scored(find_similarity(name).build(CorpusStatistics(2)), X, Y, CASES[name])


def test_weights_of_the_universe_and_weights_of_vectors_differ():
    weights = {"a": 1.0, "b": 0.5, "c": 2.0}

    def of(words: tuple[str, ...]) -> np.ndarray:
        return np.array([weights[word] for word in words])

    raw = DynaMax("jaccard", "joint", unit_tokens=False)
    # X (1, 4, 2), Y (1, 2, 2), weighted 1, .5, 2.
    assert_scored(by.weighted_dynamax(raw, of), X, Y, (1 + 1 + 4) / (1 + 2 + 4))
    # Tokens (1, 0), (0, 1), (2, 2): X (1, 1, 2), Y (2, 2, 8).
    assert_scored(by.scaled_dynamax(of, unit=False), X, Y, (1 + 1 + 2) / (2 + 2 + 8))


def test_word_counts_give_sif_and_idf():
    statistics = by.WordStatistics.of([["a", "a", "a"], ["b"]])
    np.testing.assert_allclose(statistics.sif(["a", "b", "c"]), [0.001 / 0.751, 0.001 / 0.251, 1])
    statistics = by.WordStatistics.of([["a", "a"], ["a", "b"], ["a"]])  # in 3 and 1 of 3 texts
    a, b, c = log(1 + 0.5 / 3.5), log(1 + 2.5 / 1.5), log(1 + 3.5 / 0.5)
    np.testing.assert_allclose(statistics.idf(["a", "b", "c"]), [a, b, c])
    expected = (a + 2 * b) / (sqrt(a**2 + (2 * b) ** 2) * sqrt(2))
    assert_scored(by.cosine_of_averages(statistics.idf, unit=False), X, Y, expected)
    with pytest.raises(DataError, match="the count of 'a' must be a number of at least 0, got -1"):
        by.WordStatistics({"a": -1})


def test_components_are_removed_from_texts_or_from_tokens():
    removal = by.Removal.of(np.array([[3.0, 0, 0], [5.0, 0, 0], [0, 1.0, 0]]), 1, centred=False)
    x, y = Bag(np.array([[7.0, 1.0, 0.0]])), Bag(np.array([[-2.0, 1.0, 1.0]]))
    assert_scored(by.cosine_of_averages(unit=False, from_texts=removal), x, y, 1 / sqrt(2))
    only = Bag(np.array([[3.0, 0.0, 0.0]]))
    assert_scored(by.cosine_of_averages(unit=False, from_texts=removal), only, only, 0.0)
    words = np.array([[5.0, 1, 1], [-3.0, 1, 1], [1.0, 2, 1], [1.0, 0, 1]])
    removal = by.Removal.of(words, 1, centred=True)
    np.testing.assert_allclose(removal.centre, [1, 1, 1])
    x, y = Bag(np.array([[9.0, 3, 1], [4.0, 1, 2]])), Bag(np.array([[2.0, 1, 4]]))  # (0, 1, .5), (0, 0, 3)
    assert_scored(by.cosine_of_averages(unit=False, from_tokens=removal), x, y, 0.5 / sqrt(1 + 0.25))


@pytest.mark.parametrize("vectors", [np.zeros((0, 3)), np.zeros((2, 3)), np.full((1, 3), np.nan)])
def test_components_need_something_to_fit_on(vectors):
    with pytest.raises(DataError, match="to fit on"):
        by.Removal.of(vectors, 1, centred=True)


def test_a_vocabulary_has_the_commonest_words_first():
    batch = TokenBatch.from_arrays([np.array([[1.0, 0], [0, 2.0], [3.0, 0]]), np.array([[0.0, 0]])])
    texts = Texts(batch, (("a", "b", "a"), ("unknown",)))
    np.testing.assert_allclose(by.vocabulary(texts, unit=False), [[2, 0], [0, 2]])
    np.testing.assert_allclose(by.vocabulary(texts, 1, unit=True), [[1, 0]])
