"""What a pool tells about itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.rerank.feedback import agreement, contrast, representatives, shares

seeds = st.integers(0, 10_000)


def unit(drawn: np.ndarray) -> np.ndarray:
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


@given(seeds, st.integers(0, 12))
def test_the_best_passage_stands_for_its_document(seed, n):
    rng = np.random.default_rng(seed)
    total = rng.normal(size=n)
    ids = [f"d{i}" for i in rng.integers(0, max(1, n // 2) + 1, size=n)]
    rows = representatives(total, ids).tolist()
    assert rows == sorted(rows)
    assert {ids[j] for j in rows} == set(ids)
    assert all(total[j] == max(total[k] for k in range(n) if ids[k] == ids[j]) for j in rows)


@given(seeds, st.integers(1, 30))
def test_agreement_is_from_0_to_1_and_whole_with_oneself(seed, n):
    rng = np.random.default_rng(seed)
    voice, other = rng.normal(1.0, 1.0, n), rng.normal(1.0, 1.0, n)
    assert 0.0 <= agreement(voice, [other]) <= 1.0
    assert agreement(voice, [voice * 2]) == pytest.approx(1.0)


def test_shares_follow_ranks_and_not_the_size_of_scores():
    found = shares(np.array([2.0, 1.0, 0.5]), ["a", "b", "c"])
    assert found.sum() == pytest.approx(1.0)
    assert found / found[0] == pytest.approx([1, 1 / 4, 1 / 9])
    np.testing.assert_array_equal(shares(np.array([2e9, 1.0, -3e5]), ["a", "b", "c"]), found)


def test_documents_of_equal_scores_and_passages_share():
    assert shares(np.zeros(4), list("abcd")).tolist() == [0.25] * 4
    assert len(shares(np.zeros(0), [])) == 0
    assert shares(np.array([2.0, 1.0, 1.0]), ["a", "a", "b"])[1] == 0.0


@given(seeds, st.integers(1, 60))
def test_what_the_best_have_is_measured_against_the_whole_pool(seed, n):
    rng = np.random.default_rng(seed)
    total, ids = rng.normal(size=n), [f"d{i}" for i in rng.integers(0, n, size=n)]
    found = contrast(total, ids)
    assert found.sum() == pytest.approx(0.0, abs=1e-12)
    counted = np.flatnonzero(shares(total, ids))
    if len(counted) < 20:
        assert not found.any()
        return
    np.testing.assert_allclose(found[counted], shares(total, ids)[counted] - 1 / len(counted))
    assert not np.delete(found, counted).any()
