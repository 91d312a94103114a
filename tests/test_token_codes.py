"""Codes of 4, 2 and 1 bits: what they keep of a vector, and that every form of a product is the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from words import WordEncoder

from surprise_rerank import Document, DynaMax
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.retrievers.stored import StoredCandidates
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import TokenBatch, TokenForm, pack_tokens, pooled_tokens, unpack_tokens
from surprise_rerank.core.tokens.codes import TokenCode
from surprise_rerank.core.tokens.rotation import rotated, rotated_back
from surprise_rerank.similarities import kernels, products
from surprise_rerank.similarities.bags import known_tokens
from surprise_rerank.similarities.kernels import own_memberships, pool_maxima, with_own_memberships
from surprise_rerank.similarities.products import multiplier
from surprise_rerank.text_reranker import TextReranker

PROPERTY = settings(max_examples=40, deadline=None)
BITS = [4, 2, 1]
# What one code loses of a normal vector (Max 1960): tan of the angle between a vector and its code.
LOST = {4: 0.108, 2: 0.367, 1: 0.756}


def vectors(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Directions with a few larger components, as language models have them."""
    drawn = np.random.default_rng(seed).normal(size=(n, d)) * np.where(np.arange(d) % 50 == 3, 3, 1)
    return unit_rows(drawn)


@pytest.mark.parametrize("d", [1, 2, 50, 384])
def test_the_rotation_keeps_products_and_goes_back(d: int):
    x = vectors(20, d)
    np.testing.assert_allclose(rotated(x) @ rotated(x).T, x @ x.T, atol=1e-5)
    np.testing.assert_allclose(rotated_back(rotated(x)), x, atol=1e-6)
    assert rotated(np.zeros((0, d))).shape == (0, d)


@pytest.mark.parametrize("bits", BITS)
def test_a_code_loses_no_more_of_a_vector_than_its_bits_must(bits: int):
    x = vectors(500, 384)
    code = TokenCode(bits, 384)
    codes, factors, centers = code.encode(x, np.arange(0, 501, 25))
    assert codes.nbytes == 500 * 384 * bits // 8
    means = np.repeat(centers, 25, axis=0)
    np.testing.assert_allclose(
        means, np.repeat(rotated(x).reshape(20, 25, 384).mean(axis=1), 25, axis=0), atol=2e-3
    )
    residuals, estimates = rotated(x) - means, code.levels(codes) * factors[:, None]
    np.testing.assert_allclose(
        np.einsum("nd,nd->n", estimates, residuals), (residuals**2).sum(axis=1), rtol=1e-4
    )
    lost = np.linalg.norm(estimates - residuals, axis=1) / np.linalg.norm(residuals, axis=1)
    assert abs(lost.mean() - LOST[bits]) < 0.03
    assert lost.max() < 1.8 * LOST[bits]


@pytest.mark.parametrize("bits", BITS)
def test_products_with_codes_are_unbiased_and_as_exact_as_the_docstring_says(bits: int):
    """RaBitQ's theorem: deviation sqrt(1 - <q, x>^2) tan(a) / sqrt(d - 1)."""
    d = 256
    x, q = vectors(4000, d, 1), vectors(30, d, 2)
    q[:10] = unit_rows(q[:10] * 0.7 + 2 * x[:10])  # some that are near a document's token
    batch = TokenBatch.from_arrays(list(x.reshape(100, 40, d)))
    coded = batch.stored(f"{bits}bit")
    error = q @ (coded.estimates() - x).T
    residuals = rotated(x) - np.repeat(coded.centers, 40, axis=0)
    lengths = np.linalg.norm(residuals, axis=1)
    cosines = rotated(q) @ (residuals / lengths[:, None]).T
    share = error / (lengths * np.sqrt(1 - cosines**2) * LOST[bits] / np.sqrt(d - 1))
    assert abs(share.mean()) < 0.02
    assert 0.8 < share.std() < 1.1


@given(
    d=st.integers(1, 40),
    bits=st.sampled_from(BITS),
    in_int8=st.booleans(),
    seed=st.integers(0, 99),
    m=st.integers(1, 5),
)
@PROPERTY
def test_the_fast_product_is_the_reference_form(d: int, bits: int, in_int8: bool, seed: int, m: int):
    rng = np.random.default_rng(seed)
    x, q = unit_rows(rng.normal(size=(17, d))), rng.normal(size=(m, d)).astype(np.float32)
    x[3] = 0
    code = TokenCode(bits, d)
    codes, _, _ = code.encode(x, np.array([0, 17]))
    expected = code.levels(codes).astype(np.float64) @ rotated(q).T
    fast = products._Coded(torch.from_numpy(rotated(q)), code, 32, in_int8=in_int8 and d > 1)
    for part in (codes, codes[5:9]):  # the same memory, for chunks of any size
        got = fast(torch.from_numpy(part)).numpy()
        wanted = expected[: len(part)] if len(part) == 17 else expected[5:9]
        rounding = 0.5 / 127 * np.abs(rotated(q)).max(axis=1) * code.largest * d if in_int8 else 1e-4
        assert (np.abs(got - wanted) <= rounding + 1e-4).all()


@pytest.mark.parametrize("native", [True, False], ids=["int8", "float32"])
@pytest.mark.parametrize("storage", ["4bit", "2bit", "1bit"])
@pytest.mark.parametrize("measure", ["inclusion", "jaccard", "dice", "cosine"])
@pytest.mark.parametrize("universe", ["query", "joint"])
def test_a_pool_in_any_form_scores_as_its_decoded_vectors_do(
    monkeypatch: pytest.MonkeyPatch, storage: str, native: bool, measure: str, universe: str
):
    """On processors that multiply int8 and on those that do not."""
    if native and not products.int8_is_exact():
        pytest.skip("int8 products overflow on this processor")
    monkeypatch.setattr(products, "multiplies_int8", lambda: native)
    monkeypatch.setattr(kernels, "_CHUNK_TOKENS", 40)
    texts = [vectors(n, 24, n) for n in (1, 30, 0, 7, 55)]
    pooled = TokenForm(storage, pooling=3, least=4).of(TokenBatch.from_arrays(texts, 24))
    query = vectors(6, 24, 77)
    dynamax = DynaMax(measure, universe)
    got = dynamax.pool(query, pooled)
    # Codes are not of length 1, and memberships of a text in itself are 1 all the same.
    plain = TokenBatch(
        directions=np.concatenate([pooled.text(i, unit=True) for i in range(5)]),
        scales=(pooled.scales > 0).astype(np.float32),
        norms=pooled.norms,
        offsets=pooled.offsets,
        members=pooled.members,
    )
    np.testing.assert_allclose(got, dynamax.pool(query, plain), atol=2e-2 if native else 1e-5)
    assert pooled.token_counts.tolist() == [1, 30, 0, 7, 55]


def test_int8_queries_add_little_to_the_error_of_codes(monkeypatch: pytest.MonkeyPatch):
    if not products.int8_is_exact():
        pytest.skip("int8 products overflow on this processor")
    batch = TokenBatch.from_arrays([vectors(300, 384)]).stored("4bit")
    query = vectors(20, 384, 5)
    found = {}
    for native in (True, False):
        monkeypatch.setattr(products, "multiplies_int8", lambda native=native: native)
        found[native] = pool_maxima(query, batch, unit_tokens=True, of_documents=True)
    exact = np.maximum(query @ vectors(300, 384).T, 0)
    error = np.abs(exact.max(axis=0) - found[False].of_documents).mean()
    assert np.abs(found[True].of_documents - found[False].of_documents).mean() < error / 4


def test_a_merged_text_counts_every_token_in_a_joint_universe():
    """Repeated tokens: merging them loses nothing, so every score stays."""
    rng = np.random.default_rng(3)
    kinds = unit_rows(rng.normal(size=(6, 16)))
    text = kinds[[0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 5]] * 2.5
    whole = TokenBatch.from_arrays([text])
    merged = pooled_tokens(whole, 2)
    assert merged.lengths.tolist() == [6]
    assert merged.weights.sum() == 12
    query = unit_rows(rng.normal(size=(4, 16)) + kinds[:4])
    for unit in (True, False):
        for measure in ("jaccard", "otsuka", "dice", "inclusion"):
            similarity = DynaMax(measure, "joint", unit_tokens=unit)
            np.testing.assert_allclose(
                similarity.pool(query, merged), similarity.pool(query, whole), rtol=1e-5
            )
    weights = similarity.pair(query, merged[0], document_weights=merged.weights.astype(float))
    np.testing.assert_allclose(weights, similarity.pool(query, whole)[0], rtol=1e-5)


def test_own_memberships_of_codes_are_computed_when_they_are_asked_for():
    batch = TokenBatch.from_arrays([vectors(8, 32) * 3, np.zeros((2, 32))]).stored("2bit")
    own = own_memberships(batch)
    assert (own[:8] >= batch.norms[:8] ** 2 * 0.999).all()
    assert own[8:].tolist() == [0, 0]


def test_multiplier_takes_a_code_for_the_stored_type():
    code = TokenCode(2, 8)
    codes, _, _ = code.encode(vectors(3, 8), np.array([0, 3]))
    q = vectors(2, 8, 4)
    got = multiplier(torch.from_numpy(rotated(q)), code, 3)(torch.from_numpy(codes)).numpy()
    np.testing.assert_allclose(got, code.levels(codes) @ rotated(q).T, atol=0.1)


@pytest.mark.parametrize("storage", ["4bit", "2bit", "1bit"])
def test_what_all_tokens_of_a_text_share_is_kept_in_a_narrow_cone(storage: str):
    """e5's tokens are so alike that one bit of a whole vector loses more than they differ by."""
    rng = np.random.default_rng(6)
    cone = unit_rows(rng.normal(size=(1, 384)))
    texts = [unit_rows(cone + 0.02 * rng.normal(size=(n, 384))) for n in (40, 60, 1)]
    coded = TokenBatch.from_arrays(texts).stored(storage)
    query = unit_rows(cone + 0.02 * rng.normal(size=(10, 384)))
    for i, text in enumerate(texts):
        error = np.abs(coded.text(i, unit=True) @ query.T - text @ query.T)
        assert error.std() < 0.45 * LOST[int(storage[0])] / np.sqrt(384)


def test_tokens_of_zeros_stay_zeros():
    text = np.concatenate([vectors(20, 16), np.zeros((3, 16))])
    batch = TokenForm("2bit", pooling=2, least=1).of(TokenBatch.from_arrays([text, np.zeros((2, 16))]))
    assert batch.lengths.tolist() == [11, 1]
    assert (batch.norms == 0).tolist() == [False] * 10 + [True] * 2
    assert not batch[0][10:].any()
    assert not batch[1].any()
    assert batch.members.text(0)[20:].tolist() == [10, 10, 10]
    query = vectors(3, 16, 9)
    found = pool_maxima(query, batch, unit_tokens=True, of_documents=True)
    assert found.of_documents[10:].tolist() == [0, 0]
    assert found.of_query[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("bits", BITS)
def test_a_text_in_codes_is_as_much_like_itself_as_in_float(bits: int):
    plain = TokenBatch.from_arrays([vectors(40, 384) * 3, vectors(9, 384, 1)])
    coded = plain.stored(f"{bits}bit")  # type: ignore[arg-type]
    np.testing.assert_allclose(own_memberships(coded), own_memberships(plain), rtol=0.01)


def test_a_vector_that_is_its_texts_mean_is_a_known_token():
    for text in (np.ones((3, 1), np.float32), rotated_back(np.eye(384, dtype=np.float32)[:1])):
        coded = TokenBatch.from_arrays([text]).stored("4bit")
        assert known_tokens(coded).all()
        measure = DynaMax("jaccard", "joint")
        assert measure.pool(text, coded)[0] == pytest.approx(1, abs=0.02)


def test_memberships_are_not_packed_beside_codes_that_give_them():
    tokens = TokenBatch.from_arrays([vectors(5, 384) * 2000]).stored("1bit")
    assert unpack_tokens(pack_tokens(with_own_memberships(tokens))).own is None


def test_texts_without_a_token_are_ranked_beside_an_index_of_codes():
    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync([Document("a", "dog barks")])
        (ranked,) = TextReranker(WordEncoder(), stored=StoredCandidates(index)).rank("dog barks", [""])
    assert ranked.score == 0
