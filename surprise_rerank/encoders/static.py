"""Static word vectors as an encoder: a word has the same vector in every context."""

from __future__ import annotations

import functools
import hashlib
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank.core.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import encodable
from surprise_rerank.encoders.base import Encoded, Kind, Progress, even_spans
from surprise_rerank.encoders.word_vectors import WordVectors
from surprise_rerank.errors import DataError

Unknown: TypeAlias = Literal["skip", "zero", "mean"]
Tokenize: TypeAlias = Callable[[str], list[str]]
_WordSpans: TypeAlias = list[tuple[str, int, int]]

# Texts between two calls of `on_progress`.
_BATCH = 256
_STRETCH = re.compile(r"\S+")
# Where tokenizers differ: case, contractions, hyphens, numbers, marks, punctuation, symbols, scripts.
_PROBE = (
    "Don't stop: the U.S.'s \u201cnaïve\u201d co-operation \u2013 3.5% of 1,000 A_B\u2019s! #tag @me e\u0301 "
    "हिन्दी 日本語 \U0001f600 and the well-known (of) it?"
)


def default_tokenize(text: str) -> list[str]:
    """Words and numbers in lower case, split as the vocabularies of GloVe were.

    A word is a run of letters, digits and combining marks; a number keeps its inner points and commas. An
    English contraction is split into its parts, as in the Penn Treebank. Hyphens separate words; other
    punctuation, symbols and emoji are dropped. Vocabularies with capitals, compounds or emoji need another
    tokenizer.

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


class StaticEncoder:
    """Word vectors as an encoder: the tokens of a text are its words' vectors, its vector their mean.

    Tokens keep the lengths that the vectors have, for DynaMax on raw dot products. Texts are never cut, and
    questions and documents are treated alike.

    A word is looked up as it is, then in lower case. What is still unknown is

    - `skip`: omitted, as if it were not in the text;
    - `zero`: a token of length 0: it counts as a word of the text, but adds nothing to the dense vector;
    - `mean`: the mean of all vectors of the vocabulary, for a word of no special meaning.

    Args:
        vectors: of the words.
        unknown: what to do with words that have no vector.
        tokenize: splits a text into words.

    Raises:
        DataError: if `unknown` is something else.
    """

    def __init__(
        self, vectors: WordVectors, *, unknown: Unknown = "skip", tokenize: Tokenize = default_tokenize
    ) -> None:
        if unknown not in get_args(Unknown):
            raise DataError(f"unknown={unknown!r}: choose one of {', '.join(get_args(Unknown))}")
        self.name = vectors.name
        self.dimension = self.token_dimension = vectors.dimension
        self.vectors = vectors
        self.unknown = unknown
        self._tokenize = tokenize
        self._substitute = vectors.mean() if unknown == "mean" else np.zeros(self.dimension, np.float32)

    @property
    def window(self) -> None:
        """None: texts are never cut."""
        return

    @property
    def fingerprint(self) -> str:
        """16 digits that differ where the vectors, the policy for unknown words or the tokenizer differ.

        Each of them changes what an index stores. A tokenizer is identified by the words of one sample text.
        """
        sample = "\0".join(self._tokenize(_PROBE))
        parts = "\n".join([self.vectors.fingerprint, self.unknown, sample])
        return hashlib.sha256(parts.encode(errors="surrogatepass")).hexdigest()[:16]

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Word vectors, as long as they are, and their mean at length 1.

        The dense vector of a text without any known word is zero, unless unknown words have the mean.

        Args:
            texts: any strings; empty ones and lone surrogates included.
            kind: makes no difference.
            on_progress: called with the number of texts of every finished batch.
        """
        tokens: list[Float32Array] = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            tokens += [self._vectors_of(self._read(text)[1]) for text in batch]
            if on_progress is not None:
                on_progress(len(batch))
        # The sum has the direction of the mean.
        sums = np.zeros((len(texts), self.dimension))
        for i, vectors in enumerate(tokens):
            sums[i] = vectors.sum(axis=0, dtype=np.float64)
        return Encoded(unit_rows(sums), TokenBatch.from_arrays(tokens, self.dimension))

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The words whose vectors `encode` gives: in the vocabulary's spelling, where they are known.

        Args:
            texts: n strings.
            kind: makes no difference.
        """
        return [
            [
                self.vectors.words[row] if row >= 0 else word
                for word, row in zip(*self._read(text), strict=True)
            ]
            for text in texts
        ]

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the words that have a token lie: (n, 2) first characters and ends.

        Words are looked for in their stretch without white space; where the tokenizer changes a spelling,
        each has all of that stretch. Where a tokenizer's words depend on more than that stretch (compounds of
        several words, say), the words of a text share it evenly.

        Args:
            texts: any strings; the characters are those of `encodable(text)`.
            kind: makes no difference.
        """
        word_spans = functools.cache(self._word_spans)  # most stretches occur in many texts
        return [self._spans(encodable(text), word_spans) for text in texts]

    def _spans(self, text: str, word_spans: Callable[[str], _WordSpans]) -> IntArray:
        words = self._tokenize(text)
        found: list[str] = []
        pairs: list[tuple[int, int]] = []
        for stretch in _STRETCH.finditer(text):
            shift = stretch.start()
            for word, start, end in word_spans(stretch[0]):
                found.append(word)
                pairs.append((start + shift, end + shift))
        spans = even_spans(len(text), len(words))
        if found == words:
            spans = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return spans if self.unknown != "skip" else spans[self.vectors.lookup(words) >= 0]

    def _word_spans(self, stretch: str) -> _WordSpans:
        """The words of a stretch without white space, and where they lie in it."""
        words = self._tokenize(stretch)
        plain = stretch.lower().replace("\u2019", "'")
        word_spans: _WordSpans = []
        end = 0
        for word in words:
            start = plain.find(word.lower(), end)
            if start < 0 or len(plain) != len(stretch):
                return [(word, 0, len(stretch)) for word in words]
            end = start + len(word)
            word_spans.append((word, start, end))
        return word_spans

    def _read(self, text: str) -> tuple[list[str], IntArray]:
        """The words of a text that have a token, and their rows; -1 is unknown."""
        words = self._tokenize(encodable(text))
        rows = self.vectors.lookup(words)
        if self.unknown == "skip":
            words = [word for word, row in zip(words, rows, strict=True) if row >= 0]
            rows = rows[rows >= 0]
        return words, rows

    def _vectors_of(self, rows: IntArray) -> Float32Array:
        """(n, d) vectors of n rows."""
        vectors = self.vectors.vectors[rows].astype(np.float32)
        vectors[rows < 0] = self._substitute
        return vectors
