"""A small real encoder for tests of storage: every word has a fixed random vector, a text their mean."""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from surprise_rerank._documents import encodable
from surprise_rerank.core.arrays import IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoded, Kind


class WordEncoder:
    """Deterministic, of any dimension, and fast; `name` and `fingerprint` can be set apart.

    With a window it reads that many words of a text, as a model does.
    """

    def __init__(
        self, dimension: int = 16, name: str = "words", fingerprint: str = "0", window: int | None = None
    ) -> None:
        self.window = window
        self.dimension = dimension
        self.name = name
        self.fingerprint = fingerprint
        self.encoded_texts: list[str] = []

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        self.encoded_texts.extend(texts)
        tokens = [self._words(text) for text in texts]
        if on_progress is not None:
            on_progress(len(texts))
        dense = np.array([t.sum(axis=0) for t in tokens]).reshape(len(texts), self.dimension)
        return Encoded(unit_rows(dense), TokenBatch.from_arrays(tokens, self.dimension))

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        return [text.lower().split()[: self.window] for text in texts]

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        spans_of_texts = [[word.span() for word in re.finditer(r"\S+", encodable(text))] for text in texts]
        return [np.array(spans, dtype=np.int64).reshape(-1, 2) for spans in spans_of_texts]

    def _words(self, text: str) -> np.ndarray:
        vectors = [_vector(word, self.dimension) for word in text.lower().split()[: self.window]]
        return np.array(vectors, dtype=np.float32).reshape(len(vectors), self.dimension)


@cache
def _vector(word: str, dimension: int) -> np.ndarray:
    """The vector of a word, the same in every process."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).normal(size=dimension)


class Acting(WordEncoder):
    """Does something once, before it encodes more than so many texts."""

    def __init__(self, act: Callable[[], object] | None = None, after: int = 0, **more: Any) -> None:
        super().__init__(**more)
        self.act, self.after = act, after

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        if self.act is not None and len(self.encoded_texts) >= self.after:
            act, self.act = self.act, None
            act()
        return super().encode(texts, kind, on_progress)


def interrupted(after: int, window: int | None = None) -> Acting:
    """An encoder that is interrupted when it has encoded so many texts."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    return Acting(interrupt, after, window=window)
