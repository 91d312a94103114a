"""Ragged token batches: what goes in comes out, whole and in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.kernels import own_memberships

# Sixteenths: exact in float32, rich in zeros and ties, and whole rows of zeros are drawn often.
elements = st.integers(-64, 64).map(lambda i: i / 16)


@st.composite
def ragged(draw: st.DrawFn, min_texts: int = 0) -> tuple[list[np.ndarray], int]:
    d = draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(0, 4), min_size=min_texts, max_size=5))
    fill = st.just(0.0)
    return [draw(hnp.arrays(np.float32, (n, d), elements=elements, fill=fill)) for n in lengths], d


def assert_same(one: TokenBatch, other: TokenBatch) -> None:
    assert one.directions.dtype == other.directions.dtype
    for name in ("directions", "norms", "offsets"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@given(ragged())
def test_token_vectors_come_back_as_they_went_in(texts: tuple[list[np.ndarray], int]):
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
def test_take_picks_texts_in_the_order_asked_for(texts: tuple[list[np.ndarray], int], data: st.DataObject):
    batch = TokenBatch.from_arrays(*texts)
    rows = data.draw(st.lists(st.integers(-len(batch), len(batch) - 1), max_size=8))
    for form in (batch, replace(batch, own=own_memberships(batch))):
        taken = form.take(rows)
        assert len(taken) == len(rows)
        assert taken.directions.dtype == form.directions.dtype
        for got, row in zip(taken, rows, strict=True):
            np.testing.assert_array_equal(got, form[row])


@pytest.mark.parametrize("position", [2, -3])
def test_a_position_outside_the_batch_is_an_index_error(position: int):
    batch = TokenBatch.from_arrays([np.eye(3), np.eye(3)])
    with pytest.raises(IndexError):
        batch[position]
    with pytest.raises(IndexError):
        batch.take([position])


@given(ragged(min_texts=1), st.data())
def test_concatenating_parts_gives_the_whole(texts: tuple[list[np.ndarray], int], data: st.DataObject):
    arrays, d = texts
    cut = data.draw(st.integers(0, len(arrays)))
    parts = [TokenBatch.from_arrays(part, d) for part in (arrays[:cut], arrays[cut:])]
    whole = TokenBatch.from_arrays(arrays, d)
    assert_same(TokenBatch.concatenate(parts), whole)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([np.zeros((2, 3)), np.zeros((2, 4))], r"text 1 have shape \(2, 4\), expected \(tokens, 3\)"),
        ([np.zeros((2, 3)), np.zeros(3)], r"text 1 have shape \(3,\)"),
        ([np.zeros((2, 3)), np.full((1, 3), np.nan)], "text 1 hold NaN or infinite"),
        ([np.full((1, 3), np.inf)], "NaN or infinite"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(texts: Sequence[np.ndarray], message: str):
    with pytest.raises(DataError, match=message):
        TokenBatch.from_arrays(texts)


def test_very_long_and_very_short_tokens_keep_their_direction():
    for size in (1e30, 1e-30):
        batch = TokenBatch.from_arrays([np.full((1, 4), size)])
        np.testing.assert_allclose(batch.directions, 0.5)
        np.testing.assert_allclose(batch[0], size, rtol=1e-6)
    with pytest.raises(DataError, match="too long for float32"):
        TokenBatch.from_arrays([np.full((1, 4), 3e38)])
