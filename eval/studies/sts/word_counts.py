"""How often words are used, for SIF and IDF: in the sentences at hand, or by a list of counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from surprise_rerank.connectors.progress import Advance
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import DataError
from surprise_rerank.eval.line_files import read_lines
from surprise_rerank.eval.studies.sts.data import DataSet
from surprise_rerank.similarities.bags import word_lists
from surprise_rerank.similarities.definitions import WordStatistics


def read_word_counts(path: Path) -> dict[str, float]:
    """A file of a word and its count a line, white space between.

    Words are lower-cased, as the sentences are for word vectors; the counts of equal ones add up.

    Args:
        path: of the file.

    Raises:
        DatasetError: if there is no such file.
        StoreError: if it cannot be read.
        DataError: if a line is something else, or there is none; names the line.
    """
    counts: Counter[str] = Counter()
    for line in read_lines(path):
        word, count = line.fields(None, ("word", "count"))
        counts[word.lower()] += line.number_in(count, "count", 0)  # type: ignore[assignment]
    if not counts:
        raise DataError(f"{path} is empty, expected a word and its count a line")
    return dict(counts)


def statistics_of(
    encoder: Encoder,
    data_sets: Sequence[DataSet],
    counts: Mapping[str, float] | None = None,
    advance: Advance = lambda n: None,
) -> WordStatistics:
    """How often words occur in all sentences of all pairs.

    Args:
        encoder: cuts the words.
        data_sets: hold the sentences.
        counts: of words in a larger corpus, in place of those in the sentences. In how many texts a word
            occurs is still that of the sentences, because a list of counts does not hold it.
        advance: called with the number of sentences of every finished data set.
    """
    statistics = WordStatistics()
    for data_set in data_sets:
        statistics += WordStatistics.of(word_lists(encoder, data_set.sentences))
        advance(len(data_set.sentences))
    return statistics if counts is None else replace(statistics, counts=counts)
