"""Ragged batches of token vectors: one array for a whole pool, and its packed form for storage.

A batch keeps the *direction* of every token apart from its length: the scores of unit tokens need
only the directions, those of raw dot products both, and int8 spends all its levels on the direction.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.arrays import Float32Array, FloatArray, IntArray
from surprise_rerank.errors import DataError

_INT8_LEVELS = 127
_HEADER = struct.Struct("<4sIH")  # magic with version, tokens, dimension
_MAGIC = b"SRT1"


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Token vectors of n texts, stacked.

    The vector of token t is `directions[t] * scales[t] * norms[t]`; the first two factors give a unit
    vector (or zero), the third its length.

    Attributes:
        directions: (total, d) float32, float16 or int8.
        scales: (total,) float32; 1 for floats, the size of one int8 level otherwise.
        norms: (total,) float32 lengths of the tokens.
        offsets: (n + 1,) int64; text i owns the rows offsets[i] to offsets[i + 1].
    """

    directions: npt.NDArray[np.float32 | np.float16 | np.int8]
    scales: Float32Array
    norms: Float32Array
    offsets: IntArray

    @classmethod
    def from_arrays(cls, texts: Sequence[FloatArray], dimension: int | None = None) -> TokenBatch:
        """A float32 batch of token vectors.

        Args:
            texts: n arrays (tokens, d); a text without tokens is an array of shape (0, d).
            dimension: d; needed only where there are no texts.

        Raises:
            DataError: if dimensions differ or a value is NaN or infinite.
        """
        d = dimension if dimension is not None else (texts[0].shape[1] if len(texts) else 0)
        for i, text in enumerate(texts):
            if text.ndim != 2 or text.shape[1] != d:
                raise DataError(f"token vectors of text {i} have shape {text.shape}, expected (tokens, {d})")
        raw = np.concatenate([np.zeros((0, d), np.float32), *texts], dtype=np.float32)
        if not np.isfinite(raw).all():
            raise DataError("token vectors hold NaN or infinite values")
        norms = np.linalg.norm(raw, axis=1).astype(np.float32)
        directions = np.divide(raw, norms[:, None], out=np.zeros_like(raw), where=norms[:, None] > 0)
        lengths = np.array([len(t) for t in texts], dtype=np.int64)
        return cls(directions, np.ones_like(norms), norms, _offsets(lengths))

    @classmethod
    def concatenate(cls, batches: Sequence[TokenBatch]) -> TokenBatch:
        """Several batches of one dtype and dimension as one."""
        if not batches:
            raise DataError("nothing to concatenate: give at least one TokenBatch")
        return cls(
            np.concatenate([b.directions for b in batches]),
            np.concatenate([b.scales for b in batches]),
            np.concatenate([b.norms for b in batches]),
            _offsets(np.concatenate([b.lengths for b in batches])),
        )

    @property
    def dimension(self) -> int:
        """Dimension d of the token vectors."""
        return int(self.directions.shape[1])

    @property
    def lengths(self) -> IntArray:
        """(n,) number of tokens of each text."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with their lengths."""
        rows = self._rows(i)
        factors = (self.scales[rows] * self.norms[rows])[:, None]
        vectors: Float32Array = self.directions[rows].astype(np.float32) * factors
        return vectors

    def take(self, index: npt.ArrayLike) -> TokenBatch:
        """The texts at these positions, in this order."""
        chosen = np.arange(len(self))[np.asarray(index, dtype=np.int64)]
        lengths = self.lengths[chosen]
        starts = np.repeat(self.offsets[chosen] - _offsets(lengths)[:-1], lengths)
        rows = starts + np.arange(int(lengths.sum()), dtype=np.int64)
        return TokenBatch(self.directions[rows], self.scales[rows], self.norms[rows], _offsets(lengths))

    def between(self, start: int, stop: int) -> TokenBatch:
        """Texts start to stop, without copying their vectors; 0 <= start <= stop <= n."""
        rows = slice(int(self.offsets[start]), int(self.offsets[stop]))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        return TokenBatch(self.directions[rows], self.scales[rows], self.norms[rows], offsets)

    def quantized(self) -> TokenBatch:
        """The same batch in int8: each token's largest component becomes 127."""
        if self.directions.dtype == np.int8:
            return self
        unit = self.directions.astype(np.float32)
        largest = np.abs(unit).max(axis=1, initial=0.0)
        levels = np.divide(_INT8_LEVELS, largest, out=np.zeros_like(largest), where=largest > 0)
        directions = np.rint(unit * levels[:, None]).astype(np.int8)
        # Not largest / 127: rounding changes the length, and a token must stay at similarity 1 to itself.
        lengths = np.linalg.norm(directions.astype(np.float32), axis=1)
        scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return TokenBatch(directions, scales.astype(np.float32), self.norms, self.offsets)

    def pack(self) -> list[bytes]:
        """One byte string per text: header, norms, scales, then int8 directions; little-endian."""
        batch = self.quantized()
        factors = np.stack([batch.norms, batch.scales]).astype("<f4")
        packed = []
        for i in range(len(batch)):
            rows = batch._rows(i)
            header = _HEADER.pack(_MAGIC, rows.stop - rows.start, batch.dimension)
            packed.append(header + factors[:, rows].tobytes() + batch.directions[rows].tobytes())
        return packed

    @classmethod
    def unpack(cls, packed: Sequence[bytes | bytearray], dimension: int) -> TokenBatch:
        """The int8 batch that `pack` wrote.

        Raises:
            DataError: if a string is not what `pack` writes, or is of another dimension.
        """
        factors: list[npt.NDArray[np.float32]] = [np.zeros((2, 0), np.float32)]
        directions: list[npt.NDArray[np.int8]] = [np.zeros((0, dimension), np.int8)]
        for i, data in enumerate(packed):
            if len(data) < _HEADER.size:
                raise DataError(f"packed tokens {i}: {len(data)} bytes are too few for a header")
            magic, tokens, d = _HEADER.unpack_from(data)
            if magic != _MAGIC or len(data) != _HEADER.size + tokens * (8 + d):
                raise DataError(f"packed tokens {i}: not written by this version of surprise-rerank")
            if d != dimension:
                raise DataError(f"packed tokens {i} have dimension {d}, expected {dimension}")
            factors.append(np.frombuffer(data, "<f4", 2 * tokens, _HEADER.size).reshape(2, tokens))
            body = np.frombuffer(data, np.int8, tokens * d, _HEADER.size + 8 * tokens)
            directions.append(body.reshape(tokens, d))
        lengths = np.array([len(rows) for rows in directions[1:]], dtype=np.int64)
        norms, scales = np.concatenate(factors, axis=1)
        return cls(np.concatenate(directions), scales, norms, _offsets(lengths))

    def _rows(self, i: int) -> slice:
        start = range(len(self))[i]  # counts negative positions from the end, as sequences do
        return slice(int(self.offsets[start]), int(self.offsets[start + 1]))


def _offsets(lengths: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
