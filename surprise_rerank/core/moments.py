"""Mean and deviation of a similarity over an ensemble, one pair for each anchor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float64Array, FloatArray

UPPER_PERCENTILE = 84.1344746068543  # 100 Phi(1): one sigma above the median of a Gaussian
# Sampled anchors, where pooled moments need a scan.
POOLED_ANCHORS = 512


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Mean and standard deviation of a similarity over an ensemble.

    Attributes:
        mean: (n,) or a scalar; in the percentile model the median.
        deviation: (n,) or a scalar, the population's (ddof 0); in the percentile model p84.134 - p50.
        members: how many similarities each pair comes from; None where that is not known.
    """

    mean: Float64Array
    deviation: Float64Array
    members: int | None = None

    @classmethod
    def of(cls, scores: FloatArray) -> Moments:
        """Scalar mean and deviation of (n,) scores over a sample; zeros where there are none."""
        if not len(scores):
            return cls(np.zeros(()), np.zeros(()), members=0)
        return cls(np.asarray(scores.mean()), np.asarray(scores.std()), members=len(scores))

    @classmethod
    def of_rows(cls, similarities: npt.ArrayLike) -> Moments:
        """(n,) moments of (n, s) similarities of anchors to members."""
        rows = np.asarray(similarities, dtype=np.float64)
        if not rows.shape[1]:
            return cls(np.zeros(len(rows)), np.zeros(len(rows)), members=0)
        return cls(rows.mean(axis=1), rows.std(axis=1), members=rows.shape[1])

    @classmethod
    def percentiles(cls, similarities: FloatArray) -> Moments:
        """(n,) median and p84.134 - p50 of (n, s) similarities: the percentile model has them."""
        n, members = similarities.shape
        if not members:
            return cls(np.zeros(n), np.zeros(n), members=0)
        median, upper = np.percentile(similarities, [50.0, UPPER_PERCENTILE], axis=1)
        return cls(median, upper - median, members=members)

    def single(self) -> Moments:
        """The scalar moments of the only anchor there is."""
        (mean,), (deviation,) = self.mean, self.deviation
        return Moments(np.asarray(mean), np.asarray(deviation), self.members)

    def pooled(self) -> Moments:
        """Scalar moments that all anchors share: the mean mean, and the root of the mean variance."""
        if not len(self.mean):
            return Moments(np.zeros(()), np.zeros(()))
        mean, variance = (np.asarray(values.mean()) for values in (self.mean, self.deviation**2))
        return Moments(mean, np.sqrt(variance))

    def shrunk(self, pooled: Moments, *, mean: float = 0.0, deviation: float = 0.0) -> Moments:
        """Moved towards the scalar moments that all anchors share, of `Ensemble.pooled`.

            mu'      = (1 - a) mu_q + a mu_pooled
            sigma'^2 = (1 - b) sigma_q^2 + b sigma_pooled^2

        a is `mean` and b is `deviation`, both from 0 to 1. With b = 1 anchors differ only in their means.
        This ranks better where the deviations of single anchors are noise.
        """
        variance = (1 - deviation) * self.deviation**2 + deviation * pooled.deviation**2
        return Moments((1 - mean) * self.mean + mean * pooled.mean, np.sqrt(variance))
