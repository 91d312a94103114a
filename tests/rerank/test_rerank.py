"""Re-rankers: each against its formula, and what they say when something is missing."""

import math
import statistics
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import (
    Candidates,
    CosineScorer,
    DataError,
    Document,
    DynaMax,
    DynaMaxScorer,
    Ensemble,
    FusionReranker,
    Query,
    SurpriseReranker,
)
from surprise_rerank.core.arrays import VectorSimilarity, unit_rows, vector_similarities
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank import RetrievedScorer
from surprise_rerank.rerank._fusion import surprise_normalized
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
def test_cosine_ranks_as_a_fusion_of_nothing_but_its_scorer(similarity):
    query, candidates, _ = scene()
    ranking = CosineScorer(similarity=similarity).rerank(query, candidates)
    alone = FusionReranker([CosineScorer(Ensemble.empty(D, similarity=similarity))], "sum")
    expected = alone.rerank(query, candidates)
    assert ranking.ids == expected.ids == in_order(candidates, similarities(query, candidates, similarity))
    for columns, other in ((ranking.parts, expected.parts), (ranking.raw, expected.raw)):
        assert list(columns) == list(other) == ["cosine"]
        np.testing.assert_array_equal(columns["cosine"], other["cosine"])
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
        Ensemble.from_vectors(members, similarity=similarity)
        for members in (ensemble.sample, candidates.dense)
    )
    ranking = SurpriseReranker(members, anchor=anchor, anchors=anchors, **options).rerank(query, candidates)
    psi = similarities(query, candidates, similarity)
    vectors = candidates.dense if anchor == "document" else query.dense[None]
    expected = Surprise(members, anchors=anchors, **options).scores(psi, vectors)
    rows = ranking.rows_in(candidates)
    np.testing.assert_allclose(ranking.scores, expected.score[rows], rtol=1e-6)
    name = "cosine" if similarity == "dot" else similarity
    for part, values in ((name, psi), ("z", expected.z), ("probability", expected.probability)):
        np.testing.assert_allclose(ranking.parts[part], values[rows], rtol=1e-6, err_msg=part)
    np.testing.assert_allclose(ranking.raw["surprise"], expected.z[rows], rtol=1e-6)
    assert (np.diff(ranking.scores) <= 0).all()
    assert [hit.document.text for hit in ranking] == list(ranking.ids)
    assert ranking.notes == ()
    if anchor == "query":
        assert ranking.ids == in_order(candidates, psi)


@pytest.mark.parametrize("anchor", ["document", "query"])
@pytest.mark.parametrize("members", [0, 1])
def test_a_note_says_that_surprise_is_not_defined(members, anchor):
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
def test_dynamax_orders_by_the_similarity_of_each_pair(similarity):
    query, candidates, _ = scene()
    ranking = DynaMaxScorer(similarity).rerank(query, candidates)
    for hit, row in zip(ranking, ranking.rows_in(candidates), strict=True):
        pair = similarity.pair(query.tokens, candidates.tokens[row])
        assert hit.score == hit.parts["dynamax"] == pytest.approx(pair, abs=1e-5)
    assert (np.diff(ranking.scores) <= 0).all()
    two = DynaMaxScorer(similarity, threads=2).rerank(query, candidates)
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
        (DynaMaxScorer(sample=others.tokens), DynaMax().pool(query.tokens, candidates.tokens), tokens),
    ):
        np.testing.assert_allclose(scorer.scores(query, candidates), scores, rtol=1e-6)
        moments = scorer.moments(query, candidates)
        np.testing.assert_allclose(moments.mean, usual.mean(), rtol=1e-5)
        np.testing.assert_allclose(moments.deviation, usual.std(), rtol=1e-5)


# What each needs, and what it refuses

RERANKERS = {
    "cosine": (CosineScorer(), {"dense"}),
    "surprise": (SurpriseReranker(Ensemble.empty(D)), {"dense"}),
    "dynamax": (DynaMaxScorer(), {"tokens"}),
    "fusion": (
        FusionReranker(
            [CosineScorer(Ensemble.empty(D)), DynaMaxScorer(sample=TokenBatch.from_arrays([], D))]
        ),
        {"dense", "tokens"},
    ),
    "retrieved": (FusionReranker([RetrievedScorer("bm25")]), set()),
}


@pytest.mark.parametrize("name", RERANKERS)
def test_a_reranker_names_the_fields_it_needs_and_works_with_those_alone(name):
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
        with pytest.raises(DataError, match=f"candidates' {field} vectors must be there, got None; have"):
            reranker.rerank(query, Candidates(ids=candidates.ids))
        with pytest.raises(DataError, match=f"query's {field} vectors? must be there, got None; encode it"):
            reranker.rerank(Query(text="q"), candidates)


@pytest.mark.parametrize("anchor", ["document", "query"])
@pytest.mark.parametrize("model", MODELS)
def test_an_empty_pool_has_an_empty_ranking(anchor, model):
    query, candidates, ensemble = scene()
    ensembles = (ensemble, Ensemble.empty(D))
    rerankers = [SurpriseReranker(members, model, anchor=anchor) for members in ensembles]
    for reranker in (*rerankers, *(reranker for reranker, _ in RERANKERS.values())):
        ranking = reranker.rerank(query, candidates.take([]))
        assert (len(ranking), list(ranking), ranking.documents, ranking.notes) == (0, [], (), ())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DynaMaxScorer(threads=0).rerank(*scene()[:2]), "threads must be"),
        (lambda: DynaMaxScorer(device="abacus").rerank(*scene()[:2]), "device 'abacus'"),
    ],
)
def test_unknown_settings_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_dynamax_without_any_token_vector_says_why_all_scores_are_0():
    query, candidates, _ = scene()
    none = TokenBatch.from_arrays([np.zeros((0, D))] * len(candidates), D)
    silent = replace(query, tokens=np.zeros((0, D), np.float32))
    ranking = DynaMaxScorer().rerank(silent, replace(candidates, tokens=none))
    assert not ranking.scores.any()
    assert ranking.notes == (
        "neither the question nor any candidate has a token vector, so all scores are 0",
    )
    assert DynaMaxScorer().rerank(silent, candidates).notes == ()


def test_vectors_of_another_dimension_are_refused():
    query, candidates, ensemble = scene()
    other = Query("q", np.ones(D + 1, np.float32), np.ones((2, D + 1), np.float32))
    for reranker in (SurpriseReranker(ensemble), FusionReranker([CosineScorer(ensemble)])):
        with pytest.raises(DataError, match=rf"query's vector must be \({D},\), got \({D + 1},\)"):
            reranker.rerank(other, candidates)
    with pytest.raises(DataError, match=rf"query's tokens must be \({D},\)"):
        DynaMaxScorer().rerank(other, candidates)
    large = Ensemble.from_vectors(np.eye(D + 1))
    rerankers = [SurpriseReranker(large, anchor=anchor) for anchor in ("document", "query")]
    for reranker in (*rerankers, FusionReranker([CosineScorer(large)])):
        with pytest.raises(DataError, match=rf"of shape \(n, {D + 1}\), got"):
            reranker.rerank(query, candidates)


# Fusion: every scale against a loop that reads like its definition, and what is left out or refused.

on_grid = st.integers(-8, 8).map(lambda i: i / 4)
# Ties and gaps: NaN is a document that the scorer did not look at.
values = st.one_of(on_grid, on_grid, st.just(math.nan))
scores = st.lists(values, max_size=12)


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list[float]]:
    """The scores of two scorers for as many documents."""
    n = draw(st.integers(0, 12))
    return {name: draw(st.lists(values, min_size=n, max_size=n)) for name in ("a", "b")}


def known(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def ranks_by_loop(values: list[float], others: list[float]) -> list[float]:
    better = [sum(other > value for other in values) for value in values]
    return [0.0 if math.isnan(v) else 1 / (60 + 1 + b) for v, b in zip(values, better, strict=True)]


def range_by_loop(values: list[float], others: list[float]) -> list[float]:
    if len(set(known(values))) < 2:
        return [0.0] * len(values)
    low, high = min(known(values)), max(known(values))
    return [0.0 if math.isnan(value) else (value - low) / (high - low) for value in values]


def z_by_loop(values: list[float], others: list[float]) -> list[float]:
    if len(set(known(values))) < 2:
        return [0.0] * len(values)
    mean, deviation = statistics.fmean(known(values)), statistics.pstdev(known(values))
    return [0.0 if math.isnan(value) else (value - mean) / deviation for value in values]


def surprise_by_loop(values: list[float], others: list[float]) -> list[float]:
    """Each value's deviations above the mean of the others together with itself."""
    deviations = []
    for value in values:
        joined = [*others, 0.0 if math.isnan(value) else value]
        mean, deviation = statistics.fmean(joined), statistics.pstdev(joined)
        silent = math.isnan(value) or not others or deviation < 1e-9
        deviations.append(0.0 if silent else (value - mean) / deviation)
    return deviations


SCALES = {
    "surprise": surprise_by_loop,
    "rrf": ranks_by_loop,
    "minmax": range_by_loop,
    "zscore": z_by_loop,
    "sum": lambda values, others: np.nan_to_num(values).tolist(),
}


@given(columns(), st.sampled_from([*SCALES]), st.lists(on_grid, max_size=8), on_grid)
def test_a_fusion_is_the_weighted_sum_of_scores_on_one_scale(drawn, method, others, weight):
    pool = Candidates(
        ids=tuple(f"d{i:02}" for i in range(len(drawn["a"]))),
        scores={name: np.array(values) for name, values in drawn.items()},
        corpus_moments=dict.fromkeys(drawn, Moments.of(np.array(others))),
    )
    fusion = FusionReranker([RetrievedScorer(name) for name in drawn], method, {"b": weight})
    ranking = fusion.rerank(Query("q"), pool)
    rows = ranking.rows_in(pool)
    expected = {name: np.array(SCALES[method](values, others)) for name, values in drawn.items()}
    for name, column in expected.items():
        part = (weight if name == "b" else 1.0) * column[rows]
        np.testing.assert_allclose(ranking.parts[name], part, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(ranking.raw[name], np.array(drawn[name])[rows])
    total = expected["a"] + weight * expected["b"]
    np.testing.assert_allclose(ranking.scores, total[rows], rtol=1e-9, atol=1e-9)
    assert (np.diff(ranking.scores) <= 0).all()


@given(scores, on_grid, st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 3.0]), st.integers(1, 200))
def test_surprise_has_bounds_and_does_not_depend_on_the_pool(values, mean, deviation, m):
    """No z is beyond the root of the number of scores that it is compared with."""
    moments = Moments(np.array(mean), np.array(deviation), members=m)
    z = surprise_normalized(values, moments)
    assert (np.abs(z) <= np.sqrt(m) * (1 + 1e-9)).all()
    pairs = [(value, z_value) for value, z_value in zip(values, z, strict=True) if not math.isnan(value)]
    assert all(a[1] <= b[1] + 1e-12 for a in pairs for b in pairs if a[0] <= b[0])
    np.testing.assert_allclose(surprise_normalized(values[::2], moments), z[::2], rtol=1e-12)


BM25 = RetrievedScorer("bm25")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scorers": []}, "scorers must be at least one, got none"),
        ({"scorers": [BM25, BM25]}, "the names of scorers must differ, got 'bm25' twice"),
        ({"scorers": [BM25], "weights": {"bm52": 1.0}}, r"weights\[0\]='bm52' is not known"),
        ({"scorers": [BM25], "method": "add"}, "'add' is not known; there are: surprise, rrf, minmax"),
    ],
)
def test_a_fusion_that_makes_no_sense_is_refused_when_it_is_made(arguments, message):
    with pytest.raises(DataError, match=message):
        FusionReranker(**arguments)


def test_what_a_fusion_lacks_is_named_with_what_to_do():
    query, candidates, ensemble = scene()
    with pytest.raises(DataError, match="the candidates' scores='splade' is not known"):
        FusionReranker([RetrievedScorer("splade")], "rrf").rerank(query, candidates)
    with pytest.raises(DataError, match="the candidates' scores='splade' is not known"):
        FusionReranker([RetrievedScorer("splade")], "rrf").rerank(query, Candidates(ids=("a",)))
    with pytest.raises(DataError, match="must be a number, got nan"):
        FusionReranker([CosineScorer(ensemble)], weights={"cosine": math.nan}).rerank(query, candidates)
    bare = Candidates(ids=("a", "b"), scores={"bm25": np.array([1.0, 2.0])})
    with pytest.raises(DataError, match="moments of 'bm25' over the corpus must be there, got None"):
        FusionReranker([BM25]).rerank(query, bare)
    assert FusionReranker([BM25], "rrf").rerank(query, bare).ids == ("b", "a")
