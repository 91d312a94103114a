"""What `auto` computes, in parts that can be exchanged one by one; tests bind it to `AutoReranker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from benchmarks.study.collection import Case, z_over
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, AutoSettings
from surprise_rerank.rerank.feedback import agreement, neighbour_support, shares
from surprise_rerank.rerank.fusion import surprise_normalized, weighted_sum

ScorerZ: TypeAlias = Mapping[str, Float64Array]
Share: TypeAlias = Callable[[Case, Float64Array], Float64Array]
Scores: TypeAlias = Callable[[Case], Float64Array]


def z_scores_of(case: Case) -> ScorerZ:
    """The scorers of `auto`: z of BM25, cosine and inclusion."""
    return case.z


def trust(z: ScorerZ, settings: AutoSettings) -> float:
    """How far the dense vectors are trusted, from 0 to 1."""
    if settings.trust is None or not settings.cosine:
        return 1.0
    others = [own for name, own in z.items() if name != "cosine" and getattr(settings, name)]
    if not others:
        return 1.0
    low, high = settings.trust
    return float(np.clip((agreement(z["cosine"], others) - low) / (high - low), 0.0, 1.0))


def all_give_way(settings: AutoSettings, t: float) -> dict[str, float]:
    """Scorer -> factor: where vectors are doubted, BM25 gains what both others lose."""
    return {
        "bm25": settings.bm25 + (1 - t) if settings.bm25 else 0.0,
        "cosine": settings.cosine * t,
        "dynamax": settings.dynamax * (1 + t) / 2,
    }


def softmax(case: Case, total: Float64Array) -> Float64Array:
    """(n,) how much of the feedback each candidate gives."""
    return shares(total, case.candidates.ids)


def near_by_vectors(case: Case, share: Float64Array) -> Float64Array:
    """(n,) z of the similarity to a mixture of the pool's dense vectors."""
    vectors, corpus = case.candidates.require_dense(), case.corpus
    mixture = share @ np.asarray(vectors, np.float64)
    return surprise_normalized(
        np.asarray(vectors, np.float64) @ mixture, corpus.ensemble.moments(mixture[None])
    )


def near_by_words(case: Case, share: Float64Array) -> Float64Array:
    """(n,) z of the similarity to a mixture of the pool's words."""
    pool, sample = case.word_similarities
    near = np.where(case.terms.lengths > 0, pool @ share, np.nan)
    return z_over(near, sample @ share)


def near_neighbours(case: Case, total: Float64Array, nearest: int) -> Float64Array:
    """(n,) what each candidate's neighbours by dense vectors score."""
    return neighbour_support(total, case.candidates.require_dense(), case.candidates.ids, nearest)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A variant of `auto`: scores of a case's candidates.

    Attributes:
        settings: its numbers.
        scorers: what is known of every candidate by itself.
        factors: what the scorers count, by trust.
        share: how much of the feedback each candidate gives, from the first ranking's scores.
        vectors: feedback by dense vectors.
        words: feedback by words.
        support: the neighbours' mean score.
        more: what is added before scores are smoothed over neighbours, from the first ranking's shares;
            nothing where None.
    """

    settings: AutoSettings = AUTO_DEFAULTS
    scorers: Callable[[Case], ScorerZ] = z_scores_of
    factors: Callable[[AutoSettings, float], dict[str, float]] = all_give_way
    share: Share = softmax
    vectors: Callable[[Case, Float64Array], Float64Array] = near_by_vectors
    words: Callable[[Case, Float64Array], Float64Array] = near_by_words
    support: Callable[[Case, Float64Array, int], Float64Array] = near_neighbours
    more: Callable[[Case, Float64Array], Float64Array] | None = None

    def __call__(self, case: Case) -> Float64Array:
        """(n,) scores."""
        return weighted_sum(self.parts(case), {})

    def parts(self, case: Case) -> dict[str, Float64Array]:
        """Part -> (n,) what it adds to the score."""
        own, z = self.settings, self.scorers(case)
        factors = self.factors(own, trust(z, own))
        parts = {name: factors[name] * scorer for name, scorer in z.items() if getattr(own, name)}
        first = _total(parts, case)
        if not len(first) or np.ptp(first) == 0:
            # No scorer separates the candidates: there is nothing to feed back.
            silent = [name for name in ("feedback", "words", "neighbours") if getattr(own, name)]
            return parts | {name: np.zeros(len(case)) for name in silent}
        share = self.share(case, first)
        if own.feedback:
            parts["feedback"] = own.feedback * self.vectors(case, share)
        if own.words:
            parts["words"] = own.words * self.words(case, share)
        if self.more is not None:
            parts["more"] = self.more(case, share)
        if own.neighbours:
            parts["neighbours"] = own.neighbours * self.support(case, _total(parts, case), own.nearest)
        return parts


def _total(parts: ScorerZ, case: Case) -> Float64Array:
    return weighted_sum(parts, {}) + np.zeros(len(case))


def with_scorer(name: str, scores: Scores) -> Callable[[Case], ScorerZ]:
    """The usual scorers with another one in the place of one of them.

    Args:
        name: of the scorer.
        scores: its z.
    """
    return lambda case: {**case.z, name: scores(case)}


AUTO = Recipe()
