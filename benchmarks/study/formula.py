"""What `auto` computes, from arrays that were read once; a test binds it to `AutoReranker`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import special

from benchmarks.study.collection import Case
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, AutoSettings
from surprise_rerank.rerank.feedback import agreement, shares
from surprise_rerank.rerank.fusion import BM25_WEIGHT, min_max, surprise_normalized, without_length

Scores: TypeAlias = Callable[[Case], Float64Array]


@dataclass(frozen=True, slots=True)
class Auto:
    """`auto` with some numbers.

    Attributes:
        settings: its numbers.
    """

    settings: AutoSettings = AUTO_DEFAULTS

    def __call__(self, case: Case) -> Float64Array:
        """(n,) scores."""
        own = self.settings
        z = {name: _z(case, name, own) for name in _SCORERS if getattr(own, name)}
        t = _trust(z, own.trust)
        factors = {
            "bm25": own.bm25 + 1 - t,
            "cosine": own.cosine * t,
            "dynamax": own.dynamax * (1 + t) / 2,
        }
        first = sum((factors[name] * score for name, score in z.items()), np.zeros(len(case)))
        if not len(first) or np.ptp(first) == 0:
            return first
        return first + own.words * by_words(case, shares(first, case.ids)) if own.words else first


def _z(case: Case, name: str, own: AutoSettings) -> Float64Array:
    """(n,) z of a scorer; what is the same for many settings is computed once."""
    numbers = {"cosine": own.hub_share(case.tokens), "dynamax": (own.rarity, own.lengths)}
    key = (name, numbers.get(name))
    if key not in case.known:
        case.known[key] = _SCORERS[name](case, own)
    return case.known[key]


def _bm25(case: Case, own: AutoSettings) -> Float64Array:
    return surprise_normalized(case.bm25, case.whole_moments)


def _cosine(case: Case, own: AutoSettings) -> Float64Array:
    ensemble = case.corpus.ensemble
    asked = case.dense - own.hub_share(case.tokens) * ensemble.mean
    return surprise_normalized(case.vectors @ asked, ensemble.moments(asked[None]))


def _dynamax(case: Case, own: AutoSettings) -> Float64Array:
    sample, lengths = case.corpus.sample, case.corpus.lengths
    scores, usual = (case.inclusion, case.usual_inclusion) if own.rarity else (case.plain, case.usual_plain)
    scores, usual = without_length(scores, lengths[case.rows], usual, lengths[sample], own.lengths)
    return surprise_normalized(scores, Moments.of(usual))


_SCORERS = {"bm25": _bm25, "cosine": _cosine, "dynamax": _dynamax}


def _trust(z: dict[str, Float64Array], borders: tuple[float, float] | None) -> float:
    others = [score for name, score in z.items() if name != "cosine"]
    if borders is None or "cosine" not in z or not others:
        return 1.0
    low, high = borders
    return float(np.clip((agreement(z["cosine"], others) - low) / (high - low), 0.0, 1.0))


def by_words(case: Case, share: Float64Array) -> Float64Array:
    """(n,) z of the similarity to a mixture of the pool's words."""
    pool, sample = case.word_similarities
    near = np.where(case.terms.lengths > 0, pool @ share, np.nan)
    return surprise_normalized(near, Moments.of(sample @ share))


def by_neighbours(case: Case, total: Float64Array) -> Float64Array:
    """(n,) the mean score of the nearest candidates, by how near they are."""
    rows, near = case.nearest
    return (near * total[rows]).sum(axis=1) / max(rows.shape[1], 1)


def fusion(case: Case) -> Float64Array:
    """(n,) scores of the system `fusion`."""
    return (
        BM25_WEIGHT * _bm25(case, AUTO_DEFAULTS)
        + surprise_normalized(case.cosines, case.corpus.ensemble.moments(case.dense))
        + surprise_normalized(case.plain, Moments.of(case.usual_plain))
    )


def fusion_minmax(case: Case) -> Float64Array:
    """(n,) the three scorers on the pool's own range."""
    return min_max(case.bm25) + min_max(case.cosines) + min_max(case.plain)


def first_round(case: Case, hubs: float = 0.0, lengths: float = 0.0) -> Float64Array:
    """(n,) scores of `auto` as it was before: BM25 over the sample, a softmax, and feedback by vectors.

    Args:
        case: with its pool.
        hubs: share of a document's mean similarity that was subtracted; .5 in `auto-robust`.
        lengths: of what lengths predict; .5 in `auto-robust`.
    """
    corpus = case.corpus
    ensemble = corpus.ensemble
    asked = case.dense - hubs * ensemble.mean
    inclusion, usual = without_length(
        case.inclusion,
        corpus.lengths[case.rows],
        case.usual_inclusion,
        corpus.lengths[corpus.sample],
        lengths,
    )
    z = {
        "bm25": _plain_z(case.bm25, Moments.of(case.usual_bm25)),
        "cosine": _plain_z(case.vectors @ asked, ensemble.moments(asked[None])),
        "dynamax": _plain_z(inclusion, Moments.of(usual)),
    }
    t = _trust(z, (0.35, 0.55))
    total = (1.5 - t) * z["bm25"] + t * z["cosine"] + (1 + t) / 2 * z["dynamax"]
    if not len(total) or np.ptp(total) == 0:
        return total
    share = special.softmax(total)
    mixture = share @ case.vectors
    total = total + _plain_z(case.vectors @ mixture, ensemble.moments(mixture[None]))
    pool, sample = case.word_similarities
    total = total + 0.5 * _plain_z(pool @ share, Moments.of(sample @ share))
    return total + 0.2 * by_neighbours(case, total)


def _plain_z(scores: Float64Array, moments: Moments) -> Float64Array:
    if not (np.asarray(moments.deviation) > 1e-7 * np.abs(moments.mean)).all():
        return np.zeros(len(scores))
    return np.nan_to_num((scores - moments.mean) / moments.deviation)
