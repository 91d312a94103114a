"""The chance that a question's first ten documents contain an answer, without judged questions of its corpus.

A question near the topic of a corpus finds near documents, whether one of them answers it or not. Predictors
of weak retrieval are many (Carmel and Yom-Tov, 'Estimating the Query Difficulty for Information Retrieval',
2010). Of those that were tried on eight collections, each left out in turn, two predict as well as all:

    t = (T_1 - m) / s             how far the best document is above those of background questions
    g = (T_1 - mean T_i) / s      how far it is above its own pool, i = 1 ... 100
    P = 1 / (1 + exp(-(a + b t + c g)))

T is the total of `background.py`, m and s its mean and deviation over the background questions. a, b and c
are those of logistic regressions on judged questions of other collections, as no corpus has its own at first.
With some of its own (`calibrated`) the curve is moved by Platt's method. docs/thresholds.md has what was
tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from surprise_rerank.errors import DataError

# Fewer judged questions say less about a corpus than those of others do.
FEWEST_JUDGED = 10
# Of the judged questions with an answer, so many may be called weak.
WEAK_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class AnswerChance:
    """P(a relevant document among the first ten), for questions that are meant for the corpus.

    Attributes:
        intercept: a.
        best: b.
        gap: c.
        weak: a question with less is called weak.
        judged: how many questions of the corpus it was calibrated on; 0 for those of others.
    """

    intercept: float
    best: float
    gap: float
    weak: float
    judged: int = 0

    def of(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> np.ndarray:
        """(n,) probabilities of (n,) t and g."""
        p: np.ndarray = np.exp(-np.logaddexp(0.0, -self._logits(best, gap)))
        return p

    def calibrated(self, best: npt.ArrayLike, gap: npt.ArrayLike, found: npt.ArrayLike) -> AnswerChance:
        """The same for a corpus with judged questions; of those with an answer, the lowest tenth is weak.

        They have (n,) t and g, and (n,) whether their first ten documents contained a relevant one.

        Raises:
            DataError: if there are too few, or all or none of them found one.
        """
        from surprise_rerank.thresholds.calibration import RelevanceCurve

        usual = self._logits(best, gap)
        if len(usual) < FEWEST_JUDGED:
            raise DataError(
                f"{len(usual)} judged questions; give at least {FEWEST_JUDGED} to calibrate a chance on"
            )
        curve = RelevanceCurve.fit(usual, found)
        intercept = curve.intercept + curve.slope * self.intercept
        own = AnswerChance(intercept, curve.slope * self.best, curve.slope * self.gap, 0.0, len(usual))
        answered = own.of(best, gap)[np.asarray(found, dtype=bool)]
        return replace(own, weak=float(np.quantile(answered, WEAK_SHARE)))

    def _logits(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> np.ndarray:
        logits: np.ndarray = self.intercept + self.best * np.asarray(best) + self.gap * np.asarray(gap)
        return logits


# Fitted on eight collections with three models, with words among the scorers and by vectors alone: the table
# `chance-curves` of `python -m benchmarks.study verdicts`. `weak` is for a corpus without near questions.
WITH_WORDS = AnswerChance(-0.016, 0.255, 0.566, weak=0.5)
BY_VECTORS = AnswerChance(-0.390, 0.356, 0.205, weak=0.5)
