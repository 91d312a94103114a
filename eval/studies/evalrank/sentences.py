"""EvalRank of sentences: several models, measures of sentence vectors, similarities of token vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies.evalrank.data import RankingTask
from surprise_rerank.eval.studies.evalrank.measures import DENSE_MEASURES, DenseMeasure, check_measures
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
from surprise_rerank.eval.studies.evalrank.token_measure import TokenMeasure
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    SentenceModel,
    distinct_models,
    post_processed,
)
from surprise_rerank.similarities.bags import Texts, word_lists
from surprise_rerank.similarities.definitions import WordStatistics
from surprise_rerank.similarities.kernels import with_own_memberships
from surprise_rerank.similarities.table import CorpusStatistics, find_similarity, with_raw


def sentence_measures() -> tuple[str, ...]:
    """The names of all measures: those of sentence vectors, and the similarities of token vectors."""
    return (*DENSE_MEASURES, *with_raw())


def evaluate_sentences(
    models: Iterable[SentenceModel],
    task: RankingTask,
    settings: RankSettings | None = None,
    terminal: Terminal | None = None,
) -> Report:
    """EvalRank of sentences.

    Sentence vectors are centred over the background, and for all measures but `l2` scaled to length 1.
    Similarities of token vectors compare tokens as the model gives them. What has to be fitted, IDF for one,
    is fitted on the background.

    Args:
        models: word vectors, whose sentence vector is their mean, or encoders; an iterator may load them one
            at a time.
        task: pairs and background, of `read_sentence_ranking`.
        settings: measures of `sentence_measures()`; the second sentence of a pair is the anchor of its
            surprise, and the document of an asymmetric similarity.
        terminal: for progress; none is shown without it.

    Raises:
        DataError: if a measure is not known, there is no model, or two share a name.
        MissingExtraError: if a similarity needs a package that is not installed.
    """
    settings = settings or RankSettings()
    check_measures(settings.measures, sentence_measures())
    terminal = terminal or Terminal(quiet=True)
    of_vectors = [kind for kind in dict.fromkeys(settings.measures) if kind in DENSE_MEASURES]
    of_tokens = [kind for kind in dict.fromkeys(settings.measures) if kind not in DENSE_MEASURES]
    row = {sentence: i for i, sentence in enumerate(task.background)}
    pairs = np.array([[row[first], row[second]] for first, second in task.pairs])
    outcomes: list[RankOutcome] = []
    notes: list[str] = [PUBLISHED_NOTE] if settings.as_published else []
    for model in distinct_models(models):
        vectors, tokens = _encoded(model, task.background, terminal)
        # Where a sentence has no known word, the published program computes in float64, and `l2` has no two
        # precisions that would decide anything.
        published = frozenset({"cosine", "l2"} if tokens.lengths.all() else {"cosine"})
        published = published if settings.as_published else frozenset()
        notes += _unknown(model.name, tokens)
        outcomes += _of_vectors(model.name, vectors, of_vectors, pairs, terminal, published)
        if of_tokens:
            outcomes += _of_tokens(model, task, tokens, of_tokens, pairs, terminal)
        if settings.post_process:
            name = model.name + POST_PROCESSED
            processed = post_processed(vectors)
            outcomes += _of_vectors(name, processed, of_vectors, pairs, terminal, published)
    title = f"EvalRank, sentences: {len(task.pairs)} pairs among {len(task.background)} sentences"
    return Report(
        "EvalRank of sentences",
        (ranks_table("evalrank-sentences", title, outcomes, notes),),
        hits_plots(outcomes),
        facts=facts(outcomes, task, settings),
    )


def _encoded(
    model: SentenceModel, sentences: Sequence[str], terminal: Terminal
) -> tuple[Float32Array, TokenBatch]:
    """(n, d) sentence vectors and n lists of token vectors, by one pass of an encoder."""
    with terminal.bar(f"encoding with {model.name}", len(sentences), "sentences") as advance:
        encoded = model.encoder.encode(sentences, on_progress=advance)
    # Word vectors are looked up again for their mean, which takes no time.
    vectors = encoded.dense if model.word_vectors is None else model.vectors(sentences)
    return vectors, encoded.require_tokens()


def _of_vectors(
    name: str,
    vectors: Float32Array,
    measures: Sequence[DenseMeasure],
    pairs: IntArray,
    terminal: Terminal,
    published: frozenset[str],
) -> Iterator[RankOutcome]:
    centred = (vectors - vectors.mean(axis=0, dtype=np.float64)).astype(np.float32)
    items, item_of = Items.of(centred, unit_rows(centred), len(centred))
    for kind in measures:
        build = partial(dense, kind, items, terminal, as_published=kind in published)
        yield ranked(name, kind, build, item_of[pairs], items.counts, terminal)[1]


def _of_tokens(
    model: SentenceModel,
    task: RankingTask,
    tokens: TokenBatch,
    measures: Sequence[str],
    pairs: IntArray,
    terminal: Terminal,
) -> Iterator[RankOutcome]:
    words = word_lists(model.encoder, task.background)
    texts = Texts(with_own_memberships(tokens), words)
    corpus = CorpusStatistics(tokens.dimension, texts, WordStatistics.of(words))
    once = np.ones(len(texts), dtype=np.int64)
    for kind in measures:
        build = partial(_token_measure, kind, corpus)
        yield ranked(model.name, kind, build, pairs, once, terminal)[1]


def _token_measure(name: str, corpus: CorpusStatistics) -> Measure:
    return TokenMeasure(find_similarity(name).build(corpus), corpus.texts)


def _unknown(name: str, tokens: TokenBatch) -> list[str]:
    """A note on the sentences of which a model knows no word, where there are some."""
    missing = int(np.count_nonzero(tokens.lengths == 0))
    return [f"{name} knows no word of {missing} of {len(tokens)} sentences."] if missing else []
