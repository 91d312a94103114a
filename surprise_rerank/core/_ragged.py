"""What several texts have many of, one after the other in one array: vectors, tokens, words."""

from __future__ import annotations

import numpy as np

from surprise_rerank.core.arrays import IntArray


class Ragged:
    """Rows of n texts; text i has the rows offsets[i] to offsets[i + 1] of each array.

    Attributes:
        offsets: (n + 1,) int64.
    """

    __slots__ = ()
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """(n,) how many rows each text has."""
        return np.diff(self.offsets)

    def rows_between(self, start: int, stop: int) -> slice:
        """The rows of texts start to stop."""
        return slice(int(self.offsets[start]), int(self.offsets[stop]))

    def rows_of(self, texts: IntArray) -> IntArray:
        """The rows of some of the texts, in their order."""
        lengths = self.lengths[texts]
        starts = np.repeat(self.offsets[texts] - offsets_of(lengths)[:-1], lengths)
        return starts + np.arange(int(lengths.sum()), dtype=np.int64)


def offsets_of(lengths: IntArray) -> IntArray:
    """(n + 1,) where texts of these lengths begin in a row, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
