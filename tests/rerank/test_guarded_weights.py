"""Weights learned from judged questions, and the guard that declines them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from helpers.words import WordEncoder
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import optimize

from surprise_rerank import (
    Candidates,
    DataError,
    Document,
    DynaMaxScorer,
    FusionReranker,
    Passage,
    Pipeline,
    Query,
    Ranking,
)
from surprise_rerank._candidates import Field
from surprise_rerank.rerank import RetrievedScorer, WeightFit, fit_guarded
from surprise_rerank.rerank._fusion import weighted_sum
from surprise_rerank.rerank._weight_fitting import _smooth_ndcg, refine_weights

Judged = tuple[Query, Candidates, Mapping[str, float]]

SCORERS = ("good", "other")


def sum_of(*names: str, **weights: float) -> FusionReranker:
    return FusionReranker([RetrievedScorer(name) for name in names or SCORERS], "sum", weights)


def question(seed: int, truth: Mapping[str, float], n: int = 30, relevant: int = 2) -> Judged:
    """A pool whose relevant documents are drawn by the softmax of a weighted sum of its scores."""
    rng = np.random.default_rng(seed)
    scores = {name: rng.normal(size=n) for name in truth}
    logits = sum(weight * scores[name] for name, weight in truth.items())
    shares = np.exp(logits - logits.max())
    rows = rng.choice(n, p=shares / shares.sum(), size=relevant, replace=False)
    ids = tuple(f"d{i}" for i in range(n))
    return Query("", id=f"q{seed}"), Candidates(ids, scores), {ids[row]: 1.0 for row in rows}


def questions(count: int, truth: Mapping[str, float], first: int = 0) -> list[Judged]:
    return [question(seed, truth) for seed in range(first, first + count)]


def mean_ndcg(reranker: FusionReranker, judged: list[Judged]) -> float:
    shares = []
    for query, pool, gains in judged:
        order = reranker.rerank(query, pool).ids[:10]
        dcg = sum(gains.get(name, 0.0) / math.log2(rank + 2) for rank, name in enumerate(order))
        ideal = sum(g / math.log2(r + 2) for r, g in enumerate(sorted(gains.values(), reverse=True)[:10]))
        shares.append(dcg / ideal)
    return sum(shares) / len(shares)


def gain(fit: WeightFit) -> float:
    assert fit.after is not None
    return fit.after - fit.before


# Refined weights


def test_refined_weights_move_to_the_scorer_that_knows():
    judged = questions(150, {"good": 2.0, "other": 0.0})
    pools = [pool.scores for _, pool, _ in judged]
    gains = [np.array([grades.get(name, 0.0) / 1.63 for name in pool.ids]) for _, pool, grades in judged]
    refined = refine_weights(pools, gains, {})
    assert refined["good"] > 4 * refined["other"]
    assert sum(refined.values()) == pytest.approx(2.0)
    few = refine_weights(pools[:3], gains[:3], {})
    assert 1 < few["good"] < refined["good"]


@given(st.integers(0, 2**32 - 1))
def test_the_smooth_ndcg_equals_the_loop_and_its_slope_is_its_own(seed):
    rng = np.random.default_rng(seed)
    n, relevant = 9, np.array([1, 4, 7])
    scores, gains, factors = rng.normal(size=(n, 3)), rng.uniform(0.1, 1, 3), rng.uniform(0.1, 2, 3)

    def by_loop(trial: np.ndarray) -> float:
        totals = [sum(trial[k] * scores[i, k] for k in range(3)) for i in range(n)]
        total = 0.0
        for gain, i in zip(gains, relevant, strict=True):
            rank = 1 + sum(1 / (1 + math.exp(totals[i] - totals[j])) for j in range(n) if j != i)
            total += gain / math.log2(1 + rank)
        return total

    value, slope = _smooth_ndcg(scores, gains, relevant, factors)
    assert value == pytest.approx(by_loop(factors))
    np.testing.assert_allclose(slope, optimize.approx_fprime(factors, by_loop), atol=1e-5)


@example(77, 81.0)  # where two nearby optima are as good, and rounding chooses
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 100))
def test_refined_weights_do_not_depend_on_the_scale_of_scores(seed, scale):
    judged = questions(8, {"good": 1.0, "other": 0.5}, seed % 1000)
    gains = [np.array([grades.get(name, 0.0) for name in pool.ids]) for _, pool, grades in judged]
    plain = refine_weights([pool.scores for _, pool, _ in judged], gains, {})
    scaled = [{name: scale * values for name, values in pool.scores.items()} for _, pool, _ in judged]
    assert refine_weights(scaled, gains, {}) == pytest.approx(plain, abs=2e-2)


def test_no_weight_stays_none_and_a_sign_stays():
    judged = questions(20, {"good": 1.0, "other": 1.0, "worse": -1.0})
    gains = [np.array([grades.get(name, 0.0) for name in pool.ids]) for _, pool, grades in judged]
    pools = [pool.scores for _, pool, _ in judged]
    refined = refine_weights(pools, gains, {"other": 0.0, "worse": -0.5})
    assert refined["other"] == 0
    assert refined["worse"] < 0 < refined["good"]
    with pytest.raises(DataError, match="all weights of good, other, worse are 0"):
        refine_weights(pools, gains, dict.fromkeys(pools[0], 0.0))


# The guard


def test_better_weights_are_accepted_and_rank_new_questions_better():
    truth = {"good": 2.0, "other": 0.2}
    reranker, judged = sum_of(good=0.7), questions(80, truth)
    fit = fit_guarded(reranker, judged)
    assert fit.accepted
    assert fit.before == pytest.approx(mean_ndcg(reranker, judged))
    assert (fit.questions, fit.taught) == (80, 80)
    assert fit.start == {"good": 0.7, "other": 1.0}
    assert gain(fit) > 1.645 * (fit.error or 0) > 0
    assert fit.weights["good"] > fit.weights["other"]
    new = questions(100, truth, 1000)
    assert mean_ndcg(reranker.weighted(fit.weights), new) > mean_ndcg(reranker, new)
    assert str(fit).startswith("weights fitted on 80 questions: good 1.")


@pytest.mark.parametrize(
    "change",
    [
        lambda judged: [
            (q, pool.take(range(len(pool))[::-1]), dict(gains)) for q, pool, gains in judged[::-1]
        ],
        lambda judged: [*judged, (Query("", id="none"), judged[0][1], {"d0": 0.0, "d1": -1.0})],
        lambda judged: [(query, _in_passages(pool), gains) for query, pool, gains in judged],
    ],
    ids=["another order", "a question without a relevant document", "documents in passages"],
)
def test_what_says_nothing_new_changes_nothing(change):
    judged = questions(30, {"good": 2.0, "other": 0.2})
    assert fit_guarded(sum_of(), change(judged)) == fit_guarded(sum_of(), judged)


def test_too_few_questions_to_learn_from_change_nothing():
    judged = questions(19, {"good": 2.0, "other": 0.0})
    lost = [(Query("", id=f"lost{i}"), judged[0][1], {"elsewhere": 1.0}) for i in range(30)]
    fit = fit_guarded(sum_of(), judged + lost)
    assert not fit.accepted
    assert (fit.questions, fit.taught, fit.after, fit.error) == (49, 19, None, None)
    assert fit.before == pytest.approx(mean_ndcg(sum_of(), judged) * 19 / 49)
    assert "19 of 49 questions have a relevant document in their pool, and 20 are needed" in str(fit)
    assert fit_guarded(sum_of(), questions(20, {"good": 2.0, "other": 0.0})).after is not None


def _in_passages(pool: Candidates) -> Candidates:
    """Every document with a second passage that has nothing to say."""
    n = len(pool)
    second = {name: values - 100 for name, values in pool.scores.items()}
    return Candidates(
        pool.ids * 2,
        {name: np.concatenate([values, second[name]]) for name, values in pool.scores.items()},
        passages=tuple(Passage(0, 1, 0) for _ in range(n)) + tuple(Passage(1, 2, 1) for _ in range(n)),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda judged: [], "questions with a relevant document must be at least one, got none"),
        (
            lambda judged: [(q, pool, {}) for q, pool, _ in judged],
            "questions with a relevant document must be at least one, got none",
        ),
        (lambda judged: [*judged, judged[0]], "a question must be another than those before, got 'q0'"),
        (
            lambda judged: [(*judged[0][:2], {"d0": math.nan})],
            r"the gains of 'q0'\['d0'\] must be a number, got nan",
        ),
        (
            lambda judged: [(*judged[0][:2], {"d0": math.inf})],
            r"the gains of 'q0'\['d0'\] must be a number, got inf",
        ),
    ],
)
def test_judgements_that_cannot_be_learned_from_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        fit_guarded(sum_of(), change(questions(3, {"good": 1.0, "other": 1.0})))


# Pipelines


@dataclass(frozen=True)
class Drawn:
    """A retriever whose scores are drawn for every question, by the number that it ends with."""

    truth: Mapping[str, float] = field(default_factory=lambda: {"good": 2.0, "other": 0.2})

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        _, pool, _ = question(int(query.text.split()[-1]), self.truth)
        pool = pool.take(range(len(pool))[:depth])
        documents = tuple(Document(name, name) for name in pool.ids) if "documents" in fields else None
        return replace(pool, documents=documents)


def judged_texts(count: int) -> tuple[dict[str, str], dict[str, dict[str, float]]]:
    drawn = questions(count, Drawn().truth)
    texts = {query.id: f"question {i}" for i, (query, _, _) in enumerate(drawn)}
    return texts, {query.id: dict(gains) for query, _, gains in drawn}


def test_a_pipeline_with_fitted_weights_is_another_one():
    pipeline = Pipeline(WordEncoder(), Drawn(), sum_of())
    texts, qrels = judged_texts(60)
    done: list[int] = []
    fitted = pipeline.fit({**texts, "unjudged": "question 7"}, qrels, on_progress=done.append)
    assert fitted.accepted
    assert sum(done) == 60
    assert fitted.pipeline != pipeline
    assert pipeline.reranker == sum_of()
    assert isinstance(fitted.pipeline.reranker, FusionReranker)
    assert fitted.pipeline.reranker.weights == fitted.weights
    first = Drawn().retrieve(Query("question 3"), 100)
    expected = Ranking.order(first, weighted_sum(first.scores, fitted.weights)).ids[:10]
    assert fitted.pipeline.search("question 3").ids == expected
    assert str(fitted).startswith("weights fitted on 60 questions")
    few = pipeline.fit(*judged_texts(5))
    assert not few.accepted
    assert few.pipeline is pipeline
    with pytest.raises(DataError, match=r"the re-ranker DynaMaxScorer.*the systems auto and fusion"):
        Pipeline(WordEncoder(), Drawn(), DynaMaxScorer()).fit(*judged_texts(3))
    with pytest.raises(DataError, match=r"no re-ranker, which"):
        Pipeline(WordEncoder(), Drawn()).fit(*judged_texts(3))


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (
            {"q0": {"d1": 1.0}, "q99": {"d1": 1.0}},
            "a question of qrels must be one of the questions, got 'q99'",
        ),
        ({"q0": {"d1": 0.0}}, "questions with a relevant document must be at least one, got none"),
    ],
)
def test_questions_and_judgements_must_fit_together(qrels, message):
    with pytest.raises(DataError, match=message):
        Pipeline(WordEncoder(), Drawn(), sum_of()).fit(judged_texts(3)[0], qrels)
