"""Which tokens of a text were merged into which vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import IntArray


def offsets_of(lengths: IntArray) -> IntArray:
    """(n + 1,) where texts of these lengths begin in a row, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def rows_of(offsets: IntArray, texts: IntArray) -> IntArray:
    """The rows of some of the texts, in their order."""
    lengths = np.diff(offsets)[texts]
    starts = np.repeat(offsets[texts] - offsets_of(lengths)[:-1], lengths)
    return starts + np.arange(int(lengths.sum()), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The tokens of n texts, each of which belongs to one of its text's vectors.

    Attributes:
        owners: (tokens,) the number of the vector, among those of the text.
        offsets: (n + 1,) int64; text i owns the entries offsets[i] to offsets[i + 1].
    """

    owners: npt.NDArray[np.integer]
    offsets: IntArray

    @classmethod
    def concatenate(cls, parts: Sequence[Members]) -> Members:
        """Those of several batches in a row."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(np.concatenate([part.owners for part in parts]), offsets_of(lengths))

    @property
    def lengths(self) -> IntArray:
        """(n,) tokens of each text."""
        return np.diff(self.offsets)

    def text(self, i: int) -> npt.NDArray[np.integer]:
        """(tokens,) the vector of each token of text i."""
        return self.owners[self.offsets[i] : self.offsets[i + 1]]

    def take(self, texts: IntArray) -> Members:
        """Those of these texts, in this order."""
        return Members(self.owners[rows_of(self.offsets, texts)], offsets_of(self.lengths[texts]))

    def between(self, start: int, stop: int) -> Members:
        """Those of texts start to stop, without a copy."""
        rows = slice(int(self.offsets[start]), int(self.offsets[stop]))
        return Members(self.owners[rows], self.offsets[start : stop + 1] - self.offsets[start])

    def rows(self, vectors: IntArray) -> IntArray:
        """(tokens,) the row of each token's vector.

        Args:
            vectors: (n + 1,) where the vectors of each text begin.
        """
        return np.repeat(vectors[:-1], self.lengths) + self.owners

    def counts(self, vectors: IntArray) -> npt.NDArray[np.int64]:
        """(vectors,) how many tokens each vector stands for."""
        return np.bincount(self.rows(vectors), minlength=int(vectors[-1]))
