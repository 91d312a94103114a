"""What a threshold promises, and whether the questions that come are of the kind that it is promised for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.thresholds._background import ROUNDING, QuestionBackground

# Counts that are less likely are drift.
_UNLIKELY = 0.01


class Traffic(NamedTuple):
    """Shares of the questions that came, from 0 to 1: those that passed, and those of something else.

    `drift` is 1 where the latter find more than the background's, so that more pass than is promised, or many
    questions are near the topic; -1 where they find less; 0 where neither is likely.
    """

    passed: float  # with a percentile of at least 1 - alpha
    unrelated: float  # alpha of these are expected to pass
    drift: int


def promise(background: QuestionBackground, alpha: float) -> tuple[float, float]:
    """The central 95 % interval of the share of unrelated questions that a threshold of 1 - alpha passes.

    On average over backgrounds it is at most alpha. One background has one threshold, the k-th smallest of n
    totals; the share above it is of the Beta distribution with n + 1 - k and k (Vovk, 'Conditional validity
    of inductive conformal predictors', 2012). A DataError where it cannot measure the threshold.
    """
    from scipy import special  # here: a search promises nothing

    background.check(1 - alpha)
    n = background.effective
    k = max(math.ceil((1 - alpha) * (n + 1) - ROUNDING), ROUNDING)
    low, high = special.betaincinv(max(n + 1 - k, ROUNDING), k, [0.025, 0.975]).tolist()
    return low, high


def monitor(background: QuestionBackground, percentiles: Sequence[float], alpha: float = 0.05) -> Traffic:
    """Tell from each question's best percentile how many passed, and how many were unrelated.

    p = 1 - percentile of unrelated questions of the background's kind is uniform, that of others is small. So
    twice those with p > 1/2 are unrelated (Storey, 'A direct approach to false discovery rates', 2002), and
    as many of these have p > 3/4 as not. By n questions that share is known up to a Beta distribution, so
    that the count is beta-binomial. A question that is asked often counts each time. A DataError of none.
    """
    from scipy import stats

    p, n = 1 - np.asarray(percentiles, dtype=np.float64), background.effective
    border.some("percentiles", p, "give those of a question")
    # Of the n + 1 values that p can have, those above a half and above three quarters.
    half, quarter = (n + 1 - math.floor(cut * (n + 1) + ROUNDING) for cut in (0.5, 0.75))
    above, upper = (int((p > cut + ROUNDING).sum()) for cut in (0.5, 0.75))
    counts = stats.betabinom(above, quarter, half - quarter)
    less, more = float(counts.cdf(upper)), float(counts.sf(upper - 1))
    # Fewer than four background questions tell no drift: the distribution is none then.
    drift = (1 if less < more else -1) if 2 * min(less, more) < _UNLIKELY else 0
    passed = float((p <= alpha + ROUNDING).mean())
    return Traffic(passed, min(1.0, float(above * (n + 1) / (half * len(p)))), drift)
