"""From scores to probabilities of relevance: fitted on judged questions, and checked on others.

A background gives a p-value: how rarely an unrelated question scores as much. How often the first document is
relevant is another number, which needs judged questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from surprise_rerank.core.arrays import BoolArray, Float64Array
from surprise_rerank.errors import DataError

BINS = 10
# Deviations below this share of the mean are rounding.
_NO_SPREAD = 1e-9


@dataclass(frozen=True, slots=True)
class RelevanceCurve:
    """P(the first document is relevant | its score), a logistic curve (Platt, 1999).

    Attributes:
        slope: a of 1 / (1 + exp(-(a score + b))); at least 0, as a better score is no reason for doubt.
        intercept: b.
    """

    slope: float
    intercept: float

    @classmethod
    def fit(cls, scores: npt.ArrayLike, relevant: npt.ArrayLike) -> RelevanceCurve:
        """Learn the curve from judged questions; use others than those that are evaluated.

        `scores` are (n,) best scores of questions: T of `QuestionBackground.totals_of`, a cosine, ... As
        Platt has it, the curve is fitted to (n+ + 1) / (n+ + 2) for the n+ relevant documents and to
        1 / (n- + 2) for the others, in place of 1 and 0, so that a few questions do not make it certain.

        Raises:
            DataError: if shapes differ, a score is not finite, or all documents are relevant, or none.
        """
        values, outcomes = _checked(scores, relevant)
        if outcomes.all() or not outcomes.any():
            raise DataError(
                f"{int(outcomes.sum())} of {len(outcomes)} judged documents are relevant; a curve needs both "
                "kinds"
            )
        return cls._fitted(values, outcomes)

    @classmethod
    def _fitted(cls, values: Float64Array, outcomes: BoolArray) -> RelevanceCurve:
        from sklearn.linear_model import LogisticRegression

        good, bad = int(outcomes.sum()), int((~outcomes).sum())
        targets = np.where(outcomes, (good + 1) / (good + 2), 1 / (bad + 2))
        centre, spread = float(values.mean()), float(values.std())
        # Equal scores differ by rounding only.
        scale = spread if spread > _NO_SPREAD * max(abs(centre), 1e-30) else 1.0
        standard = ((values - centre) / scale)[:, None]
        # A target between 0 and 1 is both outcomes, with weights.
        model = LogisticRegression(C=1e6).fit(
            np.concatenate([standard, standard]),
            np.repeat([True, False], len(values)),
            np.concatenate([targets, 1 - targets]),
        )
        slope = float(model.coef_[0, 0] / scale)
        if slope <= 0:
            return cls(0.0, float(special.logit(targets.mean())))
        return cls(slope, float(model.intercept_[0] - slope * centre))

    def probability(self, scores: npt.ArrayLike) -> Float64Array:
        """(n,) probabilities for (n,) scores."""
        p: Float64Array = special.expit(self.slope * np.asarray(scores, np.float64) + self.intercept)
        return p


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Questions of similar probability: how many, its mean, and the share whose document is relevant."""

    count: int
    predicted: float
    observed: float


def reliability(probabilities: npt.ArrayLike, relevant: npt.ArrayLike) -> list[ReliabilityBin]:
    """The reliability diagram: questions by probability in bins of equal width, without the empty ones.

    A DataError if shapes differ, or a probability is not from 0 to 1.
    """
    values, outcomes = _checked(probabilities, relevant)
    if len(values) and not (values.min() >= 0 and values.max() <= 1):
        raise DataError(f"probabilities must lie from 0 to 1, got {values.min():g} to {values.max():g}")
    numbers = np.minimum((values * BINS).astype(int), BINS - 1)
    return [
        ReliabilityBin(int(own.sum()), float(values[own].mean()), float(outcomes[own].mean()))
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


@dataclass(frozen=True, slots=True)
class Answered:
    """Questions that a least score answers: their share, and how many of these are right; NaN of none."""

    threshold: float
    share: float
    precision: float


def answered(scores: npt.ArrayLike, relevant: npt.ArrayLike, thresholds: Sequence[float]) -> list[Answered]:
    """Answered questions against precision, for each threshold; a DataError as of `reliability`."""
    values, outcomes = _checked(scores, relevant)
    rows = []
    for threshold in thresholds:
        kept = values >= threshold
        precision = float(outcomes[kept].mean()) if kept.any() else float("nan")
        rows.append(Answered(threshold, float(kept.mean()) if len(kept) else 0.0, precision))
    return rows


def threshold_for(precision: float, scores: npt.ArrayLike, relevant: npt.ArrayLike) -> float:
    """The lowest threshold whose answers to new questions are expected to be relevant this often.

    It is one of the judged scores. What is expected of the answers above it is the mean of the fitted curve
    over the judged ones. The lowest score above which the judged answers themselves were relevant as often
    would be too low: of many scores it is the one that chance was kindest to.

    Raises:
        DataError: if no threshold reaches the precision, it is no share, or shapes differ.
    """
    values, outcomes = _checked(scores, relevant)
    if not 0 <= precision <= 1:
        raise DataError(f"precision must be a share from 0 to 1, got {precision!r}")
    ranked = -np.sort(-values)
    if len(ranked):
        curve = RelevanceCurve._fitted(values, outcomes)
        shares = np.cumsum(curve.probability(ranked)) / np.arange(1, len(ranked) + 1)
        # Equal scores are answered together.
        last = np.append(ranked[1:] < ranked[:-1], True)
        reached = np.flatnonzero(last & (shares >= precision))
        if len(reached):
            return float(ranked[reached[-1]])
    best = f"; {shares[last].max():.3f} is expected of the best" if len(ranked) else ""
    raise DataError(f"no threshold is expected to reach a precision of {precision}{best}")


def _checked(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> tuple[Float64Array, BoolArray]:
    values = np.asarray(scores, dtype=np.float64)
    outcomes = np.asarray(relevant).astype(bool)
    if values.ndim != 1 or values.shape != outcomes.shape:
        raise DataError(f"{values.shape} scores for {outcomes.shape} judgements; give one for each question")
    if not np.isfinite(values).all():
        raise DataError("scores must be finite; omit questions without a candidate")
    return values, outcomes
