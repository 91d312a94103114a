"""What a usual best score is: mean and deviation over background questions, with or without one of them.

The mean of a sum over a question's words follows its length: m = a + b log |q|.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surprise_rerank.core.arrays import Float64Array

# Questions of no slope that a slope is measured with: a few of a length of their own should not decide alone.
STEADY = 10
# Deviations below this share of the mean are rounding.
_NO_SPREAD = 1e-7


class Lines(NamedTuple):
    """A line for each scorer, in arrays of one shape.

    Attributes:
        means: a, the mean for a question of one word.
        slopes: b; 0 for scores that do not follow the length.
        deviations: sigma around the line; 1 where there is no spread.
    """

    means: Float64Array
    slopes: Float64Array
    deviations: Float64Array


def lines_of(
    best: Float64Array, logs: Float64Array, shares: Float64Array, follows: list[bool]
) -> tuple[Lines, Lines]:
    """The (k,) lines of the best scores of n questions, and the (n, k) ones of all but one, for each one.

    A question that is measured with scales of which it is a part seems less unusual than a new one. `best`
    is (n, k), minus infinity where a question has none by a scorer; (n,) `logs` are logarithms of lengths,
    (n,) `shares` what each question counts, and `follows` tells k times whether the mean follows the length.
    """
    weights = np.where(np.isfinite(best), shares[:, None], 0.0)
    values = np.where(np.isfinite(best), best, 0.0)
    centre = (weights * values).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    x, y = np.broadcast_to(logs[:, None], best.shape), values - centre
    # (6, n, k) addends of count, x, y, xx, xy, yy.
    sums = weights * np.stack([np.ones_like(y), x, y, x * x, x * y, y * y])
    whole = sums.sum(axis=1, keepdims=True)
    return _lines(whole[:, 0], centre, np.array(follows)), _lines(whole - sums, centre, np.array(follows))


def _lines(sums: Float64Array, centre: Float64Array, follows: np.ndarray) -> Lines:
    count = np.maximum(sums[0], 1e-300)
    x, y, xx, xy, yy = sums[1:] / count
    # A sum over words cannot fall with their number.
    slopes = np.where(follows, np.maximum((xy - x * y) / (np.maximum(xx - x * x, 0) + STEADY / count), 0), 0)
    rest = yy - y * y - 2 * slopes * (xy - x * y) + slopes**2 * (xx - x * x)
    means = centre + y - slopes * x
    deviations = np.sqrt(np.maximum(rest, 0.0))
    known = (sums[0] > 0) & (deviations > _NO_SPREAD * np.maximum(np.abs(means), 1e-30))
    return Lines(means, slopes, np.where(known, deviations, 1.0))
