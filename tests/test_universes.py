"""Universes of the fuzzy bag of words, and the statistics of words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import Texts
from surprise_rerank.similarities.universes import centroids, principal_axes, random_vectors, vocabulary
from surprise_rerank.similarities.word_weights import InverseFrequency, OncePerWord, WordStatistics, stacked

PROPERTY = settings(max_examples=30, deadline=None)
texts_of_words = st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=5)


def texts() -> Texts:
    vectors = [np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])]
    return Texts(TokenBatch.from_arrays(vectors), (("a", "b"), ("a", "unknown", "c")))


def test_the_vocabulary_is_the_mean_vector_of_each_word_the_commonest_first():
    np.testing.assert_allclose(vocabulary(texts()), [[2, 0], [0, 2], [1, 1]])
    np.testing.assert_allclose(vocabulary(texts(), 1), [[2, 0]])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(
        vocabulary(texts(), unit_tokens=True), [[1, 0], [0, 1], [half, half]], atol=1e-6
    )


def test_the_vocabulary_of_int8_tokens_is_nearly_the_same():
    stored = Texts(texts().batch.stored("int8"), texts().words)
    np.testing.assert_allclose(vocabulary(stored), vocabulary(texts()), atol=0.02)


@given(st.integers(0, 2**32 - 1))
@PROPERTY
def test_principal_axes_are_those_of_the_covariance(seed: int):
    vectors = np.random.default_rng(seed).normal(size=(40, 5)) * [5, 3, 2, 1, 0.5] + 10
    axes = principal_axes(vectors).astype(np.float64)
    np.testing.assert_allclose(axes @ axes.T, np.eye(5), atol=1e-5)
    variances = np.diag(axes @ np.cov(vectors.T) @ axes.T)
    assert (np.diff(variances) <= 1e-6).all()
    np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(np.cov(vectors.T)))[::-1], variances, rtol=1e-4)
    assert (np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1) > 0).all()
    np.testing.assert_array_equal(principal_axes(vectors, 2), principal_axes(vectors)[:2])


def test_centroids_find_clusters_and_are_the_same_for_a_seed():
    rng = np.random.default_rng(0)
    middles = np.array([[0.0, 10.0], [10.0, 0.0], [-10.0, -10.0]])
    vectors = np.concatenate([m + 0.1 * rng.normal(size=(20, 2)) for m in middles])
    found = centroids(vectors, 3, seed=1)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], middles[[2, 0, 1]], atol=0.2)
    np.testing.assert_array_equal(found, centroids(vectors, 3, seed=1))


def test_there_are_no_more_centroids_than_different_vectors():
    assert centroids(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 5).shape == (2, 2)


def test_random_universes_are_normal_and_the_same_for_a_seed():
    first = random_vectors(500, 20, seed=3)
    np.testing.assert_array_equal(first, random_vectors(500, 20, seed=3))
    assert abs(first.mean()) < 0.05
    assert first.std() == pytest.approx(1, abs=0.05)
    assert not np.array_equal(first, random_vectors(500, 20, seed=4))


@pytest.mark.parametrize("fit", [principal_axes, lambda vectors: centroids(vectors, 2)])
def test_nothing_and_nan_cannot_be_fitted_on(fit: object):
    with pytest.raises(DataError, match="no vectors"):
        fit(np.zeros((0, 3)))
    with pytest.raises(DataError, match="NaN"):
        fit(np.full((2, 3), np.nan))


def test_a_vocabulary_needs_known_words():
    with pytest.raises(DataError, match="known words"):
        vocabulary(Texts(TokenBatch.from_arrays([np.zeros((1, 2))]), (("x",),)))
    with pytest.raises(DataError, match="the texts have none"):
        vocabulary(Texts(TokenBatch.from_arrays([np.ones((1, 2))])))


# Words


@given(texts_of_words, texts_of_words)
@PROPERTY
def test_statistics_add_up_over_corpora(first: list[list[str]], second: list[list[str]]):
    both = WordStatistics.of([*first, *second])
    added = WordStatistics.of(first) + WordStatistics.of(second)
    assert added == both
    assert added.documents == len(first) + len(second)
    assert added.total == sum(map(len, first)) + sum(map(len, second))


def test_words_that_a_corpus_lacks_have_the_largest_weights():
    statistics = WordStatistics.of([["a", "b"], ["a"]])
    assert statistics.probability("c") == 0
    assert InverseFrequency(statistics)(["c"]).tolist() == [1.0]
    rare = statistics.inverse_document_frequency("c")
    assert rare == pytest.approx(np.log(2 * 2 + 2))
    assert rare > statistics.inverse_document_frequency("b") > statistics.inverse_document_frequency("a") > 0


def test_without_a_corpus_all_words_weigh_the_same():
    nothing = WordStatistics()
    assert nothing.probability("a") == 0
    assert nothing.inverse_document_frequency("a") == pytest.approx(np.log(2))


def test_bad_counts_and_weights_are_refused():
    for count in (-1.0, float("nan"), float("inf")):
        with pytest.raises(DataError, match="the count of the word 'a' is"):
            WordStatistics({"a": count})
    for a in (0, -1, float("nan")):
        with pytest.raises(DataError, match="SIF's a must be above 0"):
            InverseFrequency(WordStatistics(), a=a)


def test_weights_of_texts_are_stacked_text_after_text():
    assert stacked(OncePerWord(), [["a", "a"], [], ["b"]]).tolist() == [0.5, 0.5, 1.0]
    assert stacked(OncePerWord(), []).shape == (0,)
