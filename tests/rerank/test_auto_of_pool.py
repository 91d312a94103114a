"""`auto` over texts that no index knows: their own scores say what a usual one is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.auto import AutoReranker, AutoSettings, PoolAutoReranker
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.text_reranker import TextReranker

TEXTS = ["tea and milk", "a wing gives lift", "the wing", "bread", "drag of a wing", "tea with bread"]


def scene(texts: list[str] = TEXTS) -> tuple[Query, Candidates]:
    encoder = WordEncoder()
    (query,) = encode_queries(encoder, ["wing lift"])
    encoded = encoder.encode(texts)
    ids = tuple(f"{i}" for i in range(len(texts)))
    return query, Candidates(ids=ids, dense=encoded.dense, tokens=encoded.tokens)


def test_scores_are_those_of_auto_over_a_corpus_of_these_texts():
    query, pool = scene()
    ranking = PoolAutoReranker().rerank(query, pool)
    corpus = Ensemble.from_vectors(pool.require_dense(), similarity="cosine")
    expected = AutoReranker(corpus, pool.tokens, settings=AutoSettings(lengths=0)).rerank(query, pool)
    assert ranking.ids == expected.ids
    np.testing.assert_array_equal(ranking.scores, expected.scores)
    assert ranking.ids[0] == "1"
    assert tuple(ranking.parts) == ("cosine", "dynamax", "vectors")
    assert ranking.notes[0].startswith("a usual score is the mean over the 6 texts at hand")
    assert ranking.notes[-1].startswith("without words")


def test_a_model_without_tokens_ranks_by_what_it_has():
    query, pool = scene()
    ranking = PoolAutoReranker().rerank(replace(query, tokens=None), replace(pool, tokens=None))
    assert tuple(ranking.parts) == ("cosine", "vectors")
    tokens_only = PoolAutoReranker().rerank(query, replace(pool, dense=None))
    assert tuple(tokens_only.parts) == ("dynamax",)
    with pytest.raises(DataError, match="nothing is there to rank 6 candidates by"):
        PoolAutoReranker().rerank(query, replace(pool, dense=None, tokens=None))


@pytest.mark.parametrize("texts", [[], ["wing"], ["wing"] * 7, ["", "", "wing"], [""]])
def test_any_list_has_finite_scores_and_equal_texts_equal_ones(texts: list[str]):
    query, pool = scene(texts)
    ranking = PoolAutoReranker().rerank(query, pool)
    assert len(ranking) == len(texts)
    assert np.isfinite(ranking.scores).all()
    # No member of n + 1 numbers is more than sqrt(n) deviations above their mean.
    assert all(
        np.abs(own).max(initial=0.0) <= 2.5 * np.sqrt(len(texts) + 1) for own in ranking.parts.values()
    )
    if len(set(texts)) == 1:
        assert not ranking.scores.any()
        assert ranking.ids == pool.ids


def test_the_numbers_of_auto_count():
    query, pool = scene()
    without = PoolAutoReranker(AutoSettings(trust=None)).rerank(query, pool)
    assert tuple(without.parts) == ("cosine", "dynamax", "vectors")
    assert PoolAutoReranker().needs == {"dense", "tokens"}


def test_vectors_of_any_length_are_ranked_alike():
    query, pool = scene()
    longer = replace(pool, dense=pool.require_dense() * np.float32(7))
    np.testing.assert_allclose(
        PoolAutoReranker().rerank(query, longer).scores,
        PoolAutoReranker().rerank(query, pool).scores,
        atol=1e-4,
    )


def test_auto_needs_no_index_any_more(monkeypatch: pytest.MonkeyPatch):
    place = "surprise_rerank.connectors.attached.settings.load_encoder"
    monkeypatch.setattr(place, lambda name, **_: WordEncoder())
    reranker = PipelineSettings(system="auto").text_reranker()
    assert isinstance(reranker.reranker, PoolAutoReranker)
    assert reranker.rank("wing lift", TEXTS)[0].position == 1
    others = [f"{a} {b}" for a in ("salt", "jam", "egg") for b in ("pot", "tin", "cup", "jar")]
    judging = TextReranker(WordEncoder(), PoolAutoReranker()).with_background(others, lambda _: TEXTS)
    assert judging.rank("wing lift", TEXTS)[0].surprise == 12 / 13
