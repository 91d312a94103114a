"""Ragged batches of token vectors: one array for a whole pool.

A batch keeps the *direction* of every vector apart from its length. The scores of unit tokens need only the
directions, those of raw dot products both, and all levels of int8 and of codes are used for the direction.

========= ===== ====================================================================================
storage   bytes of d components, and the rounding of one, relative to the largest
========= ===== ====================================================================================
float32   4 d   6e-8
float16   2 d   5e-4
bfloat16  2 d   4e-3, multiplied natively by processors that can
int8      d     4e-3, multiplied natively by processors that can
4bit      d / 2 see `codes.py`; so do 2bit and 1bit, with d / 4 and d / 8 bytes
========= ===== ====================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray, row_norms, unit_rows
from surprise_rerank.core.tokens.codes import Bits, TokenCode
from surprise_rerank.core.tokens.members import Members, offsets_of, rows_of
from surprise_rerank.core.tokens.rotation import rotated_back
from surprise_rerank.errors import DataError

Storage: TypeAlias = Literal["float32", "float16", "bfloat16", "int8", "4bit", "2bit", "1bit"]
Directions: TypeAlias = npt.NDArray[np.float32 | np.float16 | np.uint16 | np.int8 | np.uint8]

STORAGES: tuple[Storage, ...] = get_args(Storage)
BITS: dict[Storage, Bits] = {"4bit": 4, "2bit": 2, "1bit": 1}
_INT8_LEVELS = 127


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Token vectors of n texts, stacked.

    The vector of token t is `directions[t] * scales[t] * norms[t]`; the first two factors give a unit
    vector (or zero), the third its length. Codes are something more: see `code`.

    Attributes:
        directions: (total, d) float32, float16, int8, or uint16 for the bits of bfloat16, which numpy lacks;
            or (total, `code.width`) uint8.
        scales: (total,) float32; what makes a stored direction a unit vector, or a code's estimate of one.
        norms: (total,) float32 lengths of the tokens.
        offsets: (n + 1,) int64; text i owns the rows offsets[i] to offsets[i + 1].
        own: (total,) float32, where known: each token's membership in its own text's fuzzy set, max(0, max
            over the text's tokens y of <t, y>). It depends on one side of a comparison only, so it is
            computed once, at indexing (`kernels.with_own_memberships`).
        members: the tokens that the vectors stand for, where some were merged (`pooling.py`).
        code: of the directions, where they are coded. They are then residuals of the text's mean, and the
            estimate of a unit vector is, rotated, `centers[i] + levels[t] * scales[t]`.
        centers: (n, d) the rotated means, with a code.
    """

    directions: Directions
    scales: Float32Array
    norms: Float32Array
    offsets: IntArray
    own: Float32Array | None = None
    members: Members | None = None
    code: TokenCode | None = None
    centers: Float32Array | None = None

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
        return cls.from_rows(raw, np.array([len(t) for t in texts], dtype=np.int64))

    @classmethod
    def from_rows(cls, raw: Float32Array, lengths: IntArray) -> TokenBatch:
        """A float32 batch of token vectors that are stacked already.

        Args:
            raw: (total, d) vectors, those of one text after those of another.
            lengths: (n,) numbers of tokens; their sum is total.

        Raises:
            DataError: if a value is NaN or infinite.
        """
        if not np.isfinite(raw).all():
            row = np.flatnonzero(~np.isfinite(raw).all(axis=1))[0]
            bad = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
            raise DataError(f"token vectors of text {bad} hold NaN or infinite values")
        with np.errstate(over="ignore"):  # the next lines refuse these
            exact = row_norms(raw)
            norms = exact.astype(np.float32)
        if not np.isfinite(norms).all():
            raise DataError("token vectors are too long for float32 (3e38); scale them down")
        return cls(unit_rows(raw, exact), np.ones_like(norms), norms, offsets_of(lengths))

    @classmethod
    def concatenate(cls, batches: Sequence[TokenBatch]) -> TokenBatch:
        """Several batches of one storage and dimension as one.

        Raises:
            DataError: if there are none, or they are stored differently.
        """
        if not batches:
            raise DataError("nothing to concatenate: give at least one TokenBatch")
        batches = [b for b in batches if len(b)] or batches[:1]
        kinds = sorted({b._kind for b in batches})
        if len(kinds) > 1:
            raise DataError(f"token batches stored as {' and '.join(kinds)} cannot be concatenated")
        owns = [b.own for b in batches if b.own is not None]
        members = [b.members for b in batches if b.members is not None]
        centers = [b.centers for b in batches if b.centers is not None]
        return cls(
            np.concatenate([b.directions for b in batches]),
            np.concatenate([b.scales for b in batches]),
            np.concatenate([b.norms for b in batches]),
            offsets_of(np.concatenate([b.lengths for b in batches])),
            np.concatenate(owns) if len(owns) == len(batches) else None,
            Members.concatenate(members) if members else None,
            batches[0].code,
            np.concatenate(centers) if centers else None,
        )

    @property
    def storage(self) -> Storage:
        """The storage of the directions."""
        if self.code is not None:
            return next(name for name, bits in BITS.items() if bits == self.code.bits)
        kind = self.directions.dtype
        return "bfloat16" if kind == np.uint16 else STORAGES[STORAGES.index(kind.name)]

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        arrays = (self.directions, self.scales, self.norms, self.offsets, self.own, self.centers)
        members = self.members.owners.nbytes + self.members.offsets.nbytes if self.members is not None else 0
        return members + sum(array.nbytes for array in arrays if array is not None)

    @property
    def dimension(self) -> int:
        """Dimension d of the token vectors."""
        return self.code.dimension if self.code is not None else int(self.directions.shape[1])

    @property
    def lengths(self) -> IntArray:
        """(n,) number of vectors of each text."""
        return np.diff(self.offsets)

    @property
    def token_counts(self) -> IntArray:
        """(n,) number of tokens of each text, merged ones counted one by one."""
        return self.lengths if self.members is None else self.members.lengths

    @property
    def weights(self) -> IntArray:
        """(total,) how many tokens each vector stands for."""
        if self.members is None:
            return np.ones(len(self.scales), np.int64)
        return self.members.counts(self.offsets)

    @property
    def _kind(self) -> str:
        merged = "" if self.members is None else ", merged"
        return f"{self.storage} of dimension {self.dimension}{merged}"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with their lengths."""
        return self.text(i)

    def text(self, i: int, *, unit: bool = False) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with length 1 or with their own.

        Estimates of a code are longer; see `estimates`.
        """
        own = self.between(start := range(len(self))[i], start + 1)  # from the end, as sequences count
        vectors = own.estimates()
        return vectors if unit else vectors * own.norms[:, None]

    def estimates(self) -> Float32Array:
        """(total, d) float32: every vector with length 1 (or 0), as near as the storage has it.

        Of a code, products with other vectors are right on average, and the estimates are therefore longer:
        by about 1.25 at 1 bit, 1.06 at 2.
        """
        scaled = self.scales[:, None]
        if self.code is None or self.centers is None:
            return _wide(self.directions) * scaled
        turned = self.code.levels(self.directions) * scaled + np.repeat(self.centers, self.lengths, axis=0)
        return rotated_back(turned) * (self.norms > 0)[:, None]

    def take(self, index: npt.ArrayLike) -> TokenBatch:
        """The texts at these positions, in this order."""
        chosen = np.arange(len(self))[np.asarray(index, dtype=np.int64)]
        members = None if self.members is None else self.members.take(chosen)
        centers = None if self.centers is None else self.centers[chosen]
        batch = self.with_rows(rows_of(self.offsets, chosen), offsets_of(self.lengths[chosen]))
        return replace(batch, members=members, centers=centers)

    def between(self, start: int, stop: int) -> TokenBatch:
        """Texts start to stop, without copying their vectors; 0 <= start <= stop <= n."""
        rows = slice(int(self.offsets[start]), int(self.offsets[stop]))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        members = None if self.members is None else self.members.between(start, stop)
        centers = None if self.centers is None else self.centers[start:stop]
        return replace(self.with_rows(rows, offsets), members=members, centers=centers)

    def expanded(self) -> TokenBatch:
        """A vector for every token again: that of the cluster which it was merged into."""
        if self.members is None:
            return self
        return self.with_rows(self.members.rows(self.offsets), self.members.offsets)

    def with_rows(self, rows: slice | IntArray | npt.NDArray[np.bool_], offsets: IntArray) -> TokenBatch:
        """The same texts with the vectors at these rows, each a token of its own.

        Args:
            rows: which, in the order of the texts; their memberships stay as they are.
            offsets: (n + 1,) where each text's begin.
        """
        return replace(
            self,
            directions=self.directions[rows],
            scales=self.scales[rows],
            norms=self.norms[rows],
            offsets=offsets,
            own=None if self.own is None else self.own[rows],
            members=None,
        )

    def stored(self, storage: Storage) -> TokenBatch:
        """The same batch in another storage; in int8 each vector's largest component becomes 127.

        A code is made of vectors that lose nothing before; the other way, what a code has lost stays lost.

        Raises:
            DataError: if there is no such storage.
        """
        if storage not in STORAGES:
            raise DataError(f"token storage {storage!r} is not known; choose one of {', '.join(STORAGES)}")
        if storage == self.storage:
            return self
        unit = self.estimates()
        if storage in BITS:
            code = TokenCode(BITS[storage], self.dimension)
            codes, factors, centers = code.encode(unit_rows(unit), self.offsets)
            return replace(
                self,
                directions=codes,
                # Half precision is a hundredth of the code's own error.
                scales=factors.astype(np.float16).astype(np.float32),
                norms=self._halved_norms(),
                own=None,
                code=code,
                centers=centers,
            )
        directions = _encoded(unit, storage)
        # Rounding changes the length, and a token must stay at similarity 1 to itself.
        lengths = np.linalg.norm(_wide(directions), axis=1)
        scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(np.float32)
        return replace(self, directions=directions, scales=scales, code=None, centers=None)

    def largest_norms(self) -> Float32Array:
        """(n,) the longest vector's length of each text; 1 where all are 0."""
        largest = np.ones(len(self), np.float32)
        filled = np.flatnonzero(self.lengths)
        if len(filled):
            longest = np.maximum.reduceat(self.norms, self.offsets[filled])
            largest[filled] = np.where(longest > 0, longest, 1)
        return largest

    def _halved_norms(self) -> Float32Array:
        """The norms as half-precision parts of the text's largest one, which no text of one scale notices."""
        largest = np.repeat(self.largest_norms(), self.lengths)
        parts = (self.norms / largest).astype(np.float16)
        parts[(parts == 0) & (self.norms > 0)] = np.finfo(np.float16).smallest_subnormal
        return parts.astype(np.float32) * largest


def _encoded(unit: Float32Array, storage: Storage) -> Directions:
    """Directions of length 1 (or 0) in a storage that is no code."""
    match storage:
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
        case _:
            return unit


def _wide(directions: Directions) -> Float32Array:
    """Stored directions as float32, without their scales."""
    if directions.dtype == np.uint16:
        return (directions.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return directions.astype(np.float32)
