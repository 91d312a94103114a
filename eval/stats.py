"""Correlations, intervals of their differences, and paired tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import BoolArray, Float64Array, IntArray


class Correlations(NamedTuple):
    """Correlations of similarities with judgements, each in [-1, 1]; NaN where one side is constant."""

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


Verdict: TypeAlias = Literal["win", "loss", "tie"]

# What float32 leaves of two forms of one similarity is no difference: correlations differ in later digits.
_DIGITS = 5
# What rounding leaves of a variance, of similarities whose variance over all pairs is 1.
_NO_VARIANCE = 1e-12
# A resample of n pairs is n numbers; at most this many are held at a time.
_NUMBERS = 1 << 23


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """(k,) differences r(gold, system) - r(gold, baseline) and BCa ends; NaN where one is not defined."""

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
    gold: Float64Array, systems: Float64Array, baseline: Float64Array, *, resamples: int = 10_000
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


RESAMPLES = 9999

# Resamples that are drawn at a time: some megabytes of indices for a thousand questions.
_AT_ONCE = 1000
# Differences of means are rounded in the last digits; that must not make equal ones differ.
_ROUNDING = 1e-12


def paired_randomization(
    first: npt.ArrayLike, second: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Two-sided p-value of the paired randomisation test (Smucker, Allan and Carterette, CIKM 2007).

    It is the share of random swaps of the two systems' (n,) values whose mean difference is at least as large
    as the one that was seen. With few questions all swaps are tried; for one question it is 1.
    """
    differences = _differences(first, second)
    if len(differences) < 2 or not differences.any():
        return 1.0
    result = stats.permutation_test(
        (differences,),
        lambda values, axis: np.mean(values, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def difference_interval(
    first: npt.ArrayLike, second: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The 95 % BCa interval (Efron, 1987) of the mean of second - first; the mean where all are the same."""
    differences = -_differences(first, second)
    mean = float(differences.mean())
    if np.ptp(differences) <= _ROUNDING:
        return mean, mean
    result = stats.bootstrap(
        (differences,),
        np.mean,
        n_resamples=resamples,
        batch=_AT_ONCE,
        method="BCa",
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def mcnemar(first: BoolArray, second: BoolArray) -> float:
    """Two-sided p of McNemar's exact test (1947): whether two classifiers are right equally often.

    >>> mcnemar(np.array([True] * 9 + [False]), np.array([False] * 9 + [True]))
    0.021484375
    """
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if not only_first + only_second:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979): no false alarm among them with 1 - alpha.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    last = 0.0
    for rank, i in enumerate(order):
        last = max(last, min(1.0, (len(order) - rank) * p_values[i]))
        corrected[i] = last
    return corrected


def _differences(first: npt.ArrayLike, second: npt.ArrayLike) -> Float64Array:
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise DataError(f"need the same questions for both systems, got shapes {a.shape} and {b.shape}")
    return a - b
