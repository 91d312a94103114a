"""Token vectors of one text as one byte string, for storage; little-endian.

    header    version, storage, bytes of a member, dimension, vectors, tokens, largest norm, CRC-32
    factors   (2 or 3, vectors) scales, norms, own memberships: float32; half precision for codes,
              the norms then as parts of the largest one
    mean      of a text in codes: the size of a step in float32, and (d,) steps in int8
    members   (tokens,) the vector of each token, in 1, 2 or 4 bytes; none where no tokens were merged
    vectors   (vectors, bytes of one)

The checksum is of everything else.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.core.tokens.batch import BITS, STORAGES, Storage, TokenBatch
from surprise_rerank.core.tokens.codes import TokenCode, to_steps
from surprise_rerank.core.tokens.members import Members, offsets_of
from surprise_rerank.errors import DataError

_MAGIC, _HEADER = b"SRT3", struct.Struct("<4sBBBBHIIfI")
_CHECKED = _HEADER.size - 4  # bytes of the header before the checksum
_DTYPES: Mapping[Storage, str] = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2", "int8": "|i1"}
_OWNERS: Mapping[int, str] = {1: "|u1", 2: "<u2", 4: "<u4"}


def pack_tokens(tokens: TokenBatch) -> list[bytes]:
    """One byte string for each text."""
    # Own memberships of a code follow from it, and their half precision would end at 65,504.
    own_memberships = None if tokens.code is not None else tokens.own
    factors = [tokens.scales, tokens.norms] + ([] if own_memberships is None else [own_memberships])
    number, (of_factors, of_vectors) = STORAGES.index(tokens.storage), _kinds(tokens.storage)
    directions = tokens.directions.astype(of_vectors, copy=False)
    largest = tokens.largest_norms() if tokens.code is not None else np.ones(len(tokens), np.float32)
    packed = []
    for i in range(len(tokens)):
        rows = slice(int(tokens.offsets[i]), int(tokens.offsets[i + 1]))
        count = rows.stop - rows.start
        own = np.stack([row[rows] for row in factors])
        own[1] /= largest[i]
        owners = None if tokens.members is None else tokens.members.text(i)
        size = 0 if owners is None else 1 if count <= 1 << 8 else 2 if count <= 1 << 16 else 4
        body = own.astype(of_factors).tobytes()
        if tokens.centers is not None:
            steps, step = to_steps(tokens.centers[i : i + 1])
            body += step.astype("<f4").tobytes() + steps.tobytes()
        if owners is not None:
            body += owners.astype(_OWNERS[size]).tobytes()
        body += directions[rows].tobytes()
        fields = (_MAGIC, number, len(factors), size, 0, tokens.dimension, count)
        header = _HEADER.pack(*fields, 0 if owners is None else len(owners), largest[i], 0)[:_CHECKED]
        packed.append(header + struct.pack("<I", zlib.crc32(body, zlib.crc32(header))) + body)
    return packed


def _kinds(storage: Storage) -> tuple[str, str]:
    """The numbers of factors and of vectors."""
    return ("<f2", "|u1") if storage in BITS else ("<f4", _DTYPES[storage])


def unpack_tokens(
    packed: Sequence[bytes | bytearray],
    dimension: int | None = None,
    names: Sequence[str] | None = None,
    advice: str = "pack the text again",
) -> TokenBatch:
    """The batch that `pack_tokens` wrote.

    Args:
        packed: n byte strings.
        dimension: d of the token vectors; the first one's by default.
        names: of the texts, for errors.
        advice: what mends them, for errors.

    Raises:
        DataError: if a string is not what `pack_tokens` writes, was changed since, is of another dimension,
            or of another storage than the first.
    """
    try:
        return _unpacked(packed, dimension, names or [str(i) for i in range(len(packed))])
    except DataError as error:
        raise DataError(f"{error}; {advice}") from error


def _unpacked(packed: Sequence[bytes | bytearray], dimension: int | None, names: Sequence[str]) -> TokenBatch:
    headers = [_header(data, name) for data, name in zip(packed, names, strict=True)]
    if not headers:
        return TokenBatch.from_arrays([], dimension or 0).stored("int8")
    layout = headers[0].layout
    expected = layout.dimension if dimension is None else dimension
    for header, name in zip(headers, names, strict=True):
        own = header.layout
        if own.dimension != expected:
            raise DataError(f"packed tokens {name} have dimension {own.dimension}, expected {expected}")
        if own != layout:
            raise DataError(f"packed tokens {name} are {own}, those of {names[0]} {layout}")
    return _Texts(packed, headers, names).batch()


class _Layout(NamedTuple):
    """What packed texts that come together have in common."""

    storage: Storage
    factors: int
    dimension: int
    merged: bool

    def __str__(self) -> str:
        merged = ", merged" if self.merged else ""
        return f"{self.storage} with {self.factors} factors a vector{merged}"


class _Header(NamedTuple):
    """What the header of a packed text says."""

    layout: _Layout
    owner_bytes: int
    vectors: int
    tokens: int
    largest: float


_layout = cache(_Layout)  # of few arguments, asked for once for every text


def _header(data: bytes | bytearray, name: str) -> _Header:
    if data[:4] != _MAGIC or len(data) < _HEADER.size:
        raise _damaged(name, f"{len(data)} bytes that do not begin as they should")
    fields = _HEADER.unpack_from(data)
    _, storage, factors, owner_bytes, _, dimension, vectors, tokens, largest, checksum = fields
    if zlib.crc32(data[_HEADER.size :], zlib.crc32(data[:_CHECKED])) != checksum:
        raise _damaged(name, "their checksum is another one")
    if not (storage < len(STORAGES) and factors in (2, 3) and owner_bytes in (0, *_OWNERS)):
        raise _damaged(name, "their header says what no version writes")
    layout = _layout(STORAGES[storage], factors, dimension, owner_bytes > 0)
    return _Header(layout, owner_bytes, vectors, tokens, largest)


class _Texts:
    """Packed texts of one layout, each part of which is read from all at once."""

    def __init__(
        self, packed: Sequence[bytes | bytearray], headers: Sequence[_Header], names: Sequence[str]
    ) -> None:
        self._packed, self._headers, self._names = packed, headers, names
        self._layout = layout = headers[0].layout
        bits = BITS.get(layout.storage)
        self._code = code = None if bits is None else TokenCode(bits, layout.dimension)
        self._factor, self._vector = _kinds(layout.storage)
        self._width = layout.dimension if code is None else code.width
        owner_bytes, self._counts, self._tokens = np.array(
            [(h.owner_bytes, h.vectors, h.tokens) for h in headers], np.int64
        ).T
        self._row = self._counts * np.dtype(self._factor).itemsize
        self._mean_at = _HEADER.size + layout.factors * self._row
        self._owners_at = self._mean_at + (0 if code is None else 4 + layout.dimension)
        self._vectors_at = self._owners_at + self._tokens * owner_bytes
        self._end = self._vectors_at + self._counts * self._width * np.dtype(self._vector).itemsize
        sizes = np.array([len(data) for data in packed])
        for i in np.flatnonzero(sizes != self._end)[:1].tolist():
            raise _damaged(names[i], f"{sizes[i]} bytes are not as many as their header says")

    def batch(self) -> TokenBatch:
        scales, norms, *own = self._factors()
        return TokenBatch(
            self._joined(self._vectors_at, self._end, self._vector).reshape(-1, self._width),
            scales,
            norms,
            offsets_of(self._counts),
            own[0] if own else None,
            self._members() if self._layout.merged else None,
            self._code,
            None if self._code is None else self._means(),
        )

    def _joined(self, begin: IntArray, end: IntArray, kind: str) -> npt.NDArray[Any]:
        """The bytes from one place to before another of every text, in a row, as numbers of a kind."""
        places = zip(self._packed, begin.tolist(), end.tolist(), strict=True)
        return np.frombuffer(bytearray().join([data[a:b] for data, a, b in places]), kind)

    def _factors(self) -> list[Float32Array]:
        """(total,) each: scales, norms, and own memberships where they are stored."""
        begins = [_HEADER.size + row * self._row for row in range(self._layout.factors)]
        found = [self._joined(begin, begin + self._row, self._factor).astype(np.float32) for begin in begins]
        if self._code is not None:
            largest = np.array([header.largest for header in self._headers], np.float32)
            found[1] *= np.repeat(largest, self._counts)
        return found

    def _means(self) -> Float32Array:
        """(n, d) means of residuals."""
        steps_at = self._mean_at + 4
        steps = self._joined(steps_at, self._owners_at, "|i1").reshape(-1, self._layout.dimension)
        means: Float32Array = steps * self._joined(self._mean_at, steps_at, "<f4")[:, None]
        return means

    def _members(self) -> Members:
        owners = np.concatenate(
            [
                np.frombuffer(data, _OWNERS[header.owner_bytes], header.tokens, at)
                for data, header, at in zip(self._packed, self._headers, self._owners_at, strict=True)
            ]
        )
        foreign = np.flatnonzero(owners >= np.repeat(self._counts, self._tokens))
        offsets = offsets_of(self._tokens)
        for i in np.searchsorted(offsets, foreign[:1], side="right").tolist():
            raise _damaged(self._names[i - 1], "tokens belong to vectors that are not there")
        return Members(owners, offsets)


def _damaged(name: str, why: str) -> DataError:
    return DataError(
        f"packed tokens {name}: {why}; they were damaged, or not written by this version of surprise-rerank"
    )
