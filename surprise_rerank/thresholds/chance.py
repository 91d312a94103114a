"""The chance that a question's first ten documents contain an answer, whatever the question is about.

Of the predictors of weak retrieval (Carmel and Yom-Tov, 'Estimating the Query Difficulty for Information
Retrieval', 2010) that were tried, each collection left out in turn, two predict as well as all:

    t = (T_1 - m) / s             how far the best document is above those of background questions
    g = (T_1 - mean T_i) / s      how far it is above its own pool, i = 1 ... 100
    P = 1 / (1 + exp(-(a + b min(t, 3.4) + c g)))

Beyond 3.4 deviations a question is of the corpus' kind, and only g tells whether it has an answer. T is the
total of `background.py`, m and s its mean and deviation over the background questions. a, b and c are of
logistic regressions on judged questions of other collections, and on questions that have nothing to do with
these. With some judged questions of its own a corpus' curve is moved by Platt's method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import BoolArray, Float64Array
from surprise_rerank.errors import DataError

# Fewer judged questions say less about a corpus than those of others do.
FEWEST_JUDGED = 10
# More of t tells nothing.
ENOUGH = 3.4
# Deviations below this share of the mean are rounding.
_NO_SPREAD = 1e-9


@dataclass(frozen=True, slots=True)
class RelevanceCurve:
    """P(a document is relevant | its score) = 1 / (1 + exp(-(slope score + intercept))), slope >= 0.

    (Platt, 'Probabilistic Outputs for Support Vector Machines', 1999.)
    """

    slope: float
    intercept: float

    @classmethod
    def fit(cls, scores: npt.ArrayLike, relevant: npt.ArrayLike) -> RelevanceCurve:
        """Learn the curve from (n,) scores of judged questions; evaluate others.

        As Platt has it, it is fitted to (n+ + 1) / (n+ + 2) for the n+ relevant documents and to 1 / (n- + 2)
        for the others, in place of 1 and 0, so that a few questions do not make it certain.

        Raises:
            DataError: if shapes differ, a score is not finite, or all documents are relevant, or none.
        """
        from sklearn.linear_model import LogisticRegression

        values, outcomes = checked_outcomes(scores, relevant)
        good, bad = int(outcomes.sum()), int((~outcomes).sum())
        if not good or not bad:
            raise DataError(
                f"{good} of {len(outcomes)} judged documents are relevant; a curve needs both kinds"
            )
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
        if slope <= 0:  # a better score is no reason for doubt
            share = float(targets.mean())
            return cls(0.0, float(np.log(share / (1 - share))))
        return cls(slope, float(model.intercept_[0] - slope * centre))

    def probability(self, scores: npt.ArrayLike) -> Float64Array:
        """(n,) probabilities for (n,) scores."""
        return _sigmoid(self.slope * np.asarray(scores, np.float64) + self.intercept)


@dataclass(frozen=True, slots=True)
class AnswerChance:
    """P(a relevant document among the first ten).

    Attributes:
        intercept: a.
        best: b.
        gap: c.
        judged: how many questions of the corpus it was calibrated on; 0 for those of others.
        longest: words of the longest of these; 0 where any length will do.
    """

    intercept: float
    best: float
    gap: float
    judged: int = 0
    longest: int = 0

    def of(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> Float64Array:
        """(n,) probabilities of (n,) t and g."""
        return _sigmoid(self._logits(best, gap))

    def calibrated(
        self, best: npt.ArrayLike, gap: npt.ArrayLike, found: npt.ArrayLike, longest: int = 0
    ) -> AnswerChance:
        """The same for a corpus with judged questions, of at most so many words.

        They have (n,) t and g, and (n,) whether their first ten documents contained a relevant one.

        Raises:
            DataError: if there are too few, or all or none of them found one.
        """
        usual = self._logits(best, gap)
        if len(usual) < FEWEST_JUDGED:
            raise DataError(
                f"{len(usual)} judged questions; give at least {FEWEST_JUDGED} to calibrate a chance on"
            )
        curve = RelevanceCurve.fit(usual, found)
        intercept = curve.intercept + curve.slope * self.intercept
        return AnswerChance(intercept, curve.slope * self.best, curve.slope * self.gap, len(usual), longest)

    def _logits(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> Float64Array:
        known = np.minimum(np.asarray(best, np.float64), ENOUGH)
        logits: Float64Array = self.intercept + self.best * known + self.gap * np.asarray(gap, np.float64)
        return logits


# Of cranfield's, cisi's and the demo's questions with all-MiniLM-L6-v2, with words among the scorers and by
# vectors alone (docs/thresholds.md). Curve and limit are .6 deviations lower than they were fitted, because
# the questions of other models stand out less; on these three it costs nothing.
WITH_WORDS = AnswerChance(-5.98, 2.08, 0.37)
BY_VECTORS = AnswerChance(-5.58, 2.04, 0.17)


def checked_outcomes(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> tuple[Float64Array, BoolArray]:
    """(n,) finite scores and (n,) outcomes; a DataError if they are none."""
    values = np.asarray(scores, dtype=np.float64)
    outcomes = np.asarray(relevant).astype(bool)
    if values.ndim != 1 or values.shape != outcomes.shape:
        raise DataError(f"{values.shape} scores for {outcomes.shape} judgements; give one for each question")
    if not np.isfinite(values).all():
        raise DataError("scores must be finite; omit questions without a candidate")
    return values, outcomes


def _sigmoid(logits: Float64Array) -> Float64Array:
    p: Float64Array = np.exp(-np.logaddexp(0.0, -logits))
    return p
