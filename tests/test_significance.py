"""The paired randomisation test."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.errors import DataError
from surprise_rerank.eval.significance import paired_randomization


def by_enumeration(first: list[float], second: list[float]) -> float:
    differences = np.subtract(first, second)
    observed = abs(differences.mean())
    signs = np.array(list(itertools.product([1, -1], repeat=len(differences))))
    means = np.abs((signs * differences).mean(axis=1))
    return float((means >= observed * (1 - 1e-12) - 1e-15).mean())


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=9))
def test_equals_the_enumeration_of_all_swaps(pairs: list[tuple[int, int]]) -> None:
    first, second = [a / 8 for a, _ in pairs], [b / 8 for _, b in pairs]
    assert paired_randomization(first, second) == pytest.approx(by_enumeration(first, second), abs=1e-9)


def test_tells_a_real_difference_from_none() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(200)
    assert paired_randomization(base, base + rng.normal(0.05, 0.1, 200)) < 0.001
    assert paired_randomization(base, base + rng.normal(0.0, 0.1, 200)) > 0.05


def test_is_the_same_in_both_directions_and_in_every_run() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(60), rng.random(60)
    assert paired_randomization(a, b) == paired_randomization(b, a) == paired_randomization(a, b)


def test_equal_systems_and_single_questions_show_nothing() -> None:
    assert paired_randomization([0.1, 0.2], [0.1, 0.2]) == 1.0
    assert paired_randomization([1.0], [0.0]) == 1.0


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], [1.0, 0.0])])
def test_other_shapes_are_refused(first: list[float], second: list[float]) -> None:
    with pytest.raises(DataError, match="same questions"):
        paired_randomization(first, second)
