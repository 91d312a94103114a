"""Words of documents as sparse vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.terms import TermBatch, TermSpace
from surprise_rerank.errors import DataError

texts = st.lists(
    st.dictionaries(st.integers(0, 12), st.floats(0.25, 3.0, width=32), max_size=6), min_size=0, max_size=7
)


def batch(found: list[dict[int, float]]) -> TermBatch:
    return TermBatch.of([(list(own), list(own.values())) for own in found])


def unit(text: dict[int, float], sample: list[dict[int, float]]) -> dict[int, float]:
    """A text's vector as the docstring defines it."""
    n = len(sample)
    x = {}
    for term, value in text.items():
        having = sum(term in other for other in sample)
        x[term] = value * math.log(1 + (n - having + 0.5) / (having + 0.5))
    length = math.sqrt(sum(v * v for v in x.values()))
    return {term: value / length for term, value in x.items()}


@given(texts, texts, st.randoms(use_true_random=False))
def test_nearness_to_a_mixture_is_the_loop_over_terms(pool, sample, random):
    shares = np.array([random.random() for _ in pool])
    near, usual = TermSpace(batch(sample)).to_mixture(batch(pool), shares)
    vectors = [unit(text, sample) for text in pool]
    mixture: dict[int, float] = {}
    for share, vector in zip(shares, vectors, strict=True):
        for term, value in vector.items():
            mixture[term] = mixture.get(term, 0.0) + share * value

    def to_mixture(vector: dict[int, float]) -> float:
        return sum(value * mixture.get(term, 0.0) for term, value in vector.items())

    expected = [to_mixture(v) if v else math.nan for v in vectors]
    np.testing.assert_allclose(near, np.array(expected, dtype=float), rtol=1e-9, atol=1e-12)
    of_sample = np.array([to_mixture(unit(text, sample)) for text in sample])
    if len(sample):
        assert float(usual.mean) == pytest.approx(of_sample.mean(), abs=1e-9)
        assert float(usual.deviation) == pytest.approx(of_sample.std(), abs=1e-9)
    else:
        assert float(usual.deviation) == 0.0
    common, rare, unknown = TermSpace(batch([{1: 1.0, 2: 1.0}, {1: 1.0}])).idf(np.array([1, 2, 9], np.uint32))
    assert common < rare < unknown


@given(texts, st.randoms(use_true_random=False))
def test_batches_are_cut_and_joined_as_lists_are(found, random):
    whole = batch(found)
    rows = [random.randrange(len(found)) for _ in found] if found else []
    taken, joined = whole.take(rows), TermBatch.concatenate([whole, TermBatch.empty(2), whole])
    assert len(whole) == len(found)
    assert len(joined) == 2 * len(found) + 2
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(taken[i][0], list(found[row]))
    for i, text in enumerate([*found, {}, {}, *found]):
        np.testing.assert_array_equal(joined[i][0], list(text))
        np.testing.assert_array_equal(joined[i][1], list(text.values()))


@pytest.mark.parametrize(
    ("offsets", "terms", "values"),
    [([0, 2], [1], [1.0]), ([0, 1], [1], []), ([1, 1], [1], [1.0]), ([], [], [])],
)
def test_arrays_that_do_not_fit_are_refused(offsets, terms, values):
    with pytest.raises(DataError, match=r"the (first and the last offset|number of values) must be"):
        TermBatch(np.array(offsets, np.int64), np.array(terms, np.uint32), np.array(values))
