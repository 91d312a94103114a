"""Fusion: every scale against a loop that reads like its definition, and what is left out or refused."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.fusion import surprise_normalized
from surprise_rerank.rerank.rerankers import FusionReranker
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer
from surprise_rerank.surprise.ensemble import Ensemble

on_grid = st.integers(-8, 8).map(lambda i: i / 4)
# Ties and gaps: NaN is a document that the scorer did not look at.
values = st.one_of(on_grid, on_grid, st.just(math.nan))
scores = st.lists(values, max_size=12)
D = 6


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
    found = []
    for value in values:
        joined = [*others, 0.0 if math.isnan(value) else value]
        mean, deviation = statistics.fmean(joined), statistics.pstdev(joined)
        silent = math.isnan(value) or not others or deviation < 1e-9
        found.append(0.0 if silent else (value - mean) / deviation)
    return found


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
        scores={name: np.array(own) for name, own in drawn.items()},
        corpus_moments=dict.fromkeys(drawn, Moments.of(np.array(others))),
    )
    fusion = FusionReranker([RetrievedScorer(name) for name in drawn], method, {"b": weight})
    ranking = fusion.rerank(Query("q"), pool)
    rows = ranking.rows_in(pool)
    expected = {name: np.array(SCALES[method](own, others)) for name, own in drawn.items()}
    for name, own in expected.items():
        np.testing.assert_allclose(ranking.parts[name], own[rows], rtol=1e-9, atol=1e-9)
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
    told = [(value, own) for value, own in zip(values, z, strict=True) if not math.isnan(value)]
    assert all(a[1] <= b[1] + 1e-12 for a in told for b in told if a[0] <= b[0])
    np.testing.assert_allclose(surprise_normalized(values[::2], moments), z[::2], rtol=1e-12)


def scene(n: int = 8) -> tuple[Query, Candidates, Ensemble]:
    rng = np.random.default_rng(n)

    def units(count: int) -> np.ndarray:
        return unit_rows(rng.normal(size=(count, D)) + 0.4)

    bm25 = rng.uniform(0, 20, size=n)
    bm25[::3] = np.nan
    candidates = Candidates(
        ids=tuple(f"d{i:02}" for i in rng.permutation(n)),
        scores={"bm25": bm25},
        dense=units(n),
        tokens=TokenBatch.from_arrays([units(int(k)) for k in rng.integers(0, 6, size=n)], D),
        corpus_moments={"bm25": Moments(np.array(2.0), np.array(1.5))},
    )
    return Query("q", units(1)[0], units(3)), candidates, Ensemble.from_vectors(units(50))


def test_a_corpus_sample_without_texts_gives_dynamax_no_say():
    query, candidates, ensemble = scene()
    fusion = FusionReranker([CosineScorer(ensemble), DynaMaxScorer(TokenBatch.from_arrays([], D))])
    ranking = fusion.rerank(query, candidates)
    assert not ranking.parts["dynamax"].any()
    np.testing.assert_array_equal(ranking.scores, ranking.parts["cosine"])


@pytest.mark.parametrize(
    ("lost", "note", "left"),
    [
        ({"tokens": None}, "without token vectors: {} none, so dynamax was left out", ("bm25", "cosine")),
        ({"dense": None}, "without dense vectors: {} none, so cosine was left out", ("bm25", "dynamax")),
        ({"scores": {}}, "without scores of bm25: {} none, so it was left out", ("cosine", "dynamax")),
    ],
)
def test_a_scorer_whose_needs_are_not_there_is_left_out_and_told(lost: dict, note: str, left: tuple):
    query, candidates, ensemble = scene()
    scorers = [RetrievedScorer("bm25"), CosineScorer(ensemble), DynaMaxScorer(candidates.tokens)]
    fusion = FusionReranker(scorers)
    assert fusion.needs == {"dense", "tokens"}
    whole = fusion.rerank(query, candidates)
    assert not whole.notes
    expected = {name: sum(whole.parts[part][i] for part in left) for i, name in enumerate(whole.ids)}
    cases = [(query, replace(candidates, **lost), "the candidates have")]
    if "scores" not in lost:
        cases.append((replace(query, **lost), candidates, "the question has"))
    for asked, pool, who in cases:
        ranking = fusion.rerank(asked, pool)
        assert ranking.notes == (note.format(who),)
        assert tuple(ranking.parts) == left
        assert dict(zip(ranking.ids, ranking.scores, strict=True)) == pytest.approx(expected)


BM25 = RetrievedScorer("bm25")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scorers": []}, "scorers of different names"),
        ({"scorers": [BM25, BM25]}, r"scorers of different names, got \['bm25', 'bm25'\]"),
        ({"scorers": [BM25], "weights": {"bm52": 1.0}}, "weights for bm52, but the scorers are bm25"),
        ({"scorers": [BM25], "method": "add"}, "'add' is not known; choose one of surprise, rrf, minmax"),
    ],
)
def test_a_fusion_that_makes_no_sense_is_refused_when_it_is_made(arguments: dict, message: str):
    with pytest.raises(DataError, match=message):
        FusionReranker(**arguments)


def test_what_a_fusion_lacks_is_named_with_what_to_do():
    query, candidates, ensemble = scene()
    with pytest.raises(DataError, match=r"no scores of 'splade' \(they have: bm25\)"):
        FusionReranker([RetrievedScorer("splade")], "rrf").rerank(query, candidates)
    with pytest.raises(DataError, match=r"\(they have: none\)"):
        FusionReranker([RetrievedScorer("splade")], "rrf").rerank(query, Candidates(ids=("a",)))
    with pytest.raises(DataError, match="is nan"):
        FusionReranker([CosineScorer(ensemble)], weights={"cosine": math.nan}).rerank(query, candidates)
    bare = Candidates(ids=("a", "b"), scores={"bm25": np.array([1.0, 2.0])})
    with pytest.raises(DataError, match="'bm25' gave no moments over the corpus; use rrf or minmax"):
        FusionReranker([BM25]).rerank(query, bare)
    assert FusionReranker([BM25], "rrf").rerank(query, bare).ids == ("b", "a")
