"""Feedback from a pool: which documents are probably relevant, and which are similar to those.

Documents that answer one question resemble each other (the cluster hypothesis: van Rijsbergen, 'Information
Retrieval', 1979). So the best documents of a first ranking serve as a second question, weighted by their
ranks (Rocchio, 'Relevance feedback in information retrieval', 1971). Then scores are smoothed over
neighbours in the pool.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surprise_rerank.core.arrays import Float64Array, FloatArray, IntArray
from surprise_rerank.core.threads import using_threads

# How many of a scorer's best documents are looked at when scorers are compared.
COMPARED = 10
# Candidates whose products with all documents of the pool are held at a time.
_ROWS = 256


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


def neighbour_support(
    total: Float64Array, vectors: FloatArray, ids: Sequence[str], nearest: int
) -> Float64Array:
    """(n,) what each candidate's k `nearest` other documents score, weighted by similarity of (n, d) vectors.

        s_i = 1/k sum over the k nearest j of max(0, <v_i, v_j>) b_j,   |v_i| = 1, b the scores so far

    The best passage of a document stands for it. Of equally near documents the first in the pool counts.
    """
    import torch

    support, rows = np.zeros(len(total)), representatives(total, ids)
    wide = torch.from_numpy(np.array(vectors, np.float64, order="C"))
    place = {ids[row]: column for column, row in enumerate(rows.tolist())}
    own = np.array([place[name] for name in ids], dtype=np.int64)
    for start in range(0, len(total), _ROWS):
        block = slice(start, min(start + _ROWS, len(total)))
        with using_threads(1):
            left = (wide[block] @ wide[rows].T).numpy()
        each = np.arange(block.stop - start)
        left[each, own[block]] = -np.inf
        total_near = np.zeros(len(each))
        counted = min(nearest, len(rows) - 1)
        for _ in range(counted):
            near = left.argmax(axis=1)
            total_near += left[each, near].clip(0.0) * total[rows[near]]
            left[each, near] = -np.inf
        support[block] = total_near / max(counted, 1)
    return support


def agreement(scores: Float64Array, others: Sequence[Float64Array]) -> float:
    """How well the other scorers rate one scorer's best documents, from 0 to 1.

        mean over other scorers o of  mean of o over this scorer's ten best / mean of o over its own ten best

    Of fewer than twenty documents half are the best: all of ten would be every scorer's ten best. Of equal
    documents the first ones are. Scores are deviations above the corpus' mean. Other scorers whose own best
    are not above it are omitted. 1 where all are omitted, or where all of this scorer's scores are equal.
    """
    if not len(scores) or np.ptp(scores) == 0:
        return 1.0
    best = _best(scores)
    shares_of_best = []
    for other in others:
        most = float(other[_best(other)].mean())
        if most > 0:
            shares_of_best.append(float(np.clip(other[best].mean() / most, 0.0, 1.0)))
    return float(np.mean(shares_of_best)) if shares_of_best else 1.0


def _best(values: Float64Array) -> IntArray:
    best: IntArray = np.argsort(-values, kind="stable")[: min(COMPARED, (len(values) + 1) // 2)]
    return best
