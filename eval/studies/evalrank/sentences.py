"""EvalRank of sentences: several models, measures of sentence vectors, similarities of token vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from surprise_rerank import border
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies.evalrank.data import RankingTask, read_sentence_ranking
from surprise_rerank.eval.studies.evalrank.measures import (
    DENSE_MEASURES,
    TokenMeasure,
    dense_measure,
)
from surprise_rerank.eval.studies.evalrank.outcomes import RankStudy
from surprise_rerank.eval.studies.evalrank.ranks import Items
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    WHITENED,
    SentenceModel,
    load_sentence_models,
    post_processed,
    whitened,
)
from surprise_rerank.eval.studies.settings import RankSettings
from surprise_rerank.similarities.bags import Texts, word_lists
from surprise_rerank.similarities.definitions import WordStatistics
from surprise_rerank.similarities.kernels import own_memberships
from surprise_rerank.similarities.table import CorpusStatistics, embedding_words, find_similarity, with_raw


def evaluate_sentences(settings: RankSettings, terminal: Terminal) -> Report:
    """EvalRank of sentences."""
    border.some("similarities", settings.similarities, "name one")
    border.choices("similarities", settings.similarities, (*DENSE_MEASURES, *with_raw()))
    task = read_sentence_ranking(settings.data)
    return rank_sentences(load_sentence_models(settings, terminal), task, settings, terminal)


def rank_sentences(
    models: Iterable[SentenceModel], task: RankingTask, settings: RankSettings, terminal: Terminal
) -> Report:
    """The report of models.

    Sentence vectors are centred over the background, and for all measures but `l2` scaled to length 1.
    Similarities of token vectors compare tokens as the model gives them. What has to be fitted, IDF for one,
    is fitted on the background.
    """
    study = RankStudy("sentences", task, settings, terminal)
    similarities = dict.fromkeys(settings.similarities)
    of_tokens = [name for name in similarities if name not in DENSE_MEASURES]
    row = {sentence: i for i, sentence in enumerate(task.background)}
    pairs = np.array([[row[first], row[second]] for first, second in task.pairs])
    processing = {"": lambda vectors: vectors, POST_PROCESSED: post_processed, WHITENED: whitened}
    for model in models:
        with terminal.bar(f"encoding with {model.name}", len(row), "sentences") as advance:
            encoded = model.encoder.encode(task.background, on_progress=advance)
        tokens = encoded.require_tokens()
        # Word vectors are looked up again for their mean, which takes no time.
        vectors = encoded.dense if model.word_vectors is None else model.vectors(task.background)
        is_known = tokens.lengths > 0
        missing = int(np.count_nonzero(~is_known))
        share_known = float(is_known[pairs].all(axis=1).mean())
        if missing:
            study.notes.append(f"{model.name} knows no word of {missing} of {len(row)} sentences.")
        # Where a sentence has no known word, the published program computes in float64, and `l2` has no two
        # precisions that would decide anything.
        published = ("cosine",) if missing else ("cosine", "l2")
        for variant in study.variants:
            processed = processing[variant](vectors)
            centred = (processed - processed.mean(axis=0, dtype=np.float64)).astype(np.float32)
            items, item_of = Items.of(centred, unit_rows(centred), len(centred))
            for name in similarities:
                if name in DENSE_MEASURES:
                    as_published = settings.as_published and name in published
                    measure = dense_measure(name, items, as_published=as_published)
                    study.rank(model.name + variant, name, measure, item_of[pairs], items.counts, share_known)
        if of_tokens:
            _rank_tokens(study, model, tokens, of_tokens, pairs, share_known)
    return study.report()


def _rank_tokens(
    study: RankStudy,
    model: SentenceModel,
    tokens: TokenBatch,
    similarities: Sequence[str],
    pairs: IntArray,
    share_known: float,
) -> None:
    words = word_lists(model.encoder, study.task.background)
    texts = Texts(replace(tokens, own=own_memberships(tokens)), words)
    needs = frozenset().union(*(find_similarity(name).fitted_on for name in similarities))
    embedding = embedding_words(model.encoder) if "embedding" in needs else None
    corpus = CorpusStatistics(tokens.dimension, texts, WordStatistics.of(words), embedding)
    once = np.ones(len(texts), dtype=np.int64)
    for name in similarities:
        measure = TokenMeasure(find_similarity(name).build(corpus), texts)
        study.rank(model.name, name, measure, pairs, once, share_known)
