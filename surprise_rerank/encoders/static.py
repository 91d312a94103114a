"""Static word vectors as an encoder: a word has the same vector in every context."""

from __future__ import annotations

import functools
import hashlib
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from surprise_rerank.core.arrays import IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import encodable
from surprise_rerank.encoders.base import Encoded, Kind, PortableEncoder, Progress
from surprise_rerank.encoders.word_vectors import WordVectors

Tokenize: TypeAlias = Callable[[str], list[str]]

# Where tokenizers differ: case, contractions, hyphens, numbers, marks, punctuation, symbols, scripts.
_PROBE = (
    "Don't stop: the U.S.'s \u201cnaïve\u201d co-operation \u2013 3.5% of 1,000 A_B\u2019s! #tag @me e\u0301 "
    "हिन्दी 日本語 \U0001f600 and the well-known (of) it?"
)


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
        return [[self.vectors.words[row] for row in own if row >= 0] for own in rows]

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
        found = []
        for word in words:
            start = plain.find(word.lower(), end)
            end = start + len(word)
            found.append((start, end))
            if start < 0:
                break
        else:
            if len(plain) == len(text) and found:
                spans = np.array(found, dtype=np.int64)
        return spans[self.vectors.lookup(words) >= 0]
