"""Several data sets and systems side by side: tables, differences with significance, pictures, files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.report import Cell, Column, Plot, Report, Series, Table
from surprise_rerank.eval.reports.writing import write_report
from surprise_rerank.eval.retrieval.evaluation import Evaluation, short_name
from surprise_rerank.eval.retrieval.runs import Difference, SystemResult, write_run
from surprise_rerank.eval.stats import difference_interval, holm, paired_randomization

# What the columns mean, by the names of measures without their cutoffs.
_MEANINGS = {
    "nDCG": "gain of the relevant documents found, less the later they come, as a share of the possible",
    "R": "share of the relevant that is found (recall)",
    "RR": "1 / the rank of the first relevant one (MRR)",
    "AP": "mean precision at the ranks of the relevant documents",
    "P": "share of the documents found that is relevant",
    "Success": "share of questions with a relevant one (hit rate)",
}

_NAMED = 8  # questions with the largest gains, and as many with the largest losses
LEVEL = 0.05  # at which differences are called significant


def compare(
    evaluations: Sequence[Evaluation], baseline: str = "cosine", *, all_pairs: bool = False
) -> Report:
    """The report of one or several data sets; nothing is compared where the baseline is missing."""
    tested = [differences(evaluation, baseline) for evaluation in evaluations]
    p_values = iter(holm([difference.p for beside in tested for difference in beside]))
    corrected = [tuple(replace(each, corrected=next(p_values)) for each in beside) for beside in tested]
    pairs = list(zip(evaluations, corrected, strict=True))
    tables = [_systems(evaluation, baseline, beside) for evaluation, beside in pairs]
    if len(evaluations) > 1 and evaluations[0].measures:
        tables.append(_averages(evaluations, baseline))
    tables += [_differences(evaluation, baseline, beside) for evaluation, beside in pairs if beside]
    tables += [_all_pairs(evaluation) for evaluation in evaluations if all_pairs and evaluation.measures]
    facts = {evaluation.name: _facts(evaluation, beside) for evaluation, beside in pairs}
    return Report(
        title="; ".join(evaluation.title for evaluation in evaluations),
        tables=tuple(tables),
        plots=tuple(plot for evaluation, beside in pairs for plot in plots(evaluation, baseline, beside)),
        notes=tuple(_meanings(evaluations[0].measures, baseline if any(corrected) else "")),
        facts=facts[evaluations[0].name] if len(evaluations) == 1 else {"datasets": facts},
    )


def differences(evaluation: Evaluation, baseline: str) -> tuple[Difference, ...]:
    """Every other system beside the baseline in the first measure; p is not corrected yet."""
    names = [result.name for result in evaluation.results]
    if baseline not in names or not evaluation.measures:
        return ()
    first = _values(evaluation.results[names.index(baseline)], evaluation.measures[0])
    beside = []
    for result in (result for result in evaluation.results if result.name != baseline):
        second = _values(result, evaluation.measures[0])
        gains = second - first
        low, high = difference_interval(first, second)
        p = paired_randomization(first, second)
        wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
        ties = len(gains) - wins - losses
        beside.append(Difference(result.name, float(gains.mean()), low, high, p, p, wins, losses, ties))
    return tuple(beside)


def _values(result: SystemResult, measure: str) -> Float64Array:
    """(n,) a system's values of every question, in the order of the questions' ids."""
    values = result.per_query[measure]
    return np.array([values[query] for query in sorted(values)])


def _systems(evaluation: Evaluation, baseline: str, beside: Sequence[Difference]) -> Table:
    tested = {difference.system: difference.corrected for difference in beside}
    columns = [Column("system"), *(Column(name, best="max") for name in evaluation.measures)]
    columns += [*([Column("p (Holm)")] if beside else []), Column("ms/question", digits=1)]
    rows: list[tuple[Cell, ...]] = []
    for result in evaluation.results:
        p = [tested.get(result.name)] if beside else []
        rows.append((result.name, *(result.values[m] for m in evaluation.measures), *p, result.milliseconds))
    verdict = ""
    if beside:
        best = max(beside, key=lambda difference: difference.mean)
        verdict = difference_verdict(best, baseline, evaluation.measures[0], len(evaluation.qrels))
    name, notes = evaluation.name, evaluation.notes
    return Table(name, evaluation.title, tuple(columns), tuple(rows), notes=notes, verdict=verdict)


def _meanings(measures: Sequence[str], baseline: str) -> Iterator[str]:
    """What the columns mean, in lines below the tables."""
    families: dict[str, list[str]] = {}
    for measure in measures:
        families.setdefault(measure.partition("@")[0].partition("(")[0], []).append(measure)
    explained = [family for family in families if family in _MEANINGS]
    described = [f"{', '.join(families[family])}: {_MEANINGS[family]}" for family in explained]
    if described:
        yield "; ".join(described)
    if baseline:
        yield (
            f"p (Holm): how likely chance alone makes such a difference to {baseline} in {measures[0]} "
            "(paired randomisation test, corrected for all comparisons)"
        )
    yield "ms/question: median time of retrieval and re-ranking, without encoding the question"


def _differences(evaluation: Evaluation, baseline: str, beside: Sequence[Difference]) -> Table:
    names = ("system", "difference", "low", "high", "p", "p (Holm)", "wins", "losses", "ties")
    return Table(
        f"differences of {evaluation.name}",
        f"{evaluation.measures[0]} beside {baseline}, {evaluation.name}",
        tuple(map(Column, names)),
        tuple(map(astuple, beside)),
        notes=("low and high: 95 % BCa interval over questions; p: before Holm's correction",),
        detail=True,
    )


def _all_pairs(evaluation: Evaluation) -> Table:
    """Every system beside every later one: differences in each measure, p corrected for the whole table."""
    measures = evaluation.measures
    pairs = list(itertools.combinations(evaluation.results, 2))
    values = [[(_values(a, m), _values(b, m)) for m in measures] for a, b in pairs]
    corrected = iter(holm([paired_randomization(first, second) for row in values for first, second in row]))
    rows: list[tuple[Cell, ...]] = []
    for (a, b), row in zip(pairs, values, strict=True):
        gains = [(float((second - first).mean()), next(corrected)) for first, second in row]
        rows.append((a.name, b.name, *itertools.chain(*gains)))
    columns = [Column(name) for measure in measures for name in (measure, f"p {measure}")]
    return Table(
        f"pairs of {evaluation.name}",
        f"every system beside every other one, {evaluation.name}",
        (Column("system"), Column("other"), *columns),
        tuple(rows),
        keys=2,
        notes=(
            "the other minus the system; p: paired randomisation test, with Holm's correction for all "
            f"{len(pairs) * len(measures)} of the table",
        ),
    )


def _averages(evaluations: Sequence[Evaluation], baseline: str) -> Table:
    measures = evaluations[0].measures
    results = [{result.name: result for result in evaluation.results} for evaluation in evaluations]
    common = [name for name in results[0] if all(name in others for others in results)]

    def pooled(name: str, measure: str) -> Float64Array:
        return np.concatenate([_values(by_name[name], measure) for by_name in results])

    rows: list[tuple[Cell, ...]] = []
    for name in common:
        means = [float(np.mean([by_name[name].values[m] for by_name in results])) for m in measures]
        rows.append(("macro", name, *means, None))
    for name in common:
        p = None
        if name != baseline and baseline in common:
            p = paired_randomization(pooled(baseline, measures[0]), pooled(name, measures[0]))
        rows.append(("pooled", name, *(float(pooled(name, m).mean()) for m in measures), p))
    return Table(
        "averages",
        f"averages over {len(evaluations)} data sets",
        (Column("average"), Column("system"), *map(Column, measures), Column("p")),
        tuple(rows),
        keys=2,
        notes=(
            "macro: the mean of the data sets' means; pooled: the mean over all questions, and the paired "
            "randomisation test over them, not corrected",
        ),
    )


def _facts(evaluation: Evaluation, differences_to: Sequence[Difference]) -> dict[str, Any]:
    """What was measured, for programs: every system's figures, and every question's."""
    tested = {difference.system: difference for difference in differences_to}
    systems: dict[str, dict[str, Any]] = {}
    for result in evaluation.results:
        systems[result.name] = {
            **result.values,
            "milliseconds": result.milliseconds,
            "milliseconds_p95": 1000 * float(np.percentile(result.latencies, 95)),
        }
        if beside := tested.get(result.name):
            ends = {"difference": beside.mean, "low": beside.low, "high": beside.high}
            systems[result.name] |= {**ends, "p": beside.p, "p_holm": beside.corrected}
    per_question = {result.name: result.per_query for result in evaluation.results}
    return {**evaluation.facts, "systems": systems, "per_question": per_question}


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
        finding=f"Intervals that lie above 0: {above} of {len(ordered)}; below 0: {below}.",
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


def write_results(folder: Path, evaluations: Sequence[Evaluation], report: Report) -> None:
    """TREC runs of our systems, of several data sets in a folder each, and every value in `results.json`."""
    for evaluation in evaluations:
        place = folder if len(evaluations) == 1 else folder / short_name(evaluation.name)
        for result in (result for result in evaluation.results if not result.is_run):
            write_run(place / f"{result.name}.trec", result.run, result.name)
    write_report(report, folder / "results.json")


def difference_verdict(best: Difference, baseline: str, measure: str, questions: int) -> str:
    """The best system beside the baseline, and whether the difference is significant.

    >>> difference_verdict(Difference("auto", 0.084, 0.018, 0.169, 0.05, 0.11, 9, 3, 9), "bm25", "RR", 21)
    'auto +.084 [.018, .169] RR over bm25, Holm p .11: not significant at .05 with 21 questions'
    """
    difference = f"{short(best.mean)} [{short(best.low)}, {short(best.high)}]"
    p = "< .0001" if best.corrected < 5e-5 else short(best.corrected, 2 if best.corrected >= 0.1 else 4)
    is_significant = "significant" if best.corrected <= LEVEL else "not significant"
    tested = f"Holm p {p}: {is_significant} at {short(LEVEL, 2)} with {questions} questions"
    if best.mean > 0:
        return f"{best.system} +{difference} {measure} over {baseline}, {tested}"
    return f"no system is above {baseline} in {measure}; the next is {best.system}, {difference}, {tested}"


def short(number: float, digits: int = 3) -> str:
    """A number as papers print it, without a zero before the point.

    >>> short(-0.0401), short(1.25), short(-0.0001)
    ('-.040', '1.250', '.000')
    """
    text = f"{number:.{digits}f}"
    sign, size = ("-", text[1:]) if text.startswith("-") else ("", text)
    return f"{sign if float(size) else ''}{size.removeprefix('0')}"
