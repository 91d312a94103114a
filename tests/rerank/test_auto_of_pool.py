"""`auto` over texts that no index knows: their own scores say what a usual one is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.auto import AutoReranker, AutoSettings, PoolAutoReranker
from surprise_rerank.surprise.ensemble import Ensemble

TEXTS = ["tea and milk", "a wing gives lift", "the wing", "bread", "drag of a wing", "tea with bread"]


def scene(texts: list[str] = TEXTS) -> tuple[Query, Candidates]:
    encoder = WordEncoder()
    (query,) = encode_queries(encoder, ["wing lift"])
    encoded = encoder.encode(texts)
    ids = tuple(f"{i}" for i in range(len(texts)))
    return query, Candidates(ids=ids, dense=encoded.dense, tokens=encoded.tokens)


@pytest.mark.parametrize(
    ("lost", "parts"),
    [
        ((), ("cosine", "dynamax", "vectors")),
        (("tokens",), ("cosine", "vectors")),
        (("dense",), ("dynamax",)),
    ],
)
@pytest.mark.parametrize("trust", [None, (0.35, 0.55)])
def test_scores_are_those_of_auto_over_a_corpus_of_these_texts(lost, parts, trust):
    query, whole = scene()
    pool = replace(whole, **dict.fromkeys(lost))
    settings = AutoSettings(trust=trust)
    ranking = PoolAutoReranker(settings).rerank(query, pool)
    corpus = None if lost == ("dense",) else Ensemble.from_vectors(whole.dense, similarity="cosine")
    auto = AutoReranker(corpus, pool.tokens, settings=replace(settings, lengths=0))
    expected = auto.rerank(query, pool)
    assert ranking.ids == expected.ids
    np.testing.assert_array_equal(ranking.scores, expected.scores)
    assert tuple(ranking.parts) == parts
    assert ranking.notes[0].startswith("a usual score is the mean over the 6 texts at hand")
    assert ranking.notes[1:] == expected.notes


def test_without_vectors_and_tokens_nothing_is_ranked():
    query, pool = scene()
    with pytest.raises(DataError, match="nothing is there to rank 6 candidates by"):
        PoolAutoReranker().rerank(query, replace(pool, dense=None, tokens=None))


@pytest.mark.parametrize("texts", [[], ["wing"], ["wing"] * 7, ["", "", "wing"], [""]])
def test_any_list_has_finite_scores_and_equal_texts_equal_ones(texts: list[str]):
    query, pool = scene(texts)
    ranking = PoolAutoReranker().rerank(query, pool)
    assert len(ranking) == len(texts)
    # No member of n + 1 numbers is more than sqrt(n) deviations above their mean.
    bound = 2.5 * np.sqrt(len(texts) + 1)
    assert all(np.abs(own).max(initial=0.0) <= bound for own in ranking.parts.values())
    if len(set(texts)) == 1:
        assert not ranking.scores.any()
        assert ranking.ids == pool.ids


def test_vectors_of_any_length_are_ranked_alike():
    query, pool = scene()
    longer = replace(pool, dense=pool.require_dense() * np.float32(7))
    expected = PoolAutoReranker().rerank(query, pool)
    np.testing.assert_allclose(PoolAutoReranker().rerank(query, longer).scores, expected.scores, atol=1e-4)
