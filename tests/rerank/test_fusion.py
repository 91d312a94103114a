"""Fusion: every fast form against a loop that reads like its definition."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank.fusion import (
    min_max,
    pool_z,
    reciprocal_ranks,
    surprise_normalized,
    weighted_sum,
)

on_grid = st.integers(-8, 8).map(lambda i: i / 4)
# Ties and gaps: NaN is a document that the scorer did not look at.
scores = st.lists(st.one_of(on_grid, on_grid, st.just(math.nan)), max_size=12)


def rrf_by_loop(values: list[float], constant: float) -> list[float]:
    result = []
    for value in values:
        better = sum(other > value for other in values)
        result.append(0.0 if math.isnan(value) else 1 / (constant + 1 + better))
    return result


def min_max_by_loop(values: list[float]) -> list[float]:
    known = [value for value in values if not math.isnan(value)]
    if not known or max(known) == min(known):
        return [0.0] * len(values)
    width = max(known) - min(known)
    return [0.0 if math.isnan(value) else (value - min(known)) / width for value in values]


def surprise_by_loop(values: list[float], others: list[float]) -> list[float]:
    """Each value's deviations above the mean of the others together with itself."""
    found = []
    for value in values:
        joined = [*others, 0.0 if math.isnan(value) else value]
        mean, deviation = statistics.fmean(joined), statistics.pstdev(joined)
        found.append(0.0 if math.isnan(value) or deviation < 1e-9 else (value - mean) / deviation)
    return found


@given(scores, st.sampled_from([1.0, 60.0]))
def test_reciprocal_ranks_equal_the_loop(values: list[float], constant: float):
    np.testing.assert_allclose(reciprocal_ranks(values, constant), rrf_by_loop(values, constant), rtol=1e-12)


def test_equal_scores_share_the_better_rank_and_gaps_get_nothing():
    ranks = reciprocal_ranks([3.0, 5.0, np.nan, 3.0, 1.0])
    np.testing.assert_allclose(ranks, [1 / 62, 1 / 61, 0.0, 1 / 62, 1 / 64])


@given(scores)
def test_min_max_equals_the_loop(values: list[float]):
    np.testing.assert_allclose(min_max(values), min_max_by_loop(values), rtol=1e-12)


@given(scores, st.lists(on_grid, max_size=8))
def test_surprise_normalised_scores_equal_the_loop(values: list[float], others: list[float]):
    fast = surprise_normalized(values, Moments.of(np.array(others)))
    slow = surprise_by_loop(values, others) if others else np.zeros(len(values))
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)


@given(scores, on_grid, st.sampled_from([0.0, 1e-300, 1e-9, 0.5]), st.integers(1, 200))
def test_no_deviation_is_too_small_for_a_bound(values: list[float], mean: float, deviation: float, m: int):
    """The order stays, and no z is beyond the root of the number of scores that it is compared with."""
    z = surprise_normalized(values, Moments(np.array(mean), np.array(deviation), members=m))
    assert (np.abs(z) <= np.sqrt(m) * (1 + 1e-9)).all()
    known = [(value, own) for value, own in zip(values, z, strict=True) if not math.isnan(value)]
    assert all(a[1] <= b[1] + 1e-12 for a in known for b in known if a[0] <= b[0])


@given(scores, on_grid, st.sampled_from([0.5, 3.0]), st.data())
def test_surprise_normalised_scores_do_not_depend_on_the_pool(
    values: list[float], mean: float, deviation: float, data: st.DataObject
):
    moments = Moments(np.array([mean]), np.array([deviation]))
    whole = surprise_normalized(values, moments)
    rows = data.draw(st.lists(st.sampled_from(range(len(values))), unique=True) if values else st.just([]))
    part = surprise_normalized([values[i] for i in rows], moments)
    np.testing.assert_array_equal(part, whole[np.array(rows, dtype=int)])


def test_ranks_and_ranges_do_depend_on_the_pool():
    """What the surprise scale is for: the other two move when the pool does."""
    pool = np.array([4.0, 2.0, 1.0])
    for normalise in (reciprocal_ranks, min_max):
        assert normalise(pool[1:])[0] != normalise(pool)[1]


def test_a_scorer_that_gives_every_document_the_same_score_says_nothing():
    assert surprise_normalized([0.7, 0.7], Moments(np.array(0.7), np.array(0.0))).tolist() == [0.0, 0.0]
    assert min_max([0.7, 0.7]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("values", [[], [math.nan], [math.nan] * 3])
def test_pools_without_a_score_become_zeros(values: list[float]):
    zeros = [0.0] * len(values)
    assert reciprocal_ranks(values).tolist() == zeros
    assert min_max(values).tolist() == zeros
    assert surprise_normalized(values, Moments(np.array(0.0), np.array(1.0))).tolist() == zeros


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_weighted_sum_equals_the_loop(n: int, seed: int):
    rng = np.random.default_rng(seed)
    parts = {name: rng.normal(size=n) for name in ("bm25", "cosine", "dynamax")}
    weights = {"bm25": 0.5, "dynamax": -2.0}
    expected = []
    for i in range(n):
        total = 0.0
        for name, part in parts.items():
            total += weights.get(name, 1.0) * float(part[i])
        expected.append(total)
    np.testing.assert_allclose(weighted_sum(parts, weights), expected)
    np.testing.assert_allclose(weighted_sum(parts, {}), sum(parts.values()))


def test_a_single_part_comes_back_as_float64():
    total = weighted_sum({"cosine": np.array([0.5, 0.25], np.float32)}, {"cosine": 2.0})
    assert total.dtype == np.float64
    assert total.tolist() == [1.0, 0.5]


@given(scores)
def test_pool_z_equals_the_loop(values: list[float]):
    known = [value for value in values if not math.isnan(value)]
    mean = sum(known) / len(known) if known else 0.0
    deviation = math.sqrt(sum((v - mean) ** 2 for v in known) / len(known)) if known else 0.0
    some = deviation > 1e-9
    expected = [0.0 if math.isnan(v) or not some else (v - mean) / deviation for v in values]
    np.testing.assert_allclose(pool_z(values), expected, rtol=1e-9, atol=1e-9)


# Fitted weights
