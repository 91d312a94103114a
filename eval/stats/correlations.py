"""How far similarities agree with judgements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from surprise_rerank.core.arrays import Float64Array


@dataclass(frozen=True, slots=True)
class Correlations:
    """Correlations of similarities with judgements, each in [-1, 1]; NaN where one side is constant.

    Attributes:
        pearson: of the values.
        spearman: of the ranks, equal values having the mean of theirs.
        kendall: tau-b, of the orders of two pairs.
    """

    pearson: float = math.nan
    spearman: float = math.nan
    kendall: float = math.nan

    @property
    def defined(self) -> bool:
        """Whether both sides have different values."""
        return not math.isnan(self.pearson)


def correlations(similarities: Float64Array, judgements: Float64Array) -> Correlations:
    """Pearson, Spearman and Kendall correlations of n similarities with n judgements.

    Args:
        similarities: (n,), n at least 2.
        judgements: (n,).
    """
    if np.ptp(similarities) == 0 or np.ptp(judgements) == 0:
        return Correlations()
    return Correlations(
        float(stats.pearsonr(similarities, judgements).statistic),
        float(stats.spearmanr(similarities, judgements).statistic),
        float(stats.kendalltau(similarities, judgements).statistic),
    )


def mean_correlations(parts: Sequence[Correlations], weights: Sequence[float] | None = None) -> Correlations:
    """The mean of correlations; NaN where one of them is.

    Args:
        parts: at least one.
        weights: of each; equal ones by default.
    """
    values = np.array([[part.pearson, part.spearman, part.kendall] for part in parts])
    return Correlations(*map(float, np.average(values, axis=0, weights=weights)))
