"""Surprise of many keys to few anchors, bound to the score of single pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError, Ensemble
from surprise_rerank.core.arrays import unit_rows, vector_similarities
from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.score import Surprise

MODELS = ("gaussian", "pooled", "percentile", "empirical")


def drawn(seed: int, keys: int = 40, members: int = 60, anchors: int = 5, d: int = 8):
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=d)
    return (middle + rng.normal(size=(n, d)) for n in (keys, members, anchors))


def surprise_of(members, anchors, model: str, weight) -> Surprise:
    ensemble = Ensemble.from_vectors(members, similarity="cosine")
    return Surprise(
        ensemble, model=model, weight=weight, anchors=Ensemble.from_vectors(anchors, similarity="cosine")
    )


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 10**6))
def test_columns_are_the_scores_of_single_pairs(model, seed):
    keys, members, anchors = drawn(seed)
    surprise = surprise_of(members, anchors, model, 1.0)
    scores = AnchorScores(anchors, surprise)
    psi = vector_similarities(keys, anchors, "cosine")
    for place, anchor in enumerate(anchors):
        single = surprise.scores(psi[:, place], anchor)
        np.testing.assert_allclose(scores.scores(keys)[:, place], single.score, atol=2e-5)
        tolerance = 2e-5 if model != "empirical" else 1 / len(members) + 1e-9  # a member on the border
        np.testing.assert_allclose(scores.probabilities(keys)[:, place], single.probability, atol=tolerance)


@given(seed=st.integers(0, 10**6), model=st.sampled_from(MODELS), weight=st.floats(0.02, 0.98))
def test_mixed_scores_are_equation_4_with_one_split_for_all_anchors(seed, model, weight):
    """As `Surprise` has it, the anchors being the population."""
    keys, members, anchors = drawn(seed)
    surprise = surprise_of(members, anchors, model, weight)
    psi = vector_similarities(keys, anchors, "cosine")
    assert surprise.split == pytest.approx(vector_similarities(members, anchors, "cosine").mean(), rel=1e-6)
    expected = np.stack([surprise.scores(psi[:, i], a).score for i, a in enumerate(anchors)], axis=1)
    anchored = AnchorScores(anchors, surprise)
    np.testing.assert_allclose(anchored.scores(keys), expected, atol=1e-5)
    if model != "empirical":  # whose scores are in order within one member's share
        np.testing.assert_allclose(anchored.probabilities(keys), expected.clip(0, 1), atol=1e-5)


@pytest.mark.parametrize("weight", [0.5, 1.0])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_narrow_cone_leaves_float32_keys_their_z(weight, similarity):
    """With deviations of 6e-4, Psi / sigma and mu / sigma are beyond 1,500."""
    rng = np.random.default_rng(11)
    middle = unit_rows(rng.normal(size=(1, 384)))
    members, keys = (
        unit_rows(middle + 6e-4 * rng.normal(size=(n, 384))).astype(np.float32) for n in (500, 700)
    )
    anchors = unit_rows(middle + 0.05 * rng.normal(size=(6, 384))).astype(np.float32)
    surprise = Surprise(Ensemble.from_vectors(members, similarity=similarity), weight=weight)
    scores = AnchorScores(anchors, surprise)
    assert 3e-4 < scores.moments.deviation.min() < scores.moments.deviation.max() < 1e-3
    whole = scores.scores(keys)
    # A cosine's length in float32 is off by 1e-7 of z's 1,500; the same in every batch.
    np.testing.assert_allclose(whole, scores.scores(keys.astype(np.float64)), rtol=0, atol=4e-4)
    for row in (0, 311, 699):
        np.testing.assert_allclose(scores.scores(keys[row : row + 1])[0], whole[row], rtol=0, atol=1e-5)


def test_blocks_do_not_change_scores(monkeypatch):
    keys, members, anchors = drawn(3)
    scores = AnchorScores(anchors, surprise_of(members, anchors, "gaussian", 1.0))
    whole, nearest = scores.scores(keys), scores.nearest(keys)
    monkeypatch.setattr("surprise_rerank.surprise.anchor_scores._BLOCK_VALUES", 24)
    monkeypatch.setattr("surprise_rerank.surprise.anchor_scores._LEAST_ROWS", 3)
    np.testing.assert_allclose(scores.scores(keys), whole, rtol=1e-12)
    np.testing.assert_array_equal(scores.nearest(keys), nearest)
    np.testing.assert_allclose(
        scores.similarities(keys), vector_similarities(keys, anchors, "cosine"), atol=1e-6
    )


@pytest.mark.parametrize("members", [np.zeros((0, 3)), np.ones((1, 3)), np.ones((5, 3))])
@pytest.mark.parametrize("model", MODELS)
def test_an_ensemble_that_tells_nothing_apart_leaves_the_similarity(members, model):
    anchors = np.eye(3)
    scores = AnchorScores(anchors, surprise_of(members, anchors, model, 1.0))
    assert scores.weight == 0
    np.testing.assert_allclose(scores.scores(np.eye(3)), np.eye(3))
    assert np.isfinite(scores.probabilities(np.eye(3))).all()
    one = Ensemble.from_vectors(np.random.default_rng(0).normal(size=(9, 3)), sample_size=1)
    assert not AnchorScores(anchors, Surprise(one, "empirical", 1.0)).defined.any()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_an_anchor_of_zeros_takes_the_scale_of_the_others(model, weight):
    keys, members, anchors = drawn(7)
    anchors = np.vstack([anchors, np.zeros(8)])
    scores = AnchorScores(anchors, surprise_of(members, anchors, model, weight))
    assert scores.defined.tolist() == [True] * 5 + [model == "pooled"]  # which has one deviation for all
    assert np.isfinite(scores.scores(keys)).all()
    assert np.isfinite(scores.probabilities(np.zeros((2, 8)))).all()


def test_bad_shapes_are_refused():
    keys, members, anchors = drawn(2)
    surprise = surprise_of(members, anchors, "gaussian", 1.0)
    with pytest.raises(DataError, match="anchors must be at least one, got none"):
        AnchorScores(np.zeros((0, 8)), surprise)
    with pytest.raises(DataError, match=r"the shape of a key must be \(8,\), got \(7,\)"):
        AnchorScores(anchors, surprise).scores(keys[:, :7])
    with pytest.raises(DataError, match="ensemble must be one under the cosine"):
        AnchorScores(anchors, Surprise(Ensemble.from_vectors(members, similarity="euclidean")))
