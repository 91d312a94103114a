"""Files of word vectors, read in blocks: GloVe text, word2vec text and binary, fastText .vec; .gz of each.

A text file has one word a line, then its d numbers, all apart by spaces; word2vec and fastText put a line
`count dimension` before them. A word may hold spaces (GloVe 840B has such): the last d fields are the vector.
A binary file has that line, then count records: the word, a space, and d little-endian float32; word2vec
writes a line break between the records, others don't.

Words that are not UTF-8 get U+FFFD in place of what cannot be read.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeAlias, cast

import numpy as np

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.errors import DataError, ModelError

Block: TypeAlias = tuple[list[str], Float32Array]
Lines: TypeAlias = list[tuple[int, bytes]]  # with their numbers, counted from 1

SUFFIXES = frozenset({".txt", ".vec", ".bin", ".gz"})
# The largest in the packed form of tokens.
MAX_DIMENSION = 65_535

_BLOCK_BYTES = 1 << 22
_MAX_WORD_BYTES = 1 << 16
_HEADER = re.compile(rb"(\d{1,15})\s+(\d{1,15})\s*")
_FASTTEXT_MAGIC = (793_712_314).to_bytes(4, "little")
_AGAIN = "write or download the file again"


def read_blocks(path: Path) -> Iterator[Block]:
    """Words and vectors, (n, d) float32 each block, in the file's order.

    A file whose name ends in .bin or .bin.gz is read as word2vec's binary form, any other one as text. Memory
    is bounded by the block, not by the file.

    Raises:
        ModelError: if the file cannot be read.
        DataError: if it is damaged or not of that form; names the line, or the byte of the unpacked file.
    """
    read = _read_binary if path.name.lower().removesuffix(".gz").endswith(".bin") else _read_text
    try:
        with _opened(path) as file:
            yield from read(path, file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a whole .gz file: {error}; {_AGAIN}") from error
    except OSError as error:
        raise ModelError(f"cannot read the word vectors {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if path.suffix.lower() == ".gz":
            with gzip.open(file) as unpacked:
                yield cast("IO[bytes]", unpacked)
        else:
            yield file


def _checked_dimension(path: Path, dimension: int) -> int:
    if not 1 <= dimension <= MAX_DIMENSION:
        raise DataError(f"{path}: dimension {dimension}, expected 1 to {MAX_DIMENSION}; {_AGAIN}")
    return dimension


# Text


def _read_text(path: Path, file: IO[bytes]) -> Iterator[Block]:
    blocks = _line_blocks(path, file)
    head = next(blocks, [])
    if not head:
        raise DataError(f"{path} is empty, expected a word and its numbers in every line")
    count, dimension = _layout(path, head)
    found = 0
    for lines in itertools.chain([head if count is None else head[1:]], blocks):
        found += len(lines)
        if lines:
            yield _parse(path, lines, dimension)
    if count is not None and count != found:
        raise DataError(f"{path}, line {head[0][0]}: promises {count} words, the file has {found}; {_AGAIN}")


def _line_blocks(path: Path, file: IO[bytes]) -> Iterator[Lines]:
    """Lines that are not blank, some megabytes at a time; the first block is empty only if all are."""
    number, rest = 1, b""
    while data := file.read(_BLOCK_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > 2 * _BLOCK_BYTES:
            raise DataError(f"{path}, line {number + len(lines)}: too long to be a word and its numbers")
        block = [(n, line.strip()) for n, line in enumerate(lines, number) if line.strip()]
        number += len(lines)
        if block:
            yield block
    if rest.strip():
        yield [(number, rest.strip())]


def _layout(path: Path, head: Lines) -> tuple[int | None, int]:
    """Number of words, where the file has it, and dimension."""
    header = _HEADER.fullmatch(head[0][1])
    if header:
        count, dimension = int(header[1]), _checked_dimension(path, int(header[2]))
        first = head[1:2]
    else:
        count, dimension = None, _trailing_numbers(head[0][1])
        first = head[:2]
        if dimension < 1:
            raise DataError(f"{path}, line {head[0][0]}: no numbers after the word; is it a text of vectors?")
    # More numbers than expected would pass as part of a word, so the first lines must have just as many.
    for number, line in first:
        if (found := _trailing_numbers(line)) != dimension:
            raise DataError(
                f"{path}, line {number}: {found} numbers, expected {dimension} as line {head[0][0]} has it; "
                f"{_AGAIN}"
            )
    return count, _checked_dimension(path, dimension)


def _trailing_numbers(line: bytes) -> int:
    fields = line.split()[1:]
    return sum(1 for _ in itertools.takewhile(_is_number, reversed(fields)))


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field  # which Python reads, and nobody else


def _parse(path: Path, lines: Lines, dimension: int) -> Block:
    words, numbers = [], []
    for number, line in lines:
        word, _, rest = line.partition(b" ")
        if rest.count(b" ") != dimension - 1:  # a word with spaces, other white space, or an error
            word, *fields = _fields(path, number, line, dimension)
            rest = b" ".join(fields)
        words.append(word.decode(errors="replace"))
        numbers.append(rest.decode("latin-1"))
    try:
        vectors = np.loadtxt(numbers, dtype=np.float32, delimiter=" ", comments=None, ndmin=2)
    except ValueError:
        words, vectors = _parse_slowly(path, lines, dimension)
    for row in np.flatnonzero(~np.isfinite(vectors).all(axis=1)):
        raise DataError(
            f"{path}, line {lines[row][0]}: a NaN, infinite or too large number; remove the line or mend it"
        )
    return words, vectors


def _parse_slowly(path: Path, lines: Lines, dimension: int) -> Block:
    """The same for lines with white space of any kind; an error names the first field that is no number."""
    words = []
    vectors = np.empty((len(lines), dimension), np.float64)
    for row, (number, line) in enumerate(lines):
        word, *fields = _fields(path, number, line, dimension)
        words.append(word.decode(errors="replace"))
        for column, field in enumerate(fields):
            if not _is_number(field):
                shown = field[:30].decode(errors="replace")
                raise DataError(
                    f"{path}, line {number}: {shown!r} is not a number; remove the line or mend it"
                )
            vectors[row, column] = float(field)
    with np.errstate(over="ignore"):
        return words, vectors.astype(np.float32)


def _fields(path: Path, number: int, line: bytes, dimension: int) -> list[bytes]:
    """The word and its d numbers."""
    fields = line.rsplit(None, dimension)
    if len(fields) != dimension + 1:
        raise DataError(f"{path}, line {number}: {len(fields) - 1} numbers, expected {dimension}; {_AGAIN}")
    return fields


# Binary


def _read_binary(path: Path, file: IO[bytes]) -> Iterator[Block]:
    buffer = file.read(_BLOCK_BYTES)
    if buffer.startswith(_FASTTEXT_MAGIC):
        raise DataError(
            f"{path} is a fastText model, not word vectors; give the .vec file that belongs to it"
        )
    end = buffer.find(b"\n")
    header = _HEADER.fullmatch(buffer[: min(end, 100)]) if end >= 0 else None
    if header is None:
        raise DataError(f"{path}, byte 0: no line `count dimension`, so it is not word2vec's binary form")
    count, dimension = int(header[1]), _checked_dimension(path, int(header[2]))
    position, done = end + 1, 0  # position: where the buffer starts in the file
    buffer = buffer[position:]
    while done < count:
        words, vectors, used = _records(path, buffer, position, dimension, count - done)
        if words:
            yield words, vectors
        buffer, position, done = buffer[used:], position + used, done + len(words)
        if done < count:
            buffer += _more(path, file, position, len(buffer), f"word {done + 1} of {count}")
    if (buffer + file.read(1)).strip():
        raise DataError(f"{path}, byte {position}: more data after all {count} words; {_AGAIN}")


def _more(path: Path, file: IO[bytes], position: int, held: int, what: str) -> bytes:
    data = file.read(_BLOCK_BYTES)
    if not data:
        raise DataError(f"{path} ends at byte {position + held}, in {what}: it is cut short; {_AGAIN}")
    return data


def _records(
    path: Path, buffer: bytes, position: int, dimension: int, limit: int
) -> tuple[list[str], Float32Array, int]:
    """Up to `limit` whole records at the start of the buffer, and how many bytes they take."""
    words: list[str] = []
    parts: list[bytes] = []
    starts: list[int] = []
    used = 0
    while len(words) < limit:
        space = buffer.find(b" ", used, used + _MAX_WORD_BYTES)
        if space < 0 and len(buffer) - used >= _MAX_WORD_BYTES:
            raise DataError(f"{path}, byte {position + used}: no word ends here; the dimension may be wrong")
        end = space + 1 + 4 * dimension
        if space < 0 or end > len(buffer):
            break
        word = buffer[used:space].lstrip(b"\r\n")
        if b"\n" in word:
            raise DataError(f"{path}, byte {position + used}: a word with a line break; {_AGAIN}")
        words.append(word.decode(errors="replace"))
        parts.append(buffer[space + 1 : end])
        starts.append(used)
        used = end
    vectors = np.frombuffer(b"".join(parts), "<f4").reshape(-1, dimension)
    for row in np.flatnonzero(~np.isfinite(vectors).all(axis=1)):
        raise DataError(f"{path}, byte {position + starts[row]}: a NaN or infinite number; {_AGAIN}")
    return words, vectors.astype(np.float32, copy=False), used
