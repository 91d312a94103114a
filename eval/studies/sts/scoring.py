"""Similarities of the pairs of a data set, by one model and many named similarities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from surprise_rerank.core.arrays import Float32Array, Float64Array, unit_rows
from surprise_rerank.encoders.base import Progress
from surprise_rerank.eval.line_files import number, read_rows
from surprise_rerank.eval.studies.sentence_models import SentenceModel, post_processed
from surprise_rerank.eval.studies.sts.data import DataSet
from surprise_rerank.similarities.bags import Texts, word_lists
from surprise_rerank.similarities.definitions import WordStatistics
from surprise_rerank.similarities.table import CorpusStatistics, embedding_words, find_similarity

COSINE = "cosine"


def read_word_counts(path: Path) -> Mapping[str, float]:
    """Word -> its count, of a file with a word and a count in each line; the counts of equal words add up."""

    def row(line: str) -> tuple[str, float]:
        word, count = line.split()
        return word.lower(), number(count, 0)

    counts: dict[str, float] = {}
    for word, count in read_rows(path, row, "a word and its count", blank=False):
        counts[word] = counts.get(word, 0.0) + count
    return counts


class EncodedPairs:
    """A data set's sentences, each encoded once.

    SIF's weights come from `word_counts`, by default from the data set's own sentences, whatever other data
    sets are measured beside it. For `post_process`, vectors are kept without their first two principal
    components, too: those of all sentences of the data set, other parts included, once each.
    """

    def __init__(
        self,
        model: SentenceModel,
        data_set: DataSet,
        word_counts: Mapping[str, float] | None = None,
        post_process: bool = False,
        on_progress: Progress | None = None,
    ) -> None:
        self._encoder, self._word_counts = model.encoder, word_counts
        sentences = list(dict.fromkeys(data_set.sentences))
        row = {text: i for i, text in enumerate(sentences)}
        self._occurrences = np.array([row[text] for text in data_set.sentences])
        self._first = np.array([row[text] for task in data_set.subtasks for text in task.first])
        self._second = np.array([row[text] for task in data_set.subtasks for text in task.second])
        encoded = model.encoder.encode(sentences, on_progress=on_progress)
        self._texts = Texts(encoded.require_tokens(), word_lists(model.encoder, sentences))
        self._dimension = encoded.require_tokens().dimension
        self._bags = [self._texts[i] for i in range(len(self._texts))]
        # Word vectors are looked up again for their mean, which takes no time; other models are asked once.
        self._dense = encoded.dense if model.word_vectors is None else model.vectors(sentences)
        self._processed = self._dense
        if post_process:
            others = [text for text in dict.fromkeys(data_set.other_sentences) if text not in row]
            more = model.vectors(others, on_progress=on_progress) if others else self._dense[:0]
            self._processed = post_processed(np.concatenate([self._dense, more]))[: len(sentences)]

    @property
    def unknown(self) -> int:
        """How many sentences have no known word."""
        return sum(not bag.vectors.any() for bag in self._bags)

    @cached_property
    def _statistics(self) -> WordStatistics:
        """Of the words of the data set's sentences, as often as they are in pairs."""
        of_sentences = WordStatistics.of(self._texts.names[i] for i in self._occurrences)
        if self._word_counts is None:
            return of_sentences
        return WordStatistics(self._word_counts, of_sentences.document_frequencies, of_sentences.documents)

    def similarities(self, name: str) -> Float64Array:
        """(n,) similarities of the pairs of all sub-tasks, one after the other, by the reference form.

        What is fitted is fitted on the data set's sentences, as often as they are in pairs. `cosine` is that
        of the model's own sentence vectors. Of distances it is minus the distance, as r is of the values.
        """
        if name == COSINE:
            return self._cosines(self._dense)
        named = find_similarity(name)
        sample = Texts()
        if "texts" in named.fitted_on:
            words = tuple(self._texts.names[i] for i in self._occurrences)
            sample = Texts(self._texts.batch.take(self._occurrences), words)
        # Products of sentences are small: with a second thread, numpy takes up to ten times as long for them.
        with threadpool_limits(limits=1, user_api="blas"):
            embedding = embedding_words(self._encoder) if "embedding" in named.fitted_on else None
            similarity = named.build(CorpusStatistics(self._dimension, sample, self._statistics, embedding))
            pairs = zip(self._first.tolist(), self._second.tolist(), strict=True)
            values = [similarity.pair(self._bags[a], self._bags[b]) for a, b in pairs]
        return named.linear(np.array(values, np.float64))

    def cosines_post_processed(self) -> Float64Array:
        """(n,) cosines without the first two principal components."""
        return self._cosines(self._processed)

    def _cosines(self, vectors: Float32Array) -> Float64Array:
        unit = unit_rows(vectors).astype(np.float64)
        return np.asarray((unit[self._first] * unit[self._second]).sum(axis=1))
