"""EvalRank of words, and the word-similarity sets, for several models and measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.stats.correlations import correlations
from surprise_rerank.eval.studies.evalrank.data import RankingTask, WordSimilaritySet
from surprise_rerank.eval.studies.evalrank.measures import DENSE_MEASURES, check_measures
from surprise_rerank.eval.studies.evalrank.outcomes import (
    PUBLISHED_NOTE,
    RankOutcome,
    dense,
    facts,
    hits_plots,
    ranked,
    ranks_table,
)
from surprise_rerank.eval.studies.evalrank.ranks import Items, Measure
from surprise_rerank.eval.studies.evalrank.settings import RankSettings
from surprise_rerank.eval.studies.evalrank.vocabulary import ProcessedWords, Vocabulary
from surprise_rerank.eval.studies.sentence_models import POST_PROCESSED, SentenceModel, distinct_models

_SIMILARITY_COLUMNS = (
    Column("model"),
    Column("similarity"),
    Column("data set"),
    Column("Pearson", 4),
    Column("Spearman", 4),
    Column("Kendall", 4),
    Column("pairs"),
)


def evaluate_words(
    models: Iterable[SentenceModel],
    task: RankingTask,
    sets: Sequence[WordSimilaritySet] = (),
    settings: RankSettings | None = None,
    terminal: Terminal | None = None,
) -> Report:
    """EvalRank of words, and how similarities of words agree with people's.

    Vectors are centred over the vocabulary, and for all measures but `l2` scaled to length 1; an unknown word
    has the mean of the processed vectors. An encoder's vocabulary is the words of task and sets.

    Args:
        models: word vectors in lower case, or encoders; an iterator may load them one at a time.
        task: pairs and background, of `read_word_ranking`.
        sets: of `read_word_similarity`.
        settings: measures of `DENSE_MEASURES`; the second word of a pair is the anchor of its surprise.
        terminal: for progress; none is shown without it.

    Raises:
        DataError: if a measure is not known, there is no model, or two share a name.
    """
    settings = settings or RankSettings()
    check_measures(settings.measures, DENSE_MEASURES)
    terminal = terminal or Terminal(quiet=True)
    words = list(dict.fromkeys([*task.background, *(w for s in sets for pair in s.pairs for w in pair)]))
    row = {word: i for i, word in enumerate(words)}
    measures = [kind for kind in dict.fromkeys(settings.measures) if kind in DENSE_MEASURES]
    outcomes: list[RankOutcome] = []
    similarities: list[tuple[Cell, ...]] = []
    notes: list[str] = [PUBLISHED_NOTE] if settings.as_published else []
    for model in distinct_models(models):
        vocabulary = Vocabulary.of(model, words, terminal)
        for processed in (False, True) if settings.post_process else (False,):
            name = model.name + POST_PROCESSED * processed
            vectors = vocabulary.processed(terminal, post_process=processed)
            if not processed:
                notes += _unknown(name, task, vectors, row)
            items, item_of = Items.of(vectors.plain, vectors.unit, len(task.background))
            pairs = _rows(task.pairs, row, item_of)
            for kind in measures:
                build = partial(dense, kind, items, terminal, as_published=settings.as_published)
                measure, outcome = ranked(name, kind, build, pairs, items.counts, terminal)
                outcomes.append(outcome)
                agreements = (_agreement(measure, _rows(s.pairs, row, item_of), s) for s in sets)
                similarities += [(name, kind, *agreement) for agreement in agreements]
    title = f"EvalRank, words: {len(task.pairs)} pairs among {len(task.background)} words"
    tables = [ranks_table("evalrank-words", title, outcomes, notes)]
    if sets:
        tables.append(
            Table("word-similarity", "Word similarity", _SIMILARITY_COLUMNS, tuple(similarities), keys=3)
        )
    return Report(
        "EvalRank of words",
        tuple(tables),
        hits_plots(outcomes),
        facts=facts(outcomes, task, settings),
    )


def _rows(pairs: Sequence[tuple[str, str]], row: Mapping[str, int], item_of: IntArray) -> IntArray:
    """(n, 2) items of pairs of words."""
    rows: IntArray = item_of[np.array([[row[first], row[second]] for first, second in pairs])]
    return rows


def _agreement(measure: Measure, pairs: IntArray, s: WordSimilaritySet) -> tuple[Cell, ...]:
    """Name, Pearson, Spearman, Kendall, and the number of pairs."""
    found = correlations(measure.scores(pairs[:, 0], pairs[:, 1]), s.scores)
    return (s.name, found.pearson, found.spearman, found.kendall, len(s.pairs))


def _unknown(name: str, task: RankingTask, vectors: ProcessedWords, row: Mapping[str, int]) -> list[str]:
    """A note on the words that a model lacks, where it lacks some."""
    missing = int(np.count_nonzero(~vectors.known[: len(task.background)]))
    if not missing:
        return []
    pairs = sum(not vectors.known[row[a]] and not vectors.known[row[b]] for a, b in task.pairs)
    return [
        f"{name} lacks {missing} of {len(task.background)} words, and both words of {pairs} of "
        f"{len(task.pairs)} pairs. They share one vector, the mean: none is more similar than another."
    ]
