"""Neighbours by one similarity that were found by another."""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.arrays import BoolArray, Float64Array, IntArray
from surprise_rerank.neighbours import Neighbours


@dataclass(frozen=True, slots=True, eq=False)
class Rescored(Neighbours):
    """Pairs whose surprise over DynaMax counts, found by that of the cosine.

    Attributes:
        cosine: (p,) the cosine of each pair.
    """

    cosine: Float64Array

    def take(self, index: IntArray | BoolArray) -> Rescored:
        """The pairs at these positions, or where a mask is set."""
        return Rescored(
            self.query[index], self.key[index], self.similarity[index], self.z[index], self.cosine[index]
        )
