"""Ranks of pairs: the fast form against the definition, ties, and the measures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from words import WordEncoder

from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.eval.studies.evalrank.measures import (
    DENSE_MEASURES,
    Csls,
    DenseMeasure,
    TokenMeasure,
    dense_measure,
)
from surprise_rerank.eval.studies.evalrank.ranks import Items, Measure, hits, ranks
from surprise_rerank.similarities.bags import Texts
from surprise_rerank.similarities.table import CorpusStatistics, find_similarity


def rank(measure: Measure, first: int, second: int, counts: np.ndarray) -> float:
    """The rank of one pair, as defined."""
    items = np.arange(len(counts))
    scores = measure.scores(np.full(len(items), first), items)
    limit = measure.limits(np.array([first]), np.array([second]))[0]
    above = int(counts[scores > limit].sum())
    if not measure.counts_equals:
        return max(1, above)
    least = measure.limits(np.array([first]), np.array([second]), -1)[0]
    equal = int(counts[(scores >= least) & (scores <= limit)].sum())
    return max(1, above + max(equal - 1, 0) / 2)


def items_of(vectors: Float32Array) -> tuple[Items, np.ndarray]:
    plain = np.asarray(vectors, np.float32)
    return Items.of(plain, unit_rows(plain), len(plain))


def some_items(n: int, d: int, seed: int) -> tuple[Items, np.ndarray]:
    """Items of which some are equal, some have one direction, and some are the sum of others in any order."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    vectors[rng.integers(0, n, n // 3)] = vectors[0]
    vectors[rng.integers(0, n, n // 4)] = 2 * vectors[1]
    parts = rng.normal(size=(5, d)).astype(np.float32)
    for i in rng.integers(0, n, n // 4):
        vectors[i] = parts[rng.permutation(5)].sum(axis=0)
    return items_of(vectors)


@given(
    st.sampled_from(DENSE_MEASURES),
    st.booleans(),
    st.integers(6, 40),
    st.integers(2, 12),
    st.integers(0, 10_000),
    st.sampled_from([1, 7, 64, 100_000]),
)
def test_the_fast_form_gives_the_ranks_of_the_definition(
    name: DenseMeasure, as_published: bool, n: int, d: int, seed: int, block: int
) -> None:
    items, item_of = some_items(n, d, seed)
    measure = dense_measure(name, items, as_published=as_published)
    pairs = item_of[np.random.default_rng(seed).integers(0, n, size=(15, 2))]
    expected = [rank(measure, a, b, items.counts) for a, b in pairs.tolist()]
    assert ranks(measure, pairs, items.counts, block=block).tolist() == expected


def test_a_rank_counts_what_is_more_similar_and_the_first_item_for_nothing() -> None:
    #    a, then at 10, 20, 30 and 90 degrees
    angles = np.radians([0, 10, 20, 30, 90])
    items, item_of = items_of(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    measure = dense_measure("cosine", items)
    places = ranks(measure, item_of[np.array([[0, 1], [0, 2], [0, 4], [2, 2]])], items.counts)
    # a itself stands before b: the second nearest has rank 2, and nothing has a rank below 1.
    assert places.tolist() == [1, 2, 4, 1]
    assert [hits(places, k) for k in (1, 2, 3, 4)] == [0.5, 0.75, 0.75, 1.0]


def test_sums_of_the_same_words_in_another_order_share_the_middle_rank() -> None:
    rng = np.random.default_rng(2)
    words = rng.normal(size=(9, 30)).astype(np.float32)
    same = [words[rng.permutation(9)].mean(axis=0) for _ in range(30)]
    items, item_of = items_of(np.stack([rng.normal(size=30), *same, -same[0]]))
    assert len(items.counts) > 5  # the last bits differ
    for name in ("cosine", "l2", "csls", "surprise", "surprise-crossover", "surprise-pooled"):
        measure = dense_measure(name, items)
        places = ranks(measure, item_of[np.array([[1, j] for j in range(2, 31)])], items.counts)
        assert set(places.tolist()) == {14.5}, name  # of thirty, the first item among them


def test_a_model_that_knows_nothing_has_the_rank_of_chance() -> None:
    # Three known words and a hundred without a vector, which share the mean.
    vectors = np.zeros((103, 2), np.float32)
    vectors[:3] = [[1, 0], [0, 1], [-1, -1]]
    items, item_of = items_of(vectors)
    pairs = item_of[np.arange(3, 103).reshape(-1, 2)]
    for name in ("cosine", "l2", "surprise-crossover"):
        places = ranks(dense_measure(name, items), pairs, items.counts)
        assert 45 <= places.mean() <= 56, name
    published = ranks(dense_measure("cosine", items, as_published=True), pairs, items.counts)
    assert published.max() == 1


def test_items_beside_the_background_do_not_count() -> None:
    vectors = np.random.default_rng(3).normal(size=(12, 4)).astype(np.float32)
    items, _ = Items.of(vectors, unit_rows(vectors), 8)
    few, _ = Items.of(vectors[:8], unit_rows(vectors[:8]), 8)
    pairs = np.array([[i, (i + 3) % 8] for i in range(8)])
    for name in DENSE_MEASURES:
        more = ranks(dense_measure(name, items), pairs, items.counts)
        less = ranks(dense_measure(name, few), pairs, few.counts)
        assert more.tolist() == less.tolist(), name
    assert items.background.tolist() == list(range(8))


def test_as_published_the_second_item_of_some_pairs_counts_against_itself() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(500, 50)).astype(np.float32)
    vectors[1::2] = vectors[::2] + 0.1 * rng.normal(size=(250, 50))  # nearest to the one before
    items, item_of = items_of(vectors)
    pairs = item_of[np.arange(500).reshape(-1, 2)]
    for name, share in (("cosine", 0.25), ("l2", 0.5)):
        assert ranks(dense_measure(name, items), pairs, items.counts).max() == 1
        measure = dense_measure(name, items, as_published=True)
        places = ranks(measure, pairs, items.counts)
        assert np.mean(places == 1) == pytest.approx(1 - share, abs=0.12)
        assert places.max() == 2


def test_csls_takes_the_mean_cosine_of_the_nearest_off_both_sides() -> None:
    items, item_of = items_of(np.random.default_rng(5).normal(size=(30, 6)))
    cosines = items.unit.astype(float) @ items.unit.T.astype(float)
    np.fill_diagonal(cosines, -np.inf)
    near = np.sort(cosines, axis=1)[:, -10:].mean(axis=1)
    measure = dense_measure("csls", items)
    assert isinstance(measure, Csls)
    scores = measure.scores(np.array([0, 4]), np.array([7, 9]))
    expected = [2 * cosines[0, 7] - near[0] - near[7], 2 * cosines[4, 9] - near[4] - near[9]]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert Csls(Items.of(items.plain[:1], items.unit[:1], 1)[0]).nearness.tolist() == [0]
    assert item_of[7] == 7


def test_surprise_takes_the_background_as_ensemble_and_the_candidate_as_anchor() -> None:
    vectors = np.random.default_rng(6).normal(size=(40, 5)).astype(np.float32)
    vectors[30:] = vectors[0]  # what stands in the background often counts as often
    items, item_of = items_of(vectors)
    cosines = unit_rows(vectors).astype(float) @ unit_rows(vectors).T.astype(float)
    measure = dense_measure("surprise", items)
    scores = measure.scores(item_of[np.array([2, 3])], item_of[np.array([5, 31])])
    expected = [
        (cosines[2, 5] - cosines[:, 5].mean()) / cosines[:, 5].std(),
        (cosines[3, 31] - cosines[:, 31].mean()) / cosines[:, 31].std(),
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["dynamax", "dynamax-jaccard-raw", "max-jaccard", "idf-cosine"])
def test_similarities_of_tokens_rank_as_defined(name: str) -> None:
    encoder = WordEncoder()
    rng = np.random.default_rng(8)
    sentences = [" ".join(rng.choice(list("abcdefghijkl"), size=int(rng.integers(1, 6)))) for _ in range(25)]
    sentences = list(Counter([*sentences, ""]))
    texts = Texts(encoder.encode(sentences).tokens, tuple(map(tuple, encoder.words(sentences))))
    named = find_similarity(name)
    corpus = CorpusStatistics.encode(encoder, sentences, named.fitted_on | {"texts", "statistics"})
    measure = TokenMeasure(named.build(corpus), texts)
    counts = np.ones(len(sentences), dtype=np.int64)
    pairs = rng.integers(0, len(sentences), size=(12, 2))
    expected = [rank(measure, a, b, counts) for a, b in pairs.tolist()]
    assert ranks(measure, pairs, counts, block=60).tolist() == expected
