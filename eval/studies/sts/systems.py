"""What is measured on STS: a model under a similarity, and its differences to the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.stats.correlations import Correlations, correlations, mean_correlations
from surprise_rerank.eval.stats.intervals import Verdict
from surprise_rerank.eval.studies.sts.data import YEARS, DataSet


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

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.model} {self.similarity}"

    def add(self, data_set: DataSet, values: Float64Array) -> None:
        """Take the similarities of a data set's pairs, sub-task after sub-task."""
        ends = np.cumsum([len(task) for task in data_set.subtasks])
        for task, part in zip(data_set.subtasks, np.split(values, ends[:-1]), strict=True):
            self.scores[task.name] = part
            self.correlations[task.name] = correlations(part, task.judgements)

    def mean(self, data_set: DataSet, *, by_size: bool = False) -> Correlations:
        """The mean over a data set's sub-tasks.

        Args:
            data_set: one that was measured.
            by_size: whether a sub-task weighs as much as it has pairs (EvalRank's way), or all weigh the same
                (fuzzymax's).
        """
        sizes = [len(task) for task in data_set.subtasks]
        return mean_correlations(
            [self.correlations[task.name] for task in data_set.subtasks], sizes if by_size else None
        )

    def year_means(self, years: Sequence[DataSet]) -> list[float]:
        """The mean Pearson correlation over each year's sub-tasks, and the mean of these, x 100."""
        means = [100 * self.mean(year).pearson for year in years]
        return [*means, sum(means) / len(means)]


@dataclass(frozen=True, slots=True)
class Compared:
    """A system compared with its baseline on a sub-task.

    Attributes:
        model: its name.
        similarity: its name.
        task: name of the sub-task.
        points: difference, low and high end of its interval, in Pearson correlation x 100.
        verdict: win, loss or tie; `none` without an interval.
    """

    model: str
    similarity: str
    task: str
    points: tuple[float, float, float]
    verdict: Verdict

    @property
    def in_years(self) -> bool:
        """Whether the sub-task is one of a year of STS."""
        return self.task.split()[0] in YEARS
