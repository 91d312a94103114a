"""Token vectors of one text as one byte string, for storage; little-endian.

    header    version, storage, bytes of a member, dimension, vectors, tokens, largest norm, CRC-32
    factors   (2 or 3, vectors) scales, norms, own memberships: float32; half precision for codes,
              the norms then as parts of the largest one
    mean      of a text in codes: the size of a step in float32, and (d,) steps in int8
    members   (tokens,) the vector of each token, in 1, 2 or 4 bytes; none where no tokens were merged
    vectors   (vectors, bytes of one)

The checksum is of everything else. What earlier versions wrote ("SRT2": no members, no checksum) is read too.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.tokens.batch import BITS, STORAGES, Storage, TokenBatch
from surprise_rerank.core.tokens.codes import TokenCode, to_steps
from surprise_rerank.core.tokens.members import Members, offsets_of
from surprise_rerank.errors import DataError

_MAGIC, _HEADER = b"SRT3", struct.Struct("<4sBBBBHIIfI")
_BEFORE, _HEADER_BEFORE = (
    b"SRT2",
    struct.Struct("<4sBBHI"),
)  # magic, storage, rows of factors, dimension, vectors
_CHECKED = _HEADER.size - 4  # bytes of the header before the checksum
_ADVICE = "rebuild the index, or pack the text again"
_DTYPES: Mapping[Storage, str] = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2", "int8": "|i1"}
_SIZES: Mapping[str, int] = {kind: np.dtype(kind).itemsize for kind in ("|u1", *_DTYPES.values())}
_OWNERS: Mapping[int, str] = {1: "|u1", 2: "<u2", 4: "<u4"}
_NOTHING: npt.NDArray[Any] = np.zeros(0, np.uint8)


def pack_tokens(tokens: TokenBatch) -> list[bytes]:
    """One byte string for each text."""
    factors = [tokens.scales, tokens.norms] + ([] if tokens.own is None else [tokens.own])
    code = STORAGES.index(tokens.storage)
    kinds = ("|u1", "<f2") if tokens.code is not None else (_DTYPES[tokens.storage], "<f4")
    directions = tokens.directions.astype(kinds[0], copy=False)
    largest = tokens.largest_norms() if tokens.code is not None else np.ones(len(tokens), np.float32)
    packed = []
    for i in range(len(tokens)):
        rows = slice(int(tokens.offsets[i]), int(tokens.offsets[i + 1]))
        count = rows.stop - rows.start
        own = np.stack([row[rows] for row in factors])
        own[1] /= largest[i]
        owners = None if tokens.members is None else tokens.members.text(i)
        size = 0 if owners is None else 1 if count <= 1 << 8 else 2 if count <= 1 << 16 else 4
        body = own.astype(kinds[1]).tobytes()
        if tokens.centers is not None:
            steps, step = to_steps(tokens.centers[i : i + 1])
            body += step.astype("<f4").tobytes() + steps.tobytes()
        if owners is not None:
            body += owners.astype(_OWNERS[size]).tobytes()
        body += directions[rows].tobytes()
        fields = (_MAGIC, code, len(factors), size, 0, tokens.dimension, count)
        header = _HEADER.pack(*fields, 0 if owners is None else len(owners), largest[i], 0)[:_CHECKED]
        packed.append(header + struct.pack("<I", zlib.crc32(body, zlib.crc32(header))) + body)
    return packed


def unpack_tokens(
    packed: Sequence[bytes | bytearray], dimension: int | None = None, names: Sequence[str] | None = None
) -> TokenBatch:
    """The batch that `pack_tokens` wrote.

    Args:
        packed: n byte strings.
        dimension: d of the token vectors; the first one's by default.
        names: of the texts, for errors.

    Raises:
        DataError: if a string is not what `pack_tokens` writes, was changed since, is of another dimension,
            or of another storage than the first.
    """
    names = names or [str(i) for i in range(len(packed))]
    headers = [_header(data, name) for data, name in zip(packed, names, strict=True)]
    if not headers:
        return TokenBatch.from_arrays([], dimension or 0).stored("int8")
    layout = _Layout.of(headers[0])
    expected = layout.dimension if dimension is None else dimension
    for header, name in zip(headers, names, strict=True):
        if header.dimension != expected:
            raise DataError(
                f"packed tokens {name} have dimension {header.dimension}, expected {expected}; {_ADVICE}"
            )
        if (own := _Layout.of(header)) != layout:
            raise DataError(f"packed tokens {name} are {own}, those of {names[0]} {layout}; pack them alike")
    parts = [
        layout.read(data, header, name) for data, header, name in zip(packed, headers, names, strict=True)
    ]
    factors, means, owners, vectors = zip(*parts, strict=True)
    scales, norms, *own_memberships = np.concatenate(factors, axis=1)
    return TokenBatch(
        np.concatenate(vectors),
        scales,
        norms,
        offsets_of(np.array([header.vectors for header in headers], np.int64)),
        own_memberships[0] if own_memberships else None,
        Members(np.concatenate(owners), offsets_of(np.array([header.tokens for header in headers], np.int64)))
        if layout.merged
        else None,
        layout.code,
        np.stack(means) if layout.code is not None else None,
    )


class _Header(NamedTuple):
    """What the header of a packed text says; `start` is where the factors begin."""

    magic: bytes
    storage: int
    factors: int
    owner_bytes: int
    dimension: int
    vectors: int
    tokens: int
    largest: float
    start: int


def _header(data: bytes | bytearray, name: str) -> _Header:
    magic = bytes(data[:4])
    header = {_MAGIC: _HEADER, _BEFORE: _HEADER_BEFORE}.get(magic)
    if header is None or len(data) < header.size:
        raise _damaged(name, f"{len(data)} bytes that do not begin as they should")
    fields = header.unpack_from(data)
    if magic == _MAGIC:
        _, storage, factors, owner_bytes, _, dimension, vectors, tokens, largest, checksum = fields
        if zlib.crc32(memoryview(data)[_HEADER.size :], zlib.crc32(data[:_CHECKED])) != checksum:
            raise _damaged(name, "their checksum is another one")
    else:
        (_, storage, factors, dimension, vectors), owner_bytes, tokens, largest = fields, 0, 0, 1.0
    if not (storage < len(STORAGES) and factors in (2, 3) and owner_bytes in (0, *_OWNERS)):
        raise _damaged(name, "their header says what no version writes")
    return _Header(magic, storage, factors, owner_bytes, dimension, vectors, tokens, largest, header.size)


class _Layout(NamedTuple):
    """How packed texts lie in their bytes.

    Attributes:
        storage: of the vectors.
        factors: rows of factors.
        dimension: d.
        merged: whether tokens were merged.
    """

    storage: Storage
    factors: int
    dimension: int
    merged: bool

    @classmethod
    def of(cls, header: _Header) -> _Layout:
        return cls(STORAGES[header.storage], header.factors, header.dimension, header.owner_bytes > 0)

    @property
    def code(self) -> TokenCode | None:
        bits = BITS.get(self.storage)
        return None if bits is None else TokenCode(bits, self.dimension)

    def read(
        self, data: bytes | bytearray, header: _Header, name: str
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """(factors, vectors) factors, (d,) mean, (tokens,) owners, (vectors, width) directions."""
        d, count, bits = self.dimension, header.vectors, BITS.get(self.storage)
        kind, width = ("<f4", d) if bits is None else ("<f2", -(-d * bits // 8))
        mean_at = header.start + header.factors * count * (4 if bits is None else 2)
        owners_at = mean_at + (0 if bits is None else 4 + d)
        vectors_at = owners_at + header.tokens * header.owner_bytes
        of_vectors = "|u1" if bits is not None else _DTYPES[self.storage]
        if len(data) != vectors_at + count * width * _SIZES[of_vectors]:
            raise _damaged(name, f"{len(data)} bytes are not as many as their header says")
        raw = np.frombuffer(data, kind, header.factors * count, header.start)
        factors, mean, owners = raw.reshape(header.factors, count).astype(np.float32), _NOTHING, _NOTHING
        if header.magic == _BEFORE:
            factors[:2] = factors[1::-1]  # norms came first
        if bits is not None:
            factors[1] *= np.float32(header.largest)
            step = np.frombuffer(data, "<f4", 1, mean_at)
            mean = np.frombuffer(data, np.int8, d, mean_at + 4) * step
        if header.owner_bytes:
            owners = np.frombuffer(data, _OWNERS[header.owner_bytes], header.tokens, owners_at)
            if len(owners) and owners.max() >= count:
                raise _damaged(name, "tokens belong to vectors that are not there")
        vectors = np.frombuffer(data, of_vectors, count * width, vectors_at).reshape(count, width)
        return factors, mean, owners, vectors

    def __str__(self) -> str:
        merged = ", merged" if self.merged else ""
        return f"{self.storage} with {self.factors} factors a vector{merged}"


def _damaged(name: str, why: str) -> DataError:
    return DataError(
        f"packed tokens {name}: {why}; they were damaged, or not written by this version of surprise-rerank; "
        f"{_ADVICE}"
    )
