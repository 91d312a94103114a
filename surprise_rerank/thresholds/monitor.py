"""What a threshold promises, and whether the questions that come are of the kind that it is promised for."""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass

import numpy as np

from surprise_rerank.candidates import Ranking, Verdict
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.errors import DataError
from surprise_rerank.thresholds.verdicts import OFF_TOPIC

_ROUNDING = 1e-9
_LEVEL = 0.95  # of intervals
_CUT = 0.5  # lambda of `BackgroundMonitor`
_UNLIKELY = 0.01  # counts that are less likely are drift
_DIRECTIONS = {
    1: "find more than the background's, and more of them pass than is promised (or many are near the topic)",
    -1: "find less than the background's, and fewer of them pass than is promised",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """The share of unrelated questions that a threshold lets through, with a central 95 % interval.

    On average over backgrounds of n questions (near-duplicates count as one) it is at most `alpha`. One
    background has one threshold, the k-th smallest of n totals with k = (1 - alpha)(n + 1) rounded up; the
    share above it is of the Beta distribution with n + 1 - k and k (Vovk, 'Conditional validity of inductive
    conformal predictors', 2012).
    """

    alpha: float
    low: float
    high: float
    questions: float

    @classmethod
    def of(cls, alpha: float, questions: float) -> Promise:
        """What n questions know of a share; they must be at least 1 / alpha - 1."""
        from scipy import special  # here: a search measures a promise only where it is shown

        k = float(np.ceil((1 - alpha) * (questions + 1) - _ROUNDING))
        above = max(questions + 1 - k, _ROUNDING)
        if not k:
            return cls(alpha, 1.0, 1.0, questions)
        low, high = special.betaincinv(above, k, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
        return cls(alpha, low, high, questions)

    def __str__(self) -> str:
        return (
            f"{100 * self.alpha:.3g} %, 95 % interval {100 * self.low:.2g} to {100 * self.high:.2g}, from "
            f"{self.questions:.0f} questions"
        )


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is known of the questions that came; as a string, one line.

    Attributes:
        alpha: the share of off-topic questions that may pass.
        asked: how many questions it is about.
        unmeasured: how many more had no surprise, since the beginning.
        passed: how many had a surprise of at least 1 - alpha.
        passed_low: the lower end of the 95 % interval of the share that passes (Clopper and Pearson).
        passed_high: its upper end.
        off_topic: pi_0, the estimated share of off-topic questions.
        wrong: alpha pi_0, the share of all questions that is expected to pass although it is off-topic.
        drift: 1 where off-topic questions find more than the background's, -1 where they find less, else 0.
        drift_p: the two-sided p-value of that test.
    """

    alpha: float
    asked: int
    unmeasured: int
    passed: int
    passed_low: float
    passed_high: float
    off_topic: float
    wrong: float
    drift: int
    drift_p: float

    def __str__(self) -> str:
        if not self.asked:
            return f"no question was measured ({self.unmeasured} without a surprise)"
        said = (
            f"{100 * self.passed / self.asked:.1f} % of {self.asked} questions passed at a surprise of "
            f"{1 - self.alpha:.4g} (95 % interval {100 * self.passed_low:.1f} to "
            f"{100 * self.passed_high:.1f}); about {100 * self.off_topic:.0f} % are off-topic, so that "
            f"{100 * self.wrong:.1f} % are expected to pass wrongly"
        )
        if not self.drift:
            return said
        return (
            f"{said}. Drift (p = {self.drift_p:.2g}): off-topic questions {_DIRECTIONS[self.drift]}; make a "
            "background of questions like those that come"
        )


class BackgroundMonitor:
    """A live check of a background's promise against the questions that come. Threads may share one.

    p = 1 - surprise of an off-topic question of the background's kind is uniform from 0 to 1; the other
    questions have small p. Of those above a cut lambda nearly all are off-topic. With #{p > lambda} of m,

        pi_0 = #{p > lambda} / ((1 - lambda) m)

    estimates the share of off-topic questions (Storey, 'A direct approach to false discovery rates', JRSS B,
    2002), of which alpha pass. They should also be as often in the upper half of (lambda, 1] as in the lower.
    The share of the upper half is itself known from n background questions only: with u of their n + 1 gaps
    there, and l in the lower half, it is of the distribution Beta(u, l), and the count in the upper half is
    beta-binomial. Drift is a two-sided tail of it below .01. A question that is asked often counts every
    time, and can look like drift.

    n is `QuestionBackground.effective`, alpha is 1 - min_surprise, and lambda is .5. The last `window`
    questions count. A DataError if alpha is no share, or there is less than 1 question.
    """

    def __init__(
        self,
        questions: float,
        alpha: float = 1 - OFF_TOPIC,
        *,
        window: int = 10_000,
    ) -> None:
        if not 0 <= alpha <= 1:
            raise DataError(f"alpha must be a share from 0 to 1, got {alpha!r}")
        for name, count in (("questions", questions), ("window", window)):
            if count < 1:
                raise DataError(f"{name} must be at least 1, got {count!r}")
        self.questions, self.alpha = questions, alpha
        self._lock = threading.Lock()
        self._last: deque[float] = deque(maxlen=window)
        self._unmeasured = self._measured = 0

    def observe(self, found: Ranking | Verdict | float | None) -> int:
        """Take note of a question; returns how many were measured since the beginning.

        `found` is its ranking (of the whole pool, or with a verdict), its verdict, or its best document's
        surprise; without a surprise it is counted as not measured.
        """
        surprise = _surprise(found)
        with self._lock:
            if surprise is None:
                self._unmeasured += 1
            else:
                self._measured += 1
                self._last.append(surprise)
            return self._measured

    def traffic(self) -> Traffic:
        """What the last questions tell."""
        with self._lock:
            surprise, unmeasured = np.array(self._last, dtype=np.float64), self._unmeasured
        p, asked = 1 - surprise, len(surprise)
        passed = int((p <= self.alpha + _ROUNDING).sum())
        high, low = self._gaps((1 + _CUT) / 2), self._gaps(_CUT)
        upper, above = (int((p > own + _ROUNDING).sum()) for own in ((1 + _CUT) / 2, _CUT))
        off_topic = min(1.0, float(above * (self.questions + 1) / (low * asked))) if asked else 0.0
        # So few background questions that none of their p-values is in the lower half tell no drift.
        drift_p = _two_sided(upper, above, high, low - high) if low > high else 1.0
        expected = above * high / low
        return Traffic(
            self.alpha,
            asked,
            unmeasured,
            passed,
            *_interval(passed, asked),
            off_topic,
            self.alpha * off_topic,
            0 if drift_p >= _UNLIKELY else (1 if upper < expected else -1),
            drift_p,
        )

    def _gaps(self, above: float) -> float:
        """How many of the n + 1 possible p-values, 1 / (n + 1) to 1, are above this."""
        return self.questions + 1 - math.floor(above * (self.questions + 1) + _ROUNDING)


def _surprise(found: Ranking | Verdict | float | None) -> float | None:
    if isinstance(found, Ranking) and found.verdict is not None:
        found = found.verdict
    if isinstance(found, Verdict):
        return found.surprise
    if isinstance(found, Ranking):
        return None if found.surprise is None or not len(found) else float(found.surprise.max())
    return found


def _two_sided(count: int, trials: int, high: float, low: float) -> float:
    """The two-sided tail probability of a count that is beta-binomial."""
    from scipy import special

    k = np.arange(trials + 1)
    logs = special.betaln(k + high, trials - k + low) - special.betaln(high, low)
    chances: Float64Array = np.exp(logs - np.log(trials + 1) - special.betaln(trials - k + 1, k + 1))
    return float(min(1.0, 2 * min(chances[: count + 1].sum(), chances[count:].sum())))


def _interval(passed: int, asked: int) -> tuple[float, float]:
    from scipy import special

    tail = (1 - _LEVEL) / 2
    low = float(special.betaincinv(passed, asked - passed + 1, tail)) if passed else 0.0
    high = float(special.betaincinv(passed + 1, asked - passed, 1 - tail)) if passed < asked else 1.0
    return low, high
