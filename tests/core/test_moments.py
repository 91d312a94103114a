"""Moments of similarities: of samples, of percentiles, shared by all anchors."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.moments import Moments

seeds = st.integers(0, 2**32 - 1)


def test_pooled_moments_are_the_mean_and_the_root_mean_square():
    pooled = Moments(np.array([1.0, 3.0]), np.array([1.0, 7.0])).pooled()
    assert (float(pooled.mean), float(pooled.deviation)) == (2.0, 5.0)


@given(seeds)
def test_shrinking_by_0_changes_nothing_and_by_1_leaves_the_pooled(seed: int):
    rng = np.random.default_rng(seed)
    own = Moments(*rng.uniform(0, 1, size=(2, 5)))
    pooled = Moments(*(np.asarray(v) for v in rng.uniform(0, 1, size=2)))
    same, gone = own.shrunk(pooled), own.shrunk(pooled, mean=1, deviation=1)
    for name in ("mean", "deviation"):
        np.testing.assert_allclose(getattr(same, name), getattr(own, name))
        np.testing.assert_allclose(getattr(gone, name), np.full(5, getattr(pooled, name)))
