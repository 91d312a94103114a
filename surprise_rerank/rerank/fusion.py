"""Putting several scorers on one scale and adding them.

The scores of different scorers have different units. There are several common scales: ranks (RRF), the pool's
own range (min-max) or deviations (z), and the surprise scale, which is how many deviations a score is above
this query's mean over the corpus. Only the last does not depend on the other documents of the pool. The
weights of the sum can be chosen by hand, or fitted on judged questions (`weight_fitting`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np

from surprise_rerank.core.arrays import Float64Array, FloatArray, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise.score import ROUNDING, z_scores

FusionMethod: TypeAlias = Literal["surprise", "rrf", "minmax", "zscore", "sum"]

RRF_CONSTANT = 60  # Cormack, Clarke and Buettcher (SIGIR 2009)
# BM25's deviations spread twice as wide over a pool as those of cosine and DynaMax (2.2 to 1.0 and 1.2), so
# with equal weights it decides alone. Chosen on 400 training questions of scifact (nDCG@10 .743 -> .746) and
# the development questions of nfcorpus (.336 -> .340).
BM25_WEIGHT = 0.5
# How many scores moments come from, where nobody knows: a z of 1,000 is possible then.
UNKNOWN_MEMBERS = 1_000_000

_FEWEST = 20  # texts that a line is drawn through


def reciprocal_ranks(scores: FloatArray, constant: float = RRF_CONSTANT) -> Float64Array:
    """(n,) 1 / (constant + rank), rank 1 for the best; equal scores share the better rank; 0 for NaN."""
    from scipy import stats

    values = np.asarray(scores, dtype=np.float64)
    ranks = stats.rankdata(-values, method="min", nan_policy="omit")
    return np.nan_to_num(1.0 / (constant + ranks), nan=0.0)


def min_max(scores: FloatArray) -> Float64Array:
    """(n,) scores moved to [0, 1] within the pool; 0 for NaN, and 0 everywhere where all are equal."""
    values = np.asarray(scores, dtype=np.float64)
    low = float(np.fmin.reduce(values, initial=np.inf))
    high = float(np.fmax.reduce(values, initial=-np.inf))
    if high <= low:
        return np.zeros_like(values)
    return np.nan_to_num((values - low) / (high - low), nan=0.0)


def pool_z(scores: FloatArray) -> Float64Array:
    """(n,) deviations from the mean of the pool; NaN becomes 0, as does everything where all are equal."""
    values = np.asarray(scores, dtype=np.float64)
    if np.isnan(values).all():
        return np.zeros_like(values)
    moments = Moments(np.asarray(np.nanmean(values)), np.asarray(np.nanstd(values)))
    return np.nan_to_num(z_scores(values, moments), nan=0.0)


def as_they_are(scores: FloatArray) -> Float64Array:
    """(n,) the scores; 0 for NaN."""
    return np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0)


# The scales that need nothing but the pool's scores.
POOL_SCALES: Mapping[FusionMethod, Callable[[FloatArray], Float64Array]] = {
    "rrf": reciprocal_ranks,
    "minmax": min_max,
    "zscore": pool_z,
    "sum": as_they_are,
}


def surprise_normalized(scores: FloatArray, moments: Moments) -> Float64Array:
    """(n,) z of each score among this query's scores over the corpus, from -sqrt(m) to sqrt(m).

    z is measured over the m = `moments.members` scores (a million where it is not known) that the moments
    come from, together with the score itself. With d = s - mu,

        z = sqrt(m / (m + 1)) d / sqrt(sigma^2 + d^2 / (m + 1)),

    which is d / sigma where m is large. No member of m + 1 numbers is more than sqrt(m) of their deviations
    from their mean (Samuelson, 'How deviant can you be?', JASA 1968). Without the score itself there is no
    bound: where none of the m has a word of the question, sigma is 0 or rounding, and this score would
    outweigh all others. A NaN score, and one that equals the mean but for rounding, become 0: no evidence
    either way. So do all where m is 0.
    """
    m = UNKNOWN_MEMBERS if moments.members is None else moments.members
    d = np.asarray(scores, dtype=np.float64) - moments.mean
    d = np.where(np.abs(d) > ROUNDING * np.abs(moments.mean), d, 0.0)  # NaN is not above it
    largest = max(float(np.abs(d).max(initial=0.0)), float(np.max(moments.deviation)))
    if not m or not largest > 0:
        return np.zeros_like(d)
    # Squares of numbers near the smallest float would vanish. A power of two changes no other bit.
    unit = 2.0 ** np.frexp(largest)[1]
    d = d / unit
    joined = np.hypot(moments.deviation / unit, d / np.sqrt(m + 1))
    z: Float64Array = np.divide(d * np.sqrt(m / (m + 1)), joined, out=np.zeros_like(d), where=joined > 0)
    return z


def without_length(
    scores: Float64Array, lengths: IntArray, usual: Float64Array, usual_lengths: IntArray, share: float
) -> tuple[Float64Array, Float64Array]:
    """(n,) scores of a pool and (s,) of a sample, less a share of what their numbers of tokens predict.

    Inclusion takes the largest similarity over a document's tokens, so a document with more tokens has more
    chances. The sample of the corpus shows how many more: with b the least-squares slope over it, and a the
    share, from 0 to 1,

        s_i - a b (log(1 + l_i) - mean log(1 + l)).

    A sample of fewer than 20 shows nothing, and all scores stay.
    """
    if len(usual) < _FEWEST:
        return scores, usual
    known = np.log1p(usual_lengths.astype(np.float64))
    middle = known.mean() if len(known) else 0.0
    about = known - middle
    spread = float(about @ about)
    slope = float(about @ usual) / spread if spread > 0 else 0.0
    own = np.log1p(lengths.astype(np.float64)) - middle
    return scores - share * slope * own, usual - share * slope * about


def weighted_sum(parts: Mapping[str, FloatArray], weights: Mapping[str, float]) -> Float64Array:
    """(n,) sum of weight times part; a part without a weight counts 1."""
    total = sum(weights.get(name, 1.0) * np.asarray(part, np.float64) for name, part in parts.items())
    return np.asarray(total, dtype=np.float64)
