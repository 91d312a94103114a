"""Plots of an evaluation of retrieval: quality, gains and losses, recall over depth, latency, scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from surprise_rerank.candidates import Ranking
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.eval.reports.report import Mark, Plot, Series
from surprise_rerank.eval.reports.verdicts import short
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.results import Difference, SystemResult

_BINS = 40
# Scores beyond these percentiles would squeeze the others into a few bins.
_SHOWN = (0.5, 99.5)
_FIRST = 10  # documents, which most people look at
_ALIKE = 5e-4  # shares that are shown with the same digits, nearly
_LISTED = 5  # names in a sentence


def plots(evaluation: Evaluation, baseline: str, beside: Sequence[Difference]) -> Iterator[Plot]:
    """All plots of one data set: first how good the systems are, then for which questions.

    Args:
        evaluation: of at least one system.
        baseline: the system that the others are compared with; without it gains and losses are not drawn.
        beside: the other systems' differences to it.
    """
    results = {result.name: result for result in evaluation.results}
    ordered = sorted(beside, key=lambda difference: -difference.mean)
    if ordered:
        yield _forest(evaluation, results[baseline], ordered)
        yield _gains(evaluation, results[baseline], results[ordered[0].system])
    yield _recall(evaluation)
    timed = [result for result in evaluation.results if np.isfinite(result.milliseconds)]
    if len(timed) > 1:
        yield _latency(evaluation, timed)
    for difference in ordered[1:]:
        yield replace(_gains(evaluation, results[baseline], results[difference.system]), detail=True)
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


def _forest(evaluation: Evaluation, own: SystemResult, ordered: Sequence[Difference]) -> Plot:
    measure = evaluation.measures[0]
    levels = {result.name: result.values[measure] for result in evaluation.results}
    best = ordered[0]
    above, below = sum(d.low > 0 for d in ordered), sum(d.high < 0 for d in ordered)
    if best.mean > 0:
        found = f"{best.system} has the most {measure}, {short(levels[best.system])}: {_interval(best)} over"
    else:
        found = f"No system is above the baseline; the next is {best.system}: {_interval(best)} to"
    found += (
        f" {own.name} ({short(levels[own.name])}). The 95 % interval lies above 0 for {above} of "
        f"{_count(len(ordered), 'system')}, and below 0 for {below}."
    )
    series = Series(
        "difference",
        tuple(d.system for d in ordered),
        tuple(d.mean for d in ordered),
        tuple(d.low for d in ordered),
        tuple(d.high for d in ordered),
        tuple(f"{short(levels[d.system])} ({_interval(d)})" for d in ordered),
    )
    return Plot(
        "forest",
        f"{measure} beside {own.name}, {evaluation.name}",
        "system",
        f"difference to {own.name} in {measure}",
        (series,),
        f"On the right: {measure}, and its difference with the 95 % BCa interval over "
        f"{_count(len(own.per_query[measure]), 'question')}. Filled where the interval excludes 0.",
        marks=(Mark(f"{own.name} {short(levels[own.name])}", 0.0),),
        finding=found,
    )


def _interval(difference: Difference) -> str:
    sign = "+" if difference.mean > 0 else ""
    return f"{sign}{short(difference.mean)} [{short(difference.low)}, {short(difference.high)}]"


def _recall(evaluation: Evaluation) -> Plot:
    longest = max((len(r) for result in evaluation.results for r in result.run.values()), default=1)
    depths = np.unique([*np.geomspace(1, max(longest, 2), 40).round(), min(_FIRST, max(longest, 2))])
    depths = depths.astype(np.int64)
    shares = {
        result.name: recall_over_depth(result.run, evaluation.qrels, depths) for result in evaluation.results
    }
    x = tuple(depths.astype(float).tolist())
    return Plot(
        "line",
        f"Recall over depth, {evaluation.name}",
        "documents looked at",
        "share of relevant documents found",
        tuple(Series(name, x, tuple(values.tolist())) for name, values in shares.items()),
        log_x=True,
        finding=_recall_finding(shares, depths),
    )


def _recall_finding(shares: Mapping[str, Float64Array], depths: IntArray) -> str:
    first, last = int(np.searchsorted(depths, min(_FIRST, depths[-1]))), len(depths) - 1
    told = []
    for place in dict.fromkeys((first, last)):
        at = {name: float(values[place]) for name, values in shares.items()}
        best = max(at, key=at.__getitem__)
        worst = min(at, key=at.__getitem__)
        seen = f"the first {depths[place]} documents"
        if at[best] - at[worst] < _ALIKE:
            told.append(f"In {seen} {_all(at)} {short(at[best])} of the relevant ones.")
        else:
            told.append(
                f"In {seen} {best} finds the most of the relevant ones, {short(at[best])}, and {worst} the "
                f"least, {short(at[worst])}."
            )
    return " ".join(told)


def _all(names: Collection[str]) -> str:
    return f"all {len(names)} systems find" if len(names) > 1 else f"{next(iter(names))} finds"


def _latency(evaluation: Evaluation, timed: Sequence[SystemResult]) -> Plot:
    measure = evaluation.measures[0]
    quality = {result.name: result.values[measure] for result in timed}
    best = max(timed, key=lambda result: quality[result.name])
    fastest = min(timed, key=lambda result: result.milliseconds)
    if best is fastest:
        found = f"{best.name} has the most {measure} and is the fastest"
    else:
        most, least = short(quality[best.name]), short(quality[fastest.name])
        found = (
            f"{best.name} has the most {measure}, {most}, in {best.milliseconds:.1f} ms; {fastest.name} is "
            f"the fastest, {fastest.milliseconds:.1f} ms with {least}"
        )
    beaten = [
        result.name
        for result in timed
        if any(
            other.milliseconds < result.milliseconds and quality[other.name] > quality[result.name]
            for other in timed
        )
    ]
    found += f". Another system is both faster and better than {_listed(beaten)}." if beaten else "."
    series = tuple(Series(result.name, (result.milliseconds,), (quality[result.name],)) for result in timed)
    return Plot(
        "scatter",
        f"Latency against quality, {evaluation.name}",
        "milliseconds a question, median",
        measure,
        series,
        "Retrieval and re-ranking, without encoding the question. Up and left is better.",
        log_x=True,
        finding=found,
    )


def _gains(evaluation: Evaluation, own: SystemResult, result: SystemResult) -> Plot:
    measure = evaluation.measures[0]
    before, after = own.per_query[measure], result.per_query[measure]
    gains = sorted(((after[q] - before[q], q) for q in before), reverse=True)
    better = sum(gain > 0 for gain, _ in gains)
    worse = sum(gain < 0 for gain, _ in gains)
    words = tuple(evaluation.questions.get(q) or q for _, q in gains)
    rises = f"{measure} rises for {better} of {_count(len(gains), 'question')}, falls for {worse}"
    return Plot(
        "gains",
        f"Gains and losses of {result.name} beside {own.name}, {evaluation.name}",
        "questions, sorted",
        f"difference in {measure}, {result.name} minus {own.name}",
        (Series(result.name, words, tuple(gain for gain, _ in gains)),),
        finding=f"{_found_finding(evaluation, own, result)} {rises}, and stays for "
        f"{len(gains) - better - worse}.",
    )


def _found_finding(evaluation: Evaluation, own: SystemResult, result: SystemResult) -> str:
    """For how many questions the first ten documents have a relevant one."""
    first, second = (_answered(each.run, evaluation.qrels) for each in (own, result))
    total = sum(any(grade > 0 for grade in judged.values()) for judged in evaluation.qrels.values())
    which = "a relevant document in the first ten"
    if first == second:
        return f"{result.name} and {own.name} find {which} for as many questions, {first} of {total}."
    more = "more" if second > first else "fewer"
    return (
        f"{result.name} finds {which} for {abs(second - first)} {more} of {_count(total, 'question')} than "
        f"{own.name} ({second}, not {first})."
    )


def _answered(run: Mapping[str, Ranking], qrels: Mapping[str, Mapping[str, int]]) -> int:
    return sum(
        any(judged.get(name, 0) > 0 for name in run[query].ids[:_FIRST])
        for query, judged in qrels.items()
        if query in run
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > _LISTED:
        return f"{len(names)} of them"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


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
    lower, upper = (np.searchsorted(np.sort(others), relevant, side) for side in ("left", "right"))
    above = float((lower + upper).mean()) / (2 * len(others))
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
        finding=f"The score of a relevant document is above that of another one, of any question, in "
        f"{100 * above:.0f} % of pairs.",
        detail=True,
    )
