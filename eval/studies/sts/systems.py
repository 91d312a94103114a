"""What is measured on STS: a model under a similarity, and its differences to the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
