"""Different answers first: maximal marginal relevance, and near-duplicates of one answer in one line.

Both work on a ranking once it is made, over the dense vectors x of its pool. The first line is the best.
The next one is always, of those that are left (Carbonell and Goldstein, SIGIR 1998),

    argmax_i  (1 - diversity) r_i - diversity max_j cos(x_i, x_j)        j: the lines before        (1)
    r_i = 1 / (1 + exp(-(s_i - m) / sigma))                                                         (2)

s are the scores of the ranking, m and sigma their mean and deviation over the pool. Cosines, shares and sums
of deviations thereby have one scale, on which a candidate in the middle of its pool has a relevance of 1/2,
and one that no scorer knows (minus infinity) 0. docs/scores.md says which other scales were tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Ranking
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, unit_rows

# Vectors that are equal may have a cosine this much below 1, in float32.
_ROUNDING = 1e-6
# Rows of the pool whose cosines to all others are held at a time.
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Diversity:
    """How different the documents of a ranking should be; by default nothing is done.

    Attributes:
        diversity: weight of what is new in a document against its relevance, from 0 (relevance alone) to 1;
            the paper's lambda is 1 - diversity.
        collapse: documents with at least this cosine to a better one are folded into it: they are its
            `Hit.duplicates`, and take no place in the ranking. None folds none.
    """

    diversity: float = 0.0
    collapse: float | None = None

    def __post_init__(self) -> None:
        border.fields(self, diversity=border.share, collapse=border.or_none(border.share))

    @property
    def needs(self) -> frozenset[Field]:
        """The fields of candidates that are compared with each other."""
        return frozenset({"dense"} if self.diversity or self.collapse is not None else ())

    def applied(
        self,
        ranking: Ranking,
        pool: Candidates,
        among: Sequence[int] | None = None,
        most: int | None = None,
    ) -> Ranking:
        """Return the ranking in the order of diversity; scores stay, so that they no longer fall.

        Only the lines `among` these may come; relevance is on the scale of all of them. `most` lines are
        wanted. All come, but those behind are in the order of relevance. Of a document in passages the best
        passage's vector counts.
        """
        lines = ranking if among is None else ranking.take(among)
        if not self.needs or not len(lines):
            return lines
        vectors = unit_rows(pool.require_dense()[lines.rows_in(pool)])
        relevance = relevances(ranking.scores)[slice(None) if among is None else list(among)]
        if self.collapse is not None:
            groups = near_duplicates(vectors, self.collapse)
            firsts = [group[0] for group in groups]
            folded = tuple(tuple(lines.ids[i] for i in group[1:]) for group in groups)
            lines = replace(lines.take(firsts), duplicates=folded)
            vectors, relevance = vectors[firsts], relevance[firsts]
        if not self.diversity:
            return lines
        return lines.take(diverse_order(relevance, vectors, self.diversity, most).tolist())


def relevances(scores: Float64Array) -> Float64Array:
    """(n,) r of equation (2), from 0 to 1, of the scores of a pool; 1/2 for all where they are equal."""
    finite = np.isfinite(scores)
    if not finite.any():
        return np.full(len(scores), 0.5)
    deviation = float(scores[finite].std())
    z = (scores - scores[finite].mean()) / (deviation if deviation > 0 else 1.0)
    shares: Float64Array = 1.0 / (1.0 + np.exp(-np.clip(z, -700.0, 700.0)))
    return np.where(finite, shares, 0.0)


def marginal_relevance(
    relevance: Float64Array, vectors: Float32Array, diversity: float, chosen: list[int], row: int
) -> float:
    """What equation (1) maximises, for one row of a pool, after the `chosen` ones: the plain form.

    The pool has (n,) relevance from 0 to 1, and (n, d) vectors of length 1, or of zeros.
    """
    nearest = max((float(vectors[row].astype(np.float64) @ vectors[j]) for j in chosen), default=0.0)
    return (1.0 - diversity) * float(relevance[row]) - diversity * nearest


def diverse_order(
    relevance: Float64Array, vectors: Float32Array, diversity: float, most: int | None = None
) -> IntArray:
    """(n,) every row once, by equation (1), ties in the order that they came in; O(most n d).

    `most` are wanted; the others follow as they came. The pool has (n,) relevance from 0 to 1, descending,
    and (n, d) vectors of length 1, or of zeros.
    """
    n = len(relevance)
    wide = vectors.astype(np.float64)
    worth = (1.0 - diversity) * relevance
    nearest = np.full(n, -np.inf)
    order = [0] if n else []
    while len(order) < min(n, n if most is None else most):
        # Only what the last line is nearer to than the lines before it can have changed.
        np.maximum(nearest, wide @ wide[order[-1]], out=nearest)
        left = worth - diversity * nearest
        left[order] = -np.inf
        order.append(int(left.argmax()))
    others = np.setdiff1d(np.arange(n), order)
    return np.concatenate([np.array(order, dtype=np.int64), others])


def near_duplicates(vectors: Float32Array, least: float) -> list[list[int]]:
    """Rows in groups: a row that has this cosine to the first of an earlier group belongs to it.

    Every row is compared with the best row of a group, not with its other members, so that a chain of small
    changes does not end in one group. Groups are in the order of their first rows, and rows ascend.

    Args:
        vectors: (n, d) of length 1, or of zeros; the best document first.
        least: cosine of near-duplicates.
    """
    group_of: dict[int, list[int]] = {}
    grouped = np.zeros(len(vectors), dtype=np.bool_)
    for start in range(0, len(vectors), _AT_ONCE):
        near = vectors[start : start + _AT_ONCE] @ vectors.T >= least - _ROUNDING
        for row, neighbours in enumerate(near, start=start):
            if grouped[row]:
                continue
            neighbours &= ~grouped
            neighbours[row] = True  # zeros have no cosine, also with themselves
            grouped |= neighbours
            group_of[row] = np.flatnonzero(neighbours).tolist()
    return list(group_of.values())


def falling(shown: Sequence[float], scores: Sequence[float] | None = None) -> list[float]:
    """Numbers for hosts that sort by them again: its own, or the next one below that of the line before.

    The latter where its own is larger, or with `scores` where only these differ: lines of one score have one
    number.

    >>> falling([3.0, 1.0, 2.0, 0.5])
    [3.0, 1.0, 0.9999999999999999, 0.5]
    >>> falling([1.0, 1.0, 1.0], scores=[9.0, 8.0, 8.0])
    [1.0, 0.9999999999999999, 0.9999999999999999]
    """
    falling: list[float] = []
    for i, score in enumerate(shown):
        last = falling[-1] if falling else math.inf
        if falling and scores is not None and scores[i] == scores[i - 1]:
            score = last
        elif score > last or (score == last and scores is not None):
            score = math.nextafter(last, -math.inf)
        falling.append(score)
    return falling
