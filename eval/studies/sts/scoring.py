"""Similarities of the pairs of a data set, by one model and many named similarities."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, unit_rows
from surprise_rerank.encoders.base import Progress
from surprise_rerank.eval.studies.sentence_models import SentenceModel, post_processed
from surprise_rerank.eval.studies.sts.data import DataSet
from surprise_rerank.similarities.bags import Bag, Texts, word_lists
from surprise_rerank.similarities.definitions import Similarity, WordStatistics
from surprise_rerank.similarities.table import CorpusStatistics, find_similarity

COSINE = "cosine"


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The similarities of a data set's pairs.

    Attributes:
        values: (n,) of the pairs of all sub-tasks, one sub-task after the other.
        seconds: that fitting and comparing took, encoding aside.
    """

    values: Float64Array
    seconds: float


class EncodedPairs:
    """A data set's sentences, each encoded once.

    Args:
        model: encodes them.
        data_set: whose pairs are to be compared.
        post_process: whether vectors without their first two principal components are wanted. These are the
            components of all sentences of the data set, those of other parts included, once each.
        on_progress: called with the number of sentences of every finished batch.
    """

    def __init__(
        self,
        model: SentenceModel,
        data_set: DataSet,
        *,
        post_process: bool = False,
        on_progress: Progress | None = None,
    ) -> None:
        sentences = list(dict.fromkeys(data_set.sentences))
        row = {text: i for i, text in enumerate(sentences)}
        self._occurrences = _rows(row, data_set.sentences)
        self._first = _rows(row, (text for task in data_set.subtasks for text in task.first))
        self._second = _rows(row, (text for task in data_set.subtasks for text in task.second))
        encoded = model.encoder.encode(sentences, on_progress=on_progress)
        self._texts = Texts(encoded.require_tokens(), word_lists(model.encoder, sentences))
        self._dimension = encoded.require_tokens().dimension
        self._bags = [self._texts[i] for i in range(len(self._texts))]
        # Word vectors are looked up again for their mean, which takes no time; other models are asked once.
        self._dense = encoded.dense if model.word_vectors is None else model.vectors(sentences)
        self._processed: Float32Array | None = None
        if post_process:
            others = [text for text in dict.fromkeys(data_set.other_sentences) if text not in row]
            more = model.vectors(others, on_progress=on_progress) if others else self._dense[:0]
            self._processed = post_processed(np.concatenate([self._dense, more]))[: len(sentences)]

    @property
    def unknown(self) -> int:
        """How many sentences have no known word."""
        return sum(not bag.vectors.any() for bag in self._bags)

    def cosine(self) -> Scores:
        """The cosines of the model's own sentence vectors."""
        return self._cosines(self._dense)

    def cosine_post_processed(self) -> Scores:
        """The same without the first two principal components; as it is, where that was not asked for."""
        return self._cosines(self._dense if self._processed is None else self._processed)

    def similarity(self, name: str, statistics: WordStatistics) -> Scores:
        """A similarity of the registry, fitted on the data set's sentences, as often as they are in pairs.

        Args:
            name: one of `similarity_names()`.
            statistics: how often words are used.

        Raises:
            DataError: if there is nothing in the sentences that it could be fitted on.
            MissingExtraError: if it needs a module that is not installed.
        """
        start = time.perf_counter()
        named = find_similarity(name)
        sample = self._sample() if "texts" in named.fitted_on else Texts()
        first = [self._bags[i] for i in self._first]
        second = [self._bags[i] for i in self._second]
        # Products of sentences are small: with a second thread, numpy takes up to ten times as long for them.
        with threadpool_limits(limits=1, user_api="blas"):
            similarity = named.build(CorpusStatistics(self._dimension, sample, statistics))
            values = compare(similarity, first, second)
        return Scores(values, time.perf_counter() - start)

    def _cosines(self, vectors: Float32Array) -> Scores:
        start = time.perf_counter()
        unit = unit_rows(vectors).astype(np.float64)
        values = (unit[self._first] * unit[self._second]).sum(axis=1)
        return Scores(values, time.perf_counter() - start)

    def _sample(self) -> Texts:
        words = self._texts.names
        return Texts(self._texts.batch.take(self._occurrences), tuple(words[i] for i in self._occurrences))


def compare(similarity: Similarity, first: Sequence[Bag], second: Sequence[Bag]) -> Float64Array:
    """(n,) similarities of pairs of bags, by the reference form.

    The fast form compares one text with a pool; here nearly every pair has texts of its own.

    Args:
        similarity: of two bags.
        first: n bags.
        second: n bags.
    """
    values = [similarity.pair(a, b) for a, b in zip(first, second, strict=True)]
    return np.array(values, dtype=np.float64)


def _rows(row: Mapping[str, int], texts: Iterable[str]) -> IntArray:
    return np.array([row[text] for text in texts], dtype=np.int64)
