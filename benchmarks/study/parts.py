"""`auto` with each part taken away, and built up from nothing; how deep pools are, how large samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.study.collection import Case, Collection
from benchmarks.study.formula import AUTO, Recipe, Scores, with_scorer
from benchmarks.study.table import AUTO_ROW, Evaluator, Row
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.rerank.auto import AUTO_DEFAULTS
from surprise_rerank.rerank.fusion import BM25_WEIGHT

THREE = replace(AUTO_DEFAULTS, feedback=0, words=0, neighbours=0)


def plain_inclusion(case: Case) -> Float64Array:
    """(n,) z of inclusion, all tokens alike."""
    return case.inclusion(np.ones(case.usual[""].shape[1]))


def fusion(case: Case) -> Float64Array:
    """(n,) scores of the system `fusion`, of Qdrant's BM25."""
    return BM25_WEIGHT * case.z["bm25"] + case.z["cosine"] + plain_inclusion(case)


def part_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `parts`."""
    plain = with_scorer("dynamax", plain_inclusion)
    without = {
        **{name: replace(AUTO_DEFAULTS, **{name: 0}) for name in ("bm25", "cosine", "dynamax")},
        "trust": replace(AUTO_DEFAULTS, trust=None),
        **{name: replace(AUTO_DEFAULTS, **{name: 0}) for name in ("feedback", "words", "neighbours")},
        "feedback and words": replace(AUTO_DEFAULTS, feedback=0, words=0),
    }
    built = {
        "the three scorers": THREE,
        "the three scorers, trust None": replace(THREE, trust=None),
        "the three and feedback": replace(THREE, feedback=AUTO_DEFAULTS.feedback),
        "the three and words": replace(THREE, words=AUTO_DEFAULTS.words),
        "the three and neighbours": replace(THREE, neighbours=AUTO_DEFAULTS.neighbours),
    }
    return [
        AUTO_ROW,
        Row("bm25 alone", lambda case: case.scores["bm25"]),
        Row("cosine alone", lambda case: case.z["cosine"]),
        Row("inclusion alone", lambda case: case.z["dynamax"]),
        Row("inclusion alone, all tokens alike", plain_inclusion),
        Row("fusion", fusion),
        *(Row(name, Recipe(settings)) for name, settings in built.items()),
        *(Row(f"without {name}", Recipe(settings)) for name, settings in without.items()),
        Row("without weights of tokens", Recipe(scorers=plain)),
    ]


def depth_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `depth`: of pools, and of the sample that stands for the corpus."""
    rows = [
        AUTO_ROW,
        Row("the three scorers", Recipe(THREE)),
        Row("cosine alone", lambda case: case.z["cosine"]),
    ]
    for depth in (25, 50, 200):
        rows += [Row(f"{row.name}, {depth}", row.scores, row.name, depth) for row in rows[:3]]
    return [*rows, *(Row(f"auto, a sample of {size}", AUTO, sample=size) for size in (32, 64, 256))]


def settings_rows(name: str, values: tuple[float, ...]) -> list[Row]:
    """`auto` with other numbers in one setting."""
    return [
        Row(f"{name} {value:g}", Recipe(replace(AUTO_DEFAULTS, **{name: value})))
        for value in values
        if value != getattr(AUTO_DEFAULTS, name)
    ]


def crossed(collection: Collection, rows: list[Row]) -> Scores:
    """The best of some rows, chosen for each half of the questions on the other half.

    Args:
        collection: even and odd questions are its halves.
        rows: of one depth.
    """
    evaluator = Evaluator(collection)
    values = np.array([evaluator.values(row) for row in rows])
    best = [rows[int(values[:, half::2].mean(axis=1).argmax())] for half in (0, 1)]
    return lambda case: best[1 - case.number % 2].scores(case)
