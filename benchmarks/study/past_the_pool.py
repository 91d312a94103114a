"""Candidates that neither BM25 nor the cosine has found, each way behind one request more.

`auto` ranks the larger pool. Ways that lose stay in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy import special

from benchmarks.study.collection import DEPTH, Case, Collection
from benchmarks.study.left_out import auto
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.rerank.feedback import shares

_BEST, _NEAR = 10, 16


def _deeper(case: Case, ranked: Float64Array) -> IntArray:
    return case.of.pool(case.i, 2 * DEPTH).rows


def _by_vectors(case: Case, ranked: Float64Array) -> IntArray:
    """What the best have more of than the pool, as a second dense question (Rocchio)."""
    of = case.of
    against = shares(ranked, case.candidates.ids) - 1 / len(case.rows)
    asked = of.questions[case.i] + against @ of.dense[case.rows]
    return of.best(case.i, of.dense @ asked, DEPTH)


def _guided(case: Case, ranked: Float64Array) -> IntArray:
    """The dense question moved until it ranks the pool as `auto` does (arXiv 2510.05038)."""
    of, vectors = case.of, case.of.dense[case.rows].astype(np.float64)
    wanted = special.softmax((ranked - ranked.mean()) / (ranked.std() or 1.0))
    asked = of.questions[case.i].astype(np.float64)
    for _ in range(20):
        asked += 0.05 * (wanted - special.softmax(vectors @ asked / 0.05)) @ vectors
    return of.best(case.i, of.dense @ asked, DEPTH)


def _neighbours(case: Case, ranked: Float64Array) -> IntArray:
    """The nearest documents of the best ones (GAR, arXiv 2208.08942)."""
    of = case.of
    best = case.rows[np.argsort(-ranked, kind="stable")[:_BEST]]
    near = of.dense[best] @ of.dense.T
    return np.concatenate([of.best(case.i, own, _NEAR + 1) for own in near])


def _linear(case: Case, ranked: Float64Array) -> IntArray:
    """A ridge regression of the five best against those below 50 (after DART, arXiv 2606.01070)."""
    of, order = case.of, np.argsort(-ranked, kind="stable")
    chosen = np.concatenate([order[:5], order[50:]])
    if len(order) <= 60:
        return np.zeros(0, np.int64)
    weights = np.concatenate([np.full(5, 0.1), np.full(len(chosen) - 5, 0.5 / (len(chosen) - 5))])
    labels = np.where(np.arange(len(chosen)) < 5, 1.0, -1.0)
    known = of.dense[case.rows[chosen]].astype(np.float64)
    scaled = (known - weights @ known) * np.sqrt(weights)[:, None]
    dual = np.linalg.solve(scaled @ scaled.T + 0.1 * np.eye(len(scaled)), np.sqrt(weights) * labels)
    return of.best(case.i, of.dense @ (scaled.T @ dual), DEPTH)


WAYS: Mapping[str, Callable[[Case, Float64Array], IntArray]] = {
    "200 of each": _deeper,
    "vectors of the best": _by_vectors,
    "guided question": _guided,
    "neighbours of the best": _neighbours,
    "linear score": _linear,
}


def past_table(collections: Mapping[tuple[str, str], Collection]) -> Table:
    """nDCG@10 and recall@100 by `auto` of the pool, and what each way adds; recall is the second row."""
    names = [f"{name}, {model}" for name, model in collections]
    numbers = (Column(name, 4) for name in (*names, "mean"))
    found: dict[str, list[list[float]]] = {"the pool": [], **{way: [] for way in WAYS}}
    for collection in collections.values():
        each: dict[str, list[tuple[float, float]]] = {way: [] for way in found}
        for case in collection.pools:
            ranked = auto(case)
            each["the pool"].append((case.ndcg(ranked), case.recall(ranked)))
            for way, more in WAYS.items():
                larger = Case(collection, case.i, np.union1d(case.rows, more(case, ranked)))
                scores = auto(larger)
                each[way].append((larger.ndcg(scores), larger.recall(scores)))
        for way, values in each.items():
            found[way].append(np.mean(values, axis=0).tolist())
    cells: list[tuple[Cell, ...]] = []
    for way, pairs in found.items():
        for place, measure in enumerate(("nDCG@10", "recall@100")):
            values = np.array([own[place] for own in pairs])
            if way != "the pool":
                values -= [own[place] for own in found["the pool"]]
            cells.append((way, measure, *values.tolist(), float(values.mean())))
    columns = (Column("candidates"), Column("measure"), *numbers)
    return Table("past", "Past the pool", columns, tuple(cells), notes=("differences to the pool",))
