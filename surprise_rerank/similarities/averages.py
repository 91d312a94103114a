"""Cosines of averaged token vectors: plain, weighted by SIF or IDF, and with principal components removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float64Array, FloatArray
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import Bag, Input, Texts, as_float64, same_dimension
from surprise_rerank.similarities.word_weights import WordWeights

# The mean of vectors that cancel has at most this length, relative to theirs, because of rounding.
_CANCELLED = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """The part that is removed from vectors first: v -> (v - c) - sum over axes u of <v - c, u> u.

    Attributes:
        centre: (d,) c; zeros where nothing is subtracted.
        axes: (k, d) unit vectors at right angles.
    """

    centre: Float64Array
    axes: Float64Array

    @classmethod
    def of_sentences(cls, sentences: FloatArray, size: int = 1) -> Removal:
        """The first principal components of sentence vectors, not centred.

        (Arora et al., 'A Simple but Tough-to-Beat Baseline for Sentence Embeddings', ICLR 2017: the
        first right singular vector of the matrix of a corpus' SIF vectors.)

        Args:
            sentences: (n, d), at least one that is not zero.
            size: how many components.

        Raises:
            DataError: if there is nothing to fit on, or values are NaN or infinite.
        """
        rows = _some(sentences, "sentence vectors")
        return cls(np.zeros(rows.shape[1]), _components(rows, size))

    @classmethod
    def of_words(cls, vectors: FloatArray, size: int | None = None) -> Removal:
        """The mean and the first principal components of word vectors: all but the top.

        (Mu and Viswanath, 'All-but-the-Top: Simple and Effective Postprocessing for Word Representations',
        ICLR 2018, where D is about d / 100.)

        Args:
            vectors: (n, d), one per word, at least one that is not zero.
            size: D; max(1, d / 100, rounded) by default.

        Raises:
            DataError: if there is nothing to fit on, or values are NaN or infinite.
        """
        rows = _some(vectors, "word vectors")
        centre = rows.mean(axis=0)
        wanted = max(1, round(rows.shape[1] / 100)) if size is None else size
        return cls(centre, _components(rows - centre, wanted))

    def __call__(self, vectors: FloatArray, shares: npt.ArrayLike = 1.0) -> Float64Array:
        """(n, d) the vectors without that part.

        Args:
            vectors: (n, d); sums or means of single vectors too, because the map is linear.
            shares: (n, 1) how often each contains the centre: for a weighted sum, the sum of weights.

        Raises:
            DataError: if it was fitted in another dimension.
        """
        if vectors.shape[-1] != len(self.centre):
            raise DataError(
                f"the components were fitted in dimension {len(self.centre)}, the token vectors have "
                f"dimension {vectors.shape[-1]}; fit them on vectors of the same encoder"
            )
        centred = vectors - np.asarray(shares, np.float64) * self.centre
        removed: Float64Array = centred - (centred @ self.axes.T) @ self.axes
        return removed


@dataclass(frozen=True, slots=True, eq=False)
class AverageCosine:
    """The cosine of two texts' averaged token vectors, in [-1, 1].

    A text's vector is v = (sum over its known tokens of w_i x_i) / m. With SIF weights and a `from_texts`
    fitted on such vectors this is SIF as published; with a `from_tokens` fitted on word vectors, the average
    of all-but-the-top vectors. A text without known words, or whose tokens cancel, is similar to nothing (0).

    Attributes:
        weights: of words; None for 1 each.
        unit_tokens: whether tokens are scaled to length 1 first; the papers use raw ones.
        from_tokens: removed from every token vector, before weights.
        from_texts: removed from the text's vector.
    """

    weights: WordWeights | None = None
    unit_tokens: bool = True
    from_tokens: Removal | None = None
    from_texts: Removal | None = None

    @property
    def inputs(self) -> frozenset[Input]:
        """Vectors, and with weights the words."""
        return frozenset({"vectors"}) if self.weights is None else frozenset({"vectors", "words"})

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined: the reference form."""
        same_dimension(query.vectors, document.vectors.shape[1])
        a, b = self.vector(query), self.vector(document)
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        return float(a @ b) / lengths if lengths > 0 else 0.0

    def vector(self, text: Bag) -> Float64Array:
        """(d,) the text's vector; zeros for a text without known words, or where its tokens cancel."""
        bag = text.known()
        tokens = as_float64(bag.vectors, unit=self.unit_tokens)
        if not len(tokens):
            return np.zeros(tokens.shape[1])
        weights = np.ones(len(tokens)) if self.weights is None else self.weights(bag.names)
        length = (weights * np.linalg.norm(tokens, axis=1)).mean()
        if self.from_tokens is not None:
            tokens = self.from_tokens(tokens)
        mean: Float64Array = (weights[:, None] * tokens).mean(axis=0)
        vector = mean if self.from_texts is None else self.from_texts(mean[None, :])[0]
        return vector if np.linalg.norm(vector) > _CANCELLED * length else np.zeros_like(vector)

    def vectors(self, texts: Texts) -> Float64Array:
        """(n, d) the texts' vectors: the fast form, which takes means before it removes.

        Raises:
            DataError: if words are missing, or what is removed was fitted in another dimension.
        """
        known = texts.known()
        batch = known.batch
        sums = np.zeros((len(batch), batch.dimension))
        lengths, totals = np.zeros(len(batch)), np.zeros(len(batch))
        for i in np.flatnonzero(batch.lengths):
            m = int(batch.lengths[i])
            shares = (np.ones(m) if self.weights is None else self.weights(known.names[i])) / m
            tokens = batch.text(int(i), unit=self.unit_tokens)
            sums[i] = shares @ tokens
            lengths[i] = shares @ np.linalg.norm(tokens, axis=1)
            totals[i] = shares.sum()
        if self.from_tokens is not None:
            sums = self.from_tokens(sums, totals[:, None])
        if self.from_texts is not None:
            sums = self.from_texts(sums, (batch.lengths > 0)[:, None])
        sums[np.linalg.norm(sums, axis=1) <= _CANCELLED * lengths] = 0.0
        return sums

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document: the fast form.

        Raises:
            DataError: if the dimensions differ, or words are missing.
        """
        if len(documents):
            same_dimension(query.vectors, documents.batch.dimension)
        a = self.vector(query)
        if not len(documents):
            return np.zeros(0)
        b = self.vectors(documents)
        lengths = np.linalg.norm(b, axis=1) * np.linalg.norm(a)
        cosines: Float64Array = np.divide(b @ a, lengths, out=np.zeros(len(b)), where=lengths > 0)
        return cosines


def _components(rows: Float64Array, size: int) -> Float64Array:
    """(min(size, rank), d) the first right singular vectors."""
    _, values, axes = np.linalg.svd(rows, full_matrices=False)
    kept = values[:size] > _CANCELLED * values[0]
    return np.asarray(axes[:size][kept], np.float64)


def _some(vectors: FloatArray, name: str) -> Float64Array:
    rows = np.atleast_2d(np.asarray(vectors, np.float64))
    if not np.isfinite(rows).all():
        raise DataError(f"the {name} to fit on hold NaN or infinite values; remove or replace them first")
    filled: Float64Array = rows[np.any(rows != 0, axis=1)]
    if not len(filled):
        raise DataError(f"principal components need {name} to fit on that are not zero; give more texts")
    return filled
