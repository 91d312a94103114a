"""How sure the difference of two correlations is: BCa bootstrap intervals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from surprise_rerank.core.arrays import Float64Array, IntArray

Verdict: TypeAlias = Literal["win", "loss", "tie"]

RESAMPLES = 10_000

# What float32 leaves of two forms of one similarity is no difference: correlations differ in later digits.
_DIGITS = 5
# What rounding leaves of a variance, of similarities whose variance over all pairs is 1.
_NO_VARIANCE = 1e-12
# A resample of n pairs is n numbers; at most this many are held at a time.
_NUMBERS = 1 << 23


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Differences of Pearson correlations, r(gold, system) - r(gold, baseline), with BCa intervals.

    Attributes:
        values: (k,) one per system; NaN where a correlation is not defined.
        low: (k,) lower ends; NaN where the correlation of a resample is not defined.
        high: (k,) upper ends.
    """

    values: Float64Array
    low: Float64Array
    high: Float64Array

    def verdict(self, i: int) -> Verdict | None:
        """Whether system i wins, loses or ties, by whether its interval excludes 0; None without one."""
        if np.isnan(self.low[i]) or np.isnan(self.high[i]):
            return None
        if self.low[i] > 0:
            return "win"
        return "loss" if self.high[i] < 0 else "tie"


def difference_intervals(
    gold: Float64Array,
    systems: Float64Array,
    baseline: Float64Array,
    *,
    resamples: int = RESAMPLES,
) -> Differences:
    """BCa 95 % intervals of (k, n) systems' differences to an (n,) baseline, over the same pairs.

    (Efron and Tibshirani, 'An Introduction to the Bootstrap', 1993, chapter 14; scipy's `bootstrap` over
    pairs.) A resample is how often it has each pair. A correlation is made of means of z, z^2 and z g, so
    that one product of those counts with 3 columns a system gives all differences in all resamples.
    """
    n = len(gold)
    if not len(systems):
        return Differences(np.zeros(0), np.zeros(0), np.zeros(0))
    products = _Products(gold, np.concatenate([systems, baseline[None, :]]))
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        # Degenerate distributions are looked for below.
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
            (np.arange(n),),
            lambda rows, axis: products.differences(rows),
            vectorized=True,
            n_resamples=resamples,
            batch=max(1, _NUMBERS // n),
            confidence_level=0.95,
            method="BCa",
            rng=np.random.default_rng(0),
        )
        values = products.differences(np.arange(n))
    drawn = result.bootstrap_distribution
    # BCa is not defined for differences that are the same in every resample, but for their last digit.
    same = np.ptp(drawn, axis=-1) < 1.5 * 10**-_DIGITS
    low = np.where(same, drawn.min(axis=-1), result.confidence_interval.low)
    high = np.where(same, drawn.max(axis=-1), result.confidence_interval.high)
    return Differences(values, low, high)


class _Products:
    """What the correlations of any resample are made of."""

    def __init__(self, gold: Float64Array, systems: Float64Array) -> None:
        g, z = _standard(gold[None, :]), _standard(systems)
        self._k = len(z)
        self._columns = np.concatenate([z, z * z, z * g, g, g * g]).T

    def differences(self, rows: IntArray) -> Float64Array:
        """(k, ...) differences for resamples (..., m) of row numbers, m of them each."""
        drawn, n = np.asarray(rows, dtype=np.int64), len(self._columns)
        # How often each of r resamples has each of the n rows.
        flat = drawn.reshape(-1, drawn.shape[-1])
        places = (flat + n * np.arange(len(flat))[:, None]).ravel()
        counts = np.bincount(places, minlength=len(flat) * n).reshape(-1, n).astype(np.float64)
        # A column that has a NaN is one of a constant similarity: NaN for that system alone.
        means = (counts @ self._columns).T / drawn.shape[-1]
        z, squares, products = means[: 3 * self._k].reshape(3, self._k, -1)
        g, g_squares = means[3 * self._k :]
        variances = (squares - z * z) * (g_squares - g * g)
        correlations = (products - z * g) / np.sqrt(np.where(variances > _NO_VARIANCE, variances, np.nan))
        differences = (correlations[:-1] - correlations[-1]).round(_DIGITS) + 0.0  # no -0 in tables
        return np.asarray(differences.reshape(self._k - 1, *drawn.shape[:-1]))


def _standard(values: Float64Array) -> Float64Array:
    """Rows of mean 0 and variance 1, for sums to cancel little; NaN where all numbers of a row are equal."""
    centred = values - values.mean(axis=1, keepdims=True)
    deviations = centred.std(axis=1, keepdims=True)
    constant = np.ptp(values, axis=1, keepdims=True) == 0
    return np.where(constant, np.nan, centred / np.where(constant, 1.0, deviations))
