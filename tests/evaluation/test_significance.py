"""Paired tests, intervals of differences, and the correction for many tests."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.errors import DataError
from surprise_rerank.eval.stats.significance import (
    difference_interval,
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
def test_equals_the_enumeration_of_all_swaps(pairs: list[tuple[int, int]]) -> None:
    first, second = [a / 8 for a, _ in pairs], [b / 8 for _, b in pairs]
    assert paired_randomization(first, second) == pytest.approx(by_enumeration(first, second), abs=1e-9)


def test_is_the_same_in_both_directions_and_single_questions_show_nothing() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(60), rng.random(60)
    assert paired_randomization(a, b) == paired_randomization(b, a) == paired_randomization(a, b)
    assert paired_randomization([0.1, 0.2], [0.1, 0.2]) == paired_randomization([1.0], [0.0]) == 1.0
    for first, second in (([], []), ([1.0], [1.0, 0.0])):
        with pytest.raises(DataError, match="same questions"):
            paired_randomization(first, second)


def test_no_number_of_resamples_gives_a_p_value_of_0() -> None:
    """What was seen is counted as one more resample, on each side where some of all swaps are tried."""
    differences = np.linspace(0.1, 0.2, 40)
    for resamples in (99, 999):
        swapped = paired_randomization(differences, np.zeros(40), resamples=resamples)
        assert swapped == pytest.approx(2 / (resamples + 1))


def test_the_interval_of_a_difference_holds_it_and_has_its_sign() -> None:
    rng = np.random.default_rng(3)
    first = rng.random(200)
    second = first + rng.normal(0.05, 0.1, 200)
    low, high = difference_interval(first, second)
    assert 0 < low < (second - first).mean() < high
    assert difference_interval(second, first) == pytest.approx((-high, -low), abs=2e-3)
    assert difference_interval([0.1, 0.4], [0.3, 0.6]) == pytest.approx((0.2, 0.2))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_corrects_as_its_definition_says(values: list[float]) -> None:
    corrected = holm(values)
    for i, p in enumerate(values):
        # Every test that is not larger, each multiplied by how many are not smaller than it.
        least = [min(1.0, sum(q >= r for q in values) * r) for r in values if r <= p]
        assert corrected[i] == pytest.approx(max(least))
    assert holm([]) == []
