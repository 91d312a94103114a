"""Similarities of dense vectors against plain loops."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.arrays import pair_similarities, vector_similarities
from surprise_rerank.core.moments import Moments


def by_loops(x: np.ndarray, y: np.ndarray, name: str) -> float:
    if name == "dot":
        return sum(float(a) * float(b) for a, b in zip(x, y, strict=True))
    if name == "cosine":
        lengths = math.sqrt(by_loops(x, x, "dot") * by_loops(y, y, "dot"))
        return by_loops(x, y, "dot") / lengths if lengths else 0.0
    gaps = [abs(float(a) - float(b)) for a, b in zip(x, y, strict=True)]
    return 1 / (1 + (math.sqrt(sum(g * g for g in gaps)) if name == "euclidean" else sum(gaps)))


@given(st.integers(0, 2**32 - 1), st.sampled_from(["dot", "cosine", "euclidean", "manhattan"]))
def test_all_similarities_are_what_loops_give(seed, name):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size=(4, 3)).astype(np.float32)
    y = rng.integers(-3, 4, size=(4, 3)).astype(np.float32)
    expected = [[by_loops(a, b, name) for b in y] for a in x]
    np.testing.assert_allclose(vector_similarities(x, y, name), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(pair_similarities(x, y, name), np.diag(expected), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(pair_similarities(x, y[:1], name), np.array(expected)[:, 0], atol=1e-6)


# Moments of similarities: of samples, of percentiles, shared by all anchors.

seeds = st.integers(0, 2**32 - 1)


def test_pooled_moments_are_the_mean_and_the_root_mean_square():
    pooled = Moments(np.array([1.0, 3.0]), np.array([1.0, 7.0])).pooled()
    assert (float(pooled.mean), float(pooled.deviation)) == (2.0, 5.0)


@given(seeds)
def test_shrinking_by_0_changes_nothing_and_by_1_leaves_the_pooled(seed):
    rng = np.random.default_rng(seed)
    moments = Moments(*rng.uniform(0, 1, size=(2, 5)))
    pooled = Moments(*(np.asarray(v) for v in rng.uniform(0, 1, size=2)))
    same, gone = moments.shrunk(pooled), moments.shrunk(pooled, mean=1, deviation=1)
    for name in ("mean", "deviation"):
        np.testing.assert_allclose(getattr(same, name), getattr(moments, name))
        np.testing.assert_allclose(getattr(gone, name), np.full(5, getattr(pooled, name)))
