"""BM25 as sparse vectors: Qdrant's own implementation, computed in this process.

A document's value for a term is its saturated frequency, tf (k + 1) / (tf + k (1 - b + b length / average)),
a query's is how often it has the term. The inverse document frequency, ln(1 + (N - n + .5) / (n + .5)), is
what Qdrant's IDF modifier would multiply with when it searches. What the modifier counts changes while Qdrant
works on its segments, so a query brings the same weights from an index's own `TermStatistics`. The same
vectors work in Edge, in local mode and on a server, and need neither Java nor a server with an inference
service.

Terms are stemmed words without stop words, identified by a hash of 31 bits. Where a script has no spaces, as
Chinese, or writes particles on to its words, as Korean, a term is two characters in a row, as Lucene's
CJKAnalyzer has it; of Chinese characters, each by itself is a term, too, since it is a word.

For a text without a term store no vector: Edge counts a point with an empty one out of N, local mode in.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import regex

from surprise_rerank import _border as border
from surprise_rerank.core._batches import in_batches
from surprise_rerank.core.arrays import Float32Array

if TYPE_CHECKING:
    import qdrant_edge

# Those that Qdrant has stop words for; it takes their codes, too, but one name keeps settings comparable.
LANGUAGES = (
    "arabic", "azerbaijani", "basque", "bengali", "catalan", "chinese", "danish", "dutch", "english",
    "finnish", "french", "german", "greek", "hebrew", "hinglish", "hungarian", "indonesian", "italian",
    "japanese", "kazakh", "nepali", "norwegian", "portuguese", "romanian", "russian", "slovene", "spanish",
    "swedish", "tajik", "turkish",
)  # fmt: skip
AUTO = "auto"  # what an index finds from its first documents; without one it is English

# Any k will do: Qdrant's value of a term without lengths, v = tf (k + 1) / (tf + k), is solved for tf.
_COUNTING = 1000.0
_JOINED = 2**16  # letters of words that are put together at a time

# Scripts without spaces between words, and Korean, which has particles at the ends of its words.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ーｰ"
_SOFT = "\u00ad\u200c\u200d"  # soft hyphens and joiners, which are inside of words and no part of them
_WITHOUT_SOFT = dict.fromkeys(map(ord, _SOFT))
_WORD = regex.compile(
    rf"([{_UNSPACED}]+)|[[\p{{Alphabetic}}\p{{N}}\p{{M}}{_SOFT}]--[{_UNSPACED}]]+", regex.VERSION1
)
# What Qdrant's tokeniser, which takes letters and digits in a row as a word, cuts in the wrong place.
_HARD = regex.compile(rf"[{_UNSPACED}\p{{M}}{_SOFT}]")
_CHARACTER = regex.compile(r"\X")
_IDEOGRAPH = regex.compile(r"\p{Han}")


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A vector of few values."""

    indices: npt.NDArray[np.uint32]  # (n,) uint32, distinct and ascending
    values: Float32Array  # (n,) float32


@dataclass(frozen=True, slots=True)
class Bm25:
    """BM25's settings; a collection records them, because documents and queries must share the language.

    The average length is fixed, so that no document changes when others are added. The defaults suit
    abstracts and passages; for texts that are much shorter or longer, give theirs.

    Attributes:
        k: how slowly a term's frequency saturates; 0 counts each term once.
        b: how much longer documents are scaled down, from 0, not at all, to 1, in full.
        average_length: terms of an average document.
        language: the language of stemmer and stop words; `AUTO`, or one of `LANGUAGES`.

    Raises:
        DataError: if a number is out of its range, or the language is not known.
    """

    # Chosen by nDCG@10 on scifact's train and nfcorpus' dev questions: .703 and .298, where Qdrant's 1.2, .75
    # and 256 give .699 and .295. Documents have 151 and 166 terms on average. Only k (1 - b) and
    # k b / average_length decide a ranking: for all averages from 64 to 512 some k and b do as well, to .001.
    k: float = 1.2
    b: float = 0.5
    average_length: float = 150.0
    language: str = AUTO

    def __post_init__(self) -> None:
        border.fields(
            self,
            k=partial(border.number, low=0),
            b=border.share,
            average_length=border.positive,
            language=partial(border.choice, names=(*LANGUAGES, AUTO)),
        )

    def documents(self, texts: Iterable[str]) -> list[SparseVector]:
        """Vectors of documents; empty ones for texts without a term."""
        words, cut = _model(self, is_cut=False), _model(self, is_cut=True)
        return [
            _sparse((cut if is_cut else words).embed_document(text))
            for text, is_cut in map(_cut_where_needed, texts)
        ]

    def query(self, text: str) -> SparseVector:
        """Vector of a query: how often each of its terms occurs, as Lucene has it; Qdrant has 1 for all."""
        ready, is_cut = _cut_where_needed(text)
        vector = _sparse(_model(replace(self, k=_COUNTING, b=0), is_cut=is_cut).embed_document(ready))
        saturated = vector.values.astype(np.float64)
        counts = (saturated * _COUNTING / (_COUNTING + 1 - saturated)).round()
        return SparseVector(vector.indices, counts.astype(np.float32))


def words(text: str) -> Iterator[tuple[int, int]]:
    """Where each word of a text starts and ends, before stemming and stop words.

    A run of a script without spaces gives its pairs of characters, which overlap, and its ideographs.
    """
    for match in _WORD.finditer(text):
        start, end = match.span()
        if match[1] is None:
            yield start, end
            continue
        edges = [character.start() for character in _CHARACTER.finditer(text, start, end)] + [end]
        if len(edges) == 2:
            yield start, end
        for i, edge in enumerate(edges[:-1]):
            if len(edges) > 2 and _IDEOGRAPH.match(text, edge):
                yield edge, edges[i + 1]
            if i + 2 < len(edges):
                yield edge, edges[i + 2]


def term_hashes(settings: Bm25) -> Callable[[str], list[int]]:
    """A function from a word, as `words` cuts it, to the hashes of its terms; none for a stop word."""
    model = _model(settings, is_cut=True)
    return lambda word: list(model.embed_query(_plain(word)).indices)


def _cut_where_needed(text: str) -> tuple[str, bool]:
    """A text for Qdrant's tokenisers, and whether it is cut into words already, with spaces between."""
    plain = unicodedata.normalize("NFKC", _text(text))
    if not _HARD.search(plain):
        return plain, False
    cut = (plain[start:end] for start, end in words(plain))
    # A join keeps all words at once, which of a text of 30 MB are 300 MB.
    return _plain(" ".join(map(" ".join, in_batches(cut, len, _JOINED)))), True


def _plain(text: str) -> str:
    """A text in the usual one of equal ways to write a character, without what is no part of a word."""
    return unicodedata.normalize("NFKC", _text(text)).translate(_WITHOUT_SOFT)


@lru_cache(maxsize=64)
def _model(settings: Bm25, *, is_cut: bool) -> qdrant_edge.Bm25:
    """Qdrant's BM25, for texts with a space between every two words or for others."""
    import qdrant_edge  # 12 MB, which a look at settings does without

    tokenizers = qdrant_edge.TokenizerType
    config = qdrant_edge.Bm25Config(
        k=settings.k,
        b=settings.b,
        avg_len=settings.average_length,
        language="english" if settings.language == AUTO else settings.language,
        tokenizer=tokenizers.Whitespace if is_cut else tokenizers.Word,
    )
    return qdrant_edge.Bm25(config)


def _text(text: str) -> str:
    """Without lone surrogates, which Rust has no strings with."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _sparse(vector: qdrant_edge.SparseVector) -> SparseVector:
    return SparseVector(np.array(vector.indices, dtype=np.uint32), np.array(vector.values, dtype=np.float32))
