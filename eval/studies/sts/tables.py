"""What is measured on semantic textual similarity, and its tables: years, data sets, sub-tasks, wins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.report import Column, Plot, Series, Table
from surprise_rerank.eval.stats.correlations import Correlations, correlations, mean_correlations
from surprise_rerank.eval.stats.intervals import Verdict
from surprise_rerank.eval.studies.measurements import Measurements
from surprise_rerank.eval.studies.sts.data import YEARS, DataSet

_SYSTEM = (Column("model"), Column("similarity"))
# None is marked as the best: a table has rows of several data sets.
_CORRELATIONS = (Column("Pearson"), Column("Spearman"), Column("Kendall"))
# With more systems, a terminal has no room for all of them under every data set.
_FEW = 10
_VERDICTS: dict[Verdict, str] = {"win": "wins", "loss": "losses", "tie": "ties"}
_PAPER = (
    "Published for DynaMax-Jaccard beside average-cosine, over three sets of word vectors (GloVe, fastText, "
    "word2vec) and 24 sub-tasks: 77.8 % wins, 1.4 % losses, 20.8 % ties (Zhelezniak et al., ICLR 2019)."
)


@dataclass(slots=True, eq=False)
class StsSystem:
    """A model and a similarity, measured.

    Attributes:
        model: its name.
        similarity: its name.
        scores: sub-task -> (n,) similarities of its pairs.
        correlations: sub-task -> their correlations with the judgements.
    """

    model: str
    similarity: str
    scores: dict[str, Float64Array] = field(default_factory=dict)
    correlations: dict[str, Correlations] = field(default_factory=dict)

    def add(self, data_set: DataSet, values: Float64Array) -> None:
        """Take the similarities of a data set's pairs, sub-task after sub-task."""
        ends = np.cumsum([len(task) for task in data_set.subtasks])
        for task, part in zip(data_set.subtasks, np.split(values, ends[:-1]), strict=True):
            self.scores[task.name] = part
            self.correlations[task.name] = correlations(part, task.judgements)

    def mean(self, data_set: DataSet, *, by_size: bool = False) -> Correlations:
        """The mean over a data set's sub-tasks, as fuzzymax has it; by their sizes, as EvalRank has it."""
        sizes = [len(task) for task in data_set.subtasks]
        return mean_correlations(
            [self.correlations[task.name] for task in data_set.subtasks], sizes if by_size else None
        )

    def year_means(self, years: Sequence[DataSet]) -> list[float]:
        """The mean Pearson correlation over each year's sub-tasks, and the mean of these, x 100."""
        means = [100 * self.mean(year).pearson for year in years]
        return [*means, sum(means) / len(means)]


class Compared(NamedTuple):
    """A system beside its baseline on a sub-task, in Pearson correlation x 100, with a 95 % interval."""

    model: str
    similarity: str
    task: str
    difference: float
    low: float
    high: float
    verdict: Verdict | None

    @property
    def in_years(self) -> bool:
        """Whether the sub-task is one of a year of STS."""
        return self.task.split()[0] in YEARS


def tables(
    systems: Sequence[StsSystem], data_sets: Sequence[DataSet], compared: Sequence[Compared], baseline: str
) -> tuple[Table, ...]:
    """All tables; without intervals, none of differences."""
    years = [data_set for data_set in data_sets if data_set.name in YEARS]
    shown = [_years(systems, years)] if years else []
    if years and compared:
        shown.append(_wins(compared, baseline))
    weighted = tuple(
        (s.model, s.similarity, data_set.name, *s.mean(data_set, by_size=True))
        for data_set in data_sets
        for s in systems
    )
    title = "Correlations by data set, mean over sub-tasks weighted by their size"
    columns = (*_SYSTEM, Column("data set"), *_CORRELATIONS)
    shown.append(Table("sts-weighted", title, columns, weighted, keys=3, detail=len(systems) > _FEW))
    if compared:
        shown.append(_differences(compared, baseline))
    rows = tuple(
        (s.model, s.similarity, task.name, *s.correlations[task.name], len(task))
        for data_set in data_sets
        for task in data_set.subtasks
        for s in systems
    )
    of_tasks = (*_SYSTEM, Column("sub-task"), *_CORRELATIONS, Column("pairs"))
    shown.append(Table("sts-subtasks", "Correlations by sub-task", of_tasks, rows, keys=3, detail=True))
    return tuple(shown)


def _years(systems: Sequence[StsSystem], years: Sequence[DataSet]) -> Table:
    columns = [Column(name, 2, "max") for name in (*(year.name for year in years), "mean")]
    return Table(
        "sts",
        "Pearson correlation x 100, mean over a year's sub-tasks",
        (*_SYSTEM, *columns),
        tuple((s.model, s.similarity, *s.year_means(years)) for s in systems),
        keys=2,
        notes=("The last column is the mean of the years.",),
    )


def _differences(compared: Sequence[Compared], baseline: str) -> Table:
    ends = (Column("difference", 2), Column("low", 2), Column("high", 2), Column("verdict"))
    return Table(
        "sts-differences",
        f"Difference of Pearson correlations to {baseline} x 100, with BCa 95 % intervals",
        (*_SYSTEM, Column("sub-task"), *ends),
        tuple(compared),
        keys=3,
        notes=(
            "A win or a loss has an interval that excludes 0. Without a verdict: a similarity that is the "
            "same for every pair of a resample.",
        ),
        detail=True,
    )


def _wins(compared: Sequence[Compared], baseline: str) -> Table:
    counts: dict[tuple[str, str], Counter[Verdict | None]] = {}
    for c in compared:
        if c.in_years:
            counts.setdefault((c.model, c.similarity), Counter())[c.verdict] += 1
    measurements = Measurements("model", "similarity")
    for key, verdicts in counts.items():
        numbers = {names: verdicts[verdict] for verdict, names in _VERDICTS.items()}
        total = sum(numbers.values())
        shares = {f"{name} %": 100 * n / total for name, n in numbers.items()} if total else {}
        measurements.add(key, {**numbers, **shares})
    note = (
        "A win or a loss has a BCa 95 % interval of the difference of Pearson correlations that excludes 0."
    )
    shown = [
        (f"{name}{part}", digits, False)
        for part, digits in (("", 0), (" %", 1))
        for name in _VERDICTS.values()
    ]
    title = f"Sub-tasks of the years that are won and lost against {baseline}"
    return measurements.table("sts-wins", title, shown, (note, _PAPER))


def plots(compared: Sequence[Compared], baseline: str) -> Iterator[Plot]:
    """A picture for each model: the mean difference of every similarity, on the years if there are some."""
    measurements = Measurements("model", "similarity")
    for beside in [c for c in compared if c.in_years] or compared:
        if not math.isnan(beside.difference):
            measurements.add((beside.model, beside.similarity), {"difference": beside.difference})
    for model in dict.fromkeys(key[0] for key in measurements):
        means = {
            key[1]: measurements.mean(key, "difference") or 0.0 for key in measurements if key[0] == model
        }
        names = sorted(means, key=lambda name: -means[name])
        yield Plot(
            "bars",
            f"Similarities beside {baseline}, {model}",
            "similarity",
            "mean difference in Pearson correlation x 100",
            (Series("difference", tuple(map(str, names)), tuple(means[name] for name in names)),),
            finding=f"{sum(value > 0 for value in means.values())} of {len(means)} are above {baseline}.",
        )
