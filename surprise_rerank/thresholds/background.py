"""How surprising a question's best candidate is, among those of other questions.

A cosine of .45 is good for one model and noise for another. Its rank among the best scores of background
questions, which have nothing to do with the corpus, has one meaning for all models and scorers. That is the
surprise score, equation (1) of the paper (`surprise/score.py`), with the best candidates of background
questions as the ensemble,

    Sigma(d, q) = P(max over d' of T(q', d') < T(q, d)), q' drawn from background questions.        (1)

For the question's best candidate 1 - Sigma is a p-value: of questions from the same source as the background,
the share alpha reaches 1 - alpha, for any distribution (conformal prediction; Vovk, Gammerman and Shafer,
'Algorithmic Learning in a Random World', 2005). With several scorers s_k

    T(q, d) = sum over k of w_k (s_k(q, d) - m_k) / sigma_k                                         (2)

where m_k and sigma_k are mean and deviation of the background's best s_k, the same for all questions:
normalising per question over the documents would remove the difference between questions with and without an
answer. Only the mean of BM25, a sum over a question's words, depends on their number: m = a + b log |q|. The
cosine is replaced by its surprise over the background questions themselves (`question_contrast.py`).

A new question is no part of what its scales come from. So no background question is, either: each one's T
has the m_k, sigma_k and contrast of all others; or the m_k and sigma_k of all, where T is more by these, so
that a new question which equals it is not above it. By those of all alone an unusual one makes itself usual:
where five scorers have heavy tails, up to 8.7 % pass at 5 % (docs/thresholds.md has all figures). One scorer
alone orders questions the same way by any scale, and the p-value is exact.

Near-duplicates count as one question (`varied_questions.py`), so that Sigma is

    Sigma = sum of the shares of questions with less / (1 + sum of all shares).                     (3)
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.files import whole_file
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.auto import SCORERS
from surprise_rerank.rerank.fusion import BM25_WEIGHT
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.thresholds.background_file import packed, unpacked
from surprise_rerank.thresholds.chance import BY_VECTORS, WITH_WORDS, AnswerChance
from surprise_rerank.thresholds.monitor import Promise
from surprise_rerank.thresholds.question_contrast import QUESTION_CONTRAST, with_question_contrast
from surprise_rerank.thresholds.scales import Lines, lines, lines_without_each
from surprise_rerank.thresholds.varied_questions import nearest_pair, question_shares
from surprise_rerank.thresholds.verdicts import Evidence, verdict_on

# Fewer questions are not enough for a threshold.
FEWEST = 10
# .95 times 20 is a little less than 19 in binary fractions.
_ROUNDING = 1e-9
_WEIGHTS = {"bm25": BM25_WEIGHT}
# The best of a pool that its mean is of, so that it does not depend on the pool's depth.
_POOL = 100
# Of near questions, so many are weaker than a question that is called weak (docs/thresholds.md).
WEAK_NEAR = 0.2
# Scorers whose scores are sums over a question's words.
_SUMS = frozenset({"bm25"})


@dataclass(frozen=True, eq=False)
class QuestionBackground:
    """The best candidates of background questions: what other questions' scores are compared with.

    Attributes:
        names: k scorers, as in `Ranking.raw`; `score` alone for a ranking by one.
        means: (k,) m of equation (2) for a question of the background's mean log length; a + b log |q| there.
        slopes: (k,) b; 0 but for BM25.
        deviations: (k,) sigma.
        lengths: the least log |q| of background questions, its mean, and the largest; others count as these.
        totals: (n,) max over documents of T of every question, ascending; minus infinity where nothing was.
        shares: (n,) what each of them counts, 1 but for near-duplicates.
        texts: the n questions in the order of `totals`, so that they can be asked again.
        scorer: what made the rankings, for readers: for example model and system.
        documents: over how many documents; 0 where unknown.
        questions: the ensemble of the background questions, for `question_contrast.py`, whose score then
            replaces the cosine; None where their vectors are not known.
        origin: where the questions come from, for readers; empty where unknown.
        made: the day, as in 2026-11-23; empty where unknown.
        depth: size of the pools.
        chance: of an answer, calibrated on judged questions of the corpus; that of others' where None.
        near: (m,) what `usual_chance` says of near questions, ascending; see `evidence`.
    """

    names: tuple[str, ...]
    means: Float64Array
    slopes: Float64Array
    deviations: Float64Array
    lengths: tuple[float, float, float]
    totals: Float64Array
    shares: Float64Array
    texts: tuple[str, ...]
    scorer: str = ""
    documents: int = 0
    questions: Ensemble | None = None
    origin: str = ""
    made: str = ""
    depth: int = 100
    chance: AnswerChance | None = None
    near: Float64Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(
        cls,
        answers: Iterable[tuple[str, Ranking]],
        scorer: str = "",
        documents: int = 0,
        questions: Ensemble | None = None,
    ) -> QuestionBackground:
        """The background of questions that have nothing to do with the corpus, each with all it finds.

        `questions` is their ensemble, if the rankings have their contrast.

        Raises:
            DataError: if there are too few questions, or they were not ranked by the same scorers.
        """
        tables: list[Float64Array] = []
        texts: list[str] = []
        names: tuple[str, ...] = ()
        for question, ranking in answers:
            own = _raw(ranking)
            texts.append(question)
            if not len(ranking):
                tables.append(np.zeros((0, 0)))
                continue
            if names and tuple(own) != names:
                raise DataError(
                    f"the background question {question!r} was scored by {', '.join(own)}, others by "
                    f"{', '.join(names)}; rank all of them in one way"
                )
            names = tuple(own)
            tables.append(np.array(list(own.values()), dtype=np.float64))
        found = [i for i, table in enumerate(tables) if table.size]
        if len(found) < FEWEST:
            raise DataError(
                f"{len(found)} of {len(tables)} background questions found candidates; give at least "
                f"{FEWEST}, better some hundred"
            )
        shares = question_shares(texts)
        logs = np.array([_log_length(texts[i]) for i in found])
        evidence = (np.array([_best(tables[i]) for i in found]), logs, shares[found])
        follows = [name in _SUMS for name in names]
        # Of equal lengths, rounding can move the mean past them.
        shortest, middle, longest = sorted((float(logs.min()), float(logs.mean()), float(logs.max())))
        known = lines(*evidence, follows)
        made = cls(
            names,
            *known,
            lengths=(shortest, middle, longest),
            totals=np.full(len(tables), -np.inf),
            shares=shares,
            texts=tuple(texts),
            scorer=scorer,
            documents=documents,
            questions=questions,
        )
        # One score orders questions the same way by any scale.
        each = lines_without_each(*evidence, follows) if len(names) > 1 or any(follows) else None
        for row, i in enumerate(found):
            length = float(logs[row])
            # A new question that equals it has the scales of all, and should not surprise.
            made.totals[i] = made._totals(tables[i], length).max()
            if each is not None:
                others = replace(made, **Lines(*(part[row] for part in each))._asdict())
                made.totals[i] = max(made.totals[i], others._totals(tables[i], length).max())
        order = np.argsort(made.totals, kind="stable")
        sorted_texts = tuple(texts[i] for i in order)
        return replace(made, totals=made.totals[order], shares=shares[order], texts=sorted_texts)

    @classmethod
    def measured(
        cls,
        queries: Sequence[Query],
        rank: Callable[[Query], tuple[Candidates, Ranking]],
        scorer: str = "",
        documents: int = 0,
    ) -> QuestionBackground:
        """The background of encoded questions that have nothing to do with the corpus.

        `rank` makes the candidates of a question and their ranking. Candidates without dense vectors have no
        contrast.

        Raises:
            DataError: if there are too few questions.
        """
        vectors = [query.dense for query in queries if query.dense is not None]
        if len(vectors) < FEWEST:
            raise DataError(
                f"{len(vectors)} background questions; give at least {FEWEST}, better some hundred"
            )
        members = Ensemble.from_vectors(np.stack(vectors), sample_size=0)
        has_dense = True

        def answers() -> Iterator[tuple[str, Ranking]]:
            nonlocal has_dense
            for query in queries:
                pool, ranking = rank(query)
                has_dense = pool.dense is not None
                if has_dense:
                    ranking = with_question_contrast(ranking, query, pool, members, is_member=True)
                yield query.text, ranking

        made = cls.of(answers(), scorer, documents, members)
        return made if has_dense else replace(made, questions=None)

    @property
    def needs(self) -> frozenset[Field]:
        """What the candidates must have beside what their re-ranker reads."""
        return frozenset(() if self.questions is None else ("dense",))

    @property
    def count(self) -> int:
        """n, the number of background questions."""
        return len(self.totals)

    @cached_property
    def effective(self) -> float:
        """How many different questions there are: near-duplicates count as one."""
        return float(self.shares.sum())

    @property
    def highest(self) -> float:
        """The largest surprise that n different questions can measure: n / (n + 1)."""
        return self.effective / (self.effective + 1)

    @property
    def size(self) -> str:
        """How many questions, and how many of them are different, for readers."""
        counted = "" if self._is_varied else f" that count as {self.effective:.3g}"
        return f"{self.count} background questions{counted}"

    @property
    def alike(self) -> str:
        """Why they count as fewer, with an example; empty where they do not."""
        pair = None if self._is_varied else nearest_pair(self.texts)
        return f"near-duplicates count once, such as {pair[0]!r} and {pair[1]!r}" if pair else ""

    @property
    def _is_varied(self) -> bool:
        return self.effective > self.count - 0.5

    def promise(self, alpha: float) -> Promise:
        """What a threshold of 1 - alpha lets through, and how well these questions know it; see `check`."""
        self.check(1 - alpha)
        return Promise.of(alpha, self.effective)

    @cached_property
    def weights(self) -> Float64Array:
        """(k,) w of equation (2): the fusion's usual ones, half for BM25."""
        return np.array([_WEIGHTS.get(name, 1.0) for name in self.names])

    def totals_of(self, ranking: Ranking, question: str) -> Float64Array:
        """(n,) T of every document of a question's ranking; a DataError if other scorers made it.

        Scorers of the caller's own are left out: they say nothing of whether there is an answer.
        """
        own = _raw(ranking)
        if not len(ranking):
            return np.zeros(0)
        own = {name: scores for name, scores in own.items() if name in self.names or name in SCORERS}
        if tuple(own) != self.names:
            raise DataError(
                f"the background is of the scores {', '.join(self.names)}, the ranking of {', '.join(own)}; "
                "make the background with the pipeline that it is used with"
            )
        return self._totals(np.array(list(own.values()), dtype=np.float64), _log_length(question))

    def surprise(self, totals: Float64Array) -> Float64Array:
        """(n,) Sigma of equation (3). The question counts among the others, so 1 - Sigma is a p-value."""
        below = self._counted[np.searchsorted(self.totals, totals, side="left")]
        return np.asarray(below / (self.effective + 1))

    def total_at(self, min_surprise: float) -> float:
        """The T that a document must exceed for a surprise of at least this; minus infinity for 0."""
        self.check(min_surprise)
        needed = int(np.searchsorted(self._counted, min_surprise * (self.effective + 1) - _ROUNDING))
        return float(self.totals[needed - 1]) if needed else -math.inf

    @cached_property
    def _counted(self) -> Float64Array:
        """(n + 1,) what the first so many questions count."""
        return np.concatenate([[0.0], np.cumsum(self.shares)])

    @cached_property
    def usual_total(self) -> tuple[float, float]:
        """Mean and deviation of the best T of background questions, of those that found something."""
        known = np.isfinite(self.totals)
        mean = float(np.average(self.totals[known], weights=self.shares[known]))
        variance = float(np.average((self.totals[known] - mean) ** 2, weights=self.shares[known]))
        return mean, math.sqrt(variance) or 1.0

    def standing(self, totals: Float64Array) -> tuple[float, float]:
        """(t, g) of `chance.py`: how far the best document is above those of others, and above its pool.

        `totals` are the (n,) T of a ranking's documents in their order; at least one.
        """
        mean, deviation = self.usual_total
        pool = totals[:_POOL]
        best, usual = float(totals.max()), float(pool[np.isfinite(pool)].mean()) if len(pool) else 0.0
        return (best - mean) / deviation, (best - usual) / deviation

    @property
    def usual_chance(self) -> AnswerChance:
        """What tells the chance of an answer in other collections."""
        return WITH_WORDS if "bm25" in self.names else BY_VECTORS

    def evidence(self, totals: Float64Array) -> Evidence:
        """What a verdict needs beside the surprise; `totals` as of `standing`.

        A question is weak if less than `WEAK_NEAR` of the near questions stand out less. These are made of
        documents that are left out when they are asked: of the corpus' topic, and without an answer. Judged
        questions tell better, and where there is neither, the chance itself does.
        """
        standing = self.standing(totals)
        usual = float(self.usual_chance.of(*standing))
        known = self.chance or self.usual_chance
        chance, near = float(known.of(*standing)), None
        if len(self.near):
            near = float(np.searchsorted(self.near, usual, side="left") / (len(self.near) + 1))
        if near is None or self.chance is not None:
            return Evidence(chance, chance < known.weak, near)
        return Evidence(chance, near < WEAK_NEAR, near)

    def with_near(self, answers: Iterable[tuple[Query, Candidates, Ranking]]) -> QuestionBackground:
        """The same with what near questions find in pools that lack the documents which they are made of."""
        totals = (self.told(ranking, query, pool)[1] for query, pool, ranking in answers)
        near = [float(self.usual_chance.of(*self.standing(own))) if len(own) else 0.0 for own in totals]
        return replace(self, near=np.sort(near))

    def told(self, ranking: Ranking, query: Query, candidates: Candidates) -> tuple[Ranking, Float64Array]:
        """The ranking with the scores that the background has, and (n,) T of its documents.

        Raises:
            DataError: if the ranking was made by other scorers, or vectors are missing.
        """
        if self.questions is not None:
            ranking = with_question_contrast(ranking, query, candidates, self.questions)
        return ranking, self.totals_of(ranking, query.text)

    def judged(
        self, ranking: Ranking, query: Query, candidates: Candidates, min_surprise: float | None = None
    ) -> Ranking:
        """The ranking of all candidates with the surprise of every document, descending, and a verdict.

        A document is at least as surprising as any that the re-ranker puts below it. So the first one has the
        largest of all, which is the question's. It is off-topic below `min_surprise`. Scorers of the caller's
        own can put any document first, so that each has its own surprise then.

        Raises:
            DataError: if the ranking was made by other scorers, or what `needs` names is missing.
        """
        told, totals = self.told(ranking, query, candidates)
        own = self.surprise(totals)
        if set(_raw(told)) <= set(self.names):
            own = np.maximum.accumulate(own[::-1])[::-1]
        told = replace(told, surprise=own)
        evidence = self.evidence(totals) if len(totals) else None
        return replace(told, verdict=verdict_on(told, evidence, min_surprise))

    def check(self, min_surprise: float) -> None:
        """Refuse a threshold that is no share, or is above `highest`, by a DataError."""
        if not isinstance(min_surprise, int | float) or not 0 <= min_surprise <= 1:
            raise DataError(f"min_surprise must be a share from 0 to 1, got {min_surprise!r}")
        if min_surprise > self.highest + _ROUNDING:
            # 1 has no number of questions.
            needed = math.ceil(min_surprise / (1 - min_surprise) - _ROUNDING) if min_surprise < 1 else None
            kind = "" if self._is_varied else " different ones"
            todo = f"give at least {needed}{kind}" if needed else "choose one below 1"
            why = f" ({self.alike})" if self.alike else ""
            raise DataError(
                f"{self.size}{why} measure a surprise of at most {self.highest:.4f}, asked for is "
                f"{min_surprise}; {todo}"
            )

    def means_for(self, question: str) -> Float64Array:
        """(k,) m of equation (2) for a question."""
        return self._expected(_log_length(question))

    def to_bytes(self) -> bytes:
        """The background as the content of a .npz file, with the questions."""
        return packed({own.name: getattr(self, own.name) for own in fields(self)})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep it in a file, for re-rankers of texts that have no index; `load` reads it."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as file:
            file.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QuestionBackground:
        """What `save` wrote; a DataError if there is no such file, or it is no background."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DataError(
                f"cannot read the background {os.fspath(path)!r}: {error.strerror or error}; make one with "
                "TextReranker.with_background(questions, retrieve).background.save(path)"
            ) from error
        return cls.from_bytes(content, os.fspath(path))

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> QuestionBackground:
        """Read what `to_bytes` gave; nothing in it is executed. Errors call its place `where`.

        Raises:
            DataError: if it is no background, is damaged, or is of another format.
        """
        return cls(**unpacked(content, where))

    def _expected(self, length: float) -> Float64Array:
        shortest, middle, longest = self.lengths
        return np.asarray(self.means + self.slopes * (min(max(length, shortest), longest) - middle))

    def _totals(self, scores: Float64Array, length: float) -> Float64Array:
        """(n,) T of (k, n) scores; one that is NaN is no evidence either way."""
        z = (scores - self._expected(length)[:, None]) / self.deviations[:, None]
        return np.asarray(self.weights @ np.nan_to_num(z, nan=0.0, posinf=np.inf, neginf=-np.inf))


def checked_questions(questions: Sequence[str]) -> list[str]:
    """Questions as a list; a DataError if it is one string, or one of them is none."""
    if isinstance(questions, str):
        raise DataError("background questions must be a list of strings, got one string; put it into a list")
    wrong = next((own for own in questions if not isinstance(own, str)), None)
    if wrong is not None:
        raise DataError(f"background questions must be strings, got {type(wrong).__name__}")
    return list(questions)


def require_background(background: QuestionBackground | None, min_surprise: float) -> None:
    """Refuse a threshold without a background, or one that is too high for it, by a DataError."""
    if background is None:
        raise DataError(
            f"min_surprise={min_surprise!r} needs a background of other questions; make one with "
            "with_background(questions)"
        )
    background.check(min_surprise)


def lines_above(ranking: Ranking, min_surprise: float) -> list[int]:
    """Which lines of a judged ranking are surprising enough; perhaps none."""
    if ranking.surprise is None:
        raise DataError("the ranking has no surprise; judge it with a background first")
    found: list[int] = np.flatnonzero(ranking.surprise >= min_surprise - _ROUNDING).tolist()
    return found


def _raw(ranking: Ranking) -> dict[str, Float64Array]:
    """The scores that T is the sum of. The contrast replaces the cosine, which it is computed from."""
    left_out = "cosine" if QUESTION_CONTRAST in ranking.raw else ""
    return {name: own for name, own in ranking.scores_by_scorer.items() if name != left_out}


def _best(scores: Float64Array) -> Float64Array:
    """(k,) the best of (k, n) scores of each scorer; minus infinity for one that has none."""
    return np.asarray(np.where(np.isnan(scores), -np.inf, scores).max(axis=1))


def _log_length(question: str) -> float:
    return math.log(max(1, len(question.split())))
