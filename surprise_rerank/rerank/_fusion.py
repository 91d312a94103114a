"""One weighted sum of scorers on one scale: `fusion` is such a sum, and so is `auto`.

The scores of different scorers have different units. There are several common scales: ranks (RRF), the pool's
own range (min-max) or deviations (z), and the surprise scale, which is how many deviations a score is above
this query's mean over the corpus. Only the last does not depend on the other documents of the pool. The
weights of the sum can be chosen by hand, or fitted on judged questions (`weight_fitting`); `Trust` moves
weight from dense vectors to words where the question's own scores say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query, Ranking
from surprise_rerank.core.arrays import Float64Array, FloatArray, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank._scorers import MeasuredScores, Scorer
from surprise_rerank.surprise.score import ROUNDING, z_scores

FusionMethod: TypeAlias = Literal["surprise", "rrf", "minmax", "zscore", "sum"]

RRF_CONSTANT = 60  # Cormack, Clarke and Buettcher (SIGIR 2009)
# BM25's deviations spread twice as wide over a pool as those of cosine and DynaMax (2.2 to 1.0 and 1.2), so
# with equal weights it decides alone. Chosen on 400 training questions of scifact (nDCG@10 .743 -> .746) and
# the development questions of nfcorpus (.336 -> .340).
BM25_WEIGHT = 0.5
# How many of a scorer's best documents are looked at when scorers are compared.
COMPARED = 10
# How many scores moments come from, where nobody knows: a z of 1,000 is possible then.
UNKNOWN_MEMBERS = 1_000_000
_DENSE = ("cosine", "feedback")  # the scorers by dense vectors
AS_THEY_ARE = Moments(np.zeros(()), np.ones(()))  # of scores that are compared with nothing


def reciprocal_ranks(scores: FloatArray, constant: float = RRF_CONSTANT) -> Float64Array:
    """(n,) 1 / (constant + rank), rank 1 for the best; equal scores share the better rank; 0 for NaN."""
    from scipy import stats

    values = np.asarray(scores, dtype=np.float64)
    ranks = stats.rankdata(-values, method="min", nan_policy="omit")
    return np.nan_to_num(1.0 / (constant + ranks), nan=0.0)


def min_max(scores: FloatArray) -> Float64Array:
    """(n,) scores moved to [0, 1] within the pool; 0 for NaN, and 0 everywhere where all are equal."""
    values = np.asarray(scores, dtype=np.float64)
    low = float(np.fmin.reduce(values, initial=np.inf))
    high = float(np.fmax.reduce(values, initial=-np.inf))
    if high <= low:
        return np.zeros_like(values)
    return np.nan_to_num((values - low) / (high - low), nan=0.0)


def pool_z(scores: FloatArray) -> Float64Array:
    """(n,) deviations from the mean of the pool; NaN becomes 0, as does everything where all are equal."""
    values = np.asarray(scores, dtype=np.float64)
    if np.isnan(values).all():
        return np.zeros_like(values)
    moments = Moments(np.asarray(np.nanmean(values)), np.asarray(np.nanstd(values)))
    return np.nan_to_num(z_scores(values, moments), nan=0.0)


def as_they_are(scores: FloatArray) -> Float64Array:
    """(n,) the scores; 0 for NaN."""
    return np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0)


# The scales that need nothing but the pool's scores.
POOL_SCALES: Mapping[FusionMethod, Callable[[FloatArray], Float64Array]] = {
    "rrf": reciprocal_ranks,
    "minmax": min_max,
    "zscore": pool_z,
    "sum": as_they_are,
}


def surprise_normalized(scores: FloatArray, moments: Moments) -> Float64Array:
    """(n,) z of each score among this query's scores over the corpus, from -sqrt(m) to sqrt(m).

    z is measured over the m = `moments.members` scores (a million where it is not known) that the moments
    come from, together with the score itself. With d = s - mu,

        z = sqrt(m / (m + 1)) d / sqrt(sigma^2 + d^2 / (m + 1)),

    which is d / sigma where m is large. No member of m + 1 numbers is more than sqrt(m) of their deviations
    from their mean (Samuelson, 'How deviant can you be?', JASA 1968). Without the score itself there is no
    bound: where none of the m has a word of the question, sigma is 0 or rounding, and this score would
    outweigh all others. A NaN score, and one that equals the mean but for rounding, become 0: no evidence
    either way. So do all where m is 0.
    """
    m = UNKNOWN_MEMBERS if moments.members is None else moments.members
    d = np.asarray(scores, dtype=np.float64) - moments.mean
    d = np.where(np.abs(d) > ROUNDING * np.abs(moments.mean), d, 0.0)  # NaN is not above it
    largest = max(float(np.abs(d).max(initial=0.0)), float(np.max(moments.deviation)))
    if not m or not largest > 0:
        return np.zeros_like(d)
    # Squares of numbers near the smallest float would vanish. A power of two changes no other bit.
    unit = 2.0 ** np.frexp(largest)[1]
    d = d / unit
    joined = np.hypot(moments.deviation / unit, d / np.sqrt(m + 1))
    z: Float64Array = np.divide(d * np.sqrt(m / (m + 1)), joined, out=np.zeros_like(d), where=joined > 0)
    return z


def weighted_sum(parts: Mapping[str, FloatArray], weights: Mapping[str, float]) -> Float64Array:
    """(n,) sum of weight times part; a part without a weight counts 1."""
    total = sum(weights.get(name, 1.0) * np.asarray(part, np.float64) for name, part in parts.items())
    return np.asarray(total, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Trust:
    """How far this question's dense vectors are trusted: how well BM25 rates their best documents.

    The trust t grows from 0 to 1 between two values of `agreement`. The cosine and feedback keep t of their
    weight, and BM25 gets the rest of it, so that all weights have the same sum. Token vectors are of the same
    model as the dense ones, so that their agreement is no evidence. Neither is a word or two: where BM25's
    best score is worth w words of the question (`Candidates.words`), 1 - t counts (w - few) / (many - few)
    times, from 0 to 1.
    """

    low: float = 0.25
    high: float = 0.4
    few: float = 1.0
    many: float = 3.0

    def __post_init__(self) -> None:
        border.fields(self, low=border.share, high=border.share, few=border.number, many=border.number)
        if not self.low < self.high or not self.few < self.many:
            numbers = (self.low, self.high, self.few, self.many)
            border.refuse("Trust", numbers, "twice two ascending numbers", "give some such as (.2, .4, 1, 3)")

    def of(self, z: Mapping[str, Float64Array], order: Sequence[int], words: float | None = None) -> float:
        """The trust, from 0 to 1; 1 where there are no two scorers to compare.

        `z` holds each scorer's deviations, `order` the candidates in an order that the pool does not decide.
        """
        if "cosine" not in z or "bm25" not in z:
            return 1.0
        rows = list(order)
        agreed = agreement(z["cosine"][rows], z["bm25"][rows])
        trust = float(np.clip((agreed - self.low) / (self.high - self.low), 0.0, 1.0))
        evidence = 1.0 if words is None else np.clip((words - self.few) / (self.many - self.few), 0.0, 1.0)
        return float(1 - (1 - trust) * evidence)


def agreement(scores: Float64Array, other: Float64Array) -> float:
    """How well another scorer rates one scorer's best documents, from 0 to 1.

        mean of the other over this scorer's ten best / mean of the other over its own ten best

    Of fewer than twenty documents half are the best: all of ten would be every scorer's ten best. Of equal
    documents the first ones are. Scores are deviations above the corpus' mean. 1 where the other scorer's own
    best are not above it, or where all of this scorer's scores are equal: nothing speaks against it.
    """
    if not len(scores) or np.ptp(scores) == 0:
        return 1.0
    most = float(other[_best(other)].mean())
    return float(np.clip(other[_best(scores)].mean() / most, 0.0, 1.0)) if most > 0 else 1.0


def _best(values: Float64Array) -> IntArray:
    best: IntArray = np.argsort(-values, kind="stable")[: min(COMPARED, (len(values) + 1) // 2)]
    return best


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What one scorer adds to the scores of n candidates: `part` = weight x z.

    The weight is this question's; `z` are deviations above the mean of its moments, or of another scale.
    """

    name: str
    measured: MeasuredScores
    z: Float64Array
    weight: float

    @property
    def part(self) -> Float64Array:
        """(n,) the weighted z that the scorer adds to the scores."""
        return self.weight * self.z


@dataclass(frozen=True, slots=True)
class FusionReranker:
    """Orders documents by the weighted sum of several scorers on one scale.

    A scorer that lacks what it needs is left out, and a note in the ranking says so.

    Attributes:
        scorers: of different names.
        method: `surprise` (deviations above this query's mean over the corpus), `rrf`, `minmax` or `zscore`
            (both over the pool), or `sum` (the scores as they are).
        weights: scorer's name -> weight; 1 where not given. `Pipeline.fit` learns them.
        trust: how weights follow the question; None leaves them as they are.
    """

    scorers: Sequence[Scorer]
    method: FusionMethod = "surprise"
    weights: Mapping[str, float] = field(default_factory=dict)
    trust: Trust | None = None

    def __post_init__(self) -> None:
        scorers = tuple(
            border.instances("scorers", self.scorers, Scorer, "see CrossEncoderScorer")  # type: ignore[type-abstract]
        )
        object.__setattr__(self, "scorers", scorers)
        names = [scorer.name for scorer in scorers]
        border.some("scorers", names, "give a list of scorers")
        border.distinct("the names of scorers", names, "rename one")
        border.choice("method", self.method, get_args(FusionMethod))
        border.mapping("weights", self.weights, border.number)
        border.optional(border.instance, "trust", self.trust, Trust)
        border.choices("weights", list(self.weights), names)

    @property
    def needs(self) -> frozenset[Field]:
        """The fields of candidates that the scorers need, together."""
        return frozenset().union(*(scorer.needs for scorer in self.scorers))

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by the sum; `parts` add up to it, `raw` has each scorer's own scores.

        Raises:
            DataError: if all scorers lack what they need.
        """
        shares, notes = self.shares(query, candidates), []
        if any(share.weight != self.weights.get(share.name, 1.0) for share in shares):
            notes = [
                "the dense vectors were trusted less than usual here: their best documents are not those of "
                "bm25"
            ]
        notes += [note for scorer in self.scorers if (note := scorer.absence(query, candidates))]
        parts = {share.name: share.part for share in shares}
        if self.method == "surprise" and any(
            scorer.is_of_pool and scorer.name in parts for scorer in self.scorers
        ):
            n = len(set(candidates.ids))
            notes.append(f"a usual score is the mean over the {n} texts at hand, as there is no index")
        relative = {scorer.name for scorer in self.scorers if scorer.is_relative}
        raw = {share.name: share.measured.raw for share in shares if share.name not in relative}
        return Ranking.order(candidates, weighted_sum(parts, {}), parts, notes, raw=raw)

    def totals(self, query: Query, candidates: Candidates) -> Float64Array:
        """(n,) the sum for each candidate."""
        return weighted_sum({share.name: share.part for share in self.shares(query, candidates)}, {})

    def shares(self, query: Query, candidates: Candidates) -> list[Share]:
        """Return the share of each scorer that can score these candidates."""
        return self._shares_and_trust(query, candidates)[0]

    def parts(self, query: Query, candidates: Candidates) -> dict[str, Float64Array]:
        """Return scorer -> (n,) numbers that its weight is multiplied with; 0 where it is left out."""
        shares, trust = self._shares_and_trust(query, candidates)
        z = {share.name: share.z for share in shares}
        moved = {
            name: trust * z[name] + (1 - trust) * z["bm25"]
            for name in _DENSE
            if trust < 1 and name in z and z[name].any()
        }
        return {scorer.name: np.zeros(len(candidates)) for scorer in self.scorers} | z | moved

    def _shares_and_trust(self, query: Query, candidates: Candidates) -> tuple[list[Share], float]:
        present = [scorer for scorer in self.scorers if scorer.absence(query, candidates) is None]
        measured, z = {}, {}
        for scorer in present or self.scorers:  # without any, the error of the first one tells what to do
            if self.method == "surprise":
                measured[scorer.name] = scores = scorer.measured(query, candidates)
                z[scorer.name] = surprise_normalized(scores.scores, scores.moments)
            else:  # what is usual over the corpus does not count, and need not be known
                raw = np.asarray(scorer.scores(query, candidates), np.float64)
                measured[scorer.name] = MeasuredScores(raw, raw, AS_THEY_ARE)
                z[scorer.name] = POOL_SCALES[self.method](raw)
        weights = {name: self.weights.get(name, 1.0) for name in z}
        trust = 1.0
        if self.trust is not None and weights.get("bm25", 0.0) > 0:  # words that count can speak for others
            trust = self.trust.of(z, by_id(candidates), candidates.words)
        if trust < 1:
            # Where nothing is fed back, there is nothing that BM25 could stand for.
            dense = {name: weights[name] for name in _DENSE if name in z and z[name].any()}
            weights |= {name: trust * weight for name, weight in dense.items()}
            weights["bm25"] += (1 - trust) * sum(dense.values())
        return [Share(name, measured[name], values, weights[name]) for name, values in z.items()], trust

    def weighted(self, weights: Mapping[str, float]) -> FusionReranker:
        """Return this fusion with other weights."""
        return replace(self, weights=border.mapping("weights", weights))


def by_id(candidates: Candidates) -> list[int]:
    """The candidates by id and passage, which does not depend on where they stand in the pool."""
    numbers = [p.number for p in candidates.passages] if candidates.passages else [0] * len(candidates)
    keys = list(zip(candidates.ids, numbers, strict=True))
    return sorted(range(len(candidates)), key=keys.__getitem__)
