"""Paired tests, intervals of differences, and the correction for many tests."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from surprise_rerank import DataError
from surprise_rerank.eval.stats import (
    difference_interval,
    difference_intervals,
    holm,
    paired_randomization,
)


def by_enumeration(first: list[float], second: list[float]) -> float:
    differences = np.subtract(first, second)
    observed = abs(differences.mean())
    signs = np.array(list(itertools.product([1, -1], repeat=len(differences))))
    means = np.abs((signs * differences).mean(axis=1))
    return float((means >= observed * (1 - 1e-12) - 1e-15).mean())


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=9))
def test_equals_the_enumeration_of_all_swaps(pairs):
    first, second = [a / 8 for a, _ in pairs], [b / 8 for _, b in pairs]
    assert paired_randomization(first, second) == pytest.approx(by_enumeration(first, second), abs=1e-9)


def test_is_the_same_in_both_directions_and_single_questions_show_nothing():
    rng = np.random.default_rng(1)
    a, b = rng.random(60), rng.random(60)
    assert paired_randomization(a, b) == paired_randomization(b, a) == paired_randomization(a, b)
    assert paired_randomization([0.1, 0.2], [0.1, 0.2]) == paired_randomization([1.0], [0.0]) == 1.0
    for first, second in (([], []), ([1.0], [1.0, 0.0])):
        with pytest.raises(DataError, match="same questions"):
            paired_randomization(first, second)


def test_no_number_of_resamples_gives_a_p_value_of_0():
    """What was seen is counted as one more resample, on each side where some of all swaps are tried."""
    differences = np.linspace(0.1, 0.2, 40)
    for resamples in (99, 999):
        swapped = paired_randomization(differences, np.zeros(40), resamples=resamples)
        assert swapped == pytest.approx(2 / (resamples + 1))


def test_the_interval_of_a_difference_holds_it_and_has_its_sign():
    rng = np.random.default_rng(3)
    first = rng.random(200)
    second = first + rng.normal(0.05, 0.1, 200)
    low, high = difference_interval(first, second)
    assert 0 < low < (second - first).mean() < high
    assert difference_interval(second, first) == pytest.approx((-high, -low), abs=2e-3)
    assert difference_interval([0.1, 0.4], [0.3, 0.6]) == pytest.approx((0.2, 0.2))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_corrects_as_its_definition_says(values):
    corrected = holm(values)
    for i, p in enumerate(values):
        # Every test that is not larger, each multiplied by how many are not smaller than it.
        least = [min(1.0, sum(q >= r for q in values) * r) for r in values if r <= p]
        assert corrected[i] == pytest.approx(max(least))
    assert holm([]) == []


def pearson_difference(
    gold: np.ndarray, system: np.ndarray, baseline: np.ndarray, axis: int = -1
) -> np.ndarray:
    """The reference form: r(gold, system) - r(gold, baseline)."""

    def standard(values: np.ndarray) -> np.ndarray:
        return (values - values.mean(axis=axis, keepdims=True)) / values.std(axis=axis, keepdims=True)

    return (standard(gold) * (standard(system) - standard(baseline))).mean(axis=axis).round(5)


def pairs(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 6, n).astype(np.float64)
    return gold, gold + rng.normal(0, 2, n), rng


@given(n=st.integers(12, 80), k=st.integers(1, 4), seed=st.integers(0, 1000), small=st.booleans())
def test_the_fast_form_draws_the_resamples_of_the_plain_one_and_finds_the_same(n, k, seed, small):
    gold, baseline, rng = pairs(n, seed)
    systems = gold + rng.normal(0, 2, (k, n))
    # Large offsets and scales change no correlation; the sums of products have to bear them.
    systems[0] = 1000 + systems[0] * (1e-3 if small else 1e3)
    fast = difference_intervals(gold, systems, baseline, resamples=300)
    np.testing.assert_allclose(fast.values, pearson_difference(gold, systems, baseline), atol=1.1e-5)
    for i in range(k):
        plain = stats.bootstrap(
            (gold, systems[i], baseline),
            pearson_difference,
            paired=True,
            vectorized=True,
            n_resamples=300,
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
        np.testing.assert_allclose((fast.low[i], fast.high[i]), plain, atol=1e-4)


def test_a_clear_gain_wins_a_clear_loss_loses_and_noise_ties():
    gold, baseline, rng = pairs(400)
    better, worse = gold + rng.normal(0, 0.5, 400), rng.normal(0, 1, 400)
    alike = gold + rng.normal(0, 2, 400)
    differences = difference_intervals(gold, np.array([better, worse, alike]), baseline, resamples=1000)
    assert [differences.verdict(i) for i in range(3)] == ["win", "loss", "tie"]
    assert (differences.low <= differences.values).all()
    assert (differences.values <= differences.high).all()


def test_the_baseline_ties_with_itself_whatever_the_precision_and_the_scale():
    gold, baseline, _ = pairs(100)
    rounded = baseline.astype(np.float32).astype(np.float64)
    differences = difference_intervals(gold, np.array([baseline, rounded, 3 * baseline - 7]), baseline)
    assert [differences.verdict(i) for i in range(3)] == ["tie"] * 3
    np.testing.assert_allclose([differences.low, differences.high], 0.0, atol=1.1e-5)


def test_a_constant_similarity_has_no_interval_and_does_not_disturb_the_others():
    gold, baseline, rng = pairs(100)
    system = gold + rng.normal(0, 1, 100)
    differences = difference_intervals(gold, np.array([np.full(100, 0.3), system]), baseline, resamples=300)
    alone = difference_intervals(gold, system[None, :], baseline, resamples=300)
    assert np.isnan([differences.values[0], differences.low[0], differences.high[0]]).all()
    assert differences.verdict(0) is None
    assert (differences.low[1], differences.high[1]) == pytest.approx((alone.low[0], alone.high[0]))


def test_a_similarity_that_some_resample_makes_constant_has_no_interval():
    gold, baseline, _ = pairs(100)
    differences = difference_intervals(gold, np.eye(1, 100), baseline, resamples=300)
    assert np.isfinite(differences.values[0])
    assert differences.verdict(0) is None
