"""Feedback from a pool: which documents are probably relevant, and how far a scorer is to be trusted.

Documents that answer one question resemble each other (the cluster hypothesis: van Rijsbergen, 'Information
Retrieval', 1979). So what the best documents of a first ranking have more of than the pool as a whole serves
as a second question (Rocchio, 'Relevance feedback in information retrieval', 1971).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surprise_rerank.core.arrays import Float64Array, IntArray

# How many of a scorer's best documents are looked at when scorers are compared.
COMPARED = 10
# Of fewer documents the best are the pool, and there is nothing to tell them from.
FEWEST = 20


def representatives(total: Float64Array, ids: Sequence[str]) -> IntArray:
    """(m,) the row of every document, in the order of the pool: of its passages the first of the best."""
    best: dict[str, int] = {}
    for row, name in enumerate(ids):
        if name not in best or total[row] > total[best[name]]:
            best[name] = row
    return np.array(sorted(best.values()), dtype=np.int64)


def shares(total: Float64Array, ids: Sequence[str]) -> Float64Array:
    """(n,) how much of the feedback each candidate gives: p proportional to 1 / rank^2, with sum 1.

    Ranks bound the shares: the first document gives at most 1 / (1 + 1/4 + 1/9 + ...), .61 of a long pool. A
    softmax of the scores gave everything to one document where deviations are large, and next to the same to
    all where they are small. Documents of equal scores share their mean rank. Of a document's passages only
    the best gives any. Otherwise long documents would count more.
    """
    found, rows = np.zeros(len(total)), representatives(total, ids)
    if len(rows):
        _, place, counts = np.unique(-total[rows], return_inverse=True, return_counts=True)
        weights = (counts.cumsum() - (counts - 1) / 2)[place] ** -2.0
        found[rows] = weights / weights.sum()
    return found


def contrast(total: Float64Array, ids: Sequence[str]) -> Float64Array:
    """(n,) `shares`, less what each would be if all documents were alike; 0 of fewer than `FEWEST`."""
    found, rows = shares(total, ids), representatives(total, ids)
    if len(rows) < FEWEST:
        return np.zeros(len(total))
    found[rows] -= 1 / len(rows)
    return found


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
