"""Ragged token batches: what goes in comes out, whole and in parts."""

import itertools
import math
import tracemalloc
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from surprise_rerank import DataError, DynaMax
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import TokenBatch, clusters, pooled_tokens
from surprise_rerank.similarities._dynamax import Measure
from surprise_rerank.similarities._kernels import own_memberships

# Sixteenths: exact in float32, rich in zeros and ties, and whole rows of zeros are drawn often.
elements = st.integers(-64, 64).map(lambda i: i / 16)


@st.composite
def ragged(draw: st.DrawFn, min_texts: int = 0) -> tuple[list[np.ndarray], int]:
    d = draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(0, 4), min_size=min_texts, max_size=5))
    fill = st.just(0.0)
    return [draw(hnp.arrays(np.float32, (n, d), elements=elements, fill=fill)) for n in lengths], d


@given(ragged())
def test_token_vectors_come_back_as_they_went_in(texts):
    arrays, d = texts
    batch = TokenBatch.from_arrays(arrays, d)
    assert len(batch) == len(arrays)
    assert batch.dimension == d
    assert batch.lengths.tolist() == [len(a) for a in arrays]
    for got, expected in zip(batch, arrays, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(got[~expected.any(axis=1)], 0.0)


@given(ragged(min_texts=1), st.data())
def test_take_picks_texts_in_the_order_asked_for(texts, data):
    batch = TokenBatch.from_arrays(*texts)
    rows = data.draw(st.lists(st.integers(-len(batch), len(batch) - 1), max_size=8))
    for form in (batch, replace(batch, own=own_memberships(batch))):
        taken = form.take(rows)
        assert len(taken) == len(rows)
        assert taken.directions.dtype == form.directions.dtype
        for got, row in zip(taken, rows, strict=True):
            np.testing.assert_array_equal(got, form[row])


@pytest.mark.parametrize("position", [2, -3])
def test_a_position_outside_the_batch_is_an_index_error(position):
    batch = TokenBatch.from_arrays([np.eye(3), np.eye(3)])
    with pytest.raises(IndexError):
        batch[position]
    with pytest.raises(IndexError):
        batch.take([position])


@given(ragged(min_texts=1), st.data())
def test_concatenating_parts_gives_the_whole(texts, data):
    arrays, d = texts
    cut = data.draw(st.integers(0, len(arrays)))
    parts = [TokenBatch.from_arrays(part, d) for part in (arrays[:cut], arrays[cut:])]
    whole, joined = TokenBatch.from_arrays(arrays, d), TokenBatch.concatenate(parts)
    for name in ("directions", "norms", "offsets"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name), err_msg=name)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            [np.zeros((2, 3)), np.zeros((2, 4))],
            r"the shape of text 1 behind its tokens must be \(3,\), got \(4,\)",
        ),
        ([np.zeros((2, 3)), np.zeros(3)], r"the shape of text 1 behind its tokens must be \(3,\), got \(\)"),
        (
            [np.zeros((2, 3)), np.full((1, 3), np.nan)],
            "token vectors of text 1 must be finite, got NaN or infinity",
        ),
        ([np.full((1, 3), np.inf)], "token vectors of text 0 must be finite, got NaN or infinity"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(texts, message):
    with pytest.raises(DataError, match=message):
        TokenBatch.from_arrays(texts)


def test_very_long_and_very_short_tokens_keep_their_direction():
    for size in (1e30, 1e-30):
        batch = TokenBatch.from_arrays([np.full((1, 4), size)])
        np.testing.assert_allclose(batch.directions, 0.5)
        np.testing.assert_allclose(batch[0], size, rtol=1e-6)
    with pytest.raises(DataError, match="too long for float32"):
        TokenBatch.from_arrays([np.full((1, 4), 3e38)])


# Tokens that are merged: which, into how many vectors, and what still knows each of them.


def vectors(count: int, seed: int = 0, dimension: int = 12) -> np.ndarray:
    """Tokens of lengths that differ, some of which are repeated."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, dimension)) * random.uniform(0.5, 3, (count, 1))
    return rows[random.integers(0, max(count, 1), count)].astype(np.float32)


FACTORS = st.sampled_from([1.3, 2, 3.5, 10, 1000])


@given(st.integers(0, 2**16), st.lists(st.integers(0, 40), max_size=6), FACTORS, st.integers(1, 20))
def test_every_token_belongs_to_one_vector_which_is_the_mean_of_its_own(seed, lengths, factor, least):
    tokens = TokenBatch.from_arrays([vectors(n, seed + i) for i, n in enumerate(lengths)], 12)
    merged = pooled_tokens(tokens, factor, least)
    assert merged.token_counts.tolist() == lengths
    assert merged.weights.sum() == sum(lengths)
    for i, n in enumerate(lengths):
        alone = pooled_tokens(tokens.take([i]), factor, least)
        np.testing.assert_array_equal(merged.between(i, i + 1).directions, alone.directions)
        np.testing.assert_array_equal(merged.members.text(i), alone.members.owners)
        k = max(math.ceil(n / factor), min(n, least))
        owners = merged.members.text(i)
        assert merged.lengths[i] == k
        assert np.array_equal(np.unique(owners), np.arange(k))
        # Numbered in the order of their first members.
        firsts = [int(np.flatnonzero(owners == cluster)[0]) for cluster in range(k)]
        assert firsts == sorted(firsts)
        for cluster in range(k):
            np.testing.assert_allclose(
                merged[i][cluster], tokens[i][owners == cluster].mean(axis=0), atol=1e-5
            )


def test_ward_merges_what_is_nearest():
    angles = np.radians([0, 90, 2, 180, 92, 4])
    unit = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert clusters(unit, 2).tolist() == [0, 1, 0, 2, 1, 0]
    assert clusters(unit, 3).tolist() in ([0, 1, 0, 1, 1, 0], [0, 0, 0, 1, 0, 0])
    assert clusters(unit, 3, least=4).max() == 3


def test_tokens_of_zeros_share_a_vector_that_nothing_is_similar_to():
    tokens_of_text = vectors(9)
    tokens_of_text[[1, 4, 8]] = 0
    merged = pooled_tokens(TokenBatch.from_arrays([tokens_of_text, np.zeros((3, 12))]), 2, 1)
    owners = merged.members.text(0)
    assert np.flatnonzero(owners == owners[1]).tolist() == [1, 4, 8]
    assert merged.lengths.tolist() == [3 + 1, 1]
    assert not np.concatenate([merged[0][owners[1]], merged[1].ravel()]).any()


def test_ten_thousand_tokens_take_no_square_of_memory():
    tokens = TokenBatch.from_arrays([vectors(10_000)])
    tracemalloc.start()
    merged = pooled_tokens(tokens, 3.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert merged.lengths.tolist() == [math.ceil(10_000 / 3.5)]
    assert merged.weights.sum() == 10_000
    # All distances at once would be 400 MB.
    assert peak < 40e6


def test_a_merged_text_counts_every_token_in_a_joint_universe():
    """Repeated tokens: merging them loses nothing, so every score stays."""
    rng = np.random.default_rng(3)
    kinds = unit_rows(rng.normal(size=(6, 16)))
    text = kinds[[0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 5]] * 2.5
    whole = TokenBatch.from_arrays([text])
    merged = pooled_tokens(whole, 2, 1)
    assert merged.lengths.tolist() == [6]
    assert merged.weights.sum() == 12
    query = unit_rows(rng.normal(size=(4, 16)) + kinds[:4])
    for unit, measure in itertools.product((True, False), get_args(Measure)):
        similarity = DynaMax(measure, "joint", unit_tokens=unit)
        np.testing.assert_allclose(similarity.pool(query, merged), similarity.pool(query, whole), rtol=1e-5)
    weights = similarity.pair(query, merged[0], document_weights=merged.weights.astype(float))
    np.testing.assert_allclose(weights, similarity.pool(query, whole)[0], rtol=1e-5)
