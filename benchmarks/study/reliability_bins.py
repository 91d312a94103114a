"""Whether probabilities are what is found: reliability diagrams, and their error in one number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.errors import DataError

BINS = 10


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Questions of similar probability: how many, its mean, and the share whose document is relevant."""

    count: int
    predicted: float
    observed: float


def reliability(
    probabilities: npt.ArrayLike, relevant: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> list[ReliabilityBin]:
    """The reliability diagram: questions by probability in bins of equal width, without the empty ones.

    Each counts what its weight says, 1 by default. A DataError if a probability is not from 0 to 1.
    """
    values, outcomes = np.asarray(probabilities, np.float64), np.asarray(relevant, bool)
    counts = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    if len(values) and not (values.min() >= 0 and values.max() <= 1):
        raise DataError(f"probabilities must lie from 0 to 1, got {values.min():g} to {values.max():g}")
    numbers = np.minimum((values * BINS).astype(int), BINS - 1)
    return [
        ReliabilityBin(
            int(own.sum()),
            float(np.average(values[own], weights=counts[own])),
            float(np.average(outcomes[own], weights=counts[own])),
        )
        for own in (numbers == number for number in range(BINS))
        if own.any()
    ]


def expected_calibration_error(probabilities: npt.ArrayLike, relevant: npt.ArrayLike) -> float:
    """The mean distance of predicted and observed over the bins of `reliability`, weighted by their counts.

    (Naeini, Cooper and Hauskrecht, AAAI 2015.) 0 for no questions.

    >>> round(expected_calibration_error([0.9, 0.9, 0.1, 0.1], [1, 0, 0, 0]), 2)
    0.25
    """
    found = reliability(probabilities, relevant)
    total = sum(own.count for own in found)
    return sum(own.count * abs(own.predicted - own.observed) for own in found) / max(total, 1)
