"""Surprise inside an index gives what the client gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import LinearForm, augmented_documents, augmented_query
from surprise_rerank.surprise.score import Surprise


@given(st.integers(0, 2**32 - 1), st.sampled_from(["gaussian", "pooled", "percentile"]), st.integers(0, 40))
def test_formula_and_augmented_vectors_give_the_clients_z(seed: int, model: str, members: int):
    """Ensembles of 0 and 1 members too, where all three give the plain similarity."""
    rng = np.random.default_rng(seed)
    documents = unit_rows(rng.normal(size=(12, 6)) + 0.3)
    documents[3] = 0.0
    query = unit_rows(rng.normal(size=(1, 6)))[0]
    ensemble = Ensemble.from_vectors(unit_rows(rng.normal(size=(members, 6)) + 0.3))
    surprise = Surprise(ensemble, model, weight=1)
    cosine = documents.astype(float) @ query.astype(float)
    client = surprise.scores(cosine, documents).score
    moments = surprise.moments(documents)
    scale = np.abs(client).max() + 1
    np.testing.assert_allclose(LinearForm.of(moments).scores(cosine), client, atol=1e-9 * scale)
    augmented = augmented_documents(documents, LinearForm.of(moments)) @ augmented_query(query)
    np.testing.assert_allclose(augmented, client, atol=2e-6 * scale)


def test_shapes():
    ensemble = Ensemble.from_vectors(np.eye(3))
    augmented = augmented_documents(np.eye(3), LinearForm.of(ensemble.moments(np.eye(3))))
    assert (augmented.shape, augmented.dtype) == ((3, 4), np.float32)
    assert augmented_query([0.5, 0.5, 0]).tolist() == [0.5, 0.5, 0, 1]
    assert augmented_query(np.zeros((2, 3))).shape == (2, 4)
    with pytest.raises(DataError, match=r"2 documents need as many moments, got \(3,\)"):
        augmented_documents(np.eye(3)[:2], LinearForm.of(ensemble.moments(np.eye(3))))
