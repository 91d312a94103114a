"""What a pool tells about itself, and what a question's tokens weigh."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank.feedback import agreement, representatives, shares
from surprise_rerank.rerank.token_weights import token_weights, weighted_inclusion
from surprise_rerank.similarities.dynamax import DynaMax

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


@given(seeds, st.integers(1, 5), st.integers(0, 4), st.integers(0, 6))
def test_weighted_inclusion_is_that_of_pairs(seed, m, n, size):
    rng = np.random.default_rng(seed)
    query = rng.normal(size=(m, 4)).astype(np.float32)

    def drawn(count: int) -> list[np.ndarray]:
        return [rng.normal(size=(int(rng.integers(0, 5)), 4)).astype(np.float32) for _ in range(count)]

    texts, members = drawn(n), drawn(size)
    found, usual = weighted_inclusion(
        query, TokenBatch.from_arrays(texts, 4), TokenBatch.from_arrays(members, 4), threads=1
    )
    x = unit(query.astype(np.float64))
    maxima = np.array(
        [[max([0.0, *(float(a @ b) for b in unit(text.astype(float)))]) for a in x] for text in members]
    ).reshape(size, m)
    rarity = [math.log(1 + (size - c + 0.5) / (c + 0.5)) for c in (maxima**8).sum(axis=0)]
    weights = np.linalg.norm(query, axis=1) * rarity
    pair = DynaMax()
    np.testing.assert_allclose(
        found, [pair.pair(query, text, query_weights=weights) for text in texts], atol=1e-5
    )
    np.testing.assert_allclose(usual, maxima @ weights / weights.sum(), atol=1e-5)


def test_the_same_token_everywhere_weighs_less_than_a_rare_one():
    everywhere, rare = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    maxima = np.array([[1.0, 0.2]] * 9 + [[1.0, 1.0]], np.float32)
    first, second = token_weights(np.stack([everywhere, rare]), maxima)
    assert first < second / 5
