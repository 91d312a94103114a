"""Pool kernels: every chunk, thread and device gives what loops over pairs of tokens give."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import DataError
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities import _kernels as kernels
from surprise_rerank.similarities._kernels import own_memberships, pool_maxima

PROPERTY = settings(max_examples=60, deadline=None)
# How far a product of unit tokens may be off; all are multiplied in float32.
ROUNDING = 2e-6

seeds = st.integers(0, 2**32 - 1)


def scene(seed: int, d: int = 8) -> tuple[np.ndarray, TokenBatch]:
    rng = np.random.default_rng(seed)
    texts = [rng.normal(size=(n, d)).astype(np.float32) for n in rng.integers(0, 9, size=rng.integers(0, 12))]
    return rng.normal(size=(rng.integers(0, 5), d)).astype(np.float32), TokenBatch.from_arrays(texts, d)


def by_loops(query: np.ndarray, documents: TokenBatch, unit_tokens: bool) -> tuple[np.ndarray, np.ndarray]:
    of_query, of_documents = np.zeros((len(documents), len(query))), []
    for i, tokens in enumerate(documents):
        for y in tokens.astype(float):
            y = y / np.linalg.norm(y) if unit_tokens and y.any() else y
            products = [float(x.astype(float) @ y) for x in query]
            of_documents.append(max([0.0, *products]))
            for j, product in enumerate(products):
                of_query[i, j] = max(of_query[i, j], product)
    return of_query, np.array(of_documents)


@given(seeds, st.booleans(), st.sampled_from([None, 1, 2, 5]), st.sampled_from([1, 5, 8192]))
@PROPERTY
def test_maxima_equal_loops(seed, unit_tokens, threads, chunk):
    query, documents = scene(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_CHUNK_TOKENS", chunk)
        maxima = pool_maxima(query, documents, unit_tokens=unit_tokens, of_documents=True, threads=threads)
    of_query, of_documents = by_loops(query, documents, unit_tokens)
    scale = ROUNDING * (1 + np.abs(query).sum()) * (1 if unit_tokens else 8)
    np.testing.assert_allclose(maxima.of_query, of_query, atol=scale)
    np.testing.assert_allclose(maxima.of_documents, of_documents, atol=scale)


@given(seeds)
@PROPERTY
def test_own_memberships_equal_loops(seed):
    _, batch = scene(seed)
    expected = [
        max(0.0, *(float(x.astype(float) @ y.astype(float)) for y in text)) for text in batch for x in text
    ]
    for threads in (1, 3):
        memberships = own_memberships(batch, threads=threads)
        np.testing.assert_allclose(memberships, expected, rtol=1e-5, atol=1e-5)


def test_tokens_whose_products_leave_float32_are_refused():
    long = TokenBatch.from_arrays([np.full((2, 4), 1e19, np.float32)])
    query = np.full((1, 4), 1e19, np.float32)
    for of in (
        lambda: pool_maxima(query, long, unit_tokens=False, of_documents=False),
        lambda: own_memberships(long),
    ):
        with pytest.raises(DataError, match=r"length 2e\+19 and 2e\+19 have products beyond 3.4e\+38"):
            of()
    unit = pool_maxima(query, long, unit_tokens=True, of_documents=False)
    np.testing.assert_allclose(unit.of_query, [[2e19]], rtol=1e-6)


@pytest.mark.parametrize("threads", [None, 2])
def test_no_tokens_at_all_are_similar_to_nothing(threads):
    documents = TokenBatch.from_arrays([np.zeros((0, 0))] * 3)
    maxima = pool_maxima(
        np.ones((2, 4), np.float32), documents, unit_tokens=True, of_documents=True, threads=threads
    )
    assert (maxima.of_query.tolist(), maxima.of_documents.tolist()) == ([[0.0, 0.0]] * 3, [])


def test_a_small_pool_needs_no_torch():
    code = """
import sys
import numpy as np
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities._dynamax import DynaMax
tokens = [np.eye(3, dtype=np.float32)] * 9
assert DynaMax().pool(tokens[0], TokenBatch.from_arrays(tokens)).tolist() == [1.0] * 9
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_and_devices_that_there_are_not_are_refused():
    query, documents = scene(4)
    with pytest.raises(DataError, match="threads must be a whole number of at least 1, got 0"):
        pool_maxima(query, documents, unit_tokens=True, of_documents=True, threads=0)
    with pytest.raises(DataError, match="the device 'abacus' cannot be used"):
        pool_maxima(query, documents, unit_tokens=True, of_documents=True, device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(DataError, match="the device 'cuda' cannot be used"):
            pool_maxima(query, documents, unit_tokens=True, of_documents=True, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_what_the_processor_gives():
    for seed in range(20):
        query, documents = scene(seed)
        on_cpu = pool_maxima(query, documents, unit_tokens=True, of_documents=True)
        on_gpu = pool_maxima(query, documents, unit_tokens=True, of_documents=True, device="cuda")
        atol = ROUNDING * (1 + np.abs(query).sum())
        np.testing.assert_allclose(on_gpu.of_query, on_cpu.of_query, atol=atol)
        np.testing.assert_allclose(on_gpu.of_documents, on_cpu.of_documents, atol=atol)
