"""Plots of an evaluation of retrieval: recall over depth, gains and losses, scores, time against quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from surprise_rerank.candidates import Ranking
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.eval.reports.report import Plot, Series
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.results import SystemResult

_BINS = 40
# Scores beyond these percentiles would squeeze the others into a few bins.
_SHOWN = (0.5, 99.5)


def plots(evaluation: Evaluation, baseline: str) -> Iterator[Plot]:
    """All plots of one data set.

    Args:
        evaluation: of at least one system.
        baseline: the system whose questions gains and losses are counted from; none are drawn without it.
    """
    yield _recall(evaluation)
    timed = [result for result in evaluation.results if np.isfinite(result.milliseconds)]
    if len(timed) > 1:
        yield _latency(evaluation, timed)
    own = next((result for result in evaluation.results if result.name == baseline), None)
    for result in evaluation.results:
        if own is not None and result is not own:
            yield _gains(evaluation, own, result)
    for result in evaluation.results:
        distribution = _scores(evaluation, result)
        if distribution is not None:
            yield distribution


def recall_over_depth(
    run: Mapping[str, Ranking], qrels: Mapping[str, Mapping[str, int]], depths: IntArray
) -> Float64Array:
    """(k,) the mean share of relevant documents among the first so many, over questions that have any.

    Args:
        run: question id -> ranking.
        qrels: question id -> document id -> relevance; above 0 is relevant.
        depths: (k,) ascending.
    """
    shares = []
    for query, judged in qrels.items():
        relevant = {name for name, grade in judged.items() if grade > 0}
        if not relevant:
            continue
        ranking = run.get(query)
        ids = () if ranking is None else ranking.ids
        found = np.cumsum([0, *(name in relevant for name in ids)])
        shares.append(found[np.minimum(depths, len(ids))] / len(relevant))
    return np.mean(shares, axis=0) if shares else np.zeros(len(depths))


def _recall(evaluation: Evaluation) -> Plot:
    longest = max((len(r) for result in evaluation.results for r in result.run.values()), default=1)
    depths = np.unique(np.geomspace(1, max(longest, 2), 40).round().astype(np.int64))
    series = tuple(
        Series(
            result.name,
            tuple(depths.astype(float).tolist()),
            tuple(recall_over_depth(result.run, evaluation.qrels, depths).tolist()),
        )
        for result in evaluation.results
    )
    return Plot(
        "line",
        f"Recall over depth, {evaluation.name}",
        "documents looked at",
        "share of relevant documents found",
        series,
        "Systems that re-rank one pool meet at its end.",
        log_x=True,
    )


def _latency(evaluation: Evaluation, timed: list[SystemResult]) -> Plot:
    measure = evaluation.measures[0]
    series = tuple(Series(result.name, (result.milliseconds,), (result.values[measure],)) for result in timed)
    return Plot(
        "scatter",
        f"Latency against quality, {evaluation.name}",
        "milliseconds a question, median",
        measure,
        series,
        "Retrieval and re-ranking, without encoding the question. Up and left is better.",
        log_x=True,
    )


def _gains(evaluation: Evaluation, own: SystemResult, result: SystemResult) -> Plot:
    measure = evaluation.measures[0]
    before, after = own.per_query[measure], result.per_query[measure]
    gains = sorted(((after[q] - before[q], q) for q in before), reverse=True)
    better = sum(gain > 0 for gain, _ in gains)
    worse = sum(gain < 0 for gain, _ in gains)
    series = Series(result.name, tuple(q for _, q in gains), tuple(gain for gain, _ in gains))
    return Plot(
        "bars",
        f"Gains and losses of {result.name} beside {own.name}, {evaluation.name}",
        "questions, sorted",
        f"difference in {measure}",
        (series,),
        f"{better} questions gain, {worse} lose, {len(gains) - better - worse} stay.",
    )


def _scores(evaluation: Evaluation, result: SystemResult) -> Plot | None:
    """The scores of relevant documents and of the others; None where either are missing or all are equal."""
    relevant: list[float] = []
    others: list[float] = []
    for query, ranking in result.run.items():
        judged = evaluation.qrels.get(query, {})
        for name, score in zip(ranking.ids, ranking.scores.tolist(), strict=True):
            if np.isfinite(score):
                (relevant if judged.get(name, 0) > 0 else others).append(score)
    if not relevant or not others:
        return None
    low, high = np.percentile([*relevant, *others], _SHOWN)
    if not low < high:
        return None
    borders = np.linspace(low, high, _BINS + 1)
    series = tuple(
        Series(
            name,
            tuple(borders.tolist()),
            tuple((np.histogram(np.clip(scores, low, high), borders)[0] / len(scores)).tolist()),
        )
        for name, scores in (("others", others), ("relevant", relevant))
    )
    return Plot(
        "histogram",
        f"Scores of {result.name}, {evaluation.name}",
        "score",
        "share of documents",
        series,
        f"{len(relevant)} relevant and {len(others)} other documents in the rankings; the outermost bins "
        "hold what lies beyond them.",
    )
