"""What unlabelled texts promise: the offset share by its definition, its borders, and what it is worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.classify.offset_share import label_contrast
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble


@given(seed=st.integers(0, 10**6), n=st.integers(2, 80), count=st.integers(1, 6), shift=st.floats(0, 5))
@settings(max_examples=60, deadline=None)
def test_the_offset_share_is_that_of_the_labels_differences(seed, n, count, shift) -> None:
    rng = np.random.default_rng(seed)
    texts = unit_rows(shift * rng.normal(size=7) + rng.normal(size=(n, 7))).astype(np.float64)
    labels = unit_rows(rng.normal(size=(count, 7))).astype(np.float64)
    found = label_contrast(labels, Ensemble.from_vectors(texts, similarity="cosine"))
    similarities = texts @ labels.T
    differences = similarities - similarities.mean(axis=1, keepdims=True)
    varied = differences.var(axis=0, ddof=1).sum()
    same = max((differences.mean(axis=0) ** 2).sum() - varied / n, 0)
    expected = same / (same + varied) if same + varied > 1e-12 else 0
    assert found.offset_share == pytest.approx(expected, abs=1e-5)
    assert 0 <= found.offset_share <= 1
    assert found.cone == pytest.approx((texts.mean(axis=0) ** 2).sum(), abs=1e-5)


def test_a_model_in_a_narrow_cone_whose_labels_lie_at_different_heights_promises_a_gain() -> None:
    rng = np.random.default_rng(0)
    axis = np.eye(10)[0]
    texts = 4 * axis + 0.3 * rng.normal(size=(200, 10))
    labels = 0.3 * rng.normal(size=(4, 10)) + np.array([[1.0], [2], [4], [8]]) * axis
    found = label_contrast(labels, Ensemble.from_vectors(texts, similarity="cosine"))
    assert found.promising
    assert found.cone > 0.9
    assert "should choose better" in str(found)
    spread = label_contrast(
        rng.normal(size=(4, 10)), Ensemble.from_vectors(rng.normal(size=(500, 10)), similarity="cosine")
    )
    assert not spread.promising
    assert "as well or better" in str(spread)


@pytest.mark.parametrize("members", [np.zeros((0, 3)), np.array([[1.0, 2, 3]]), np.zeros((4, 3))])
def test_nothing_to_compare_with_promises_nothing_that_is_not_finite(members) -> None:
    found = label_contrast(np.eye(3), Ensemble.from_vectors(members, similarity="cosine"))
    assert np.isfinite([found.offset_share, found.cone]).all()
    assert not found.promising
    one = label_contrast(np.eye(3)[:1], Ensemble.from_vectors(np.eye(3), similarity="cosine"))
    assert one.offset_share == 0
    assert not one.promising


def test_other_similarities_and_dimensions_are_refused() -> None:
    with pytest.raises(DataError, match="under the cosine, got 'dot'"):
        label_contrast(np.eye(3), Ensemble.from_vectors(np.eye(3)))
    with pytest.raises(DataError, match="dimension 2, expected 3"):
        label_contrast(np.eye(2), Ensemble.from_vectors(np.eye(3), similarity="cosine"))
