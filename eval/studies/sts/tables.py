"""Tables of semantic textual similarity: years, data sets, sub-tasks, differences, wins and losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.eval.stats.correlations import Correlations
from surprise_rerank.eval.stats.intervals import Differences, Verdict
from surprise_rerank.eval.studies.sts.data import YEARS, DataSet
from surprise_rerank.eval.studies.sts.systems import StsSystem

_SYSTEM = (Column("model"), Column("similarity"))
# None is marked as the best: a table has rows of several data sets.
_CORRELATIONS = (Column("Pearson"), Column("Spearman"), Column("Kendall"))
# With more systems, a terminal has no room for all of them under every data set.
_FEW = 10
_PAPER = (
    "Published for DynaMax-Jaccard beside average-cosine, over three sets of word vectors (GloVe, fastText, "
    "word2vec) and 24 sub-tasks: 77.8 % wins, 1.4 % losses, 20.8 % ties (Zhelezniak et al., ICLR 2019)."
)


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A system compared with its baseline on a sub-task.

    Attributes:
        system: that is compared.
        task: name of the sub-task.
        differences: of all systems that were compared there together.
        place: of this system among them.
    """

    system: StsSystem
    task: str
    differences: Differences
    place: int

    @property
    def points(self) -> tuple[float, float, float]:
        """Difference, low and high end of its interval, in Pearson correlation x 100."""
        d, i = self.differences, self.place
        return 100 * float(d.values[i]), 100 * float(d.low[i]), 100 * float(d.high[i])

    @property
    def verdict(self) -> Verdict:
        """Win, loss or tie; `none` without an interval."""
        return self.differences.verdict(self.place)


def years_of(data_sets: Sequence[DataSet]) -> list[DataSet]:
    """The years of STS among data sets."""
    return [data_set for data_set in data_sets if data_set.name in YEARS]


def year_means(system: StsSystem, years: Sequence[DataSet]) -> list[float]:
    """The mean Pearson correlation over each year's sub-tasks, and the mean of these, x 100."""
    means = [100 * system.mean(year).pearson for year in years]
    return [*means, sum(means) / len(means)]


def tables(
    systems: Sequence[StsSystem], data_sets: Sequence[DataSet], compared: Sequence[Compared], baseline: str
) -> tuple[Table, ...]:
    """All tables, those of details last.

    Args:
        systems: at least one.
        data_sets: that they were measured on.
        compared: systems and their baselines; none, where no intervals were asked for.
        baseline: the similarity.
    """
    years = years_of(data_sets)
    found: list[Table] = []
    if years:
        found.append(_years(systems, years))
    if years and compared:
        found.append(_wins(compared, {task.name for year in years for task in year.subtasks}, baseline))
    found.append(_weighted(systems, data_sets))
    if compared:
        found.append(_differences(compared, baseline))
    found.append(_subtasks(systems, data_sets))
    return tuple(found)


def _years(systems: Sequence[StsSystem], years: Sequence[DataSet]) -> Table:
    columns = [Column(name, 2, "max") for name in (*(year.name for year in years), "mean")]
    return Table(
        "sts",
        "Pearson correlation x 100, mean over a year's sub-tasks",
        (*_SYSTEM, *columns),
        tuple((s.model, s.similarity, *year_means(s, years)) for s in systems),
        keys=2,
        notes=("The last column is the mean of the years.",),
    )


def _weighted(systems: Sequence[StsSystem], data_sets: Sequence[DataSet]) -> Table:
    rows = [
        (system.model, system.similarity, data_set.name, *_cells(system.mean(data_set, by_size=True)))
        for data_set in data_sets
        for system in systems
    ]
    return Table(
        "sts-weighted",
        "Correlations by data set, mean over sub-tasks weighted by their size",
        (*_SYSTEM, Column("data set"), *_CORRELATIONS),
        tuple(rows),
        keys=3,
        detail=len(systems) > _FEW,
    )


def _subtasks(systems: Sequence[StsSystem], data_sets: Sequence[DataSet]) -> Table:
    rows = [
        (system.model, system.similarity, task.name, *_cells(system.correlations[task.name]), len(task))
        for data_set in data_sets
        for task in data_set.subtasks
        for system in systems
    ]
    return Table(
        "sts-subtasks",
        "Correlations by sub-task",
        (*_SYSTEM, Column("sub-task"), *_CORRELATIONS, Column("pairs")),
        tuple(rows),
        keys=3,
        detail=True,
    )


def _differences(compared: Sequence[Compared], baseline: str) -> Table:
    rows = [
        (c.system.model, c.system.similarity, c.task, *c.points, None if c.verdict == "none" else c.verdict)
        for c in compared
    ]
    return Table(
        "sts-differences",
        f"Difference of Pearson correlations to {baseline} x 100, with BCa 95 % intervals",
        (
            *_SYSTEM,
            Column("sub-task"),
            Column("difference", 2),
            Column("low", 2),
            Column("high", 2),
            Column("verdict"),
        ),
        tuple(rows),
        keys=3,
        notes=(
            "A win or a loss has an interval that excludes 0. Without a verdict: a similarity that is the "
            "same for every pair of a resample.",
        ),
        detail=True,
    )


def _wins(compared: Sequence[Compared], tasks: Iterable[str], baseline: str) -> Table:
    counted = set(tasks)
    counts: dict[tuple[str, str], Counter[Verdict]] = {}
    for c in compared:
        if c.task in counted:
            counts.setdefault((c.system.model, c.system.similarity), Counter())[c.verdict] += 1
    rows: list[tuple[Cell, ...]] = []
    for keys, verdicts in counts.items():
        numbers = [verdicts[v] for v in ("win", "loss", "tie")]
        total = sum(numbers)
        shares: list[Cell] = [100 * n / total if total else None for n in numbers]
        rows.append((*keys, *numbers, *shares))
    names = ("wins", "losses", "ties")
    return Table(
        "sts-wins",
        f"Sub-tasks of the years that are won and lost against {baseline}",
        (*_SYSTEM, *map(Column, names), *(Column(f"{name} %", 1) for name in names)),
        tuple(rows),
        keys=2,
        notes=(
            "A win or a loss has a BCa 95 % interval of the difference of Pearson correlations that excludes "
            "0.",
            _PAPER,
        ),
    )


def _cells(found: Correlations) -> tuple[float, float, float]:
    return found.pearson, found.spearman, found.kendall
