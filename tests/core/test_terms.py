"""Words of documents as sparse vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.terms import TermBatch
from surprise_rerank.errors import DataError

texts = st.lists(
    st.dictionaries(st.integers(0, 12), st.floats(0.25, 3.0, width=32), max_size=6), min_size=0, max_size=7
)


def batch(texts: list[dict[int, float]]) -> TermBatch:
    return TermBatch.of([(list(terms), list(terms.values())) for terms in texts])


@given(texts)
def test_a_batch_has_the_terms_of_each_text(texts):
    whole = batch(texts)
    assert len(whole) == len(texts)
    assert len(TermBatch.empty(2)) == 2
    for i, text in enumerate(texts):
        np.testing.assert_array_equal(whole[i][0], list(text))
        np.testing.assert_array_equal(whole[i][1], list(text.values()))


@pytest.mark.parametrize(
    ("offsets", "terms", "values"),
    [([0, 2], [1], [1.0]), ([0, 1], [1], []), ([1, 1], [1], [1.0]), ([], [], [])],
)
def test_arrays_that_do_not_fit_are_refused(offsets, terms, values):
    with pytest.raises(DataError, match=r"the (first and the last offset|number of values) must be"):
        TermBatch(np.array(offsets, np.int64), np.array(terms, np.uint32), np.array(values))
