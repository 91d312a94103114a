"""What a threshold promises, and how well some background questions know it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-9
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Promise:
    """The share of unrelated questions that a threshold lets through.

    On average over backgrounds of n questions it is at most `alpha`. One background has one threshold, the
    k-th smallest of n totals with k = (1 - alpha)(n + 1) rounded up; the share above it is of the Beta
    distribution with n + 1 - k and k (Vovk, 'Conditional validity of inductive conformal predictors', 2012).

    Attributes:
        alpha: 1 - min_surprise.
        low: the lower end of the central 95 % interval.
        high: its upper end.
        questions: n; near-duplicates count as one.
    """

    alpha: float
    low: float
    high: float
    questions: float

    @classmethod
    def of(cls, alpha: float, questions: float) -> Promise:
        """What n questions know of a share; they must be at least 1 / alpha - 1."""
        from scipy import special

        k = float(np.ceil((1 - alpha) * (questions + 1) - _ROUNDING))
        above = max(questions + 1 - k, _ROUNDING)
        if not k:
            return cls(alpha, 1.0, 1.0, questions)
        low, high = special.betaincinv(above, k, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
        return cls(alpha, low, high, questions)

    @property
    def deviation(self) -> float:
        """The standard deviation of the share, over backgrounds of so many questions."""
        return float(np.sqrt(self.alpha * (1 - self.alpha) / (self.questions + 2)))

    def __str__(self) -> str:
        return (
            f"{100 * self.alpha:.3g} %, 95 % interval {100 * self.low:.2g} to {100 * self.high:.2g}, from "
            f"{self.questions:.0f} questions"
        )
