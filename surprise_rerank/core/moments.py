"""Mean and deviation of a similarity over an ensemble, and a stream that computes them with their error.

For dot products the moments are exact and need no scan (`ensemble.py`). For any other similarity they are
accumulated from blocks of similarities. Where the blocks are a sample of the ensemble, the moments carry the
sampling error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float64Array, FloatArray, IntArray
from surprise_rerank.errors import DataError

UPPER_PERCENTILE = 84.1344746068543  # 100 Phi(1): one sigma above the median of a Gaussian
# Sampled anchors, where pooled moments need a scan.
POOLED_ANCHORS = 512


def _zero() -> Float64Array:
    return np.zeros(())


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Mean and standard deviation of a similarity over an ensemble, one pair per anchor.

    Attributes:
        mean: (n,) or a scalar; in the percentile model the median.
        deviation: (n,) or a scalar, the population's (ddof 0); in the percentile model p84.134 - p50.
        mean_error: (n,) or a scalar, standard error of `mean` from sampling; 0 where it is exact.
        deviation_error: (n,) or a scalar, standard error of `deviation`; 0 where it is exact.
        members: how many similarities each pair comes from; None where that is not known.
    """

    mean: Float64Array
    deviation: Float64Array
    mean_error: Float64Array = field(default_factory=_zero)
    deviation_error: Float64Array = field(default_factory=_zero)
    members: int | None = None

    @classmethod
    def of(cls, scores: FloatArray) -> Moments:
        """Scalar mean and deviation of (n,) scores over a sample; zeros where there are none."""
        if not len(scores):
            return cls(_zero(), _zero(), members=0)
        return cls(np.asarray(scores.mean()), np.asarray(scores.std()), members=len(scores))

    def shrunk(self, pooled: Moments, *, mean: float = 0.0, deviation: float = 0.0) -> Moments:
        """Moved towards the scalar moments that all anchors share, of `Ensemble.pooled`.

            mu'      = (1 - a) mu_q + a mu_pooled
            sigma'^2 = (1 - b) sigma_q^2 + b sigma_pooled^2

        a is `mean` and b is `deviation`, both from 0 to 1. With b = 1 anchors differ only in their means.
        This ranks better where the deviations of single anchors are noise.
        """
        variance = (1 - deviation) * self.deviation**2 + deviation * pooled.deviation**2
        sigma = np.sqrt(variance)
        # To first order: the error of a variance is 2 sigma times the error of sigma. Both come from one
        # sample of members, so they add up.
        own = (1 - deviation) * self.deviation * self.deviation_error
        error = own + deviation * pooled.deviation * pooled.deviation_error
        return Moments(
            (1 - mean) * self.mean + mean * pooled.mean,
            sigma,
            (1 - mean) * self.mean_error + mean * pooled.mean_error,
            np.divide(error, sigma, out=np.zeros_like(sigma), where=sigma > 0),
        )


@dataclass(frozen=True, slots=True, eq=False)
class MomentStream:
    """Moments of n anchors' similarities, accumulated block by block.

    Power sums about the mean, merged as Pebay (Sandia report SAND2008-6212, 2008) gives it, so that a stream
    can be divided anywhere, and its parts can be computed on other machines.

    Attributes:
        count: number of members seen.
        mean: (n,) mean similarity.
        m2: (n,) sum of squared differences from the mean.
        m3: (n,) sum of cubed differences.
        m4: (n,) sum of fourth powers; the error of the deviation needs it.
    """

    count: int
    mean: Float64Array
    m2: Float64Array
    m3: Float64Array
    m4: Float64Array

    @classmethod
    def start(cls, anchors: int) -> MomentStream:
        """Nothing seen yet, for this many anchors."""
        return cls(0, *(np.zeros(anchors) for _ in range(4)))

    @classmethod
    def of(cls, similarities: npt.ArrayLike) -> MomentStream:
        """Of one (n, b) block: similarities of n anchors to b members; a DataError if not all are finite."""
        block = np.asarray(similarities, dtype=np.float64)
        if block.ndim != 2 or not np.isfinite(block).all():
            raise DataError(
                f"similarities must be finite numbers of shape (anchors, members), got {block.shape}"
            )
        count = block.shape[1]
        mean = block.sum(axis=1) / max(count, 1)
        centred = block - mean[:, None]
        squares = centred**2
        return cls(
            count, mean, squares.sum(axis=1), (squares * centred).sum(axis=1), (squares**2).sum(axis=1)
        )

    def add(self, similarities: npt.ArrayLike) -> MomentStream:
        """With one more (n, b) block of similarities."""
        return self.merge(MomentStream.of(similarities))

    def merge(self, other: MomentStream) -> MomentStream:
        """Of both streams, whose members are different ones of as many anchors."""
        if len(self.mean) != len(other.mean):
            raise DataError(f"streams of {len(self.mean)} and {len(other.mean)} anchors cannot be merged")
        a, b = self.count, other.count
        n = max(a + b, 1)
        delta = other.mean - self.mean
        return MomentStream(
            a + b,
            self.mean + delta * (b / n),
            self.m2 + other.m2 + delta**2 * (a * b / n),
            self.m3
            + other.m3
            + delta**3 * (a * b * (a - b) / n**2)
            + 3 * delta * (a * other.m2 - b * self.m2) / n,
            self.m4
            + other.m4
            + delta**4 * (a * b * (a * a - a * b + b * b) / n**3)
            + 6 * delta**2 * (a * a * other.m2 + b * b * self.m2) / n**2
            + 4 * delta * (a * other.m3 - b * self.m3) / n,
        )

    def moments(self, population: int | None = None, independent: float | None = None) -> Moments:
        """The moments, with the sampling error that is left.

        Of a `population` of N, the members were drawn without replacement: the error shrinks by
        sqrt((N - n) / (N - 1)) and is 0 once all was seen. None is an endless one. `independent` of them were
        drawn by themselves; all where None. Copies that are drawn together say what one says
        (`independent_members`).
        """
        n = self.count
        if not n:
            unknown = np.full_like(self.mean, 0.0 if population == 0 else np.inf)
            return Moments(np.zeros_like(self.mean), np.zeros_like(self.mean), unknown, unknown)
        deviation = np.sqrt(self.m2 / n)
        drawn = n if independent is None else independent
        left = unseen_share(n, population, drawn)
        if not left:
            none = np.zeros_like(self.mean)
            return Moments(self.mean, deviation, none, none, n)
        if drawn <= 1:
            unknown = np.full_like(self.mean, np.inf)
            return Moments(self.mean, deviation, unknown, unknown)
        # Var(s^2) is (m4 - s^4) / n, and d sigma = d sigma^2 / (2 sigma).
        spread = np.sqrt(np.maximum(self.m4 / n - deviation**4, 0.0) / drawn)
        return Moments(
            self.mean,
            deviation,
            left * np.sqrt(self.m2 / n / (drawn - 1)),
            left * np.divide(spread, 2 * deviation, out=np.zeros_like(spread), where=deviation > 0),
            n,
        )


def percentile_moments(
    similarities: FloatArray, population: int | None = None, independent: float | None = None
) -> Moments:
    """The percentile model's moments, median and p84.134 - p50, of (n, s) similarities to a sample.

    The errors are those of the percentiles of a Gaussian sample, whose quantile q has the variance
    q (1 - q) / (n f^2), f being the density there. `MomentStream.moments` has the other arguments.
    """
    from scipy import special  # here, as in all modules of a search: scipy takes longer than what it is for

    n, members = similarities.shape
    if not members:
        return MomentStream.start(n).moments(population)
    median, upper = np.percentile(similarities, [50.0, UPPER_PERCENTILE], axis=1)
    drawn = members if independent is None else independent
    left = unseen_share(members, population, drawn) / np.sqrt(drawn)
    if drawn <= 1 and left:
        unknown = np.full(n, np.inf)
        return Moments(median, upper - median, unknown, unknown)
    # Of the normal distribution, written out: scipy.stats takes a second to import.
    density, tail = np.exp([0.0, -0.5]) / np.sqrt(2 * np.pi), special.ndtr(-1.0)
    of_median = 0.25 / density[0] ** 2
    of_upper = tail * (1 - tail) / density[1] ** 2
    both = 0.5 * tail / (density[0] * density[1])
    deviation = upper - median
    return Moments(
        median,
        deviation,
        left * np.sqrt(of_median) * deviation,
        left * np.sqrt(of_median + of_upper - 2 * both) * deviation,
    )


def pooled_moments(
    anchors: Moments, population: int | None = None, independent: float | None = None
) -> Moments:
    """Scalar moments that a population of anchors shares: the mean mean, and the root of the mean variance.

    They come from the (n,) moments of a sample of anchors. Their error is that of this sample, and that of
    the members, which is the same for all anchors. `MomentStream.moments` has the other arguments.
    """
    means, variances = np.atleast_1d(anchors.mean), np.atleast_1d(anchors.deviation) ** 2
    if not len(means):
        return Moments(_zero(), _zero())
    of_means = MomentStream.of(means[None, :]).moments(population, independent)
    of_variances = MomentStream.of(variances[None, :]).moments(population, independent)
    deviation = np.sqrt(of_variances.mean)
    of_members = 2 * np.mean(np.atleast_1d(anchors.deviation) * anchors.deviation_error)
    spread = np.hypot(of_variances.mean_error, of_members)
    error = np.divide(spread, 2 * deviation, out=np.zeros_like(deviation), where=deviation > 0)
    mean_error = np.hypot(of_means.mean_error, np.mean(anchors.mean_error))
    return Moments(of_means.mean[0], deviation[0], mean_error[0], error[0])


def joined(parts: Sequence[Moments]) -> Moments:
    """Moments of all anchors, from those of consecutive blocks of anchors."""

    def every(name: str) -> Float64Array:
        known = [np.broadcast_to(getattr(part, name), part.mean.shape) for part in parts]
        return np.concatenate([np.zeros(0), *known])

    members = parts[0].members if parts else None
    return Moments(every("mean"), every("deviation"), every("mean_error"), every("deviation_error"), members)


def unseen_share(seen: int, population: int | None, independent: float | None = None) -> float:
    """Finite population correction: the factor on the sampling error of n seen of N; 1 for an endless one.

    `independent` of the n were drawn by themselves. The population has as many copies of each.
    """
    if population is None:
        return 1.0
    if population <= seen:
        return 0.0
    alike = seen / independent if independent else 1.0
    return float(np.sqrt((population - seen) / max(population - alike, 1.0)))


def independent_members(copies: IntArray) -> float:
    """As how many members a sample with so many copies of each counts: (sum c)^2 / sum c^2 (Kish, 1965).

    >>> independent_members(np.array([3, 3]))
    2.0
    """
    whole = float(copies.sum())
    return whole**2 / float(np.square(copies.astype(np.float64)).sum()) if whole else 0.0
