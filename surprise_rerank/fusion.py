"""Putting several scorers on one scale and adding them.

Scores of different scorers are different units. Three ways to a common one: ranks (RRF), the pool's own
range (min-max), or the surprise scale: how many deviations a score lies above this query's mean over the
corpus. Only the last does not depend on which documents happen to be in the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from surprise_rerank.arrays import Float64Array, FloatArray
from surprise_rerank.moments import Moments
from surprise_rerank.surprise import z_scores

FusionMethod: TypeAlias = Literal["surprise", "rrf", "minmax"]

RRF_CONSTANT = 60  # Cormack, Clarke and Buettcher (SIGIR 2009)


def reciprocal_ranks(scores: FloatArray, constant: float = RRF_CONSTANT) -> Float64Array:
    """(n,) 1 / (constant + rank), rank 1 for the best; equal scores share the better rank; 0 for NaN."""
    values = np.asarray(scores, dtype=np.float64)
    ranks = stats.rankdata(-values, method="min", nan_policy="omit")
    return np.nan_to_num(1.0 / (constant + ranks), nan=0.0)


def min_max(scores: FloatArray) -> Float64Array:
    """(n,) scores moved to [0, 1] within the pool; 0 for NaN, and 0 everywhere where all are equal."""
    values = np.asarray(scores, dtype=np.float64)
    if np.isnan(values).all():
        return np.zeros_like(values)
    low, high = np.nanmin(values), np.nanmax(values)
    if high <= low:
        return np.zeros_like(values)
    return np.nan_to_num((values - low) / (high - low), nan=0.0)


def surprise_normalized(scores: FloatArray, moments: Moments) -> Float64Array:
    """(n,) z of each score among this query's scores over the corpus.

    A NaN score, and a scorer that gives every document the same score, become 0: no evidence either way.
    """
    return np.nan_to_num(z_scores(scores, moments), nan=0.0)


def weighted_sum(parts: Mapping[str, FloatArray], weights: Mapping[str, float]) -> Float64Array:
    """(n,) sum of weight times part; a part without a weight counts 1."""
    total = sum(weights.get(name, 1.0) * np.asarray(part, np.float64) for name, part in parts.items())
    return np.asarray(total, dtype=np.float64)
