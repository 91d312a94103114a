"""Similarities against their papers' definitions, by plain arithmetic on texts small enough for it."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.averages import AverageCosine, Removal
from surprise_rerank.similarities.bags import Bag, BagSimilarity, Texts
from surprise_rerank.similarities.dynamax import DynaMax, SetMeasure
from surprise_rerank.similarities.fuzzy_bags import FuzzyBagOfWords, ScaledDynaMax, WeightedDynaMax
from surprise_rerank.similarities.registry import SIMILARITIES, CorpusStatistics
from surprise_rerank.similarities.wmd import WordMoversSimilarity
from surprise_rerank.similarities.word_overlap import SoftJaccard, WordJaccard
from surprise_rerank.similarities.word_weights import (
    InverseDocumentFrequency,
    InverseFrequency,
    OncePerWord,
    WordStatistics,
)

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


def scored(similarity: BagSimilarity, query: Bag, document: Bag) -> tuple[float, float]:
    """By the reference form and by the fast one."""
    words = None if document.words is None else (document.words,)
    texts = Texts(None if document.tokens is None else TokenBatch.from_arrays([document.tokens]), words)
    return similarity.pair(query, document), float(similarity.pool(query, texts)[0])


def assert_scored(similarity: BagSimilarity, query: Bag, document: Bag, expected: float) -> None:
    pair, pool = scored(similarity, query, document)
    assert pair == pytest.approx(expected, abs=1e-6)
    assert pool == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_name_means_its_published_definition(name: str):
    assert_scored(SIMILARITIES[name].build(CorpusStatistics(2)), X, Y, CASES[name])


# Fuzzy bags of words


def test_memberships_are_pooled_over_the_universe_that_is_given():
    universe = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0]])
    # <a, u> = 1, 1, -1 and <b, u> = 2, -2, 0.
    expected = {"max": [2, 1, 0], "min": [1, 0, 0], "avg": [1.5, -0.5, -0.5], "sum": [3, -1, -1]}
    for pooling, memberships in expected.items():
        text = FuzzyBagOfWords(universe, pooling, unit_tokens=False).memberships(X)
        np.testing.assert_allclose(text, memberships)


def test_the_fuzzy_bag_of_words_compares_memberships_like_sets():
    universe = np.array([[1.0, 1.0], [1.0, -1.0]], np.float32)
    z = Bag(np.array([(3.0, 0.0)]), ("z",))  # <z, u> = 3, 3; X has 2, 1
    assert_scored(FuzzyBagOfWords(universe, unit_tokens=False), X, z, (2 + 1) / (3 + 3))
    inclusion = FuzzyBagOfWords(universe, measure=SetMeasure("inclusion"), unit_tokens=False)
    assert_scored(inclusion, z, X, 3 / 6)


def test_the_identity_as_a_universe_is_max_pooling():
    rng = np.random.default_rng(0)
    x, y = (Bag(rng.normal(size=(n, 5))) for n in (3, 4))
    for pooling in ("max", "min", "avg", "sum"):
        given = FuzzyBagOfWords(np.eye(5), pooling).pair(x, y)
        assert given == pytest.approx(FuzzyBagOfWords(None, pooling).pair(x, y))


def test_averages_keep_their_signs_as_published():
    x, y = Bag(np.array([[1.0, -1.0]])), Bag(np.array([[2.0, -3.0]]))
    assert_scored(FuzzyBagOfWords(None, "avg", unit_tokens=False), x, y, (1 - 3) / (2 - 1))


def test_averages_that_cancel_are_similar_to_nothing():
    x = Bag(np.array([[0.1, -0.1], [0.3, -0.3]]))
    assert_scored(FuzzyBagOfWords(None, "avg", unit_tokens=False), x, x, 0.0)


def test_a_large_universe_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    texts = Texts(TokenBatch.from_arrays([rng.normal(size=(4, 5)) for _ in range(3)]))
    similarity = FuzzyBagOfWords(rng.normal(size=(7, 5)))
    whole = similarity.pool(texts[0], texts)
    monkeypatch.setattr("surprise_rerank.similarities.fuzzy_bags._ELEMENTS", 2)
    np.testing.assert_allclose(similarity.pool(texts[0], texts), whole, rtol=1e-6)


def test_unknown_poolings_and_bad_universes_are_refused():
    with pytest.raises(DataError, match="pooling 'mean' is not known; choose of max, avg, sum, min"):
        FuzzyBagOfWords(None, "mean")
    with pytest.raises(DataError, match="the universe holds NaN"):
        FuzzyBagOfWords(np.full((2, 2), np.nan))
    with pytest.raises(DataError, match="set measure 'max' is not known"):
        SetMeasure("max")


# Weights


def test_weights_of_the_universe_weigh_what_is_summed():
    weights = {"a": 3.0, "b": 1.0, "c": 5.0}

    def weigh(words: tuple[str, ...]) -> np.ndarray:
        return np.array([weights[word] for word in words])

    # Of X (1, 4, 2), of Y (1, 2, 2), weighted 3, 1, 5.
    jaccard = WeightedDynaMax(DynaMax("jaccard", "joint", unit_tokens=False), weigh)
    assert_scored(jaccard, X, Y, (3 * 1 + 1 * 2 + 5 * 2) / (3 * 1 + 1 * 4 + 5 * 2))
    inclusion = WeightedDynaMax(DynaMax(unit_tokens=False), weigh)
    assert_scored(inclusion, X, Y, (3 * 1 + 1 * 2) / (3 * 1 + 1 * 4))
    assert inclusion.inputs == {"vectors", "query words"}


def test_weights_of_1_leave_dynamax_as_it_is():
    for universe in ("joint", "query"):
        plain = DynaMax("jaccard", universe)
        ones = WeightedDynaMax(plain, lambda words: np.ones(len(words)))
        assert scored(ones, X, Y) == scored(WeightedDynaMax(plain), X, Y)


def test_sets_weigh_a_word_that_occurs_k_times_1_over_k():
    twice = Bag(np.array([A, B, B]), ("a", "b", "b"))
    once = WeightedDynaMax(DynaMax("jaccard", "joint", unit_tokens=False), OncePerWord())
    assert_scored(once, twice, Y, DYNAMAX["dynamax-jaccard-raw"])
    # As bags: b stands in the universe twice, with memberships 4 and 2.
    bags = WeightedDynaMax(DynaMax("jaccard", "joint", unit_tokens=False))
    assert_scored(bags, twice, Y, (COMMON + 2) / (SIZE_X + 4))


def test_published_sif_weights_scale_the_vectors_themselves():
    statistics = WordStatistics({"a": 2.0, "b": 6.0, "c": 0.0})
    sif = InverseFrequency(statistics, a=0.25)  # weights: a .25 / .5 = .5, b .25 / 1 = .25, c 1
    # a = (.5, 0), b = (0, .5), c = (1, 1): of X (.25, .25, .5), of Y (.5, .5, 2).
    raw = ScaledDynaMax(sif, DynaMax("jaccard", "joint", unit_tokens=False))
    assert_scored(raw, X, Y, (0.25 + 0.25 + 0.5) / (0.5 + 0.5 + 2))
    # Unit first: a = (.5, 0), b = (0, .25), c = (r, r): of X (.25, .0625, r/2), of Y (r/2, r/4, 1).
    unit = ScaledDynaMax(sif)
    assert_scored(unit, X, Y, (0.25 + 0.0625 + R / 2) / (R / 2 + R / 4 + 1))


# Sets, bags, soft cardinality


def test_sets_and_bags_of_words():
    a, b = Bag(words=("to", "be", "or", "not", "to", "be")), Bag(words=("to", "do", "or", "to", "to"))
    assert_scored(WordJaccard(), a, b, 2 / 5)  # {to, or} of {to, be, or, not, do}
    # Smaller counts: to 2, or 1. Larger: to 3, be 2, or 1, not 1, do 1.
    assert_scored(WordJaccard(counts=True), a, b, 3 / 8)


def test_soft_cardinality_of_bags_takes_the_larger_count_into_the_union():
    x, y = Bag(np.array([A, A]), ("a", "a")), Bag(np.array([A, C]), ("a", "c"))
    # Bags: |X|' = 2/2, |Y|' = 2 / (1 + r); in the union a counts 2 and c 1.
    size_y = 2 / (1 + R)
    union = 2 / (2 + R) + 1 / (1 + 2 * R)
    assert_scored(SoftJaccard(), x, y, (1 + size_y - union) / union)
    # Sets: the union is Y.
    assert_scored(SoftJaccard(counts=False), x, y, (1 + size_y - size_y) / size_y)


def test_soft_cardinality_of_a_union_can_be_smaller_than_of_its_parts():
    # The middle word of three is similar to both others, which are not similar to one another.
    x, y = Bag(np.array([A, (0.0, 1.0)]), ("a", "b")), Bag(np.array([A, (0.0, 1.0), C]), ("a", "b", "c"))
    assert_scored(SoftJaccard(), x, y, (2 + UNION - UNION) / UNION)
    assert 2 / UNION > 1


def test_soft_cardinality_with_power_makes_similar_words_count_more():
    p = R**2
    union = 2 / (1 + p) + 1 / (1 + 2 * p)
    assert_scored(SoftJaccard(power=2.0), X, Y, (3 - union) / union)
    with pytest.raises(DataError, match="power must be above 0, got 0"):
        SoftJaccard(power=0)


def test_without_similar_words_soft_cardinality_is_plain():
    x, y = Bag(np.eye(4)[:3], ("a", "b", "c")), Bag(np.eye(4)[2:], ("c", "d"))
    assert_scored(SoftJaccard(), x, y, 1 / 4)
    assert_scored(WordJaccard(), x, y, 1 / 4)


# Transport


@pytest.mark.skipif(not is_installed("ot"), reason="the extra 'transport' is not installed")
def test_word_movers_distance_moves_every_words_share():
    x = Bag(np.array([[0.0], [0.0], [4.0]]), ("o", "o", "p"))  # the zero vector is an unknown word
    y = Bag(np.array([[1.0], [6.0]]), ("q", "r"))
    assert_scored(WordMoversSimilarity(unit_tokens=False), x, y, 1 / (1 + 0.5 * 3 + 0.5 * 2))
    x = Bag(np.array([[1.0], [1.0], [4.0]]), ("q", "q", "p"))
    # Mass 2/3 at 1 and 1/3 at 4, to 1/2 each at 1 and 6: 1/6 goes from 1 to 6, 1/3 from 4 to 6.
    assert_scored(WordMoversSimilarity(unit_tokens=False), x, y, 1 / (1 + 5 / 6 + 2 / 3))
    # As sets: half the mass at 4, which all goes to 6.
    assert_scored(WordMoversSimilarity(OncePerWord(), unit_tokens=False), x, y, 1 / (1 + 0.5 * 2))


# Averages


def test_sif_weights_rare_words_more():
    statistics = WordStatistics.of([["a", "a", "a"], ["b"]])  # p: a .75, b .25, c 0
    sif = InverseFrequency(statistics, a=0.25)
    np.testing.assert_allclose(sif(["a", "b", "c"]), [0.25 / 1, 0.25 / 0.5, 1])
    # X: (.25 (1, 0) + .5 (0, 2)) / 2 = (.125, .5)
    expected = (0.125 + 0.5) / (sqrt(0.125**2 + 0.25) * sqrt(2))
    assert_scored(AverageCosine(sif, unit_tokens=False), X, Y, expected)
    assert InverseFrequency(statistics).a == 1e-3


def test_idf_weights_words_of_few_texts_more():
    statistics = WordStatistics.of([["a", "a"], ["a", "b"], ["a"]])  # in 3 and 1 of 3 texts
    a, b, c = log(1 + 0.5 / 3.5), log(1 + 2.5 / 1.5), log(1 + 3.5 / 0.5)
    np.testing.assert_allclose(InverseDocumentFrequency(statistics)(["a", "b", "c"]), [a, b, c])
    expected = (a + 2 * b) / (sqrt(a**2 + (2 * b) ** 2) * sqrt(2))
    assert_scored(AverageCosine(InverseDocumentFrequency(statistics), unit_tokens=False), X, Y, expected)


def test_the_first_component_of_sentences_is_removed_without_centring():
    sentences = np.array([[3.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    removal = Removal.of_sentences(sentences)
    np.testing.assert_allclose(np.abs(removal.axes), [[1, 0, 0]], atol=1e-12)
    np.testing.assert_array_equal(removal.centre, 0)
    x, y = Bag(np.array([[7.0, 1.0, 0.0]])), Bag(np.array([[-2.0, 1.0, 1.0]]))
    # What is left: (0, 1, 0) and (0, 1, 1).
    assert_scored(AverageCosine(None, unit_tokens=False, from_texts=removal), x, y, 1 / sqrt(2))


def test_all_but_the_top_removes_the_mean_and_then_the_components():
    words = np.array([[5.0, 1.0, 1.0], [-3.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 0.0, 1.0]])
    removal = Removal.of_words(words)  # d / 100 is 0: one component all the same
    np.testing.assert_allclose(removal.centre, [1, 1, 1])
    np.testing.assert_allclose(np.abs(removal.axes), [[1, 0, 0]], atol=1e-12)
    # The words (., 3, 1), (., 1, 2) become (0, 2, 0), (0, 0, 1); their mean is (0, 1, .5).
    x = Bag(np.array([[9.0, 3.0, 1.0], [4.0, 1.0, 2.0]]))
    y = Bag(np.array([[2.0, 1.0, 4.0]]))  # (0, 0, 3)
    similarity = AverageCosine(None, unit_tokens=False, from_tokens=removal)
    assert_scored(similarity, x, y, 0.5 / sqrt(1 + 0.25))


@pytest.mark.parametrize(("d", "components"), [(2, 1), (50, 1), (149, 1), (200, 2), (300, 3), (384, 4)])
def test_about_a_hundredth_of_the_components_is_the_top(d: int, components: int):
    words = np.random.default_rng(0).normal(size=(20, d))
    assert len(Removal.of_words(words).axes) == min(components, d)


def test_what_is_removed_whole_leaves_nothing_to_compare():
    x = Bag(np.array([[3.0, 4.0]]))
    removal = Removal.of_sentences(np.array([[3.0, 4.0]]))
    assert_scored(AverageCosine(None, from_texts=removal), x, x, 0.0)


def test_words_that_all_mean_the_same_have_no_components():
    removal = Removal.of_words(np.array([[1.0, 2.0], [1.0, 2.0]]))
    assert removal.axes.shape == (0, 2)
    np.testing.assert_array_equal(removal(np.array([[1.0, 2.0]])), 0)


@pytest.mark.parametrize("vectors", [np.zeros((0, 3)), np.zeros((2, 3)), np.full((1, 3), np.nan)])
def test_components_need_something_to_fit_on(vectors: np.ndarray):
    for fit in (Removal.of_words, Removal.of_sentences):
        with pytest.raises(DataError, match="to fit on"):
            fit(vectors)
