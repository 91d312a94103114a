"""The most surprising neighbours: blocks against the definition, and what must not matter to the result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.core.moments import Moments
from surprise_rerank.errors import DataError
from surprise_rerank.surprise import neighbour_products
from surprise_rerank.surprise import neighbours as module
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import LinearForm
from surprise_rerank.surprise.neighbour_products import CpuProducts, TorchProducts
from surprise_rerank.surprise.neighbours import Keys, Neighbours, NeighbourSearch, neighbours_by_definition


def unit_vectors(n: int, d: int, seed: int = 0, copies: int = 0) -> Float32Array:
    """Vectors in a few clusters, the last ones copies of the first."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(3, d))
    rows = unit_rows(centres[random.integers(0, 3, n)] + random.normal(size=(n, d)))
    if copies:
        rows[-copies:] = rows[:copies]
    return rows


def keys_of(vectors: Float32Array, first: int = 0, stop: int | None = None) -> Keys:
    moments = Ensemble.from_vectors(vectors, sample_size=0).moments(vectors)
    rows = slice(first, stop)
    return Keys(vectors[rows], Moments(moments.mean[rows], moments.deviation[rows]), first)


def searched(
    vectors: Float32Array,
    queries: slice = slice(None),
    *,
    block: int = 7,
    k: int | None = 3,
    above: float | None = None,
    device: str = "cpu",
    backwards: bool = False,
) -> Neighbours:
    own = np.arange(len(vectors))[queries]
    search = NeighbourSearch(vectors[queries], k=k, above=above, own=own, device=device)
    firsts = range(0, len(vectors), block)
    for first in reversed(firsts) if backwards else firsts:
        search.add(keys_of(vectors, first, first + block))
    return search.found()


def same_bits(one: Neighbours, other: Neighbours) -> bool:
    pairs = ((one.query, other.query), (one.key, other.key), (one.z, other.z))
    return all(np.array_equal(a, b) for a, b in pairs) and np.array_equal(one.similarity, other.similarity)


@given(
    n=st.integers(2, 60),
    d=st.integers(1, 20),
    k=st.integers(1, 9),
    block=st.integers(1, 70),
    copies=st.integers(0, 10),
    seed=st.integers(0, 100),
)
@settings(deadline=None, max_examples=120)
def test_blocks_give_what_the_definition_gives(n, d, k, block, copies, seed):
    vectors = unit_vectors(n, d, seed, min(copies, n // 2))
    own = np.arange(n)
    everyone = neighbours_by_definition(vectors, keys_of(vectors))
    expected = everyone.take(own[everyone.query] != everyone.key).best(k)
    assert same_bits(searched(vectors, block=block, k=k), expected)
    assert same_bits(searched(vectors, block=block, k=k, backwards=True), expected)


@given(above=st.floats(-2, 3), block=st.integers(1, 50), k=st.one_of(st.none(), st.integers(1, 5)))
@settings(deadline=None, max_examples=60)
def test_a_threshold_lets_through_what_the_definition_does(above, block, k):
    vectors = unit_vectors(40, 8, copies=5)
    everyone = neighbours_by_definition(vectors, keys_of(vectors), above=above)
    expected = everyone.take(everyone.query != everyone.key)
    expected = expected if k is None else expected.best(k)
    assert same_bits(searched(vectors, block=block, k=k, above=above), expected)


def test_the_result_does_not_depend_on_the_block_of_queries():
    vectors = unit_vectors(300, 24, copies=40)
    whole = searched(vectors, block=64, k=5)
    parts = [searched(vectors, slice(i, i + 37), block=300, k=5) for i in range(0, 300, 37)]
    assert np.array_equal(np.concatenate([p.key for p in parts]), whole.key)
    assert np.array_equal(np.concatenate([p.z for p in parts]), whole.z)


@pytest.mark.parametrize("k", [None, 4])
def test_torch_finds_the_same_as_numpy(k):
    """What runs on CUDA, on torch's own processor device."""
    vectors = unit_vectors(200, 24, copies=30)
    above = 1.5 if k is None else None
    on_torch = searched(vectors, block=50, k=k, above=above, device="cpu:0")
    assert same_bits(on_torch, searched(vectors, block=50, k=k, above=above))


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize("k", [None, 3])
def test_equal_documents_are_looked_at_some_at_a_time(monkeypatch, device, k):
    """All pairs of them are candidates: more than are held together."""
    vectors = np.repeat(unit_vectors(4, 6), 30, axis=0)
    above = 0.5 if k is None else None
    expected = searched(vectors, block=120, k=k, above=above)
    monkeypatch.setattr(neighbour_products, "_PICKED", 50)
    assert same_bits(searched(vectors, block=120, k=k, above=above, device=device), expected)
    if k is not None:
        assert expected.key[:3].tolist() == [1, 2, 3]


def test_the_device_decides_what_multiplies():
    query = np.ones((1, 2), np.float32)
    assert isinstance(module.products(query, "cpu"), CpuProducts)
    assert isinstance(module.products(query, "cpu:0"), TorchProducts)
    with pytest.raises(DataError, match="device 'nowhere' cannot be used"):
        NeighbourSearch(query, k=1, device="nowhere")


def test_moments_on_torch_are_those_of_numpy():
    vectors = unit_vectors(500, 12)
    ensemble = Ensemble.from_vectors(vectors, sample_size=0)
    on_torch = Ensemble.from_vectors(vectors, sample_size=0, device="cpu:0")
    np.testing.assert_allclose(on_torch.scatter, ensemble.scatter, rtol=1e-12, atol=1e-12)
    ours, theirs = ensemble.moments(vectors), on_torch.moments(vectors, device="cpu:0")
    np.testing.assert_allclose(theirs.deviation, ours.deviation, rtol=1e-12)


def test_a_hub_is_nobodys_surprising_neighbour():
    """Cosine's nearest is the document in the middle; surprise knows that it is everybody's."""
    random = np.random.default_rng(0)
    middle = np.array([1.0, 0, 0, 0, 0, 0, 0, 0])
    rows = unit_rows(np.concatenate([[middle], middle + random.normal(size=(60, 8))]))
    found = searched(rows, k=1)
    cosines = rows @ rows.T - 2 * np.eye(len(rows))
    by_cosine = (cosines.argmax(axis=1)[1:] == 0).sum()
    assert (found.key[1:] == 0).sum() < by_cosine


def test_fewer_keys_than_k_are_all_found():
    vectors = unit_vectors(4, 5)
    assert len(searched(vectors, k=10)) == 4 * 3


def test_other_corpora_keep_the_same_row():
    vectors = unit_vectors(6, 5)
    search = NeighbourSearch(vectors, k=1)
    search.add(keys_of(vectors))
    assert search.found().similarity == pytest.approx(np.ones(6))


def test_ranks_count_from_one_for_every_query():
    found = searched(unit_vectors(5, 4), k=2)
    assert found.ranks.tolist() == [1, 2] * 5


def test_a_neighbour_without_spread_scores_its_plain_similarity():
    vectors = unit_vectors(3, 4)
    search = NeighbourSearch(vectors[:1], k=3)
    search.add(Keys(vectors, Moments(np.full(3, 0.5), np.zeros(3))))
    found = search.found()
    assert np.array_equal(found.z, found.similarity)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), above=st.sampled_from([None, 0.5]))
@settings(max_examples=40, deadline=None)
def test_products_that_are_off_by_all_that_rounding_allows_lose_no_neighbour(seed, k, above):
    """Of many keys of nearly equal surprise, some products are too large, the others too small."""
    random = np.random.default_rng(seed)
    query = unit_vectors(4, 16, seed)
    keys = unit_rows(query[random.integers(0, 4, 60)] + 1e-5 * random.normal(size=(60, 16)))
    moments = Moments(np.full(60, 0.1), np.full(60, 0.2))
    error = module.rounding(LinearForm.of(moments), 16)

    class Rounded(CpuProducts):
        def multiply(self, block):
            super().multiply(block)
            self._scores = self._scores + np.float32(0.8 * error) * random.choice([-1, 1], self._scores.shape)
            self._scores = self._scores.astype(np.float32)

    expected = neighbours_by_definition(query, Keys(keys, moments), k, above)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "products", lambda queries, device: Rounded(queries))
        search = NeighbourSearch(query, k=k, above=above)
        for first in (0, 25):
            stop = 25 if first == 0 else 60
            part = Moments(moments.mean[first:stop], moments.deviation[first:stop])
            search.add(Keys(keys[first:stop], part, first))
    assert same_bits(search.found(), expected)


def scored_pairs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs each exact scoring is of, from now on."""
    sizes: list[int] = []
    exact = module.exact_cosines

    def counted(queries, rows, keys, columns):
        sizes.append(len(rows))
        return exact(queries, rows, keys, columns)

    monkeypatch.setattr(module, "exact_cosines", counted)
    return sizes


@pytest.mark.parametrize("k", [3, None])
def test_a_neighbour_of_a_tiny_deviation_does_not_make_all_pairs_candidates(monkeypatch, k):
    vectors = unit_vectors(400, 24, seed=5)
    moments = Ensemble.from_vectors(vectors, sample_size=0).moments(vectors)
    deviation = moments.deviation.copy()
    deviation[[17, 300]] = 1e-6
    keys = Keys(vectors, Moments(moments.mean, deviation))
    above = None if k else 2.5
    expected = neighbours_by_definition(vectors, keys, k, above)
    sizes = scored_pairs(monkeypatch)
    search = NeighbourSearch(vectors, k=k, above=above)
    search.add(keys)
    assert same_bits(search.found(), expected)
    wanted = 400 * (k or 0) + len(expected)
    assert sum(sizes) < 1.3 * wanted + 2 * 400, "of 160,000; two keys may be candidates of every query"


def test_no_queries_and_no_keys_are_no_pairs():
    none = np.zeros((0, 4), np.float32)
    search = NeighbourSearch(none, k=1)
    search.add(keys_of(unit_vectors(3, 4)))
    assert len(search.found()) == 0


def test_a_threshold_that_lets_everything_through_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    with pytest.raises(DataError, match=r"above -9.0 lets through more than 100 pairs of 20 .*raise it"):
        searched(unit_vectors(20, 4), k=None, above=-9.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give k"),
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"above": float("nan")}, "finite surprise z"),
    ],
)
def test_senseless_wishes_are_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        NeighbourSearch(np.ones((1, 2), np.float32), **arguments)
