"""How the three scorers are put together: scales, weights, trust, and whose BM25."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.study.collection import NOWHERE, Case, Collection
from benchmarks.study.formula import AUTO, Recipe, Scores, with_scorer
from benchmarks.study.parts import THREE, fusion
from benchmarks.study.table import AUTO_ROW, Row
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, AutoSettings
from surprise_rerank.rerank.fusion import (
    fit_weights,
    min_max,
    pool_z,
    reciprocal_ranks,
    refine_weights,
    surprise_normalized,
    weighted_sum,
)

SCORERS = "the three scorers"
_GRID = (
    (0.25, 1, 1),
    (0.75, 1, 1),
    (1, 1, 1),
    (0.5, 0.5, 1),
    (0.5, 2, 1),
    (0.5, 1, 0.5),
    (0.5, 1, 2),
    (1, 0.5, 1),
    (1.5, 0.5, 0.5),
)
_BORDERS = ((0.2, 0.4), (0.25, 0.5), (0.3, 0.6), (0.45, 0.65), (0.5, 0.8))


def scaled(scale: Callable[[Float64Array], Float64Array], weight: float = 1.0) -> Scores:
    """The three scorers on a scale of the pool.

    Args:
        scale: (n,) to (n,).
        weight: of BM25.
    """
    return lambda case: weighted_sum({name: scale(own) for name, own in case.z.items()}, {"bm25": weight})


def cosine_gives_way(settings: AutoSettings, t: float) -> dict[str, float]:
    """Only the cosine loses where it is doubted, and nobody gains."""
    return {"bm25": settings.bm25, "cosine": settings.cosine * t, "dynamax": settings.dynamax}


def bm25_gains_half(settings: AutoSettings, t: float) -> dict[str, float]:
    """As usual, but BM25 gains half as much."""
    return {
        "bm25": settings.bm25 + (1 - t) / 2,
        "cosine": settings.cosine * t,
        "dynamax": settings.dynamax * (1 + t) / 2,
    }


def spread_of_the_found(case: Case, *, always: bool) -> Float64Array:
    """(n,) z of BM25, its moments over the corpus told from what was found: all others count 0.

    A rare word stands in no document of the sample: all of those have 0, and BM25 says nothing of the pool.

    Args:
        case: with its pool.
        always: for every question; where not, only where the sample's scores are all alike.
    """
    if not always and np.ptp(case.usual_scores["bm25"]) > 0:
        return case.z["bm25"]
    found, n = case.scores["bm25"][case.places["bm25"] < NOWHERE], len(case.corpus.ids)
    mean = found.sum() / n
    deviation = np.sqrt(max((found**2).sum() / n - mean**2, 0.0))
    return surprise_normalized(case.scores["bm25"], Moments(np.asarray(mean), np.asarray(deviation)))


def learned(collection: Collection, recipe: Recipe, *, refined: bool) -> Scores:
    """Weights of a recipe's parts, fitted for each half of the questions on the other half.

    Args:
        collection: even and odd questions are its halves.
        recipe: with its parts.
        refined: start from the recipe's own and leave them a little; from nothing where not.
    """
    weights: list[Mapping[str, float]] = []
    for half in (0, 1):
        cases = collection.pools()[half::2]
        pools, gains = [recipe.parts(case) for case in cases], [_gains(case, collection) for case in cases]
        weights.append(refine_weights(pools, gains, {}) if refined else fit_weights(pools, gains))
    return lambda case: weighted_sum(recipe.parts(case), weights[1 - case.number % 2])


def _gains(case: Case, collection: Collection) -> Float64Array:
    """(n,) gains over the DCG of the question's ideal ranking."""
    judged = collection.dataset.qrels[case.query.id]
    ideal = np.sort([max(gain, 0) for gain in judged.values()])[::-1]
    best = float((ideal / np.log2(2 + np.arange(len(ideal)))).sum())
    gains = np.array([max(judged.get(name, 0), 0) for name in case.candidates.ids], np.float64)
    return gains / best if best > 0 else gains


def fusion_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `fusion`."""
    three = replace(AUTO_DEFAULTS, feedback=0, words=0, neighbours=0)
    rows = [
        AUTO_ROW,
        Row(SCORERS, Recipe(three), SCORERS),
        Row(f"{SCORERS}: fusion, its weights, tokens alike, trust None", fusion, SCORERS),
        Row(f"{SCORERS}: reciprocal ranks", scaled(reciprocal_ranks), SCORERS),
        Row(f"{SCORERS}: deviations in the pool", scaled(pool_z), SCORERS),
        Row(f"{SCORERS}: deviations in the pool, BM25 at .5", scaled(pool_z, 0.5), SCORERS),
        Row(f"{SCORERS}: min-max", scaled(min_max), SCORERS),
        Row(
            f"{SCORERS}: learned on the other half",
            learned(collection, Recipe(THREE), refined=False),
            SCORERS,
        ),
        Row("parts of auto, learned on the other half", learned(collection, AUTO, refined=False)),
        Row("parts of auto, refined on the other half", learned(collection, AUTO, refined=True)),
    ]
    for b, c, d in _GRID:
        settings = replace(AUTO_DEFAULTS, bm25=b, cosine=c, dynamax=d)
        rows.append(Row(f"BM25 {b:g}, cosine {c:g}, inclusion {d:g}", Recipe(settings)))
    rows.append(Row("trust None", Recipe(replace(AUTO_DEFAULTS, trust=None))))
    for low, high in _BORDERS:
        rows.append(Row(f"trust from {low:g} to {high:g}", Recipe(replace(AUTO_DEFAULTS, trust=(low, high)))))
    rows += [
        Row("trust takes from the cosine only", Recipe(factors=cosine_gives_way)),
        Row("trust gives BM25 half as much", Recipe(factors=bm25_gains_half)),
    ]
    for what, always in (("where the sample has none", False), ("always", True)):
        scorers = with_scorer("bm25", partial(spread_of_the_found, always=always))
        rows.append(Row(f"BM25's moments of the found ones {what}", replace(AUTO, scorers=scorers)))
    if all("lucene" in case.places for case in collection.cases):
        lucene = replace(AUTO, scorers=with_scorer("bm25", lambda case: case.lexical("lucene")))
        rows.append(Row("BM25 of Lucene", lucene, lexical="lucene"))
    return rows
