"""Re-rankers: each against its formula, and what they say when something is missing."""

from __future__ import annotations

from dataclasses import replace
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
from surprise_rerank.surprise.score import Surprise

MODELS = ["gaussian", "pooled", "percentile", "empirical"]
D = 6

seeds = st.integers(0, 2**32 - 1)


def units(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, D) unit vectors in a cone, as encoders make them."""
    return unit_rows(rng.normal(size=(n, D)) + 0.4)


def scene(seed: int = 0, n: int = 8) -> tuple[Query, Candidates, Ensemble]:
    rng = np.random.default_rng(seed)
    ids = tuple(f"d{i:02}" for i in rng.permutation(n))
    candidates = Candidates(
        ids=ids,
        scores={"bm25": rng.uniform(0, 20, size=n)},
        dense=units(rng, n),
        tokens=TokenBatch.from_arrays([units(rng, int(k)) for k in rng.integers(0, 6, size=n)], D),
        documents=tuple(Document(id=name, text=name) for name in ids),
        corpus_moments={"bm25": Moments(np.array(2.0), np.array(1.5))},
    )
    return Query("q", units(rng, 1)[0], units(rng, 3)), candidates, Ensemble.from_vectors(units(rng, 50))


def similarities(query: Query, candidates: Candidates, name: str = "dot") -> np.ndarray:
    return vector_similarities(query.dense[None], candidates.dense, name)[0].astype(float)


def in_order(candidates: Candidates, scores: np.ndarray) -> tuple[str, ...]:
    return tuple(name for _, name in sorted(zip(-np.asarray(scores), candidates.ids, strict=True)))


@pytest.mark.parametrize("similarity", get_args(VectorSimilarity))
def test_cosine_ranks_as_a_fusion_of_nothing_but_its_scorer(similarity: str):
    query, candidates, _ = scene()
    ranking = CosineReranker(similarity).rerank(query, candidates)
    alone = FusionReranker([CosineScorer(Ensemble.empty(D, similarity=similarity))], "sum")
    expected = alone.rerank(query, candidates)
    assert ranking.ids == expected.ids == in_order(candidates, similarities(query, candidates, similarity))
    for own, other in ((ranking.parts, expected.parts), (ranking.raw, expected.raw)):
        assert list(own) == list(other) == ["cosine"]
        np.testing.assert_array_equal(own["cosine"], other["cosine"])
    np.testing.assert_array_equal(ranking.scores, expected.scores)


@given(
    seeds,
    st.sampled_from(["dot", "euclidean"]),
    st.sampled_from(["document", "query"]),
    st.sampled_from(
        [
            {"model": "gaussian", "weight": 0.3},
            {"model": "gaussian", "weight": 1.0, "shrink_mean": 0.4, "shrink_deviation": 0.7},
            {"model": "pooled", "weight": 1.0},
            {"model": "percentile", "weight": 0.0},
            {"model": "empirical"},
        ]
    ),
)
def test_surprise_ranks_by_its_score_whoever_is_the_anchor(seed, similarity, anchor, options):
    query, candidates, ensemble = scene(seed)
    members, anchors = (
        Ensemble.from_vectors(own, similarity=similarity) for own in (ensemble.sample, candidates.dense)
    )
    ranking = SurpriseReranker(members, anchor=anchor, anchors=anchors, **options).rerank(query, candidates)
    psi = similarities(query, candidates, similarity)
    vectors = candidates.dense if anchor == "document" else query.dense[None]
    expected = Surprise(members, anchors=anchors, **options).scores(psi, vectors)
    rows = ranking.rows_in(candidates)
    np.testing.assert_allclose(ranking.scores, expected.score[rows], rtol=1e-6)
    name = "cosine" if similarity == "dot" else similarity
    for part, own in ((name, psi), ("z", expected.z), ("probability", expected.probability)):
        np.testing.assert_allclose(ranking.parts[part], own[rows], rtol=1e-6, err_msg=part)
    np.testing.assert_allclose(ranking.raw["surprise"], expected.z[rows], rtol=1e-6)
    assert (np.diff(ranking.scores) <= 0).all()
    assert [hit.document.text for hit in ranking] == list(ranking.ids)
    assert ranking.notes == ()
    if anchor == "query":
        assert ranking.ids == in_order(candidates, psi)


def test_the_document_as_anchor_corrects_for_hubs():
    """A document that is near to all questions loses to one that is near to this question only."""
    questions = unit_rows(np.array([[1.0, 0.1, 0.0], [1.0, 0.0, 0.1], [1.0, -0.1, 0.0], [1.0, 0.0, -0.1]]))
    hub, special = unit_rows(np.array([[1.0, 0.0, 0.01], [0.8, 0.6, 0.0]]))
    query = Query(text="q", dense=unit_rows(np.array([[1.0, 0.1, 0.0]]))[0])
    candidates = Candidates(ids=("hub", "special"), dense=np.stack([hub, special]))
    assert CosineReranker().rerank(query, candidates).ids[0] == "hub"
    ranking = SurpriseReranker(Ensemble.from_vectors(questions), weight=1.0).rerank(query, candidates)
    assert ranking.ids[0] == "special"


@pytest.mark.parametrize("anchor", ["document", "query"])
@pytest.mark.parametrize("members", [0, 1])
def test_a_note_says_that_surprise_is_not_defined(members: int, anchor: str):
    query, candidates, _ = scene()
    ensemble = Ensemble.from_vectors(units(np.random.default_rng(0), members))
    ranking = SurpriseReranker(ensemble, anchor=anchor).rerank(query, candidates)
    cosine = similarities(query, candidates)
    assert ranking.ids == in_order(candidates, cosine)
    np.testing.assert_allclose(ranking.scores, np.sort(cosine)[::-1])
    (note,) = ranking.notes
    assert "not defined for 8 of 8 documents" in note
    assert f"an ensemble of {members} members" in note


@pytest.mark.parametrize("similarity", [DynaMax(), DynaMax("jaccard", "joint")])
def test_dynamax_orders_by_the_similarity_of_each_pair(similarity: DynaMax):
    query, candidates, _ = scene()
    ranking = DynaMaxReranker(similarity).rerank(query, candidates)
    for hit, row in zip(ranking, ranking.rows_in(candidates), strict=True):
        pair = similarity.pair(query.tokens, candidates.tokens[row])
        assert hit.score == hit.parts["dynamax"] == pytest.approx(pair, abs=1e-5)
    assert (np.diff(ranking.scores) <= 0).all()
    two = DynaMaxReranker(similarity, threads=2).rerank(query, candidates)
    np.testing.assert_allclose(two.scores, ranking.scores, atol=1e-6)


def test_scorers_have_the_moments_of_what_they_score_by():
    query, candidates, ensemble = scene(8)
    far = Ensemble.from_vectors(ensemble.sample, similarity="euclidean")
    _, others, _ = scene(9, n=20)
    tokens = DynaMax().pool(query.tokens, others.tokens)
    for scorer, scores, usual in (
        (
            CosineScorer(ensemble),
            similarities(query, candidates),
            vector_similarities(query.dense[None], ensemble.sample),
        ),
        (
            CosineScorer(far),
            similarities(query, candidates, "euclidean"),
            vector_similarities(query.dense[None], ensemble.sample, "euclidean"),
        ),
        (DynaMaxScorer(others.tokens), DynaMax().pool(query.tokens, candidates.tokens), tokens),
    ):
        np.testing.assert_allclose(scorer.scores(query, candidates), scores, rtol=1e-6)
        moments = scorer.moments(query, candidates)
        np.testing.assert_allclose(moments.mean, usual.mean(), rtol=1e-5)
        np.testing.assert_allclose(moments.deviation, usual.std(), rtol=1e-5)


# What each needs, and what it refuses

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
    only = replace(candidates, **dict.fromkeys({"dense", "tokens", "documents"} - needs))
    before = candidates.dense.copy(), query.dense.copy()
    first, again = reranker.rerank(query, only), reranker.rerank(query, only)
    assert sorted(first.ids) == sorted(candidates.ids)
    assert first.ids == again.ids
    shuffled = reranker.rerank(query, only.take(np.random.default_rng(1).permutation(len(only))))
    assert shuffled.ids == first.ids
    for was, now in zip(before, (candidates.dense, query.dense), strict=True):
        np.testing.assert_array_equal(was, now)
    if needs:
        field = "dense" if "dense" in needs else "token"
        with pytest.raises(DataError, match=f"candidates have no {field} vectors?; have the retriever fetch"):
            reranker.rerank(query, Candidates(ids=candidates.ids))
        with pytest.raises(DataError, match=f"query has no {field} vectors?; encode it"):
            reranker.rerank(Query(text="q"), candidates)


@pytest.mark.parametrize("anchor", ["document", "query"])
@pytest.mark.parametrize("model", MODELS)
def test_an_empty_pool_has_an_empty_ranking(anchor: str, model: str):
    query, candidates, ensemble = scene()
    ensembles = (ensemble, Ensemble.empty(D))
    own = [SurpriseReranker(members, model, anchor=anchor) for members in ensembles]
    for reranker in (*own, *(reranker for reranker, _ in RERANKERS.values())):
        ranking = reranker.rerank(query, candidates.take([]))
        assert (len(ranking), list(ranking), ranking.documents, ranking.notes) == (0, [], (), ())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CosineReranker("hamming"), "choose one of dot, cosine, euclidean, manhattan"),
        (
            lambda: SurpriseReranker(Ensemble.empty(D), anchor="documents"),
            "anchor 'documents' is not known; choose one of document, query",
        ),
        (lambda: SurpriseReranker(Ensemble.empty(D), "normal"), "surprise model 'normal' is not known"),
        (lambda: SurpriseReranker(Ensemble.empty(D), weight=2), "weight must be"),
        (lambda: DynaMaxReranker(threads=0).rerank(*scene()[:2]), "threads must be"),
        (lambda: DynaMaxReranker(device="abacus").rerank(*scene()[:2]), "device 'abacus'"),
    ],
)
def test_unknown_settings_are_refused(make, message: str):
    with pytest.raises(DataError, match=message):
        make()


def test_dynamax_without_any_token_vector_says_why_all_scores_are_0():
    query, candidates, _ = scene()
    none = TokenBatch.from_arrays([np.zeros((0, D))] * len(candidates), D)
    silent = replace(query, tokens=np.zeros((0, D), np.float32))
    ranking = DynaMaxReranker().rerank(silent, replace(candidates, tokens=none))
    assert not ranking.scores.any()
    assert ranking.notes == (
        "neither the question nor any candidate has a token vector, so all scores are 0",
    )
    assert DynaMaxReranker().rerank(silent, candidates).notes == ()


def test_vectors_of_another_dimension_are_refused():
    query, candidates, ensemble = scene()
    other = Query("q", np.ones(D + 1, np.float32), np.ones((2, D + 1), np.float32))
    for reranker in (SurpriseReranker(ensemble), FusionReranker([CosineScorer(ensemble)])):
        with pytest.raises(DataError, match=rf"query's vector has shape \({D + 1},\), the candidates' have"):
            reranker.rerank(other, candidates)
    with pytest.raises(DataError, match=rf"expected \(m, {D}\)"):
        DynaMaxReranker().rerank(other, candidates)
    large = Ensemble.from_vectors(np.eye(D + 1))
    own = [SurpriseReranker(large, anchor=anchor) for anchor in ("document", "query")]
    for reranker in (*own, FusionReranker([CosineScorer(large)])):
        with pytest.raises(DataError, match=f"dimension {D}, expected {D + 1}"):
            reranker.rerank(query, candidates)
