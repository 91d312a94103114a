"""Whether a difference between two systems could be chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.errors import DataError

RESAMPLES = 9999

# Resamples that are drawn at a time: some megabytes of indices for a thousand questions.
_AT_ONCE = 1000
# Differences of means are rounded in the last digits; that must not make equal ones differ.
_ROUNDING = 1e-12


def paired_randomization(
    first: npt.ArrayLike, second: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Two-sided p-value of the paired randomisation test (Smucker, Allan and Carterette, CIKM 2007).

    Under the null hypothesis the two systems' (n,) values of a question could be swapped; the p-value is the
    share of random swaps whose mean difference is at least as large as the one that was seen. With few
    questions all swaps are tried; for one question it is 1.
    """
    from scipy import stats  # here, because it takes long to import, and one system is compared with none

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
    """The 95 % interval of the mean of second - first, by the BCa bootstrap over questions (Efron, 1987).

    Both ends are the difference itself where all questions have the same.
    """
    from scipy import stats

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


def deviation(values: npt.ArrayLike) -> float | None:
    """The standard deviation of what the values are a sample of (ddof 1); None for one."""
    sample = np.asarray(values, dtype=np.float64)
    return float(sample.std(ddof=1)) if len(sample) > 1 else None


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979): no false alarm among them with 1 - alpha.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]

    Returns:
        For each, the largest of (m - i) p_(i) over those that are not larger, at most 1.
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
