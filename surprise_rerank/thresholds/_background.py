"""The percentile of a question's best candidate among those of other questions.

The rank of its score among the best scores of background questions, which have nothing to do with the corpus,
has one meaning for all models and scorers (docs/thresholds.md):

    Sigma(d, q) = P(max over d' of T(q', d') < T(q, d)), q' drawn from background questions         (1)

For the best candidate 1 - Sigma is a p-value (conformal prediction; Vovk, Gammerman and Shafer, 'Algorithmic
Learning in a Random World', 2005). With several scorers s_k, and m and sigma of the background's best s_k,

    T(q, d) = sum over k of w_k (s_k(q, d) - m_k) / sigma_k,     m = a + b log |q| for BM25         (2)

A new question is no part of what its scales come from. So each background question has those of all others,
or those of all where T is more by them; else up to 8.7 % pass at 5 %. Near-duplicates count as one:

    Sigma = sum of the shares of questions with less / (1 + sum of all shares)                      (3)

The best of more documents is better. Of N documents when it was measured, and c that came or changed since,

    Sigma' = Sigma ** ((N + c) / N)                                                                 (4)

as the best of N + c draws is below a value with the probability that N are, to this power.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Ranking, Unit, Verdict
from surprise_rerank._errors import DataError, NoBackgroundError
from surprise_rerank.core._files import whole_file
from surprise_rerank.core._json_values import sealed, unsealed
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.rerank._fusion import BM25_WEIGHT
from surprise_rerank.thresholds import _verdicts as verdicts
from surprise_rerank.thresholds._verdicts import USUAL_CHANCE, AnswerChance
from surprise_rerank.thresholds.varied_questions import question_shares

# Fewer questions are not enough for a threshold.
FEWEST = 10
# .95 times 20 is a little less than 19 in binary fractions.
ROUNDING = 1e-9
_WEIGHTS = {"bm25": BM25_WEIGHT}
# The best of a pool that its mean is of, so that it does not depend on the pool's depth.
_POOL = 100
# Scorers whose scores are sums over a question's words.
_SUMS = frozenset({"bm25"})
_FORMAT = 6
_NOT_KEPT = ("changed", "question_doubt")  # in files
# A background says nothing any more when more than this share of the documents has changed.
STALE = 0.25
# Questions of no slope that a slope is measured with: a few of a length of their own should not decide alone.
_STEADY = 10
# Deviations below this share of the mean are rounding.
_NO_SPREAD = 1e-7


class Lines(NamedTuple):
    """Usual best scores of each scorer, m = a + b log |q|, in arrays of one shape."""

    means: Float64Array  # a, for a question of one word
    slopes: Float64Array  # b; 0 for scores that do not follow the length
    deviations: Float64Array  # sigma around the line; 1 where there is no spread


@dataclass(frozen=True, eq=False)
class QuestionBackground:
    """The best candidates of background questions: what other questions' scores are compared with.

    Attributes:
        names: k scorers, as in `Ranking.raw`; `score` alone for a ranking by one.
        scales: a, b and sigma of equation (2); (k,) each.
        lengths: the least and the largest log |q| of background questions; others count as these.
        totals: (n,) max over documents of T of every question, ascending; minus infinity where nothing was.
        shares: (n,) what each of them counts, 1 but for near-duplicates.
        texts: the n questions in the order of `totals`, so that they can be asked again.
        unit: what a line of its rankings was; it says nothing of lines of another unit.
        scorer, origin, made: what made the rankings, where the questions come from, and the day; for readers.
        documents: over how many documents of an index; 0 of texts from elsewhere, or where unknown.
        depth: size of the pools.
        scripts: that the questions, or the documents, are written in; see `verdicts.scripts_of`.
        doubt: why it says nothing of the documents, such as that they are in another language; else empty.
        chance: of an answer, calibrated on judged questions of the corpus; that of others' where None.
        changes: how many documents of the index had been added, replaced or removed until it was measured.
        changed: how many were since; not kept in files.
        question_doubt: why a question cannot be compared, such as its language; empty where it can. Not kept.
    """

    names: tuple[str, ...]
    scales: Lines
    lengths: tuple[float, float]
    totals: Float64Array
    shares: Float64Array
    texts: tuple[str, ...]
    unit: Unit = "document"
    scorer: str = ""
    documents: int = 0
    origin: str = ""
    made: str = ""
    depth: int = 100
    scripts: frozenset[str] = frozenset()
    doubt: str = ""
    chance: AnswerChance | None = None
    changes: int = 0
    changed: int = 0
    question_doubt: Callable[[str], str] | None = None

    @classmethod
    def of(
        cls, answers: Iterable[tuple[str, Ranking]], scorer: str = "", documents: int = 0
    ) -> QuestionBackground:
        """The background of questions that have nothing to do with the corpus, each with all it finds.

        A DataError if there are too few questions, or they were not ranked by the same scorers.
        """
        tables: dict[int, Float64Array] = {}  # place of a question that found something -> (k, m) scores
        texts: list[str] = []
        names: tuple[str, ...] = ()
        unit: Unit = "document"
        for question, ranking in answers:
            if len(ranking):
                scores_by_name = ranking.scores_by_scorer
                names, unit = names or tuple(scores_by_name), ranking.unit
                border.equal(
                    f"the scorers of {question!r}",
                    tuple(scores_by_name),
                    names,
                    "rank all questions in one way",
                )
                tables[len(texts)] = np.array(list(scores_by_name.values()), dtype=np.float64)
            texts.append(question)
        if len(tables) < FEWEST:
            raise DataError(
                f"{len(tables)} of {len(texts)} background questions found candidates; give at least "
                f"{FEWEST}, better some hundred"
            )
        shares, rows = question_shares(texts), list(tables)
        logs = np.array([_log_length(texts[i]) for i in rows])
        best = np.array(
            [np.where(np.isnan(scores), -np.inf, scores).max(axis=1) for scores in tables.values()]
        )
        usual, each = lines_of(best, logs, shares[rows], [name in _SUMS for name in names])
        background = cls(
            names,
            usual,
            lengths=(float(logs.min()), float(logs.max())),
            totals=np.full(len(texts), -np.inf),
            shares=shares,
            texts=tuple(texts),
            unit=unit,
            scorer=scorer,
            documents=documents,
            scripts=verdicts.scripts_of(texts),
        )
        # One score orders questions the same way by any scale.
        is_scaled = len(names) > 1 or names[0] in _SUMS
        for row, (i, scores) in enumerate(tables.items()):
            # A new question that equals it has the scales of all, and should not stand out.
            background.totals[i] = background._totals(scores, texts[i]).max()
            if is_scaled:
                others = replace(background, scales=Lines(*(part[row] for part in each)))
                background.totals[i] = max(background.totals[i], others._totals(scores, texts[i]).max())
        order = np.argsort(background.totals, kind="stable")
        sorted_texts = tuple(texts[i] for i in order)
        return replace(background, totals=background.totals[order], shares=shares[order], texts=sorted_texts)

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
        """The largest percentile that n different questions can measure: n / (n + 1)."""
        return float((self.effective / (self.effective + 1)) ** self.growth)

    @property
    def growth(self) -> float:
        """The exponent of equation (4): 1 where no document changed since the background was measured."""
        return 1.0 + self.changed / self.documents if self.documents else 1.0

    @property
    def staleness(self) -> str:
        """Why it should be measured again, in words; empty where it need not be."""
        if self.changed <= STALE * self.documents or not self.documents:
            return ""
        return (
            f"the background is stale: it was measured over {self.documents} documents, and {self.changed} "
            "came, changed or went since; index again, or run 'surprise-rerank tune background'"
        )

    @property
    def size(self) -> str:
        """Say in words how many questions there are, and how many of them differ."""
        alike = "" if self.effective > self.count - 0.5 else f" that count as {self.effective:.3g}"
        return f"{self.count} background questions{alike}"

    @cached_property
    def weights(self) -> Float64Array:
        """(k,) w of equation (2): the fusion's usual ones, half for BM25."""
        return np.array([_WEIGHTS.get(name, 1.0) for name in self.names])

    def totals_of(self, ranking: Ranking, question: str) -> Float64Array:
        """(n,) T of every document of a question's ranking; a DataError if other scorers made it.

        Scorers of the caller's own are left out: they say nothing of whether there is an answer.
        """
        if not len(ranking):
            return np.zeros(0)
        names = {*self.names, "bm25", "cosine", "dynamax"}
        by_name = {name: scores for name, scores in ranking.scores_by_scorer.items() if name in names}
        advice = "make the background with the pipeline that it is used with"
        border.equal("the scorers of the ranking", tuple(by_name), self.names, advice)
        return self._totals(np.array(list(by_name.values()), dtype=np.float64), question)

    def percentiles(self, totals: Float64Array) -> Float64Array:
        """(n,) Sigma of equations (3) and (4). The question counts among the others: 1 - Sigma is a p."""
        counted = np.concatenate([[0.0], np.cumsum(self.shares)])
        below = counted[np.searchsorted(self.totals, totals, side="left")]
        return np.asarray((below / (self.effective + 1)) ** self.growth)

    def standing(self, totals: Float64Array) -> tuple[float, float]:
        """(t, g) of `verdicts.py`: how far the best document is above those of others, and above its pool.

        `totals` are the (n,) T of a ranking's documents in their order; at least one.
        """
        finite = np.isfinite(self.totals)
        others, shares = self.totals[finite], self.shares[finite]
        mean = np.average(others, weights=shares)
        deviation = math.sqrt(np.average((others - mean) ** 2, weights=shares)) or 1.0
        best, pool = totals.max(), totals[:_POOL]
        return float((best - mean) / deviation), float((best - pool[np.isfinite(pool)].mean()) / deviation)

    def judged(self, ranking: Ranking, question: str, min_percentile: float | None = None) -> Ranking:
        """The ranking of all candidates with the percentile of every document, descending, and a verdict.

        A document has at least the percentile of any that the re-ranker puts below it. So the first one has
        the largest of all, which is the question's. Scorers of the caller's own can put any document first,
        so that each has its own percentile then. A DataError if the ranking was made by other scorers.
        """
        totals = self.totals_of(ranking, question)
        percentiles = self.percentiles(totals)
        if set(ranking.scores_by_scorer) <= set(self.names):
            percentiles = np.maximum.accumulate(percentiles[::-1])[::-1]
        if not len(totals):
            verdict = verdicts.NO_MATCH
        elif min_percentile is not None and percentiles.max() < min_percentile - ROUNDING:
            verdict = verdicts.refused(float(percentiles.max()), min_percentile)
        elif doubt := self._doubt(question, len(totals), ranking.unit):
            verdict = Verdict("unknown", None, doubt)
        else:
            verdict = verdicts.of_chance(float((self.chance or USUAL_CHANCE).of(*self.standing(totals))))
        return replace(ranking, percentile=percentiles, verdict=verdict)

    def _doubt(self, question: str, compared: int, unit: Unit) -> str:
        """Why the chance was fitted on other questions than this one; empty where it was not."""
        if self.doubt and self.chance is None:
            return self.doubt
        if self.question_doubt is not None and (doubt := self.question_doubt(question)):
            return doubt
        if self.staleness:
            return self.staleness
        needed = verdicts.FEWEST_DOCUMENTS
        # A chance was fitted on pools of so many: passages fill one also where documents are few.
        if unit == "passage" and 0 < self.documents < needed and compared < needed:
            compared_of = f"{compared} passages of {self.documents} documents"
            return f"{compared_of} are too few to tell; it takes {needed} passages"
        if unit == "document" and 0 < self.documents < needed:
            count = "1 document is" if self.documents == 1 else f"{self.documents} documents are"
            return f"{count} too few to tell; it takes {needed}"
        if self.effective < verdicts.FEWEST_QUESTIONS - 0.5:
            return f"{self.size} are too few to tell; it takes {verdicts.FEWEST_QUESTIONS}"
        if compared < verdicts.FEWEST_COMPARED:
            return f"{compared} {unit}s were compared; to tell, it takes {verdicts.FEWEST_COMPARED}"
        words, longest = len(question.split()), 0 if self.chance is None else self.chance.longest
        if longest and words > 2 * longest:
            return f"the chance is of questions of up to {longest} words, and this one has {words}"
        return verdicts.wordless(question, self.scripts)

    def check(self, min_percentile: float) -> None:
        """Refuse a threshold that is no share, is above `highest`, or is in `doubt`, by a DataError."""
        min_percentile = border.share("min_percentile", min_percentile)
        if self.doubt:
            raise DataError(f"min_percentile={min_percentile} would keep unrelated documents: {self.doubt}")
        if min_percentile > self.highest + ROUNDING:
            # 1 has no number of questions.
            needed = (
                math.ceil(min_percentile / (1 - min_percentile) - ROUNDING) if min_percentile < 1 else None
            )
            todo = f"give at least {needed} different ones" if needed else "choose one below 1"
            raise DataError(
                f"{self.size} measure a percentile of at most {self.highest:.4f}, asked for is "
                f"{min_percentile}; {todo} (near-duplicates count once)"
            )

    def means_for(self, question: str) -> Float64Array:
        """(k,) m of equation (2) for a question."""
        return np.asarray(
            self.scales.means + self.scales.slopes * np.clip(_log_length(question), *self.lengths)
        )

    def to_bytes(self) -> bytes:
        """The background as the content of a file, with the questions: JSON."""
        record = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in _NOT_KEPT
        }
        record |= {name: record[name].tolist() for name in ("totals", "shares")}
        record |= {"scales": [part.tolist() for part in self.scales], "scripts": sorted(self.scripts)}
        record |= {"chance": None if self.chance is None else asdict(self.chance)}
        return sealed(record, _FORMAT)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep it in a file, for re-rankers of texts that have no index; `load` reads it."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as file:
            file.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QuestionBackground:
        """Load what `save` wrote; a DataError if there is no such file, or it is no background."""
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

        A DataError if it is no background, is damaged, or is of another format.
        """
        record = unsealed(content, _FORMAT, f"{where}: the background of questions", "make it again")
        record |= {name: tuple(record[name]) for name in ("names", "texts", "lengths")}
        record |= {name: np.array(record[name], np.float64) for name in ("totals", "shares")}
        record["scales"] = Lines(*(np.array(part, np.float64) for part in record["scales"]))
        record["scripts"] = frozenset(record["scripts"])
        record["chance"] = None if record["chance"] is None else AnswerChance(**record["chance"])
        return cls(**record)

    def _totals(self, scores: Float64Array, question: str) -> Float64Array:
        """(n,) T of (k, n) scores; one that is NaN is no evidence either way."""
        z = (scores - self.means_for(question)[:, None]) / self.scales.deviations[:, None]
        return np.asarray(self.weights @ np.nan_to_num(z, nan=0.0, posinf=np.inf, neginf=-np.inf))


def lines_of(
    best: Float64Array, logs: Float64Array, shares: Float64Array, follows: list[bool]
) -> tuple[Lines, Lines]:
    """The (k,) lines of the best scores of n questions, and the (n, k) ones of all but one, for each one.

    A question that is measured with scales of which it is a part seems less unusual than a new one. `best`
    is (n, k), minus infinity where a question has none by a scorer; (n,) `logs` are logarithms of lengths,
    (n,) `shares` what each question counts, and `follows` tells k times whether the mean follows the length.
    """
    weights = np.where(np.isfinite(best), shares[:, None], 0.0)
    values = np.where(np.isfinite(best), best, 0.0)
    centre = (weights * values).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    x, y = np.broadcast_to(logs[:, None], best.shape), values - centre
    # (6, n, k) addends of count, x, y, xx, xy, yy.
    sums = weights * np.stack([np.ones_like(y), x, y, x * x, x * y, y * y])
    whole = sums.sum(axis=1, keepdims=True)
    return _lines(whole[:, 0], centre, np.array(follows)), _lines(whole - sums, centre, np.array(follows))


def _lines(sums: Float64Array, centre: Float64Array, follows: np.ndarray) -> Lines:
    count = np.maximum(sums[0], 1e-300)
    x, y, xx, xy, yy = sums[1:] / count
    # A sum over words cannot fall with their number.
    slopes = np.where(follows, np.maximum((xy - x * y) / (np.maximum(xx - x * x, 0) + _STEADY / count), 0), 0)
    residuals = yy - y * y - 2 * slopes * (xy - x * y) + slopes**2 * (xx - x * x)
    means = centre + y - slopes * x
    deviations = np.sqrt(np.maximum(residuals, 0.0))
    has_spread = (sums[0] > 0) & (deviations > _NO_SPREAD * np.maximum(np.abs(means), 1e-30))
    return Lines(means, slopes, np.where(has_spread, deviations, 1.0))


def require_background(background: QuestionBackground | None, min_percentile: float) -> None:
    """Refuse a threshold without a background, or one that is too high for it, by a DataError."""
    if background is None:
        raise NoBackgroundError(
            f"min_percentile={min_percentile!r} needs a background of other questions, and there is no "
            "background; leave it out (or give 0), or measure one ('surprise-rerank tune background', or "
            "measure_background() of an index, or with_background(questions) of a re-ranker)"
        )
    background.check(min_percentile)


def _log_length(question: str) -> float:
    return math.log(max(1, len(question.split())))
