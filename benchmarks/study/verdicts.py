"""Surprise, chance of relevance and what both are compared with, for many questions and calibrations at once.

Surprise is `QuestionBackground`'s, with the same scales, as arrays over all questions; a test binds the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.study.rankings import DEPTH, SCORES
from surprise_rerank.core.arrays import BoolArray, Float64Array, IntArray
from surprise_rerank.rerank.fusion import BM25_WEIGHT
from surprise_rerank.thresholds.background import Lines, lines_of
from surprise_rerank.thresholds.chance import ENOUGH

SYSTEMS = ("cosine", "dynamax", "fusion", "auto")
# Scores that a system's T is the sum of.
_ADDED = {
    "cosine": ("cosine",),
    "dynamax": ("dynamax",),
    "fusion": ("bm25", "dynamax", "cosine"),
    "auto": ("bm25", "incl", "cosine"),
}
_WEIGHTS = {"bm25": BM25_WEIGHT}
_ROUNDING = 1e-9
_FIRST = 10


@dataclass(frozen=True, eq=False)
class Rankings:
    """The candidates of q questions, in arrays of the largest pool's m places.

    Attributes:
        scores: name -> (q, m); NaN outside the pool.
        rows: (q, m) documents.
        inside: (q, m) whether there is a candidate.
        gains: (q, m) grades.
        ideal: (q,) DCG@10 of the best order.
        dense: (q, d) question vectors.
        logs: (q,) logarithms of the numbers of words.
        source: (q,) which collection's question it is.
        removed: (q,) whether its relevant documents were filtered out.
        terms: words of each question, as BM25 counts them.
    """

    scores: Mapping[str, Float64Array]
    rows: IntArray
    inside: BoolArray
    gains: Float64Array
    ideal: Float64Array
    dense: np.ndarray
    logs: Float64Array
    source: np.ndarray
    removed: BoolArray
    terms: tuple[IntArray, ...]

    @classmethod
    def load(cls, path: Path) -> Rankings:
        """The file that `read_rankings` wrote."""
        with np.load(path) as stored:
            sizes = stored["n"]
            inside = np.arange(sizes.max())[None] < sizes[:, None]

            def padded(flat: np.ndarray, outside: float) -> np.ndarray:
                found = np.full(inside.shape, outside, np.result_type(flat, np.int64))
                found[inside] = flat
                return found

            scores = {name: padded(stored[name].astype(np.float64), np.nan) for name in SCORES}
            return cls(
                scores,
                padded(stored["rows"], 0),
                inside,
                padded(stored["rel"].astype(np.float64), 0),
                stored["ideal"],
                stored["q"],
                np.log(np.maximum(1, [len(text.split()) for text in stored["text"].tolist()])),
                stored["source"],
                stored["removed"],
                tuple(np.split(stored["terms"], np.cumsum(stored["nterms"])[:-1])),
            )

    def take(self, rows: IntArray | BoolArray) -> Rankings:
        """Those of some questions."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        parts = ("rows", "inside", "gains", "ideal", "dense", "logs", "source", "removed")
        return replace(
            self,
            scores={name: own[rows] for name, own in self.scores.items()},
            terms=tuple(self.terms[row] for row in rows),
            **{name: getattr(self, name)[rows] for name in parts},
        )

    @cached_property
    def _near(self) -> BoolArray:
        """(q, m) the pool of systems without words: the first `DEPTH` by cosine."""
        cosine = np.where(self.inside, np.nan_to_num(self.scores["cosine"], nan=-np.inf), -np.inf)
        ranks = np.argsort(np.argsort(-cosine, axis=1, kind="stable"), axis=1)
        return (ranks < DEPTH) & self.inside

    def pool(self, system: str) -> BoolArray:
        """(q, m) the candidates of a system."""
        return self.inside if system in ("fusion", "auto") else self._near

    def own(self, system: str) -> Float64Array:
        """(q, m) what a system ranks by; minus infinity outside its pool."""
        return np.where(self.pool(system), self.scores[system], -np.inf)

    def order(self, system: str) -> IntArray:
        """(q, m) places from the first to the last."""
        return np.argsort(-self.own(system), axis=1, kind="stable")

    def ndcg(self, system: str) -> Float64Array:
        """(q,) nDCG@10."""
        gains = np.take_along_axis(self.gains, self.order(system)[:, :_FIRST], 1).clip(0)
        gained = (gains / np.log2(2 + np.arange(gains.shape[1]))).sum(axis=1)
        return np.where(self.ideal > 0, gained / np.maximum(self.ideal, 1e-9), 0.0)

    def hits(self, system: str) -> BoolArray:
        """(q,) whether a relevant document is among the first ten."""
        found: BoolArray = (np.take_along_axis(self.gains, self.order(system)[:, :_FIRST], 1) > 0).any(axis=1)
        return found


def added(asked: Rankings, system: str) -> Float64Array:
    """(k, q, m) the scores that are added; NaN outside the system's pool."""
    pool = asked.pool(system)
    return np.stack([np.where(pool, asked.scores[name], np.nan) for name in _ADDED[system]])


@dataclass(frozen=True, eq=False)
class Calibration:
    """A background for many questions at once: `QuestionBackground` in arrays.

    Attributes:
        names: k scorers.
        scales: of all background questions.
        lengths: shortest and longest log length.
        totals: (n,) best T of the background questions, ascending.
    """

    names: tuple[str, ...]
    scales: Lines
    lengths: tuple[float, float]
    totals: Float64Array

    @classmethod
    def of(cls, system: str, scores: Float64Array, logs: Float64Array) -> Calibration:
        """The calibration by background questions of (k, n, m) scores.

        They are varied ones, so that each counts as one.
        """
        names = _ADDED[system]
        best = np.where(np.isnan(scores), -np.inf, scores).max(axis=2).T
        usual, each = lines_of(best, logs, np.ones(len(logs)), [name == "bm25" for name in names])
        made = cls(names, usual, (logs.min(), logs.max()), np.zeros(0))
        totals = made.of_all(scores, logs).max(axis=1)
        if len(names) > 1:
            others = replace(made, scales=each).of_all(scores, logs).max(axis=1)
            totals = np.maximum(totals, others)
        return replace(made, totals=np.sort(totals))

    def of_all(self, scores: Float64Array, logs: Float64Array) -> Float64Array:
        """(q, m) T of all candidates; minus infinity where there is none."""
        means, slopes, deviations = (np.atleast_2d(own) for own in self.scales)
        away = np.clip(logs, *self.lengths)
        totals = np.zeros(scores.shape[1:])
        for k, name in enumerate(self.names):
            z = (scores[k] - (means[:, k] + slopes[:, k] * away)[:, None]) / deviations[:, k, None]
            totals += _WEIGHTS.get(name, 1.0) * np.nan_to_num(z)
        return np.where(np.isnan(scores).all(axis=0), -np.inf, totals)

    def surprise(self, totals: Float64Array) -> Float64Array:
        """Sigma of totals."""
        return np.searchsorted(self.totals, totals, side="left") / (len(self.totals) + 1)

    def passes(self, totals: Float64Array, alpha: float) -> BoolArray:
        """Whether totals reach a surprise of 1 - alpha."""
        return np.asarray(self.surprise(totals) >= 1 - alpha - _ROUNDING)

    def scaled(self, totals: Float64Array) -> Float64Array:
        """Totals in deviations of the background's best."""
        known = self.totals[np.isfinite(self.totals)]
        return (totals - known.mean()) / known.std()


@dataclass(frozen=True)
class Words:
    """How many documents have a word: `vocab` ascending, `df` beside it, of `filled` documents with words."""

    vocab: IntArray
    df: IntArray
    filled: int

    def of(self, terms: IntArray, best_bm25: float) -> tuple[float, float]:
        """The share of the words' idf that the best document has, and that no document has."""
        places = np.minimum(np.searchsorted(self.vocab, terms), len(self.vocab) - 1)
        known = self.vocab[places] == terms
        counts = np.where(known, self.df[places], 0)
        idf = np.log1p((self.filled - counts + 0.5) / (counts + 0.5))
        total = max(float(idf.sum()), _ROUNDING)
        return best_bm25 / (2.2 * total), float(idf[~known].sum()) / total


# What the chance is made of; the others were tried (`predictors`).
BEST, UP_TO, GAP = "T of the best", "T of the best, up to a limit", "T of the best less the mean of 100"
COSINE = "best cosine"
# Beside what the field uses: mteb's of the system's own scores.
MTEB = ("max", "std", "diff1")


def ordered_totals(
    asked: Rankings, system: str, scores: Float64Array, calibration: Calibration
) -> Float64Array:
    """(q, m) T in deviations of the background's best, as the system orders; NaN outside its pool."""
    unit = calibration.scaled(_some(calibration.of_all(scores, asked.logs)))
    return np.take_along_axis(unit, asked.order(system), 1)


def standing(ordered: Float64Array) -> dict[str, Float64Array]:
    """What the chance is made of, from `ordered_totals`."""
    best = np.nanmax(ordered, axis=1)
    return {BEST: best, GAP: best - np.nanmean(ordered[:, :DEPTH], axis=1)}


def predictors(
    asked: Rankings,
    system: str,
    scores: Float64Array,
    calibration: Calibration,
    documents: np.ndarray,
    words: Words,
) -> dict[str, Float64Array]:
    """Name -> (q,) what may tell questions with an answer among the first ten from others.

    Args:
        asked: the questions.
        system: that ranks.
        scores: (k, q, m) of `added`.
        calibration: of the system.
        documents: (N, d) vectors of the corpus.
        words: of the corpus.
    """
    order = asked.order(system)
    own = _some(np.take_along_axis(asked.own(system), order, 1)[:, :DEPTH])
    ordered = ordered_totals(asked, system, scores, calibration)
    found = {
        **standing(ordered),
        UP_TO: np.minimum(standing(ordered)[BEST], ENOUGH),
        "T of the first less the second's": ordered[:, 0] - ordered[:, 1],
        "spread of T over 100": np.nanstd(ordered[:, :DEPTH], axis=1),
        **_of_mteb(own),
        COSINE: np.nanmax(np.where(asked.pool("cosine"), asked.scores["cosine"], np.nan), axis=1),
        "best cosine, z over the documents": _over_documents(asked, documents),
        "words of the question": asked.logs,
    }
    each = np.nan_to_num(scores, nan=-np.inf)
    found |= _agreement(scores, each, order)
    first = order[:, :_FIRST]
    vectors = documents[np.take_along_axis(asked.rows, first, 1)].astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=2, keepdims=True), 1e-9)
    size = vectors.shape[1]
    likeness = np.einsum("qid,qjd->q", vectors, vectors, optimize=True)
    found["coherence of the first ten"] = (likeness - size) / (size * (size - 1))
    bm25 = np.nan_to_num(np.take_along_axis(asked.scores["bm25"], order[:, :1], 1)[:, 0])
    told = np.array([words.of(terms, own) for terms, own in zip(asked.terms, bm25.tolist(), strict=True)])
    found |= {"words that the first has": told[:, 0], "words that no document has": told[:, 1]}
    return {name: np.nan_to_num(own, nan=0, posinf=0, neginf=0) for name, own in found.items()}


def _some(scores: Float64Array) -> Float64Array:
    return np.where(np.isfinite(scores), scores, np.nan)


def _of_mteb(own: Float64Array) -> dict[str, Float64Array]:
    """The three confidence scores of (q, 100) own scores, by mteb's own function."""
    from mteb._evaluators.retrieval_metrics import confidence_scores

    found = [confidence_scores(row[np.isfinite(row)].tolist()) for row in own]
    return {name: np.array([row[name] for row in found]) for name in MTEB}


def _over_documents(asked: Rankings, documents: np.ndarray) -> Float64Array:
    dense, vectors = asked.dense.astype(np.float64), documents.astype(np.float64)
    level = dense @ vectors.mean(axis=0)
    spread = np.einsum("qd,de,qe->q", dense, np.cov(vectors.T, bias=True), dense, optimize=True)
    best = np.nanmax(np.where(asked.pool("cosine"), asked.scores["cosine"], np.nan), axis=1)
    return (best - level) / np.sqrt(np.maximum(spread, 1e-12))


def _agreement(scores: Float64Array, each: Float64Array, order: IntArray) -> dict[str, Float64Array]:
    """Overlap of the scorers' first ten, their correlation over the pool, and their ranks of the first."""
    tops = [np.argsort(-own, axis=1, kind="stable")[:, :_FIRST] for own in each]
    pairs = [(i, j) for i in range(len(tops)) for j in range(i)]
    if not pairs:
        return {}
    overlap = [(tops[i][:, :, None] == tops[j][:, None, :]).any(axis=2).mean(axis=1) for i, j in pairs]
    away = scores - np.nanmean(scores, axis=2, keepdims=True)
    alike = [
        np.nansum(away[i] * away[j], axis=1)
        / np.sqrt(np.nansum(away[i] ** 2, axis=1) * np.nansum(away[j] ** 2, axis=1) + 1e-12)
        for i, j in pairs
    ]
    ranks = [np.log1p((own > np.take_along_axis(own, order[:, :1], 1)).sum(axis=1)) for own in each]
    return {
        "agreement of the scorers' first ten": np.mean(overlap, axis=0),
        "correlation of the scorers": np.mean(alike, axis=0),
        "scorers' ranks of the first": np.mean(ranks, axis=0),
    }


@dataclass(frozen=True, eq=False)
class Chance:
    """A logistic curve of some predictors, which every collection but one fitted.

    Attributes:
        names: of the predictors.
        weights: of each.
        bias: added.
    """

    names: tuple[str, ...]
    weights: Float64Array
    bias: float

    @classmethod
    def fitted(
        cls, names: Sequence[str], parts: Sequence[tuple[Mapping[str, Float64Array], BoolArray, Float64Array]]
    ) -> Chance:
        """Fitted on (predictors, hits, weights) of several collections."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        table = np.concatenate([_table(found, names) for found, _, _ in parts])
        hits, weights = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        scaler = StandardScaler().fit(table)
        curve = LogisticRegression(C=1e4, max_iter=1000)
        curve.fit(scaler.transform(table), hits, sample_weight=weights / weights.mean())
        factors = curve.coef_[0] / scaler.scale_
        return cls(tuple(names), factors, float(curve.intercept_[0] - factors @ scaler.mean_))

    def of(self, found: Mapping[str, Float64Array]) -> Float64Array:
        """(q,) the chance of an answer among the first ten."""
        return 1 / (1 + np.exp(-(_table(found, self.names) @ self.weights + self.bias)))


def _table(found: Mapping[str, Float64Array], names: Sequence[str]) -> Float64Array:
    return np.stack([found[name].clip(-20, 20) for name in names], axis=1)


def auroc(good: Float64Array, bad: Float64Array) -> float:
    """The share of pairs in which the good one is larger, ties half; NaN without both."""
    if not len(good) or not len(bad):
        return float("nan")
    ordered = np.sort(bad)
    below = np.searchsorted(ordered, good, side="left") + np.searchsorted(ordered, good, side="right")
    return float(below.mean() / (2 * len(bad)))
