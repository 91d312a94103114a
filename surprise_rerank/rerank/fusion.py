"""Putting several scorers on one scale and adding them.

The scores of different scorers have different units. There are several common scales: ranks (RRF), the pool's
own range (min-max) or deviations (z), and the surprise scale, which is how many deviations a score is above
this query's mean over the corpus. Only the last does not depend on the other documents of the pool. The
weights of the sum can be chosen by hand, or fitted on judged questions: from equal weights (`fit_weights`),
or from weights that are already good (`refine_weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from surprise_rerank.core.arrays import Float64Array, FloatArray, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.errors import DataError
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
# Of `fit_weights`: makes the result unique where scorers give the same scores. Of `refine_weights`: with a
# larger one, a few questions change less.
_RIDGE, _RIDGE_OF_CHANGE = 1e-3, 0.3
_RANGE = (-4.0, 4.0)  # of a factor's logarithm: as good as none, and as good as alone


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


def fit_weights(pools: Sequence[Mapping[str, FloatArray]], gains: Sequence[FloatArray]) -> dict[str, float]:
    """Weights of a sum from 0 to 1, the largest 1, learned from judged questions.

    Minimises the mean over questions of the listwise cross-entropy (Cao et al., 'Learning to Rank: From
    Pairwise Approach to Listwise Approach', ICML 2007), which is convex and needs no start or seed:

        - sum_j g_j log softmax(sum_k w_k s_k)_j + ridge |w|^2,  w >= 0.

    Args:
        pools: of each question: scorer's name -> (n_i,) normalised scores of its pool.
        gains: of each question: (n_i,) graded relevance, of which g is the share; 0 for what is not relevant.
            Questions without a relevant document are omitted.

    Raises:
        DataError: if names or lengths do not fit, gains are negative, no question has a relevant document, or
            no scorer separates relevant documents from others.

    >>> fit_weights([{"good": [1.0, 0.0], "bad": [0.0, 1.0]}], [[1, 0]])
    {'good': 1.0, 'bad': 0.0}
    """
    from scipy import optimize, special

    names = tuple(pools[0]) if pools else ()
    lessons = [(scores, gain / gain.sum()) for scores, gain in _lessons(pools, gains, names)]

    def loss(weights: Float64Array) -> tuple[float, Float64Array]:
        value, slope = _RIDGE * float(weights @ weights), 2 * _RIDGE * weights
        for scores, shares in lessons:
            logits = scores @ weights
            value -= float(shares @ special.log_softmax(logits)) / len(lessons)
            slope = slope + scores.T @ (special.softmax(logits) - shares) / len(lessons)
        return value, slope

    found = optimize.minimize(
        loss, np.ones(len(names)), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(names)
    )
    if not found.success or not found.x.max() > 0:
        why = found.message if not found.success else "no scorer separates relevant documents from others"
        raise DataError(f"weights of {', '.join(names)} cannot be fitted: {why}")
    weights = found.x / found.x.max()
    return {name: float(weight) for name, weight in zip(names, weights.round(6), strict=True)}


def refine_weights(
    pools: Sequence[Mapping[str, FloatArray]],
    gains: Sequence[FloatArray],
    weights: Mapping[str, float],
) -> dict[str, float]:
    """Weights of a sum, changed from good ones as far as judged questions support it.

    With factors w_k = v_k exp(t_k) of the given weights v, it maximises the mean over n questions of the nDCG
    with smooth ranks (Qin, Liu and Li, 'A general approximation framework for direct optimization of
    information retrieval measures', Information Retrieval, 2010)

        sum_i g_i / log2(1 + r_i) - ridge / n * |t - mean(t)|^2,
        r_i = 1 + sum_{j != i} sigmoid((s_j - s_i) / T),

    where s = sum_k w_k s_k, and T is the median deviation of s within a pool; a third of it can make the
    slope vanish. It starts from t = 0, so the result is always the same. (The loss of `fit_weights` depends
    on relevant documents however low they rank. It made good weights worse, by .007 nDCG@10 with 30 training
    questions of scifact.)

    Args:
        pools: as for `fit_weights`.
        gains: of each question: (n_i,) gain over the DCG of the ideal ranking.
        weights: scorer's name -> v; 1 where not given. 0 stays 0, and no weight changes its sign. The sum of
            absolute values stays, so that scores keep their size.

    Raises:
        DataError: as `fit_weights`, or if all weights are 0.

    >>> refine_weights([{"good": [1.0, 0.0], "bad": [0.0, 1.0]}], [[1, 0]], {})["good"] > 1
    True
    """
    from scipy import optimize

    names = tuple(pools[0]) if pools else ()
    lessons = _lessons(pools, gains, names)
    given = np.array([weights.get(name, 1.0) for name in names])
    if not given.any():
        raise DataError(f"all weights of {', '.join(names)} are 0; give some of them a weight to begin with")
    usual = float(np.median([(scores @ given).std() for scores, _ in lessons]))
    scale = given / (usual or 1.0)  # without any spread all ranks are equal, whatever the scale
    judged = [(scores * scale, gain[gain > 0], np.flatnonzero(gain > 0)) for scores, gain in lessons]

    def loss(t: Float64Array) -> tuple[float, Float64Array]:
        factors, away = np.exp(t), t - t.mean()
        value, slope = _RIDGE_OF_CHANGE * float(away @ away), 2 * _RIDGE_OF_CHANGE * away
        for scores, gain, relevant in judged:
            ndcg, own = _smooth_ndcg(scores, gain, relevant, factors)
            value -= ndcg
            slope = slope - own * factors
        return value / len(judged), slope / len(judged)

    found = optimize.minimize(
        loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", bounds=[_RANGE] * len(names)
    )
    refined = given * np.exp(found.x)
    refined *= np.abs(given).sum() / np.abs(refined).sum()
    return {name: float(weight) for name, weight in zip(names, refined.round(6), strict=True)}


def _smooth_ndcg(
    scores: Float64Array, gains: Float64Array, relevant: IntArray, factors: Float64Array
) -> tuple[float, Float64Array]:
    """The nDCG of (n, k) scores with smooth ranks, and its (k,) slope by the factors."""
    from scipy import special

    totals = scores @ factors
    above = special.expit(totals[None, :] - totals[relevant][:, None])
    ranks = 0.5 + above.sum(axis=1)  # a document is above itself by one half
    discounts = 1 / np.log2(1 + ranks)
    by_rank = -gains * discounts**2 / ((1 + ranks) * np.log(2))
    by_score = by_rank[:, None] * above * (1 - above)
    return float(gains @ discounts), by_score.sum(axis=0) @ scores - by_score.sum(axis=1) @ scores[relevant]


def _lessons(
    pools: Sequence[Mapping[str, FloatArray]], gains: Sequence[FloatArray], names: tuple[str, ...]
) -> list[tuple[Float64Array, Float64Array]]:
    """(n, k) scores and (n,) gains of the questions that have a relevant document."""
    if len(pools) != len(gains):
        raise DataError(f"{len(pools)} questions have {len(gains)} arrays of gains; give one for each")
    lessons = []
    for i, (pool, gain) in enumerate(zip(pools, gains, strict=True)):
        if not names:
            raise DataError(f"question {i} has no scores; give at least one scorer")
        if sorted(pool) != sorted(names):
            raise DataError(f"question {i} has scores of {sorted(pool)}, the first one of {sorted(names)}")
        lengths = {name: len(pool[name]) for name in names}
        if len(set(lengths.values())) > 1:
            raise DataError(f"question {i} has pools of different lengths: {lengths}")
        scores = np.stack([np.asarray(pool[name], dtype=np.float64) for name in names], axis=1)
        own = np.asarray(gain, dtype=np.float64)
        if own.shape != (len(scores),) or not np.isfinite(scores).all():
            raise DataError(f"question {i}: {own.shape} gains for {len(scores)} documents of finite scores")
        if not ((own >= 0) & (own < np.inf)).all():
            raise DataError(f"question {i}: gains must be finite and at least 0, got {gain}")
        if own.any():
            lessons.append((scores, own))
    if not lessons:
        raise DataError(
            f"none of {len(pools)} questions has a relevant document in its pool, so no weights can be fitted"
        )
    return lessons
