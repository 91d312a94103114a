"""Several data sets and systems side by side: tables, differences with significance, averages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.reports.verdicts import difference_verdict
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.plots import plots
from surprise_rerank.eval.retrieval.results import Difference, SystemResult
from surprise_rerank.eval.retrieval.settings import Test
from surprise_rerank.eval.stats.significance import (
    difference_interval,
    holm,
    paired_bootstrap,
    paired_randomization,
)

DIFFERENCE_COLUMNS = (
    Column("difference"),
    Column("low"),
    Column("high"),
    Column("p"),
    Column("p (Holm)"),
    Column("wins", leaves=3),
    Column("losses", leaves=2),
    Column("ties", leaves=1),
)

_TESTS = {"randomization": paired_randomization, "bootstrap": paired_bootstrap}


def compare(
    evaluations: Sequence[Evaluation], baseline: str = "cosine", test: Test = "randomization"
) -> Report:
    """The report of one or several data sets.

    Args:
        evaluations: by the same measures.
        baseline: the system that the others are compared with; nothing is compared where it is missing.
        test: the paired test of differences in the first measure.
    """
    found = with_holm([differences(evaluation, baseline, test) for evaluation in evaluations])
    tables = [
        _systems(evaluation, baseline, beside) for evaluation, beside in zip(evaluations, found, strict=True)
    ]
    if len(evaluations) > 1:
        tables.append(_averages(evaluations, baseline, test))
    for evaluation, beside in zip(evaluations, found, strict=True):
        if beside:
            tables.append(_differences(evaluation, baseline, test, beside))
    return Report(
        title="; ".join(evaluation.title for evaluation in evaluations),
        tables=tuple(tables),
        plots=tuple(
            plot
            for evaluation, beside in zip(evaluations, found, strict=True)
            for plot in plots(evaluation, baseline, beside)
        ),
        notes=() if len(evaluations) == 1 else _together(evaluations),
        facts={"evaluations": {evaluation.name: _facts(evaluation) for evaluation in evaluations}},
    )


def differences(evaluation: Evaluation, baseline: str, test: Test) -> tuple[Difference, ...]:
    """Every other system beside the baseline in the first measure; p is not corrected yet."""
    own = next((result for result in evaluation.results if result.name == baseline), None)
    if own is None:
        return ()
    first = values_of(own, evaluation.measures[0])
    found = []
    for result in evaluation.results:
        if result is own:
            continue
        second = values_of(result, evaluation.measures[0])
        gains = second - first
        low, high = difference_interval(first, second)
        p = _TESTS[test](first, second)
        wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
        ties = len(gains) - wins - losses
        found.append(Difference(result.name, float(gains.mean()), low, high, p, p, wins, losses, ties))
    return tuple(found)


def difference_cells(found: Difference) -> tuple[Cell, ...]:
    """What stands under `DIFFERENCE_COLUMNS`."""
    interval = (found.mean, found.low, found.high)
    return (*interval, found.p, found.corrected, found.wins, found.losses, found.ties)


def values_of(result: SystemResult, measure: str) -> Float64Array:
    """(n,) a system's values of every question, in the order of the questions' ids."""
    values = result.per_query[measure]
    return np.array([values[query] for query in sorted(values)])


def with_holm(found: Sequence[Sequence[Difference]]) -> list[tuple[Difference, ...]]:
    """The same differences with p corrected for all of them (Holm, 1979).

    Args:
        found: by data set, say; the parts stay apart.
    """
    flat = holm([difference.p for beside in found for difference in beside])
    corrected = iter(flat)
    return [
        tuple(replace(difference, corrected=next(corrected)) for difference in beside) for beside in found
    ]


def _systems(evaluation: Evaluation, baseline: str, beside: Sequence[Difference]) -> Table:
    measures = evaluation.measures
    tested = {difference.system: difference for difference in beside}
    columns = (
        Column("system"),
        Column(measures[0], best="max"),
        # Of these the last one leaves first.
        *(Column(measures[k], best="max", leaves=2 + len(measures) - k) for k in range(1, len(measures))),
        Column(f"p ({measures[0]} vs {baseline})", leaves=2),
        Column("p (Holm)", leaves=4 + len(measures)),
        Column("ms/question", digits=1, leaves=3 + len(measures)),
        Column("seconds", digits=1, leaves=1),
    )
    rows = []
    for result in evaluation.results:
        difference = tested.get(result.name)
        p: tuple[Cell, Cell] = (None, None)
        if difference is not None:
            p = (difference.p, difference.corrected)
        seconds = float(result.latencies.sum())
        rows.append((result.name, *(result.values[m] for m in measures), *p, result.milliseconds, seconds))
    verdict = _verdict(beside, baseline, measures[0])
    return Table(
        evaluation.name, evaluation.title, columns, tuple(rows), notes=evaluation.notes, verdict=verdict
    )


def _verdict(beside: Sequence[Difference], baseline: str, measure: str) -> str:
    """Of the system with the largest difference; empty where nothing was compared."""
    if not beside:
        return ""
    best = max(beside, key=lambda difference: difference.mean)
    questions = f"{best.wins + best.losses + best.ties} questions"
    interval = (best.low, best.high)
    return difference_verdict(best.system, baseline, measure, best.mean, interval, best.corrected, questions)


def _differences(evaluation: Evaluation, baseline: str, test: Test, beside: Sequence[Difference]) -> Table:
    columns = (Column("system"), *DIFFERENCE_COLUMNS)
    rows = tuple((difference.system, *difference_cells(difference)) for difference in beside)
    return Table(
        f"differences of {evaluation.name}",
        f"{evaluation.measures[0]} beside {baseline}, {evaluation.name}",
        columns,
        rows,
        notes=(
            f"low and high: 95 % BCa interval over questions; p: paired {test} test, two-sided; Holm's "
            "correction is for all comparisons of this report",
        ),
        detail=True,
    )


def _averages(evaluations: Sequence[Evaluation], baseline: str, test: Test) -> Table:
    measures = evaluations[0].measures
    columns = (
        Column("average"),
        Column("system"),
        *(Column(name) for name in measures),
        Column(f"p ({measures[0]} vs {baseline})"),
    )
    rows: list[tuple[Cell, ...]] = []
    results = [{result.name: result for result in evaluation.results} for evaluation in evaluations]
    common = [name for name in results[0] if all(name in others for others in results)]
    for name in common:
        means = [_mean([float(by_name[name].values[m]) for by_name in results]) for m in measures]
        rows.append(("macro", name, *means, None))
    for name in common:
        pooled = [float(_pooled(results, name, m).mean()) for m in measures]
        p = None
        if name != baseline and baseline in common:
            p = _TESTS[test](_pooled(results, baseline, measures[0]), _pooled(results, name, measures[0]))
        rows.append(("pooled", name, *pooled, p))
    title = f"averages over {len(evaluations)} data sets"
    note = (
        "macro: the mean of the data sets' means; pooled: the mean over all questions, and the paired "
        f"{test} test over them, not corrected"
    )
    return Table("averages", title, columns, tuple(rows), keys=2, notes=(note,))


def _pooled(results: Sequence[Mapping[str, SystemResult]], name: str, measure: str) -> Float64Array:
    return np.concatenate([values_of(by_name[name], measure) for by_name in results])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _together(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    seconds = sum(evaluation.facts["seconds_in_all"] for evaluation in evaluations)
    return (f"{len(evaluations)} data sets, {seconds:.1f} s in all",)


def _facts(evaluation: Evaluation) -> Mapping[str, object]:
    systems = {result.name: _system(result) for result in evaluation.results}
    return {**evaluation.facts, "notes": list(evaluation.notes), "systems": systems}


def _system(result: SystemResult) -> Mapping[str, object]:
    return {
        "values": dict(result.values),
        "seconds": float(result.latencies.sum()),
        "milliseconds_median": result.milliseconds,
        "milliseconds_p95": 1000 * float(np.percentile(result.latencies, 95)),
        "per_question": {name: dict(values) for name, values in result.per_query.items()},
    }
