"""Pictures of an evaluation of retrieval: the comparison, gains and losses by question, quality and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from surprise_rerank.eval.reports.report import Plot, Series
from surprise_rerank.eval.reports.verdicts import short
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.results import Difference, SystemResult

_NAMED = 8  # questions with the largest gains, and as many with the largest losses


def plots(evaluation: Evaluation, baseline: str, beside: Sequence[Difference]) -> Iterator[Plot]:
    """The pictures of one data set; without differences to the baseline only quality and time."""
    results = {result.name: result for result in evaluation.results}
    if beside:
        ordered = sorted(beside, key=lambda difference: -difference.mean)
        yield _comparison(evaluation, results, baseline, ordered)
        yield _gains(evaluation, results[baseline], results[ordered[0].system])
    timed = [result for result in evaluation.results if np.isfinite(result.milliseconds)]
    if len(timed) > 1 and evaluation.measures:
        yield _time(evaluation, timed)


def _comparison(
    evaluation: Evaluation, results: dict[str, SystemResult], baseline: str, ordered: Sequence[Difference]
) -> Plot:
    measure = evaluation.measures[0]
    above, below = sum(d.low > 0 for d in ordered), sum(d.high < 0 for d in ordered)
    series = Series(
        "difference",
        tuple(f"{d.system} {short(results[d.system].values[measure])}" for d in ordered),
        tuple(d.mean for d in ordered),
        tuple(d.low for d in ordered),
        tuple(d.high for d in ordered),
    )
    return Plot(
        "bars",
        f"{measure} beside {baseline}, {evaluation.name}",
        "system",
        f"difference to {baseline} ({short(results[baseline].values[measure])}) in {measure}",
        (series,),
        f"Lines are 95 % BCa intervals over {len(evaluation.qrels)} questions.",
        finding=f"Of {len(ordered)} systems the interval lies above 0 for {above}, and below 0 for {below}.",
    )


def _gains(evaluation: Evaluation, baseline_result: SystemResult, result: SystemResult) -> Plot:
    measure = evaluation.measures[0]
    before, after = baseline_result.per_query[measure], result.per_query[measure]
    gains = sorted(((after[q] - before[q], q) for q in before), reverse=True)
    better, worse = [gain for gain in gains if gain[0] > 0], [gain for gain in gains if gain[0] < 0]
    shown = [*better[:_NAMED], *worse[-_NAMED:]]
    words = tuple(evaluation.questions.get(query) or query for _, query in shown)
    return Plot(
        "bars",
        f"Gains and losses of {result.name} beside {baseline_result.name}, {evaluation.name}",
        "question",
        f"difference in {measure}, {result.name} minus {baseline_result.name}",
        (Series(result.name, words, tuple(gain for gain, _ in shown)),),
        f"The {_NAMED} questions that gain most, and the {_NAMED} that lose most.",
        finding=f"{measure} rises for {len(better)} of {len(gains)} questions, falls for {len(worse)}, and "
        f"stays for {len(gains) - len(better) - len(worse)}.",
    )


def _time(evaluation: Evaluation, timed: Sequence[SystemResult]) -> Plot:
    measure = evaluation.measures[0]
    quality = {result.name: result.values[measure] for result in timed}
    best = max(timed, key=lambda result: quality[result.name])
    fastest = min(timed, key=lambda result: result.milliseconds)
    return Plot(
        "scatter",
        f"Quality and time, {evaluation.name}",
        "milliseconds a question, median",
        measure,
        tuple(Series(result.name, (result.milliseconds,), (quality[result.name],)) for result in timed),
        "Retrieval and re-ranking, without encoding the question. Up and left is better.",
        log_x=True,
        finding=f"{best.name} has the most {measure}, {short(quality[best.name])}, in "
        f"{best.milliseconds:.1f} ms; {fastest.name} is the fastest, {fastest.milliseconds:.1f} ms with "
        f"{short(quality[fastest.name])}.",
    )
