"""How far similarities agree with judgements."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from surprise_rerank.core.arrays import Float64Array


class Correlations(NamedTuple):
    """Correlations of similarities with judgements, each in [-1, 1]; NaN where one side is constant.

    Attributes:
        pearson: of the values.
        spearman: of the ranks, equal values having the mean of theirs.
        kendall: tau-b, of the orders of two pairs.
    """

    pearson: float = math.nan
    spearman: float = math.nan
    kendall: float = math.nan

    def by_name(self) -> dict[str, float]:
        """The coefficients by what tables call them."""
        return {name.title(): value for name, value in self._asdict().items()}

    @property
    def defined(self) -> bool:
        """Whether both sides have different values."""
        return not math.isnan(self.pearson)


def correlations(similarities: Float64Array, judgements: Float64Array) -> Correlations:
    """Pearson, Spearman and Kendall correlations of (n,) similarities with (n,) judgements, n at least 2."""
    if np.ptp(similarities) == 0 or np.ptp(judgements) == 0:
        return Correlations()
    kinds = (stats.pearsonr, stats.spearmanr, stats.kendalltau)
    return Correlations(*(float(kind(similarities, judgements).statistic) for kind in kinds))
