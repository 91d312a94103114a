"""The chance that a question's first ten documents contain an answer, whatever the question is about.

Of the predictors of weak retrieval (Carmel and Yom-Tov, 'Estimating the Query Difficulty for Information
Retrieval', 2010) that were tried, each collection left out in turn, two predict as well as all:

    t = (T_1 - m) / s             how far the best document is above those of background questions
    g = (T_1 - mean T_i) / s      how far it is above its own pool, i = 1 ... 100
    P = 1 / (1 + exp(-(a + b min(t, 2.75) + c g)))

Beyond 2.75 deviations a question is of the corpus' kind, and only g tells whether it has an answer. T is the
total of `background.py`, m and s its mean and deviation over the background questions.
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
ENOUGH = 2.75


@dataclass(frozen=True, slots=True)
class AnswerChance:
    """P(a relevant document among the first ten), with a, b and c of the equation above."""

    intercept: float
    best: float
    gap: float
    judged: int = 0  # questions of the corpus that it was calibrated on; 0 for those of others
    longest: int = 0  # words of the longest of these; 0 where any length will do

    def of(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> Float64Array:
        """(n,) probabilities of (n,) t and g."""
        return np.asarray(np.exp(-np.logaddexp(0.0, -self._logits(best, gap))))

    def calibrated(
        self, best: npt.ArrayLike, gap: npt.ArrayLike, answered: npt.ArrayLike, longest: int = 0
    ) -> AnswerChance:
        """The same for a corpus with judged questions of at most so many words, by Platt's method.

        They have (n,) t and g, and (n,) whether their first ten documents contained a relevant one. A
        DataError if there are too few, or all or none of them found one.
        """
        usual = self._logits(best, gap)
        if len(usual) < FEWEST_JUDGED:
            raise DataError(
                f"{len(usual)} judged questions; give at least {FEWEST_JUDGED} to calibrate a chance on"
            )
        slope, shift = _platt(usual, np.asarray(answered, dtype=bool))
        moved = shift + slope * self.intercept
        return AnswerChance(moved, slope * self.best, slope * self.gap, len(usual), longest)

    def _logits(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> Float64Array:
        capped = np.minimum(np.asarray(best, np.float64), ENOUGH)
        return np.asarray(self.intercept + self.best * capped + self.gap * np.asarray(gap, np.float64))


# `python -m benchmarks.study verdicts --model all-MiniLM-L6-v2 --part chance` prints it: of the
# collections' own questions and of those about other subjects, by four systems.
USUAL_CHANCE = AnswerChance(-5.12, 2.46, 0.1)


def _platt(logits: Float64Array, answered: BoolArray) -> tuple[float, float]:
    """Slope, 0 or more, and intercept of P(found | logit), fitted to targets that are never certain."""
    from sklearn.linear_model import LogisticRegression  # here: a search fits nothing

    good, bad = int(answered.sum()), int((~answered).sum())
    if not good or not bad:
        raise DataError(f"{good} of {len(answered)} judged questions found an answer; both kinds are needed")
    # Platt, 'Probabilistic Outputs for Support Vector Machines', 1999.
    targets = np.where(answered, (good + 1) / (good + 2), 1 / (bad + 2))
    # A target between 0 and 1 is both outcomes, with weights.
    outcomes, weights = np.repeat([True, False], len(answered)), np.concatenate([targets, 1 - targets])
    model = LogisticRegression(C=1e6).fit(np.tile(logits, 2)[:, None], outcomes, weights)
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    if slope > 0:
        return slope, intercept
    share = float(targets.mean())  # a better score is no reason for doubt
    return 0.0, float(np.log(share / (1 - share)))
