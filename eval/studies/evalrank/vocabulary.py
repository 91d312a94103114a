"""Word vectors as EvalRank processes them: centred over the vocabulary, with one vector for unknown words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, unit_rows
from surprise_rerank.eval.studies.sentence_models import WHITENED, SentenceModel, Whitening
from surprise_rerank.similarities.definitions import Removal

# How many principal components post-processing takes off.
_COMPONENTS = 2
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class ProcessedWords:
    """The vectors of n words.

    Attributes:
        plain: (n, d) float32, centred; zeros for unknown words, the mean of a centred vocabulary.
        unit: (n, d) float32, centred and scaled to length 1; for unknown words, the mean of these over the
            vocabulary, which is shorter.
        known: (n,) whether the vocabulary has the word.
    """

    plain: Float32Array
    unit: Float32Array
    known: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of a model, and the rows of n wanted words among them.

    Attributes:
        vectors: (v, d), as the model has them; of an encoder, which has one for every word, those of the n
            words.
        rows: (n,) of the words; -1 for those that are unknown.
    """

    vectors: FloatArray
    rows: IntArray

    @classmethod
    def of(cls, model: SentenceModel, words: Sequence[str], terminal: Terminal) -> Vocabulary:
        """A model's vocabulary.

        Args:
            model: word vectors in lower case, or an encoder.
            words: n words; word vectors are looked up in lower case.
            terminal: for progress.
        """
        vectors = model.word_vectors
        if vectors is not None:
            return cls(vectors.vectors, vectors.lookup(word.lower() for word in words))
        with terminal.bar(f"encoding words with {model.name}", len(words), "words") as advance:
            return cls(model.vectors(words, advance), np.arange(len(words)))

    def processed(self, variant: str = "") -> ProcessedWords:
        """The vectors of the n words.

        Args:
            variant: `POST_PROCESSED`: the first two principal components of the vocabulary are removed, too
                (Mu and Viswanath, 'All-but-the-Top', ICLR 2018); `WHITENED`: it is whitened.
        """
        taken = _fitted(self.vectors, variant)
        total = sum(unit_rows(taken(block)).sum(axis=0, dtype=np.float64) for block in _blocks(self.vectors))
        is_known = self.rows >= 0
        processed = taken(self.vectors[self.rows[is_known]])
        plain = np.zeros((len(self.rows), processed.shape[1]), dtype=np.float32)
        plain[is_known] = processed
        unit = unit_rows(plain)
        unit[~is_known] = total / len(self.vectors)
        return ProcessedWords(plain, unit, is_known)


def _fitted(vectors: FloatArray, variant: str) -> Removal | Whitening:
    """What takes the mean of a vocabulary off, and more by the variant; in blocks, for large ones."""
    centre = sum(block.sum(axis=0, dtype=np.float64) for block in _blocks(vectors)) / len(vectors)
    if not variant:
        return Removal(centre, np.zeros((0, vectors.shape[1])))
    scatter = sum((block - centre).T @ (block - centre) for block in _blocks(vectors))
    if variant == WHITENED:
        return Whitening.of(centre, scatter / len(vectors))
    return Removal(centre, np.linalg.eigh(scatter).eigenvectors[:, ::-1][:, :_COMPONENTS].T)


def _blocks(vectors: FloatArray) -> Iterator[FloatArray]:
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        yield vectors[start : start + _ROWS_AT_ONCE]
