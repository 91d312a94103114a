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
from dataclasses import dataclass
from typing import Any

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
_DTYPES: Mapping[Storage, str] = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2", "int8": "|i1"}
_OWNERS: Mapping[int, str] = {1: "|u1", 2: "<u2", 4: "<u4"}


def pack_tokens(tokens: TokenBatch) -> list[bytes]:
    """One byte string for each text."""
    factors = [tokens.scales, tokens.norms] + ([] if tokens.own is None else [tokens.own])
    code = STORAGES.index(tokens.storage)
    directions = tokens.directions.astype(_kind(tokens.storage), copy=False)
    largest = tokens.largest_norms() if tokens.code is not None else np.ones(len(tokens), np.float32)
    packed = []
    for i in range(len(tokens)):
        rows = slice(int(tokens.offsets[i]), int(tokens.offsets[i + 1]))
        count = rows.stop - rows.start
        own = np.stack([row[rows] for row in factors])
        own[1] /= largest[i]
        owners = None if tokens.members is None else tokens.members.text(i)
        size = 0 if owners is None else 1 if count <= 1 << 8 else 2 if count <= 1 << 16 else 4
        body = own.astype(_factor_kind(tokens.storage)).tobytes()
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
    texts = [_Text.of(data, names[i] if names else str(i)) for i, data in enumerate(packed)]
    first = texts[0] if texts else None
    d = dimension if dimension is not None else first.dimension if first else 0
    for text in texts:
        text.check(d, texts[0])
    storage: Storage = first.storage if first else "int8"
    code = TokenCode(BITS[storage], d) if storage in BITS else None
    kind, width = _kind(storage), code.width if code else d
    factors = [
        np.zeros((first.factors if first else 2, 0), np.float32),
        *(text.read_factors() for text in texts),
    ]
    scales, norms, *own = np.concatenate(factors, axis=1)
    directions = [np.zeros((0, width), kind), *(text.read_vectors(kind, width) for text in texts)]
    members = None
    if first and first.owner_bytes:
        owners = np.concatenate([text.read_owners() for text in texts])
        members = Members(owners, offsets_of(np.array([text.tokens for text in texts], np.int64)))
    return TokenBatch(
        np.concatenate(directions),
        scales,
        norms,
        offsets_of(np.array([text.vectors for text in texts], dtype=np.int64)),
        own[0] if own else None,
        members,
        code,
        np.stack([text.read_mean() for text in texts]) if code is not None else None,
    )


def _kind(storage: Storage) -> str:
    return _DTYPES.get(storage, "|u1")


def _factor_kind(storage: Storage) -> str:
    return "<f2" if storage in BITS else "<f4"


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """A packed text, whose header is read.

    Attributes:
        data: the whole.
        name: of the text, for errors.
        storage: of the vectors.
        factors: rows of factors.
        owner_bytes: of a member; 0 where no tokens were merged.
        dimension: d.
        vectors: how many.
        tokens: how many, where some were merged.
        largest: what norms are parts of.
        start: where the factors begin.
    """

    data: bytes | bytearray
    name: str
    storage: Storage
    factors: int
    owner_bytes: int
    dimension: int
    vectors: int
    tokens: int
    largest: float
    start: int

    @classmethod
    def of(cls, data: bytes | bytearray, name: str) -> _Text:
        magic = bytes(data[:4])
        header = {_MAGIC: _HEADER, _BEFORE: _HEADER_BEFORE}.get(magic)
        if header is None or len(data) < header.size:
            raise _damaged(name, f"{len(data)} bytes that do not begin as they should")
        fields: tuple[Any, ...] = header.unpack_from(data)
        if magic == _MAGIC:
            _, code, factors, owner_bytes, _, d, vectors, tokens, largest, checksum = fields
            view = memoryview(data)
            if zlib.crc32(view[header.size :], zlib.crc32(view[:_CHECKED])) != checksum:
                raise _damaged(name, "their checksum is another one")
        else:
            (_, code, factors, d, vectors), owner_bytes, tokens, largest = fields, 0, 0, 1.0
        if not (code < len(STORAGES) and factors in (2, 3) and owner_bytes in (0, *_OWNERS)):
            raise _damaged(name, "their header says what no version writes")
        text = cls(data, name, STORAGES[code], factors, owner_bytes, d, vectors, tokens, largest, header.size)
        if len(data) != text._vectors_at + vectors * text._vector_bytes:
            raise _damaged(name, f"{len(data)} bytes are not as many as their header says")
        return text

    def check(self, dimension: int, first: _Text) -> None:
        """Refuse what does not fit the other texts."""
        if self.dimension != dimension:
            raise DataError(
                f"packed tokens {self.name} have dimension {self.dimension}, expected {dimension}"
            )
        if (self.storage, self.factors, bool(self.owner_bytes)) != (
            first.storage,
            first.factors,
            bool(first.owner_bytes),
        ):
            raise DataError(
                f"packed tokens {self.name} are {self._described}, those of {first.name} {first._described}; "
                "pack them alike"
            )

    def read_factors(self) -> npt.NDArray[np.float32]:
        """(factors, vectors): scales, norms and own memberships."""
        raw = np.frombuffer(self.data, _factor_kind(self.storage), self.factors * self.vectors, self.start)
        rows = raw.reshape(self.factors, self.vectors).astype(np.float32)
        if bytes(self.data[:4]) == _BEFORE:
            rows[:2] = rows[1::-1]  # norms came first
        elif self.largest != 1:
            rows[1] *= np.float32(self.largest)
        return rows

    def read_owners(self) -> npt.NDArray[np.int64]:
        """(tokens,) the vector of each token."""
        owners = np.frombuffer(self.data, _OWNERS[self.owner_bytes], self.tokens, self._owners_at)
        return owners.astype(np.int64)

    def read_vectors(self, kind: str, width: int) -> npt.NDArray[Any]:
        """(vectors, width), without a copy."""
        return np.frombuffer(self.data, kind, self.vectors * width, self._vectors_at).reshape(
            self.vectors, width
        )

    def read_mean(self) -> npt.NDArray[np.float32]:
        """(d,) the rotated mean of a text in codes."""
        step = np.frombuffer(self.data, "<f4", 1, self._mean_at)
        steps = np.frombuffer(self.data, np.int8, self.dimension, self._mean_at + 4)
        mean: npt.NDArray[np.float32] = (steps * step).astype(np.float32)
        return mean

    @property
    def _mean_at(self) -> int:
        return self.start + self.factors * self.vectors * np.dtype(_factor_kind(self.storage)).itemsize

    @property
    def _owners_at(self) -> int:
        return self._mean_at + (4 + self.dimension if self.storage in BITS else 0)

    @property
    def _vectors_at(self) -> int:
        return self._owners_at + self.tokens * self.owner_bytes

    @property
    def _vector_bytes(self) -> int:
        if self.storage in BITS:
            return TokenCode(BITS[self.storage], self.dimension).width
        return self.dimension * np.dtype(_kind(self.storage)).itemsize

    @property
    def _described(self) -> str:
        merged = ", merged" if self.owner_bytes else ""
        return f"{self.storage} with {self.factors} factors a vector{merged}"


def _damaged(name: str, why: str) -> DataError:
    return DataError(
        f"packed tokens {name}: {why}; they were damaged, or not written by this version of surprise-rerank; "
        "index the text again"
    )
