"""Words of documents as sparse vectors."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core._terms import TermBatch

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
