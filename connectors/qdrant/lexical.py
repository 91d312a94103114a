"""BM25 as sparse vectors: Qdrant's own implementation, computed in this process.

A document's value for a term is its saturated frequency, tf (k + 1) / (tf + k (1 - b + b length / average)),
a query's is 1. The inverse document frequency, ln(1 + (N - n + .5) / (n + .5)), is what Qdrant's IDF modifier
would multiply with when it searches. What the modifier counts changes while Qdrant works on its segments, so
a query brings the same weights from an index's own `TermStatistics`. The same vectors work in Edge, in local
mode and on a server, and need neither Java nor a server with an inference service. Terms are stemmed words
without stop words, identified by a hash of 31 bits.

For a text without a term store no vector: Edge counts a point with an empty one out of N, local mode in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.errors import DataError, near_or_all

if TYPE_CHECKING:
    import qdrant_edge

# Those that Qdrant has stop words for; it takes their codes, too, but one name keeps settings comparable.
LANGUAGES = (
    "arabic", "azerbaijani", "basque", "bengali", "catalan", "chinese", "danish", "dutch", "english",
    "finnish", "french", "german", "greek", "hebrew", "hinglish", "hungarian", "indonesian", "italian",
    "japanese", "kazakh", "nepali", "norwegian", "portuguese", "romanian", "russian", "slovene", "spanish",
    "swedish", "tajik", "turkish",
)  # fmt: skip


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

    Raises:
        DataError: if a number is out of its range, or the language is not known.
    """

    # Chosen by nDCG@10 on scifact's train and nfcorpus' dev questions: .703 and .298, where Qdrant's 1.2, .75
    # and 256 give .699 and .295. Documents have 151 and 166 terms on average. Only k (1 - b) and
    # k b / average_length decide a ranking: for all averages from 64 to 512 some k and b do as well, to .001.
    k: float = 1.2  # how slowly a term's frequency saturates; 0 counts each term once
    b: float = 0.5  # how much longer documents are scaled down, from 0, not at all, to 1, in full
    average_length: float = 150.0  # of a document, in terms
    language: str = "english"  # of stemmer and stop words; one of `LANGUAGES`

    def __post_init__(self) -> None:
        _require("k", self.k, 0 <= _number(self.k) < math.inf, "a number from 0 on, such as 1.2")
        _require("b", self.b, 0 <= _number(self.b) <= 1, "a number between 0 and 1")
        length = self.average_length
        _require("average_length", length, 0 < _number(length) < math.inf, "a number above 0")
        known = f"another; {near_or_all(self.language, LANGUAGES)}"
        _require("language", self.language, self.language in LANGUAGES, known)

    def documents(self, texts: Iterable[str]) -> list[SparseVector]:
        """Vectors of documents; empty ones for texts without a term."""
        embed = _model(self).embed_document
        return [_sparse(embed(_text(text))) for text in texts]

    def query(self, text: str) -> SparseVector:
        """Vector of a query: 1 for each of its terms, however often it occurs."""
        return _sparse(_model(self).embed_query(_text(text)))


def term_hashes(settings: Bm25) -> Callable[[str], list[int]]:
    """A function from a word to the hashes of its terms; none for a stop word."""
    model = _model(settings)
    return lambda word: list(model.embed_query(_text(word)).indices)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _require(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise DataError(f"BM25's {name} is {value!r}; give {expected}")


def _model(settings: Bm25) -> qdrant_edge.Bm25:
    import qdrant_edge  # 12 MB, which a look at settings does without

    config = qdrant_edge.Bm25Config(
        k=settings.k, b=settings.b, avg_len=settings.average_length, language=settings.language
    )
    return qdrant_edge.Bm25(config)


def _text(text: str) -> str:
    """Without lone surrogates, which Rust has no strings with."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _sparse(vector: qdrant_edge.SparseVector) -> SparseVector:
    return SparseVector(np.array(vector.indices, dtype=np.uint32), np.array(vector.values, dtype=np.float32))
