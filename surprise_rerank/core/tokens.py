"""Ragged batches of token vectors: one array for a whole pool, and its packed form for storage.

A batch keeps the *direction* of every token apart from its length. The scores of unit tokens need only the
directions, those of raw dot products both, and int8 uses all its levels for the direction.

========= ===== ====================================================================================
storage   bytes of d components, and the rounding of one, relative to the largest
========= ===== ====================================================================================
float32   4 d   6e-8
float16   2 d   5e-4
bfloat16  2 d   4e-3, multiplied natively by processors that can
int8      d     4e-3, multiplied natively by processors that can; what an index stores
========= ===== ====================================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray, row_norms, unit_rows
from surprise_rerank.errors import DataError

Storage: TypeAlias = Literal["float32", "float16", "bfloat16", "int8"]
Directions: TypeAlias = npt.NDArray[np.float32 | np.float16 | np.uint16 | np.int8]

_INT8_LEVELS = 127
# numpy has no bfloat16: its bits, the upper half of a float32's, are kept as whole numbers.
_DTYPES: dict[Storage, str] = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2", "int8": "|i1"}
_STORAGES: tuple[Storage, ...] = get_args(Storage)
_HEADER = struct.Struct("<4sBBHI")  # magic with version, storage, rows of factors, dimension, tokens
_MAGIC = b"SRT2"


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Token vectors of n texts, stacked.

    The vector of token t is `directions[t] * scales[t] * norms[t]`; the first two factors give a unit
    vector (or zero), the third its length.

    Attributes:
        directions: (total, d) float32, float16, int8, or uint16 for the bits of bfloat16.
        scales: (total,) float32; what makes a stored direction a unit vector.
        norms: (total,) float32 lengths of the tokens.
        offsets: (n + 1,) int64; text i owns the rows offsets[i] to offsets[i + 1].
        own: (total,) float32, where known: each token's membership in its own text's fuzzy set, max(0, max
            over the text's tokens y of <t, y>). It depends on one side of a comparison only, so it is
            computed once, at indexing (`kernels.with_own_memberships`).
    """

    directions: Directions
    scales: Float32Array
    norms: Float32Array
    offsets: IntArray
    own: Float32Array | None = None

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
        with np.errstate(over="ignore"):  # the next lines refuse these
            exact = row_norms(raw)
            norms = exact.astype(np.float32)
        if not np.isfinite(norms).all():
            raise DataError("token vectors are too long for float32 (3e38); scale them down")
        lengths = np.array([len(t) for t in texts], dtype=np.int64)
        return cls(unit_rows(raw, exact), np.ones_like(norms), norms, _offsets(lengths))

    @classmethod
    def concatenate(cls, batches: Sequence[TokenBatch]) -> TokenBatch:
        """Several batches of one storage and dimension as one.

        Raises:
            DataError: if there are none, or they are stored differently.
        """
        if not batches:
            raise DataError("nothing to concatenate: give at least one TokenBatch")
        kinds = sorted({f"{b.storage} of dimension {b.dimension}" for b in batches})
        if len(kinds) > 1:
            raise DataError(f"token batches stored as {' and '.join(kinds)} cannot be concatenated")
        owns = [b.own for b in batches if b.own is not None]
        return cls(
            np.concatenate([b.directions for b in batches]),
            np.concatenate([b.scales for b in batches]),
            np.concatenate([b.norms for b in batches]),
            _offsets(np.concatenate([b.lengths for b in batches])),
            np.concatenate(owns) if len(owns) == len(batches) else None,
        )

    @property
    def storage(self) -> Storage:
        """The storage of the directions."""
        kind = self.directions.dtype
        return "bfloat16" if kind == np.uint16 else _STORAGES[_STORAGES.index(kind.name)]

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        arrays = (self.directions, self.scales, self.norms, self.offsets, self.own)
        return sum(array.nbytes for array in arrays if array is not None)

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
        return self.text(i)

    def text(self, i: int, *, unit: bool = False) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with length 1 or with their own."""
        rows = self._rows(i)
        factors = self.scales[rows] if unit else self.scales[rows] * self.norms[rows]
        return _decoded(self.directions[rows]) * factors[:, None]

    def take(self, index: npt.ArrayLike) -> TokenBatch:
        """The texts at these positions, in this order."""
        chosen = np.arange(len(self))[np.asarray(index, dtype=np.int64)]
        lengths = self.lengths[chosen]
        starts = np.repeat(self.offsets[chosen] - _offsets(lengths)[:-1], lengths)
        rows = starts + np.arange(int(lengths.sum()), dtype=np.int64)
        own = None if self.own is None else self.own[rows]
        return TokenBatch(self.directions[rows], self.scales[rows], self.norms[rows], _offsets(lengths), own)

    def between(self, start: int, stop: int) -> TokenBatch:
        """Texts start to stop, without copying their vectors; 0 <= start <= stop <= n."""
        rows = slice(int(self.offsets[start]), int(self.offsets[stop]))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        own = None if self.own is None else self.own[rows]
        return TokenBatch(self.directions[rows], self.scales[rows], self.norms[rows], offsets, own)

    def stored(self, storage: Storage) -> TokenBatch:
        """The same batch in another storage; in int8 each token's largest component becomes 127.

        Raises:
            DataError: if there is no such storage.
        """
        if storage not in _STORAGES:
            raise DataError(f"token storage {storage!r} is not known; choose one of {', '.join(_STORAGES)}")
        if storage == self.storage:
            return self
        unit = _decoded(self.directions) * self.scales[:, None]
        directions = _encoded(unit, storage)
        # Rounding changes the length, and a token must stay at similarity 1 to itself.
        lengths = np.linalg.norm(_decoded(directions), axis=1)
        scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return replace(self, directions=directions, scales=scales.astype(np.float32))

    def pack(self) -> list[bytes]:
        """One byte string per text: header, norms, scales, own memberships, directions; little-endian."""
        rows_of_factors = [self.norms, self.scales] + ([] if self.own is None else [self.own])
        factors = np.stack(rows_of_factors).astype("<f4")
        directions = self.directions.astype(_DTYPES[self.storage], copy=False)
        code = _STORAGES.index(self.storage)
        packed = []
        for i in range(len(self)):
            rows = self._rows(i)
            header = _HEADER.pack(_MAGIC, code, len(factors), self.dimension, rows.stop - rows.start)
            packed.append(header + factors[:, rows].tobytes() + directions[rows].tobytes())
        return packed

    @classmethod
    def unpack(cls, packed: Sequence[bytes | bytearray], dimension: int | None = None) -> TokenBatch:
        """The batch that `pack` wrote.

        Args:
            packed: n byte strings.
            dimension: d of the token vectors; the first one's by default.

        Raises:
            DataError: if a string is not what `pack` writes, is of another dimension, or of another storage
                than the first.
        """
        d = _dimension(packed) if dimension is None else dimension
        forms = [_form(i, data, d) for i, data in enumerate(packed)]
        storage, height = forms[0][:2] if forms else ("int8", 2)
        kind = np.dtype(_DTYPES[storage])
        factors: list[npt.NDArray[np.float32]] = [np.zeros((height, 0), np.float32)]
        directions: list[Directions] = [np.zeros((0, d), kind)]
        for i, (data, (own_storage, own_height, tokens)) in enumerate(zip(packed, forms, strict=True)):
            if (own_storage, own_height) != (storage, height):
                raise DataError(
                    f"packed tokens {i} are {own_storage} with {own_height} factors a token, the first are "
                    f"{storage} with {height}; pack them alike"
                )
            start = _HEADER.size
            factors.append(np.frombuffer(data, "<f4", height * tokens, start).reshape(height, tokens))
            body = np.frombuffer(data, kind, tokens * d, start + 4 * height * tokens)
            directions.append(body.reshape(tokens, d))
        lengths = np.array([tokens for _, _, tokens in forms], dtype=np.int64)
        norms, scales, *own = np.concatenate(factors, axis=1)
        return cls(np.concatenate(directions), scales, norms, _offsets(lengths), own[0] if own else None)

    def _rows(self, i: int) -> slice:
        start = range(len(self))[i]  # counts negative positions from the end, as sequences do
        return slice(int(self.offsets[start]), int(self.offsets[start + 1]))


def _offsets(lengths: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _dimension(packed: Sequence[bytes | bytearray]) -> int:
    """The dimension in the first header; 0 where there is none."""
    if not packed or len(packed[0]) < _HEADER.size:
        return 0
    return int(_HEADER.unpack_from(packed[0])[3])


def _form(i: int, data: bytes | bytearray, dimension: int) -> tuple[Storage, int, int]:
    """Storage, rows of factors and number of tokens, from the header of a packed text."""
    if len(data) < _HEADER.size:
        raise DataError(f"packed tokens {i}: {len(data)} bytes are too few for a header")
    magic, code, height, d, tokens = _HEADER.unpack_from(data)
    known = magic == _MAGIC and code < len(_STORAGES) and height in (2, 3)
    storage: Storage = _STORAGES[code] if known else "int8"
    size = _HEADER.size + tokens * (4 * height + d * np.dtype(_DTYPES[storage]).itemsize)
    if not known or len(data) != size:
        raise DataError(f"packed tokens {i}: not written by this version of surprise-rerank")
    if d != dimension:
        raise DataError(f"packed tokens {i} have dimension {d}, expected {dimension}")
    return storage, height, tokens


def _encoded(unit: Float32Array, storage: Storage) -> Directions:
    """Directions of length 1 (or 0) in a storage."""
    match storage:
        case "float32":
            return unit
        case "float16":
            return unit.astype(np.float16)
        case "bfloat16":
            bits = unit.view(np.uint32)
            # To the nearest, and to the even one of two that are as near.
            nearest = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
            upper: npt.NDArray[np.uint16] = (nearest >> np.uint32(16)).astype(np.uint16)
            return upper
        case "int8":
            largest = np.abs(unit).max(axis=1, initial=0.0)
            levels = np.divide(_INT8_LEVELS, largest, out=np.zeros_like(largest), where=largest > 0)
            rounded: npt.NDArray[np.int8] = np.rint(unit * levels[:, None]).astype(np.int8)
            return rounded


def _decoded(directions: Directions) -> Float32Array:
    """Stored directions as float32, without their scales."""
    if directions.dtype == np.uint16:
        return (directions.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return directions.astype(np.float32)
