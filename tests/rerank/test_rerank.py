"""Re-rankers: each against its formula by hand, and what they say when something is missing."""

from __future__ import annotations

import dataclasses
import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.core.arrays import VectorSimilarity, unit_rows, vector_similarities
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.rerankers import CosineReranker, DynaMaxReranker, FusionReranker, SurpriseReranker
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import normalized_similarity, probability

MODELS = ["gaussian", "pooled", "percentile", "empirical"]
METHODS = ["surprise", "rrf", "minmax", "zscore", "sum"]
D = 6

seeds = st.integers(0, 2**32 - 1)


def units(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, D) unit vectors in a cone, as encoders make them."""
    return unit_rows(rng.normal(size=(n, D)) + 0.4)


def scene(seed: int = 0, n: int = 8) -> tuple[Query, Candidates, Ensemble]:
    rng = np.random.default_rng(seed)
    ids = tuple(f"d{i:02}" for i in rng.permutation(n))
    bm25 = rng.uniform(0, 20, size=n)
    bm25[::3] = np.nan
    query = Query(text="q", dense=units(rng, 1)[0], tokens=units(rng, 3))
    candidates = Candidates(
        ids=ids,
        scores={"bm25": bm25},
        dense=units(rng, n),
        tokens=TokenBatch.from_arrays([units(rng, int(k)) for k in rng.integers(0, 6, size=n)], D),
        documents=tuple(Document(id=name, text=name) for name in ids),
        corpus_moments={"bm25": Moments(np.array(2.0), np.array(1.5))},
    )
    return query, candidates, Ensemble.from_vectors(units(rng, 50))


def cosines(query: Query, candidates: Candidates) -> np.ndarray:
    return candidates.dense.astype(float) @ query.dense.astype(float)


def in_order(candidates: Candidates, scores: np.ndarray) -> tuple[str, ...]:
    return tuple(name for _, name in sorted(zip(-np.asarray(scores), candidates.ids, strict=True)))


def empty_pool() -> Candidates:
    return Candidates(
        ids=(),
        scores={"bm25": np.zeros(0)},
        dense=np.zeros((0, D), np.float32),
        tokens=TokenBatch.from_arrays([], D),
        documents=(),
        corpus_moments={"bm25": Moments(np.array(0.0), np.array(1.0))},
    )


# Cosine


@pytest.mark.parametrize("similarity", get_args(VectorSimilarity))
def test_cosine_ranks_as_a_fusion_of_nothing_but_its_scorer(similarity: str):
    query, candidates, _ = scene()
    ranking = CosineReranker(similarity).rerank(query, candidates)
    alone = FusionReranker([CosineScorer(Ensemble.empty(D, similarity=similarity))], "sum")
    expected = alone.rerank(query, candidates)
    assert ranking.ids == expected.ids
    for own, other in ((ranking.parts, expected.parts), (ranking.raw, expected.raw)):
        assert list(own) == list(other) == ["cosine"]
        np.testing.assert_array_equal(own["cosine"], other["cosine"])
    np.testing.assert_array_equal(ranking.scores, expected.scores)


def test_cosine_refuses_a_similarity_that_is_not_known():
    with pytest.raises(DataError, match="choose one of dot, cosine, euclidean, manhattan"):
        CosineReranker("hamming")


# Surprise


@given(seeds, st.sampled_from(MODELS), st.sampled_from([0.0, 0.5, 1.0, "crossover"]))
def test_the_query_as_anchor_keeps_cosines_order(seed: int, model: str, weight: object):
    query, candidates, ensemble = scene(seed)
    ranking = SurpriseReranker(ensemble, model, weight, anchor="query").rerank(query, candidates)
    assert ranking.ids == in_order(candidates, cosines(query, candidates))
    assert ranking.notes == ()


@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
def test_the_document_as_anchor_equals_the_formula_by_hand(seed: int, weight: float):
    query, candidates, ensemble = scene(seed)
    mean = ensemble.sample.astype(float).mean(axis=0)
    covariance = np.cov(ensemble.sample.astype(float).T, ddof=0)
    cosine = cosines(query, candidates)
    expected, zs = [], []
    for d, psi in zip(candidates.dense.astype(float), cosine.astype(float), strict=True):
        mu, sigma = d @ mean, math.sqrt(d @ covariance @ d)
        z = (psi - mu) / sigma
        mixed = (1 - weight) * float(normalized_similarity(psi, mean @ mean)) + weight * float(probability(z))
        expected.append(z if weight == 1 else mixed)
        zs.append(z)
    ranking = SurpriseReranker(ensemble, weight=weight).rerank(query, candidates)
    assert ranking.ids == in_order(candidates, np.array(expected))
    row = {name: i for i, name in enumerate(candidates.ids)}
    for hit in ranking:
        assert hit.score == pytest.approx(expected[row[hit.id]], rel=1e-4, abs=1e-5)
        assert hit.parts["z"] == pytest.approx(zs[row[hit.id]], rel=1e-4, abs=1e-5)
        assert hit.parts["probability"] == pytest.approx(float(probability(zs[row[hit.id]])), abs=1e-5)
        assert hit.parts["cosine"] == pytest.approx(cosine[row[hit.id]], rel=1e-12)
        assert hit.document.text == hit.id


@given(seeds, st.sampled_from(MODELS), st.sampled_from(["document", "query"]), st.booleans())
def test_at_weight_0_the_order_is_the_similaritys(seed: int, model: str, anchor: str, known: bool):
    query, candidates, ensemble = scene(seed)
    anchors = Ensemble.from_vectors(candidates.dense) if known else None
    ranking = SurpriseReranker(ensemble, model, 0.0, anchor, anchors=anchors).rerank(query, candidates)
    assert ranking.ids == in_order(candidates, cosines(query, candidates))


def test_the_pooled_model_ranks_by_the_distance_from_each_documents_mean():
    query, candidates, ensemble = scene(5)
    documents = Ensemble.from_vectors(candidates.dense)
    ranking = SurpriseReranker(ensemble, "pooled", 1.0, anchors=documents).rerank(query, candidates)
    lift = cosines(query, candidates) - candidates.dense.astype(float) @ ensemble.mean
    assert ranking.ids == in_order(candidates, lift)
    own = SurpriseReranker(ensemble, "pooled", 1.0).rerank(query, candidates)
    assert own.ids == ranking.ids
    assert not np.allclose(own.scores, ranking.scores), "another population has another sigma"


def test_shrinking_all_the_way_leaves_cosines_order():
    query, candidates, ensemble = scene(6)
    shrunk = SurpriseReranker(ensemble, weight=1.0, shrink_mean=1.0, shrink_deviation=1.0)
    assert shrunk.rerank(query, candidates).ids == in_order(candidates, cosines(query, candidates))


@pytest.mark.parametrize("similarity", ["euclidean", "manhattan"])
def test_the_similarity_is_the_ensembles(similarity: str):
    query, candidates, ensemble = scene(7)
    members = Ensemble.from_vectors(ensemble.sample, similarity=similarity, sample_size=20)
    ranking = SurpriseReranker(members, weight=1.0, anchor="query").rerank(query, candidates)
    psi = vector_similarities(query.dense[None], candidates.dense, similarity)[0]
    assert ranking.ids == in_order(candidates, psi)
    np.testing.assert_allclose(ranking.parts[similarity], np.sort(psi)[::-1], rtol=1e-6)


def test_the_document_as_anchor_corrects_for_hubs():
    """A document that is near to all questions loses to one that is near to this question only."""
    questions = unit_rows(np.array([[1.0, 0.1, 0.0], [1.0, 0.0, 0.1], [1.0, -0.1, 0.0], [1.0, 0.0, -0.1]]))
    hub, special = unit_rows(np.array([[1.0, 0.0, 0.01], [0.8, 0.6, 0.0]]))
    query = Query(text="q", dense=unit_rows(np.array([[1.0, 0.1, 0.0]]))[0])
    candidates = Candidates(ids=("hub", "special"), dense=np.stack([hub, special]))
    assert (cosines(query, candidates)).argmax() == 0
    ranking = SurpriseReranker(Ensemble.from_vectors(questions), weight=1.0).rerank(query, candidates)
    z = {hit.id: hit.parts["z"] for hit in ranking}
    assert z["special"] > z["hub"]


@pytest.mark.parametrize("anchor", ["document", "query"])
@pytest.mark.parametrize("members", [0, 1])
def test_a_note_says_that_surprise_is_not_defined(members: int, anchor: str):
    query, candidates, _ = scene()
    ensemble = Ensemble.from_vectors(units(np.random.default_rng(0), members))
    ranking = SurpriseReranker(ensemble, anchor=anchor).rerank(query, candidates)
    cosine = cosines(query, candidates)
    assert ranking.ids == in_order(candidates, cosine)
    np.testing.assert_allclose(ranking.scores, np.sort(cosine)[::-1])
    (note,) = ranking.notes
    assert "not defined for 8 of 8 documents" in note
    assert f"an ensemble of {members} members" in note
    assert "their score is the cosine alone" in note


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"anchor": "documents"}, "anchor 'documents' is not known; choose one of document, query"),
        ({"model": "normal"}, "surprise model 'normal' is not known"),
        ({"weight": 2}, "weight must be"),
    ],
)
def test_unknown_settings_are_refused_when_the_reranker_is_made(arguments: dict[str, object], message: str):
    with pytest.raises(DataError, match=message):
        SurpriseReranker(Ensemble.empty(D), **arguments)


def test_cosine_scores_and_moments_are_of_one_similarity():
    query, candidates, ensemble = scene(8)
    far = Ensemble.from_vectors(ensemble.sample, similarity="euclidean")
    scores = CosineScorer(far).scores(query, candidates)
    np.testing.assert_allclose(
        scores, vector_similarities(query.dense[None], candidates.dense, "euclidean")[0], rtol=1e-6
    )


# DynaMax


@pytest.mark.parametrize("similarity", [DynaMax(), DynaMax("jaccard", "joint")])
def test_dynamax_orders_by_the_similarity_of_each_pair(similarity: DynaMax):
    query, candidates, _ = scene()
    ranking = DynaMaxReranker(similarity).rerank(query, candidates)
    row = {name: i for i, name in enumerate(candidates.ids)}
    for hit in ranking:
        pair = similarity.pair(query.tokens, candidates.tokens[row[hit.id]])
        assert hit.score == hit.parts["dynamax"] == pytest.approx(pair, abs=1e-5)
    assert (np.diff(ranking.scores) <= 0).all()
    assert set(ranking.ids) == set(candidates.ids)


def test_threads_and_device_reach_the_kernels():
    query, candidates, _ = scene()
    one, two = (DynaMaxReranker(threads=n).rerank(query, candidates) for n in (1, 2))
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-6)
    for settings_, message in (
        ({"threads": 0}, "threads must be"),
        ({"device": "abacus"}, "device 'abacus'"),
    ):
        with pytest.raises(DataError, match=message):
            DynaMaxReranker(**settings_).rerank(query, candidates)


def test_dynamax_defaults_to_inclusion_of_the_query():
    query, candidates, _ = scene()
    default = DynaMaxReranker().rerank(query, candidates)
    np.testing.assert_array_equal(
        default.scores, DynaMaxReranker(DynaMax("inclusion", "query")).rerank(query, candidates).scores
    )


# Fusion


def rank_shares(values: np.ndarray) -> np.ndarray:
    return np.array([0.0 if np.isnan(v) else 1 / (61 + np.sum(values > v)) for v in values])


def pool_shares(values: np.ndarray) -> np.ndarray:
    low, high = np.nanmin(values), np.nanmax(values)
    return np.array([0.0 if np.isnan(v) else (v - low) / (high - low) for v in values])


by_definition = {
    "rrf": rank_shares,
    "minmax": pool_shares,
    "zscore": lambda values: np.nan_to_num((values - np.nanmean(values)) / np.nanstd(values)),
    "sum": np.nan_to_num,
}


@given(seeds, st.sampled_from(METHODS))
def test_fusion_equals_the_weighted_sum_by_hand(seed: int, method: str):
    query, candidates, ensemble = scene(seed)
    _, others, _ = scene(seed + 1, n=20)
    weights = {"bm25": 0.5, "dynamax": 2.0}
    fusion = FusionReranker(
        [RetrievedScorer("bm25"), CosineScorer(ensemble), DynaMaxScorer(others.tokens)], method, weights
    )
    ranking = fusion.rerank(query, candidates)

    raw = {
        "bm25": candidates.scores["bm25"],
        "cosine": cosines(query, candidates),
        "dynamax": DynaMax().pool(query.tokens, candidates.tokens),
    }
    corpus = ensemble.sample.astype(float) @ query.dense.astype(float)
    sampled = DynaMax().pool(query.tokens, others.tokens)
    moments = {
        "bm25": (2.0, 1.5),
        "cosine": (corpus.mean(), corpus.std()),
        "dynamax": (sampled.mean(), sampled.std()),
    }
    members = {"bm25": 1_000_000, "cosine": ensemble.count, "dynamax": len(others.tokens)}
    shares = {}
    for name, values in raw.items():
        mean, deviation = moments[name]
        if method == "surprise":
            away, m = (values - mean) / deviation, members[name]
            shares[name] = np.nan_to_num(away * np.sqrt(m / (m + 1 + away**2)), nan=0.0)
        else:
            shares[name] = by_definition[method](values)
    total = 0.5 * shares["bm25"] + shares["cosine"] + 2.0 * shares["dynamax"]

    row = {name: i for i, name in enumerate(candidates.ids)}
    for hit in ranking:
        assert hit.score == pytest.approx(total[row[hit.id]], rel=1e-5, abs=1e-5)
        for name, share in shares.items():
            assert hit.parts[name] == pytest.approx(share[row[hit.id]], rel=1e-5, abs=1e-5)
    assert (np.diff(ranking.scores) <= 0).all()


def test_a_documents_fused_surprise_does_not_depend_on_the_pool():
    query, candidates, ensemble = scene()
    fusion = FusionReranker([RetrievedScorer("bm25"), CosineScorer(ensemble)])
    whole = {hit.id: hit.score for hit in fusion.rerank(query, candidates)}
    for hit in fusion.rerank(query, candidates.take([1, 4, 5])):
        assert hit.score == pytest.approx(whole[hit.id], rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_scorer_without_a_score_adds_nothing(method: str):
    query, candidates, ensemble = scene()
    nothing = Candidates(
        ids=candidates.ids,
        dense=candidates.dense,
        scores={"bm25": np.full(len(candidates), np.nan)},
        corpus_moments=candidates.corpus_moments,
    )
    alone = FusionReranker([CosineScorer(ensemble)], method).rerank(query, nothing)
    both = FusionReranker([CosineScorer(ensemble), RetrievedScorer("bm25")], method).rerank(query, nothing)
    assert both.ids == alone.ids
    np.testing.assert_array_equal(both.scores, alone.scores)


def test_a_corpus_sample_without_texts_gives_dynamax_no_say():
    query, candidates, ensemble = scene()
    fusion = FusionReranker([CosineScorer(ensemble), DynaMaxScorer(TokenBatch.from_arrays([], D))])
    ranking = fusion.rerank(query, candidates)
    assert not ranking.parts["dynamax"].any()
    np.testing.assert_array_equal(ranking.scores, ranking.parts["cosine"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scorers": []}, "scorers of different names"),
        (
            {"scorers": [RetrievedScorer("bm25"), RetrievedScorer("bm25")]},
            r"scorers of different names, got \['bm25', 'bm25'\]",
        ),
        (
            {"scorers": [RetrievedScorer("bm25")], "weights": {"bm52": 1.0}},
            "weights for bm52, but the scorers are bm25",
        ),
        (
            {"scorers": [RetrievedScorer("bm25")], "method": "add"},
            "fusion method 'add' is not known; choose one of surprise, rrf, minmax, zscore, sum",
        ),
    ],
)
def test_a_fusion_that_makes_no_sense_is_refused_when_it_is_made(arguments: dict[str, object], message: str):
    with pytest.raises(DataError, match=message):
        FusionReranker(**arguments)


def test_missing_retrieval_scores_are_named_with_those_there_are():
    query, candidates, _ = scene()
    with pytest.raises(DataError, match=r"no scores of 'splade' \(they have: bm25\)"):
        FusionReranker([RetrievedScorer("splade")], "rrf").rerank(query, candidates)
    with pytest.raises(DataError, match=r"\(they have: none\)"):
        FusionReranker([RetrievedScorer("splade")], "rrf").rerank(query, Candidates(ids=("a",)))


def test_missing_moments_point_to_the_methods_that_need_none():
    query = Query(text="q")
    candidates = Candidates(ids=("a", "b"), scores={"bm25": np.array([1.0, 2.0])})
    with pytest.raises(DataError, match="'bm25' gave no moments over the corpus; use rrf or minmax"):
        FusionReranker([RetrievedScorer("bm25")]).rerank(query, candidates)
    for method in ("rrf", "minmax"):
        assert FusionReranker([RetrievedScorer("bm25")], method).rerank(query, candidates).ids == ("b", "a")


def test_a_nan_weight_is_reported_with_a_document():
    query, candidates, ensemble = scene()
    fusion = FusionReranker([CosineScorer(ensemble)], weights={"cosine": math.nan})
    with pytest.raises(DataError, match="is nan"):
        fusion.rerank(query, candidates)


# What each needs

RERANKERS = {
    "cosine": (CosineReranker(), {"dense"}),
    "surprise": (SurpriseReranker(Ensemble.empty(D)), {"dense"}),
    "dynamax": (DynaMaxReranker(), {"tokens"}),
    "fusion": (
        FusionReranker([CosineScorer(Ensemble.empty(D)), DynaMaxScorer(TokenBatch.from_arrays([], D))]),
        {"dense", "tokens"},
    ),
    "retrieved": (FusionReranker([RetrievedScorer("bm25")]), set()),
}


@pytest.mark.parametrize("name", RERANKERS)
def test_a_reranker_names_the_fields_it_needs_and_works_with_those_alone(name: str):
    reranker, needs = RERANKERS[name]
    query, candidates, _ = scene()
    assert reranker.needs == needs
    fields = {field: getattr(candidates, field) for field in needs}
    only = Candidates(
        candidates.ids, scores=candidates.scores, corpus_moments=candidates.corpus_moments, **fields
    )
    assert sorted(reranker.rerank(query, only).ids) == sorted(candidates.ids)


@pytest.mark.parametrize(
    ("name", "field"), [("cosine", "dense"), ("surprise", "dense"), ("dynamax", "token"), ("fusion", "dense")]
)
def test_missing_vectors_are_named_with_what_to_do(name: str, field: str):
    reranker, _ = RERANKERS[name]
    query, candidates, _ = scene()
    with pytest.raises(DataError, match=f"candidates have no {field} vectors?; have the retriever fetch"):
        reranker.rerank(query, Candidates(ids=candidates.ids))
    with pytest.raises(DataError, match=f"query has no {field} vectors?; encode it"):
        reranker.rerank(Query(text="q"), candidates)


def test_a_fusion_leaves_out_a_scorer_whose_vectors_are_not_there_and_says_so():
    query, candidates, ensemble = scene()
    fusion = FusionReranker(
        [RetrievedScorer("bm25"), CosineScorer(ensemble), DynaMaxScorer(candidates.tokens)]
    )
    whole = fusion.rerank(query, candidates)
    assert not whole.notes
    without = {
        "without token vectors: the candidates have none, so dynamax was left out": (
            query,
            dataclasses.replace(candidates, tokens=None),
            ("bm25", "cosine"),
        ),
        "without token vectors: the question has none, so dynamax was left out": (
            dataclasses.replace(query, tokens=None),
            candidates,
            ("bm25", "cosine"),
        ),
        "without dense vectors: the candidates have none, so cosine was left out": (
            query,
            dataclasses.replace(candidates, dense=None),
            ("bm25", "dynamax"),
        ),
        "without scores of bm25: the candidates have none, so it was left out": (
            query,
            dataclasses.replace(candidates, scores={}),
            ("cosine", "dynamax"),
        ),
    }
    for note, (asked, pool, left) in without.items():
        ranking = fusion.rerank(asked, pool)
        assert ranking.notes == (note,)
        assert tuple(ranking.parts) == left
        expected = {name: sum(whole.parts[part][i] for part in left) for i, name in enumerate(whole.ids)}
        assert dict(zip(ranking.ids, ranking.scores, strict=True)) == pytest.approx(expected)


def test_dynamax_without_any_token_vector_says_why_all_scores_are_0():
    query, candidates, _ = scene()
    none = TokenBatch.from_arrays([np.zeros((0, D))] * len(candidates), D)
    silent = dataclasses.replace(query, tokens=np.zeros((0, D), np.float32))
    ranking = DynaMaxReranker().rerank(silent, dataclasses.replace(candidates, tokens=none))
    assert not ranking.scores.any()
    assert ranking.notes == (
        "neither the question nor any candidate has a token vector, so all scores are 0",
    )
    assert DynaMaxReranker().rerank(silent, candidates).notes == ()
    with pytest.raises(DataError, match="of dense vectors, such as cosine or auto"):
        DynaMaxReranker().rerank(dataclasses.replace(query, tokens=None), candidates)


@pytest.mark.parametrize("name", ["surprise", "fusion"])
def test_a_query_of_another_dimension_is_refused(name: str):
    _, candidates, ensemble = scene()
    reranker = SurpriseReranker(ensemble) if name == "surprise" else FusionReranker([CosineScorer(ensemble)])
    other = Query(text="q", dense=np.ones(D + 1, np.float32))
    with pytest.raises(DataError, match=rf"query's vector has shape \({D + 1},\), the candidates' have"):
        reranker.rerank(other, candidates)


@pytest.mark.parametrize("anchor", ["document", "query"])
def test_an_ensemble_of_another_dimension_is_refused(anchor: str):
    query, candidates, _ = scene()
    ensemble = Ensemble.from_vectors(np.eye(D + 1))
    with pytest.raises(DataError, match=f"dimension {D}, expected {D + 1}"):
        SurpriseReranker(ensemble, anchor=anchor).rerank(query, candidates)
    with pytest.raises(DataError, match=f"dimension {D}, expected {D + 1}"):
        FusionReranker([CosineScorer(ensemble)]).rerank(query, candidates)


def test_tokens_of_another_dimension_are_refused():
    _, candidates, _ = scene()
    with pytest.raises(DataError, match=rf"expected \(m, {D}\)"):
        DynaMaxReranker().rerank(Query(text="q", tokens=np.ones((2, D + 1), np.float32)), candidates)


@pytest.mark.parametrize("filled", [True, False], ids=["filled ensemble", "empty ensemble"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("anchor", ["document", "query"])
def test_an_empty_pool_has_an_empty_surprise_ranking(anchor: str, model: str, filled: bool):
    query, _, ensemble = scene()
    reranker = SurpriseReranker(ensemble if filled else Ensemble.empty(D), model, anchor=anchor)
    ranking = reranker.rerank(query, empty_pool())
    assert (len(ranking), list(ranking), ranking.notes) == (0, [], ())


@pytest.mark.parametrize("method", ["surprise", "rrf", "minmax"])
def test_an_empty_pool_has_an_empty_ranking_from_the_others(method: str):
    query, candidates, ensemble = scene()
    scorers = [RetrievedScorer("bm25"), CosineScorer(ensemble), DynaMaxScorer(candidates.tokens)]
    for reranker in (CosineReranker(), DynaMaxReranker(), FusionReranker(scorers, method)):
        ranking = reranker.rerank(query, empty_pool())
        assert (len(ranking), list(ranking), ranking.documents) == (0, [], ())


@given(seeds)
def test_rerankers_are_pure(seed: int):
    query, candidates, ensemble = scene(seed)
    before = candidates.dense.copy(), candidates.scores["bm25"].copy(), query.dense.copy()
    rerankers = [SurpriseReranker(ensemble), DynaMaxReranker(), FusionReranker([RetrievedScorer("bm25")])]
    for reranker in rerankers:
        first, again = reranker.rerank(query, candidates), reranker.rerank(query, candidates)
        assert first.ids == again.ids
        np.testing.assert_array_equal(first.scores, again.scores)
    for was, now in zip(before, (candidates.dense, candidates.scores["bm25"], query.dense), strict=True):
        np.testing.assert_array_equal(was, now)


@given(seeds)
def test_the_order_of_the_pool_changes_no_ranking(seed: int):
    query, candidates, ensemble = scene(seed)
    shuffled = candidates.take(np.random.default_rng(seed).permutation(len(candidates)))
    fusion = FusionReranker([RetrievedScorer("bm25"), CosineScorer(ensemble)], "rrf")
    for reranker in (SurpriseReranker(ensemble, weight=1), DynaMaxReranker(), fusion):
        assert reranker.rerank(query, shuffled).ids == reranker.rerank(query, candidates).ids
