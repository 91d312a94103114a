"""What other programs add scores by, over the same scores of the same pools; nothing is trained.

Documents that a scorer gives nothing have no rank by it. The `bayesian` rows need the package `bayesian-bm25`
and are left out without it: they add BM25 and the cosine, as they are documented, without its prior of term
frequencies.
"""

from __future__ import annotations

import importlib.util
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


def _bayesian(case: Case, *, balanced: bool) -> Float64Array:
    from bayesian_bm25.fusion import balanced_log_odds_fusion, cosine_to_probability, log_odds_conjunction

    scores = own_scores(case)
    bm25, everywhere = np.nan_to_num(scores["bm25"]), case.of.bm25[case.i]
    positive = everywhere[everywhere > 0].astype(np.float64)
    middle, spread = (float(np.median(positive)), float(positive.std())) if len(positive) else (0.0, 1.0)
    words = 1 / (1 + np.exp(-(bm25 - middle) / (spread or 1.0)))
    if balanced:
        return np.asarray(balanced_log_odds_fusion(words, scores["cosine"]))
    near = np.asarray(cosine_to_probability(scores["cosine"]))
    return np.asarray(log_odds_conjunction(np.stack([words, near], axis=-1)))


PEERS: Mapping[str, Scores] = {
    "RRF, k = 60": _sum(reciprocal_ranks),
    "RRF, k = 2": _sum(lambda scores: reciprocal_ranks(scores, 2)),
    "ISR": _isr,
    "DBSF": _sum(_dbsf),
    "CombMNZ": _mnz,
    "min-max": _sum(min_max),
    "z of the pool": _sum(pool_z),
}
if importlib.util.find_spec("bayesian_bm25"):
    PEERS = {
        **PEERS,
        "bayesian, balanced": lambda case: _bayesian(case, balanced=True),
        "bayesian, log-odds": lambda case: _bayesian(case, balanced=False),
    }
