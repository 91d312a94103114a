"""Whether a difference between two systems could be chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from surprise_rerank.errors import DataError

RESAMPLES = 9999


def paired_randomization(
    first: npt.ArrayLike, second: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Two-sided p-value of the paired randomisation test (Smucker, Allan and Carterette, CIKM 2007).

    Under the null hypothesis the two systems' values of a question could be swapped; the p-value is the share
    of random swaps whose mean difference is at least as large as the one that was seen. For one question it
    is 1.

    Args:
        first: (n,) values of one system, a question each.
        second: (n,) values of the other, of the same questions.
        resamples: number of random swaps; with few questions all of them are tried.
        seed: of the random swaps.

    Raises:
        DataError: if the shapes differ or there is no question.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise DataError(f"need the same questions for both systems, got shapes {a.shape} and {b.shape}")
    if len(a) < 2 or np.array_equal(a, b):
        return 1.0
    result = stats.permutation_test(
        (a - b,),
        lambda differences, axis: np.mean(differences, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
