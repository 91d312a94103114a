"""MaxSim by Qdrant, in float16 and in bytes, against MaxSim as the paper has it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models

from surprise_rerank.connectors.qdrant.multivectors import (
    TokenStorage,
    dimension,
    document_vectors,
    query_vectors,
    similarities,
)
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.extras import is_installed
from surprise_rerank.errors import DataError

DIMENSIONS = [3, 50, 384]
STORAGES: list[TokenStorage] = ["float16", "uint8"]


def maxsim(query: np.ndarray, document: np.ndarray) -> float:
    """The sum over query tokens of the largest cosine; 0 for documents without tokens."""
    if not len(document):
        return 0.0
    return float((unit_rows(query) @ unit_rows(document).T).max(axis=1).sum())


def texts(seed: int, d: int, count: int, *, heavy: float = 1.0) -> list[np.ndarray]:
    """Token vectors whose components have tails as heavy as a normal variable's power."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, count)
    normal = [rng.normal(size=(n, d)) for n in lengths]
    return [(np.sign(x) * np.abs(x) ** heavy).astype(np.float32) for x in normal]


def by_hand(query: np.ndarray, documents: list[np.ndarray], storage: TokenStorage) -> np.ndarray:
    """What Qdrant does with the vectors, in its precisions, and back to cosines."""
    asked = query_vectors(query, storage)
    stored = [document_vectors(document, storage) for document in documents]
    if storage == "float16":
        asked, stored = (
            np.float16(asked).astype(np.float32),
            [np.float16(s).astype(np.float32) for s in stored],
        )
    scores = [(asked @ s.T).max(axis=1).sum(dtype=np.float32) for s in stored]
    return similarities(scores, query, storage)


def largest_error(m: int, d: int, storage: TokenStorage) -> float:
    """That rounding can make in a sum over m tokens: half a step everywhere, in one direction."""
    if storage == "float16":
        return m * 2.0**-10
    n = d + 1
    step = min(1.0, 4.5 / math.sqrt(n)) / 127
    return m * (0.5 * math.sqrt(n) * (step + 1 / 127) + n / 4 * step / 127)


@pytest.mark.parametrize("storage", STORAGES)
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), d=st.sampled_from(DIMENSIONS), m=st.integers(1, 20))
def test_maxsim_is_exact_but_for_rounding(storage: TokenStorage, seed: int, d: int, m: int) -> None:
    documents, [query] = texts(seed, d, 8), texts(seed + 1, d, 1)
    query = query[:m]
    expected = [maxsim(query, document) for document in documents]
    found = by_hand(query, documents, storage)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=largest_error(len(query), d, storage))


@pytest.mark.parametrize("heavy", [1.0, 3.0])
@pytest.mark.parametrize(("d", "deviation"), [(50, 3e-3), (384, 8.5e-4)])
def test_the_error_of_a_cosine_in_bytes_is_as_stated(d: int, deviation: float, heavy: float) -> None:
    """Also where a few dimensions are much larger than the others."""
    tokens, queries = (np.vstack(texts(seed, d, 20, heavy=heavy)) for seed in (1, 2))
    found = np.array(
        [by_hand(query[None], [t[None] for t in tokens[:100]], "uint8") for query in queries[:50]]
    )
    expected = unit_rows(queries[:50]) @ unit_rows(tokens[:100]).T
    assert np.sqrt(np.mean((found - expected) ** 2)) < deviation


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    d=st.sampled_from([1, 2, 3, 7, 19, 20, 50, 128, 384]),
    spikes=st.booleans(),
)
def test_bytes_are_bytes_and_rows_sum_to_one_constant(seed: int, d: int, spikes: bool) -> None:
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(20, d)) ** (9 if spikes else 1) * 10.0 ** rng.integers(-20, 15)
    tokens[0] = 0
    tokens[1] = 1
    for rows in (document_vectors(tokens, "uint8"), query_vectors(tokens, "uint8")):
        assert rows.shape == (20, dimension(d, "uint8"))
        assert ((rows >= 0) & (rows <= 255) & (rows == np.rint(rows))).all()
    assert set(document_vectors(tokens, "uint8").sum(axis=1)) == {128 * dimension(d, "uint8")}


@pytest.mark.parametrize("d", [50, 384, 1024])
def test_the_padding_suffices_for_the_worst_token(d: int) -> None:
    """One that the rotation turns into few large components, which are clipped on one side only."""
    import scipy.fft

    place = np.arange(d)
    signs = np.where(np.bitwise_count(place & place >> 1) % 2, -1, 1)
    for large in range(1, 25):
        spikes = np.zeros(d + 1)
        spikes[:large] = 1
        token = scipy.fft.dct(spikes, norm="ortho")[1:] * signs
        for sign in (1, -1):
            row = document_vectors(sign * token, "uint8")
            assert row.sum() == 128 * dimension(d, "uint8")


def test_bytes_take_little_more_than_a_byte_for_a_dimension() -> None:
    assert [dimension(d, "uint8") for d in (3, 50, 384, 768)] == [5, 52, 392, 782]
    assert [dimension(d, "float16") for d in (3, 384)] == [3, 384]


@pytest.mark.parametrize("storage", STORAGES)
def test_tokens_of_any_length_count_the_same(storage: TokenStorage) -> None:
    [document, query] = texts(3, 50, 2)
    long = document * np.float32(1e15), query * np.float32(1e-15)
    np.testing.assert_allclose(
        document_vectors(long[0], storage), document_vectors(document, storage), atol=1e-6
    )
    np.testing.assert_allclose(query_vectors(long[1], storage), query_vectors(query, storage), atol=1e-6)


@pytest.mark.parametrize("storage", STORAGES)
def test_zeros_have_cosine_zero(storage: TokenStorage) -> None:
    [query] = texts(4, 50, 1)
    zeros = np.zeros((3, 50), dtype=np.float32)
    assert by_hand(query, [zeros, zeros[:0]], storage) == pytest.approx([0, 0], abs=1e-3)
    assert by_hand(zeros, [query], storage).tolist() == [0.0]
    assert by_hand(np.vstack([query, zeros]), [query], storage) == pytest.approx([len(query)], rel=0.01)
    # A token of zeros is nearer than one that points away.
    assert by_hand(query[:1], [-query[:1], np.vstack([-query[:1], zeros])], storage) == pytest.approx(
        [-1, 0], abs=0.01
    )


@pytest.mark.parametrize("storage", STORAGES)
def test_texts_without_tokens_have_one_row(storage: TokenStorage) -> None:
    none = np.zeros((0, 50), dtype=np.float32)
    for rows in (document_vectors(none, storage), query_vectors(none, storage)):
        assert rows.shape == (1, dimension(50, storage))
    assert by_hand(none, [none, *texts(5, 50, 2)], storage).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(DataError, match=r"dimension 0; give an array of shape \(n, d\)"):
        document_vectors([], storage)


def test_what_cannot_be_stored_is_told() -> None:
    with pytest.raises(DataError, match="stored as 'int4'; choose one of float16, uint8"):
        dimension(384, "int4")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="tokens holds NaN or infinite"):
        document_vectors([[1.0, math.nan]], "uint8")
    with pytest.raises(DataError, match="tokens must have shape"):
        query_vectors(np.zeros((2, 2, 2)), "float16")


def edge_scores(
    folder: Path, query: np.ndarray, documents: list[np.ndarray], storage: TokenStorage
) -> np.ndarray:
    import qdrant_edge

    types = {
        "uint8": qdrant_edge.VectorStorageDatatype.Uint8,
        "float16": qdrant_edge.VectorStorageDatatype.Float16,
    }
    params = qdrant_edge.EdgeVectorParams(
        dimension(query.shape[1], storage),
        qdrant_edge.Distance.Dot,
        multivector_config=qdrant_edge.MultiVectorConfig(qdrant_edge.MultiVectorComparator.MaxSim),
        datatype=types[storage],
        hnsw_config=qdrant_edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )
    shard = qdrant_edge.EdgeShard.create(str(folder), qdrant_edge.EdgeConfig(vectors={"tokens": params}))
    rows = [document_vectors(document, storage).tolist() for document in documents]
    points = [qdrant_edge.Point(i, {"tokens": row}) for i, row in enumerate(rows)]
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    nearest = qdrant_edge.Query.Nearest(query_vectors(query, storage).tolist(), using="tokens")
    found = shard.query(qdrant_edge.QueryRequest(limit=len(points), query=nearest))
    shard.close()
    return np.array([p.score for p in sorted(found, key=lambda p: p.id)])


def local_scores(query: np.ndarray, documents: list[np.ndarray], storage: TokenStorage) -> np.ndarray:
    client = QdrantClient(":memory:")
    params = models.VectorParams(
        size=dimension(query.shape[1], storage),
        distance=models.Distance.DOT,
        datatype=models.Datatype(storage),
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    )
    client.create_collection("documents", vectors_config={"tokens": params})
    rows = [document_vectors(document, storage).tolist() for document in documents]
    points = [models.PointStruct(id=i, vector={"tokens": row}) for i, row in enumerate(rows)]
    client.upsert("documents", points)
    asked = query_vectors(query, storage).tolist()
    found = client.query_points("documents", query=asked, using="tokens", limit=len(points)).points
    client.close()
    return np.array([p.score for p in sorted(found, key=lambda p: p.id)])


@pytest.mark.parametrize("home", ["edge", "local"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_qdrant_computes_maxsim(home: str, storage: TokenStorage, d: int, tmp_path: Path) -> None:
    documents = [*texts(6, d, 25), np.zeros((0, d), dtype=np.float32)]
    [query] = texts(7, d, 1)
    if home == "local":
        scores = local_scores(query, documents, storage)
    else:
        if not is_installed("qdrant_edge"):
            pytest.skip("the extra 'edge' is not installed")
        scores = edge_scores(tmp_path / "shard", query, documents, storage)
    found = similarities(scores, query, storage)
    if (home, storage) != ("local", "float16"):  # local mode keeps float32 whatever the datatype
        np.testing.assert_allclose(found, by_hand(query, documents, storage), rtol=0, atol=1e-3)
    expected = [maxsim(query, document) for document in documents]
    np.testing.assert_allclose(found, expected, rtol=0, atol=largest_error(len(query), d, storage) / 4)
