"""What other programs add scores by, over the same scores of the same pools; nothing is trained.

Documents that a scorer gives nothing have no rank by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from benchmarks.study.collection import Case
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.rerank.fusion import min_max, pool_z, reciprocal_ranks

Scores: TypeAlias = Callable[[Case], Float64Array]


def own_scores(case: Case) -> dict[str, Float64Array]:
    """Scorer -> (n,) its scores; NaN where it has nothing to say."""
    bm25 = np.asarray(case.candidates.scores["bm25"])
    return {
        "bm25": np.where(bm25 > 0, bm25, np.nan),
        "cosine": case.of.cosines[case.i, case.rows].astype(np.float64),
        "dynamax": case.of.inclusion[case.i, case.rows].astype(np.float64),
    }


def _sum(scale: Callable[[Float64Array], Float64Array]) -> Scores:
    return lambda case: np.sum([scale(scores) for scores in own_scores(case).values()], axis=0)


def _dbsf(scores: Float64Array) -> Float64Array:
    """Distribution-based: three deviations below the pool's mean are 0, three above it 1."""
    mean, deviation = np.nanmean(scores), np.nanstd(scores) or 1.0
    return np.nan_to_num(np.clip((scores - mean + 3 * deviation) / (6 * deviation), 0, 1), nan=0.0)


def _mnz(case: Case) -> Float64Array:
    every = list(own_scores(case).values())
    return np.sum([*map(min_max, every)], axis=0) * np.sum(~np.isnan(every), axis=0)


def _isr(case: Case) -> Float64Array:
    every = list(own_scores(case).values())
    squares = np.sum([reciprocal_ranks(scores, 0) ** 2 for scores in every], axis=0)
    return squares * np.sum(~np.isnan(every), axis=0)


PEERS: Mapping[str, Scores] = {
    "RRF, k = 60": _sum(reciprocal_ranks),
    "RRF, k = 2": _sum(lambda scores: reciprocal_ranks(scores, 2)),
    "ISR": _isr,
    "DBSF": _sum(_dbsf),
    "CombMNZ": _mnz,
    "min-max": _sum(min_max),
    "z of the pool": _sum(pool_z),
}
