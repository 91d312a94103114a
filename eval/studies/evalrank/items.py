"""The items of a ranking: vectors, equal ones once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.eval.studies.evalrank.ranks import distinct


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a ranking, once each.

    Attributes:
        plain: (m, d) float32 vectors, centred.
        unit: (m, d) the same, scaled to length 1 where they are known.
        counts: (m,) how often each stands in the background; 0 for one that does not.
    """

    plain: Float32Array
    unit: Float32Array
    counts: IntArray

    @classmethod
    def of(cls, plain: Float32Array, unit: Float32Array, background: int) -> tuple[Items, IntArray]:
        """Items of vectors, equal ones as one.

        Args:
            plain: (n, d) centred vectors.
            unit: (n, d) the same at length 1.
            background: the first so many are the background.

        Returns:
            The items, and (n,) which one each vector is.
        """
        rows, places = distinct(np.concatenate([plain, unit], axis=1))
        counts = np.bincount(places[:background], minlength=len(rows)).astype(np.int64)
        return cls(plain[rows], unit[rows], counts), places

    @property
    def background(self) -> IntArray:
        """(b,) items of the background, as often as they stand in it."""
        return np.repeat(np.arange(len(self.counts)), self.counts)
