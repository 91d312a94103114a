"""Moments: streams that can be cut anywhere, and errors that cover the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from surprise_rerank.core.moments import (
    Moments,
    MomentStream,
    independent_members,
    percentile_moments,
    pooled_moments,
)
from surprise_rerank.errors import DataError

PROPERTY = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 30), st.lists(st.integers(0, 30), max_size=4), st.sampled_from([0.0, 1e4]))
@PROPERTY
def test_a_stream_cut_anywhere_has_the_moments_of_the_whole(
    seed: int, size: int, cuts: list[int], offset: float
):
    block = np.random.default_rng(seed).normal(size=(3, size)) ** 2 + offset
    stream = MomentStream.start(3)
    for part in np.split(block, sorted(min(c, size) for c in cuts), axis=1):
        stream = stream.add(part)
    assert stream.count == size
    np.testing.assert_allclose(stream.mean, block.mean(axis=1))
    for power, got in ((2, stream.m2), (3, stream.m3), (4, stream.m4)):
        naive = ((block - block.mean(axis=1, keepdims=True)) ** power).sum(axis=1)
        np.testing.assert_allclose(got, naive, rtol=1e-6, atol=1e-6 * size)


def test_errors_vanish_when_all_was_seen_and_are_known_before():
    block = np.random.default_rng(0).normal(size=(2, 50))
    whole = MomentStream.of(block).moments(population=50)
    assert (whole.mean_error == 0).all()
    assert (whole.deviation_error == 0).all()
    endless = MomentStream.of(block).moments()
    np.testing.assert_allclose(endless.mean_error, stats.sem(block, axis=1))
    half = MomentStream.of(block).moments(population=99)
    np.testing.assert_allclose(half.mean_error, endless.mean_error * np.sqrt(49 / 98))


@pytest.mark.parametrize("kind", ["moments", "percentiles"])
def test_the_errors_are_the_spread_of_many_samples(kind: str):
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(2000, 400))
    of = (lambda s: MomentStream.of(s).moments()) if kind == "moments" else percentile_moments
    estimates = of(samples)
    for value, error in (
        (estimates.mean, estimates.mean_error),
        (estimates.deviation, estimates.deviation_error),
    ):
        assert np.std(value) == pytest.approx(np.mean(error), rel=0.1)


@pytest.mark.parametrize("kind", ["moments", "percentiles"])
def test_copies_that_are_drawn_together_say_what_one_of_them_says(kind: str):
    one = np.random.default_rng(2).normal(size=(3, 300))
    copies = np.repeat(one, 4, axis=1)
    drawn = independent_members(np.full(300, 4))
    for population, of_copies in ((None, None), (900, 3600), (300, 1200)):
        if kind == "moments":
            alone, together = (
                MomentStream.of(one).moments(population),
                MomentStream.of(copies).moments(of_copies, drawn),
            )
        else:
            alone, together = (
                percentile_moments(one, population),
                percentile_moments(copies, of_copies, drawn),
            )
        np.testing.assert_allclose(together.deviation, alone.deviation, rtol=0.05)
        np.testing.assert_allclose(together.mean_error, alone.mean_error, rtol=0.05)
        np.testing.assert_allclose(together.deviation_error, alone.deviation_error, rtol=0.05)


def test_copies_of_a_single_member_say_nothing_of_the_spread():
    for found in (
        MomentStream.of(np.ones((2, 9))).moments(50, 1.0),
        percentile_moments(np.ones((2, 9)), 50, 1.0),
    ):
        assert np.isinf(found.mean_error).all()
        assert np.isinf(found.deviation_error).all()


def test_independent_members_are_fewer_where_some_have_more_copies():
    assert independent_members(np.array([1, 1, 1])) == 3
    assert independent_members(np.array([5])) == 1
    assert independent_members(np.array([1, 3])) == 1.6
    assert independent_members(np.zeros(0, np.int64)) == 0


def test_nothing_seen_is_not_known_at_all_unless_there_is_nothing():
    assert np.isinf(MomentStream.start(2).moments().mean_error).all()
    assert np.isinf(MomentStream.of(np.ones((2, 1))).moments(population=5).deviation_error).all()
    for none in (MomentStream.start(2).moments(0), percentile_moments(np.zeros((2, 0)), 0)):
        assert none.mean.tolist() == none.deviation.tolist() == none.mean_error.tolist() == [0, 0]


@pytest.mark.parametrize("block", [np.ones(3), [[np.nan]], [[np.inf]]])
def test_blocks_that_are_no_finite_matrix_are_refused(block: object):
    with pytest.raises(DataError, match="similarities must be finite numbers"):
        MomentStream.of(block)


def test_streams_of_other_anchors_are_refused():
    with pytest.raises(DataError, match="2 and 3 anchors"):
        MomentStream.start(2).add(np.ones((3, 1)))


def test_pooled_moments_are_the_mean_and_the_root_mean_square():
    pooled = pooled_moments(Moments(np.array([1.0, 3.0]), np.array([1.0, 7.0])), population=2)
    assert float(pooled.mean) == 2.0
    assert float(pooled.deviation) == 5.0
    assert float(pooled.mean_error) == float(pooled.deviation_error) == 0.0
    assert float(pooled_moments(Moments(np.array([1.0, 3.0]), np.array([1.0, 7.0]))).mean_error) == 1.0
    sampled = Moments(np.ones(9), np.ones(9), np.full(9, 0.1), np.full(9, 0.2))
    assert float(pooled_moments(sampled, 9).mean_error) == pytest.approx(0.1), (
        "it is the same for all anchors"
    )
    assert float(pooled_moments(sampled, 9).deviation_error) == pytest.approx(0.2)
    half = sampled.shrunk(pooled_moments(sampled, 9), mean=0.5, deviation=0.5)
    np.testing.assert_allclose(half.mean_error, 0.1)
    np.testing.assert_allclose(half.deviation_error, 0.2)
    assert np.isinf(percentile_moments(np.ones((2, 1)), 50).mean_error).all()
    assert float(pooled_moments(Moments(np.zeros(0), np.zeros(0))).deviation) == 0.0


@given(seeds)
@PROPERTY
def test_shrinking_by_0_changes_nothing_and_by_1_leaves_the_pooled(seed: int):
    rng = np.random.default_rng(seed)
    own = Moments(*rng.uniform(0, 1, size=(4, 5)))
    pooled = Moments(*(np.asarray(v) for v in rng.uniform(0, 1, size=4)))
    same, gone = own.shrunk(pooled), own.shrunk(pooled, mean=1, deviation=1)
    for name in ("mean", "deviation", "mean_error", "deviation_error"):
        np.testing.assert_allclose(getattr(same, name), getattr(own, name))
        np.testing.assert_allclose(getattr(gone, name), np.full(5, getattr(pooled, name)))
