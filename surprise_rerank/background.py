"""How surprising a question's best candidate is, among those of other questions.

A cosine of .45 is good for one model and noise for another. What has one meaning for all models and scorers
is its rank among the best that questions find which have nothing to do with the corpus: the surprise score,
equation (1) of the paper (`surprise.py`), with background questions' best candidates as the ensemble,

    Sigma(d, q) = P(max over d' of T(q', d') < T(q, d)), q' drawn from background questions.        (1)

Of the question's best candidate 1 - Sigma is a p-value: of questions that come from where the background
does, at most the share alpha reaches 1 - alpha, whatever their distribution is (conformal prediction; Vovk,
Gammerman and Shafer, 'Algorithmic Learning in a Random World', 2005). With several scorers s_k

    T(q, d) = sum over k of w_k (s_k(q, d) - m_k(q)) / sigma_k,   m_k(q) = a_k + b_k log |q|        (2)

where m_k and sigma_k are mean and deviation of the background's best s_k: the best of long questions score
otherwise than those of short ones, so the mean follows the number of words. Within a question one scorer's T
orders documents as it does; across questions it does not depend on the length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surprise_rerank.arrays import Float64Array
from surprise_rerank.candidates import Ranking
from surprise_rerank.errors import DataError
from surprise_rerank.fusion import BM25_WEIGHT

# A line through fewer questions says more of chance than of length.
FEWEST = 10
# What the one score is called of a ranking that has no others.
SCORE = "score"
_WEIGHTS = {"bm25": BM25_WEIGHT}


@dataclass(frozen=True, eq=False)
class QuestionBackground:
    """The best candidates of background questions: what other questions' scores are compared with.

    Attributes:
        names: k scorers, as in `Ranking.raw`; `score` alone for a ranking by one.
        intercepts: (k,) a of equation (2).
        slopes: (k,) b; 0 where all background questions are of one length.
        deviations: (k,) sigma.
        totals: (n,) max over documents of T of every background question, ascending; minus infinity for one
            that found nothing.
        lengths: the shortest and the longest background question, in words; what is beyond counts as these.
        scorer: what the rankings were made by, for readers: model and system, say.
        documents: over how many documents; 0 where unknown.
    """

    names: tuple[str, ...]
    intercepts: Float64Array
    slopes: Float64Array
    deviations: Float64Array
    totals: Float64Array
    lengths: tuple[int, int]
    scorer: str = ""
    documents: int = 0

    @classmethod
    def of(
        cls, answers: Iterable[tuple[str, Ranking]], scorer: str = "", documents: int = 0
    ) -> QuestionBackground:
        """The background of these questions, each with the ranking of its candidates.

        Args:
            answers: questions that have nothing to do with the corpus, and all of their candidates.
            scorer: what the rankings were made by, for readers.
            documents: over how many documents; 0 where unknown.

        Raises:
            DataError: if there are too few questions, or they were not ranked by the same scorers.
        """
        questions, tables = [], []
        names: tuple[str, ...] = ()
        for question, ranking in answers:
            own = _raw(ranking)
            if len(ranking):
                if names and tuple(own) != names:
                    raise DataError(
                        f"the background question {question!r} was scored by {', '.join(own)}, others by "
                        f"{', '.join(names)}; rank all of them in one way"
                    )
                names = tuple(own)
            questions.append(question)
            tables.append(np.array(list(own.values())) if len(ranking) else np.zeros((0, 0)))
        found = [i for i, table in enumerate(tables) if table.size]
        if len(found) < FEWEST:
            raise DataError(
                f"{len(found)} of {len(questions)} background questions found candidates; give at least "
                f"{FEWEST}, better some hundred"
            )
        lengths = np.array([_words(questions[i]) for i in found], dtype=np.float64)
        best = np.array([np.nanmax(np.nan_to_num(tables[i], nan=-np.inf), axis=1) for i in found])
        intercepts, slopes, deviations = _lines(best, np.log(lengths))
        made = cls(
            names=names,
            intercepts=intercepts,
            slopes=slopes,
            deviations=deviations,
            totals=np.zeros(0),
            lengths=(int(lengths.min()), int(lengths.max())),
            scorer=scorer,
            documents=documents,
        )
        totals = np.full(len(questions), -np.inf)
        for i in found:
            totals[i] = made._totals(questions[i], tables[i]).max()
        return replace(made, totals=np.sort(totals))

    @property
    def count(self) -> int:
        """n, the number of background questions."""
        return len(self.totals)

    @property
    def highest(self) -> float:
        """The largest surprise that n questions can tell from others: n / (n + 1)."""
        return self.count / (self.count + 1)

    @cached_property
    def weights(self) -> Float64Array:
        """(k,) w of equation (2): those of the fusion."""
        return np.array([_WEIGHTS.get(name, 1.0) for name in self.names])

    def totals_of(self, question: str, ranking: Ranking) -> Float64Array:
        """(n,) T of every document of a ranking.

        Raises:
            DataError: if it was made by other scorers.
        """
        own = _raw(ranking)
        if not len(ranking):
            return np.zeros(0)
        if tuple(own) != self.names:
            raise DataError(
                f"the background is of the scores {', '.join(self.names)}, the ranking of {', '.join(own)}; "
                "make the background with the pipeline that it is used with"
            )
        return self._totals(question, np.array(list(own.values())))

    def surprise(self, totals: Float64Array) -> Float64Array:
        """(n,) Sigma: the share of background questions below, of n + 1; the one more is the question itself.

        This makes 1 - Sigma a p-value for any number of background questions.
        """
        below = np.searchsorted(self.totals, totals, side="left")
        shares: Float64Array = below / (self.count + 1)
        return shares

    def judged(self, question: str, ranking: Ranking) -> Ranking:
        """The ranking with the surprise of every document, descending.

        A document is at least as surprising as any that the re-ranker puts below it. So the first one has the
        largest of all, which is the question's.

        Raises:
            DataError: if the ranking was made by other scorers.
        """
        own = self.surprise(self.totals_of(question, ranking))
        return replace(ranking, surprise=np.maximum.accumulate(own[::-1])[::-1])

    def check(self, min_surprise: float) -> None:
        """Refuse a threshold that is no share, or that so few background questions cannot tell.

        Raises:
            DataError: if it is not from 0 to 1, or above `highest`.
        """
        if not 0 <= min_surprise <= 1:
            raise DataError(f"min_surprise must be a share from 0 to 1, got {min_surprise!r}")
        if min_surprise > self.highest:
            # 1 has no number of questions.
            needed = math.ceil(min_surprise / (1 - min_surprise)) if min_surprise < 1 else None
            todo = f"give at least {needed}" if needed else "choose one below 1"
            raise DataError(
                f"{self.count} background questions tell a surprise of at most {self.highest:.4f}, asked for "
                f"is {min_surprise}; {todo}"
            )

    def _totals(self, question: str, scores: Float64Array) -> Float64Array:
        """(n,) T of (k, n) scores; one that is NaN is no evidence either way."""
        shortest, longest = self.lengths
        length = math.log(min(max(_words(question), shortest), longest))
        expected = self.intercepts + self.slopes * length
        z = (scores - expected[:, None]) / self.deviations[:, None]
        totals: Float64Array = self.weights @ np.nan_to_num(z, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return totals


def require_background(background: QuestionBackground | None, min_surprise: float) -> None:
    """Refuse a threshold without a background, or one that it cannot tell.

    Raises:
        DataError: if there is no background, or `QuestionBackground.check` refuses.
    """
    if background is None:
        raise DataError(
            f"min_surprise={min_surprise!r} needs a background of other questions; make one with "
            "with_background(questions)"
        )
    background.check(min_surprise)


def above(ranking: Ranking, min_surprise: float) -> Ranking:
    """The documents of a judged ranking that are surprising enough; perhaps none."""
    if ranking.surprise is None:
        raise DataError("the ranking has no surprise; judge it with a background first")
    return ranking.top(int((ranking.surprise >= min_surprise).sum()))


def _raw(ranking: Ranking) -> Mapping[str, Float64Array]:
    return ranking.raw or {SCORE: ranking.scores}


def _words(question: str) -> int:
    return max(1, len(question.split()))


def _lines(best: Float64Array, logs: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
    """(k,) intercepts, slopes and deviations of (n, k) best scores over (n,) logarithms of lengths."""
    finite = np.isfinite(best)
    rows = [_line(best[own, j], logs[own]) for j, own in enumerate(finite.T)]
    intercepts, slopes, deviations = np.array(rows).T
    return intercepts, slopes, deviations


def _line(best: Float64Array, logs: Float64Array) -> Sequence[float]:
    if not len(best):
        return 0.0, 0.0, 1.0
    spread = logs.var()
    slope = ((logs - logs.mean()) * best).mean() / spread if spread > 1e-9 else 0.0
    intercept = best.mean() - slope * logs.mean()
    deviation = (best - intercept - slope * logs).std()
    scale = max(float(np.abs(best).max()), 1e-12)
    return float(intercept), float(slope), float(deviation) if deviation > 1e-9 * scale else scale
