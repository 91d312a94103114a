"""Plots of semantic textual similarity: years as lines, differences as bars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from surprise_rerank.eval.reports.report import Plot, Series
from surprise_rerank.eval.reports.verdicts import best_of
from surprise_rerank.eval.studies.sts.data import YEARS, DataSet
from surprise_rerank.eval.studies.sts.systems import StsSystem
from surprise_rerank.eval.studies.sts.tables import Compared, year_means, years_of

# The most lines that readers can distinguish.
_LINES = 8


def plots(
    systems: Sequence[StsSystem], data_sets: Sequence[DataSet], compared: Sequence[Compared], baseline: str
) -> tuple[Plot, ...]:
    """All plots.

    Args:
        systems: at least one.
        data_sets: that they were measured on.
        compared: systems and their baselines.
        baseline: the similarity.
    """
    years = years_of(data_sets)
    found: list[Plot] = []
    if len(years) > 1:
        found.append(_years(systems, years, baseline))
    found += _by_similarity(compared, baseline)
    found += _by_task(compared, baseline)
    return tuple(found)


def _years(systems: Sequence[StsSystem], years: Sequence[DataSet], baseline: str) -> Plot:
    """The baselines and the best others; the rest would only hide them."""
    means = {system: year_means(system, years) for system in systems}
    defined = [s for s in systems if not math.isnan(means[s][-1])]
    baselines = [s for s in defined if s.similarity == baseline]
    others = sorted((s for s in defined if s not in baselines), key=lambda s: -means[s][-1])
    shown = [*baselines, *others[: max(1, _LINES - len(baselines))]]
    x = tuple(2000.0 + int(year.name.removeprefix("STS")) for year in years)
    best = best_of({system.name: means[system][-1] for system in shown}, 1)
    left = f"; the best of {len(systems)}" if len(shown) < len(systems) else ""
    return Plot(
        "line",
        "Mean Pearson correlation by year",
        "year of STS",
        "Pearson correlation x 100",
        tuple(Series(system.name, x, tuple(means[system][:-1])) for system in shown),
        f"Means over each year's sub-tasks{left}.",
        finding=f"Over all years {best}." if best else "",
    )


def _by_similarity(compared: Sequence[Compared], baseline: str) -> Iterator[Plot]:
    """A plot per model: the mean difference of every similarity, where there are several."""
    means = {s: sum(d) / len(d) for s, d in _differences(compared).items() if d}
    for model in dict.fromkeys(system.model for system in means):
        bars = sorted(((m, s.similarity) for s, m in means.items() if s.model == model), reverse=True)
        if len(bars) > 1:
            yield _bars(f"Similarities beside {baseline}, {model}", "similarities, sorted", bars)


def _by_task(compared: Sequence[Compared], baseline: str) -> Iterator[Plot]:
    """A plot per model: the differences of its best similarity on every sub-task."""
    means = {s: sum(d) / len(d) for s, d in _differences(compared).items() if d}
    for model in dict.fromkeys(system.model for system in means):
        best = max((s for s in means if s.model == model), key=lambda s: means[s])
        rows = [(c.points[0], c.task) for c in compared if c.system is best]
        bars = sorted((row for row in rows if not math.isnan(row[0])), reverse=True)
        yield _bars(f"{best.name} beside {baseline}", "sub-tasks, sorted", bars)


def _differences(compared: Sequence[Compared]) -> dict[StsSystem, list[float]]:
    """The defined differences of each system on the years' sub-tasks; on all, where no year is among them."""
    of_years = [c for c in compared if c.task.split()[0] in YEARS] or list(compared)
    found: dict[StsSystem, list[float]] = {}
    for c in of_years:
        values = found.setdefault(c.system, [])
        if not math.isnan(c.points[0]):
            values.append(c.points[0])
    return found


def _bars(title: str, x_label: str, bars: Sequence[tuple[float, str]]) -> Plot:
    series = Series("difference", tuple(name for _, name in bars), tuple(value for value, _ in bars))
    above = sum(value > 0 for value, _ in bars)
    return Plot(
        "bars",
        title,
        x_label,
        "difference in Pearson correlation x 100",
        (series,),
        finding=_bars_finding(bars, above),
    )


def _bars_finding(bars: Sequence[tuple[float, str]], above: int) -> str:
    """How many are above 0, the largest and the smallest."""
    if not bars:
        return ""
    (most, best), (least, worst) = bars[0], bars[-1]
    told = f"{above} of {len(bars)} are above 0; the largest difference is {most:+.1f}, {best}"
    return f"{told}, and the smallest {least:+.1f}, {worst}." if len(bars) > 1 else f"{told}."
