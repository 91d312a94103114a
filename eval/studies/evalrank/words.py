"""EvalRank of words, and the word-similarity sets, for several models and measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from surprise_rerank import border
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.stats.correlations import correlations
from surprise_rerank.eval.studies.evalrank.data import (
    RankingTask,
    WordSimilaritySet,
    read_word_ranking,
    read_word_similarity,
)
from surprise_rerank.eval.studies.evalrank.measures import DENSE_MEASURES, dense_measure
from surprise_rerank.eval.studies.evalrank.outcomes import RankStudy
from surprise_rerank.eval.studies.evalrank.ranks import Items
from surprise_rerank.eval.studies.evalrank.vocabulary import Vocabulary
from surprise_rerank.eval.studies.sentence_models import SentenceModel, load_sentence_models
from surprise_rerank.eval.studies.settings import RankSettings, WordSettings

_AGREEMENT = (*map(Column, ("model", "similarity", "data set", "Pearson", "Spearman", "Kendall", "pairs")),)


def evaluate_words(settings: WordSettings, terminal: Terminal) -> Report:
    """EvalRank of words, and how similarities of words agree with people's."""
    border.some("similarities", settings.similarities, "name one")
    border.choices("similarities", settings.similarities, DENSE_MEASURES)
    task = read_word_ranking(settings.data, settings.vocabulary)
    sets = read_word_similarity(settings.data)
    return rank_words(load_sentence_models(settings, terminal), task, sets, settings, terminal)


def rank_words(
    models: Iterable[SentenceModel],
    task: RankingTask,
    sets: Sequence[WordSimilaritySet],
    settings: RankSettings,
    terminal: Terminal,
) -> Report:
    """The report of models.

    Vectors are centred over the vocabulary, and for all measures but `l2` scaled to length 1; an unknown word
    has the mean of the processed vectors. An encoder's vocabulary is the words of task and sets.
    """
    study = RankStudy("words", task, settings, terminal)
    words = list(dict.fromkeys([*task.background, *(w for s in sets for pair in s.pairs for w in pair)]))
    row = {word: i for i, word in enumerate(words)}

    def rows_of(pairs: Sequence[tuple[str, str]]) -> IntArray:
        return np.array([[row[first], row[second]] for first, second in pairs])

    agreements: list[tuple[Cell, ...]] = []
    for model in models:
        vocabulary = Vocabulary.of(model, words, terminal)
        knows = dict(zip(words, (vocabulary.rows >= 0).tolist(), strict=True))
        study.notes += _unknown(model.name, task, knows)
        share_known = sum(knows[first] and knows[second] for first, second in task.pairs) / len(task.pairs)
        for variant in study.variants:
            name = model.name + variant
            vectors = vocabulary.processed(variant)
            items, item_of = Items.of(vectors.plain, vectors.unit, len(task.background))
            for kind in dict.fromkeys(settings.similarities):
                measure = dense_measure(kind, items, as_published=settings.as_published)
                study.rank(name, kind, measure, item_of[rows_of(task.pairs)], items.counts, share_known)
                for judged in sets:
                    scores = measure.scores(*item_of[rows_of(judged.pairs)].T)
                    coefficients = correlations(scores, judged.scores)
                    agreements.append((name, kind, judged.name, *coefficients, len(judged.pairs)))
    more = [Table("word-similarity", "Word similarity", _AGREEMENT, tuple(agreements), keys=3)]
    return study.report(more if sets else ())


def _unknown(name: str, task: RankingTask, knows: dict[str, bool]) -> list[str]:
    """A note on the words that a model lacks, where it lacks some."""
    missing = sum(not knows[word] for word in task.background)
    if not missing:
        return []
    pairs = sum(not knows[a] and not knows[b] for a, b in task.pairs)
    return [
        f"{name} lacks {missing} of {len(task.background)} words, and both words of {pairs} of "
        f"{len(task.pairs)} pairs. They share one vector, the mean: none is more similar than another, and a "
        "pair's second word stands in the middle of them."
    ]
