"""Off-topic questions put to corpora: from settings to what every question's candidates score."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from surprise_rerank.candidates import Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.extras import pip_line
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.eval.retrieval.pools import Resources
from surprise_rerank.eval.retrieval.workspace import Workspace, has_lucene, index_key
from surprise_rerank.eval.studies.off_topic.measures import Measured
from surprise_rerank.eval.studies.off_topic.questions import QuestionSource, of_dataset, of_file
from surprise_rerank.eval.studies.off_topic.scores import (
    ALL,
    Bench,
)
from surprise_rerank.eval.studies.off_topic.settings import OffTopicSettings
from surprise_rerank.eval.studies.off_topic.tables import all_plots, all_tables
from surprise_rerank.eval.studies.sentence_models import refuse_duplicates
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.surprise.ensemble import Ensemble

# The fewest off-topic questions of a source; halves of fewer are too small to measure.
_FEWEST = 20


def evaluate_off_topic(settings: OffTopicSettings, terminal: Terminal) -> Report:
    """Search every corpus with every source's questions, and compare what passes a threshold with its level.

    Args:
        settings: what is measured.
        terminal: for progress and messages.

    Raises:
        DataError: if there are fewer than two sources of questions, or too few questions.
        DatasetError: if a data set or file cannot be read.
    """
    begun = time.perf_counter()
    folder = settings.cache or cache_folder()
    datasets = {}
    for spec in settings.datasets:
        loaded = load_dataset(spec, settings.split)
        if loaded.name in datasets:
            raise DatasetError(
                f"two data sets are called {loaded.name!r}; give each once, or rename a folder"
            )
        datasets[loaded.name] = (spec, loaded)
    sources = [of_dataset(spec) for spec in settings.datasets]
    sources += [of_file(path) for path in dict.fromkeys(settings.files)]
    sources = [source.sample(settings.limit) for source in sources]
    _check_sources(sources)
    measured = []
    for name in dict.fromkeys(settings.models):
        with terminal.bar(f"loading {name}", None, "models"):
            encoder = load_encoder(name)
        for spec, dataset in datasets.values():
            others = [source for source in sources if source.name != dataset.name]
            workspace = Workspace(folder, index_key(spec, dataset), encoder, None, terminal)
            measured.append(_measure(settings, spec, dataset, others, _label(name, settings), workspace))
    notes = []
    if not has_lucene():
        notes.append(f"without BM25: Pyserini is not installed: run {pip_line('pyserini')}")
    notes.append(
        f"thresholds are set on one half of the off-topic questions, and shown on the other; a share of "
        f"{settings.alphas[-1]:g} of n questions is known to +-{100 * _error(settings, measured):.1f} points"
    )
    notes.append(f"{time.perf_counter() - begun:.0f} s in all")
    shown = asdict(settings)
    del shown["cache"]  # where results lie does not change them
    facts = {
        "settings": {**shown, "files": [path.name for path in settings.files]},
        "questions": {source.name: len(source.texts) for source in sources},
    }
    return Report(
        title="Off-topic questions: " + ", ".join(datasets),
        tables=tuple(all_tables(measured, settings.alphas)),
        plots=tuple(all_plots(measured)),
        notes=tuple(notes),
        facts=facts,
    )


def _check_sources(sources: Sequence[QuestionSource]) -> None:
    names = [source.name for source in sources]
    refuse_duplicates(names, "sources of questions", "rename a file")
    if len(names) < 2:
        raise DataError(
            f"{', '.join(names)} is the only source of questions; give more data sets, or --questions FILE "
            "with questions that have nothing to do with it"
        )
    for source in sources:
        if len(source.texts) < _FEWEST:
            raise DataError(f"{source.name} holds {len(source.texts)} questions; give at least {_FEWEST}")


def _label(model: str, settings: OffTopicSettings) -> str:
    """A model's name without its folder, where no other has it."""
    short = [Path(name).name for name in settings.models]
    return Path(model).name if short.count(Path(model).name) == 1 else model


def _measure(
    settings: OffTopicSettings,
    spec: str,
    dataset: RetrievalDataset,
    others: Sequence[QuestionSource],
    model: str,
    workspace: Workspace,
) -> Measured:
    encoder, terminal = workspace.encoder, workspace.terminal
    lessons = Lessons(spec, "train", dataset.split, encoder, terminal)
    halves = {source.name: _halves(source, settings.seed) for source in others}
    total = len(dataset.queries) + sum(len(source.texts) for source in others)
    with (
        workspace.resources(dataset, None, lessons, lucene=has_lucene()) as resources,
        terminal.bar(f"{dataset.name}", total, "questions") as advance,
    ):
        first = {name: encode_queries(encoder, texts) for name, (texts, _) in halves.items()}
        bench = _bench(resources, _ensembles(first), settings.depth)
        own = encode_queries(encoder, list(dataset.queries.values()), list(dataset.queries))
        return Measured(
            corpus=dataset.name,
            model=model,
            scorers=tuple(scorer.name for scorer in bench.scorers),
            on_topic=bench.on_topic(own, dataset.qrels, advance),
            background={name: bench.background(queries, name, advance) for name, queries in first.items()},
            others={
                name: bench.others(encode_queries(encoder, texts), name, advance)
                for name, (_, texts) in halves.items()
            },
        )


def _ensembles(background: Mapping[str, Sequence[Query]]) -> dict[str, Ensemble]:
    """Of all background questions, and of those of all sources but each one, where there are others."""
    vectors = {name: np.array([query.dense for query in own]) for name, own in background.items()}
    left_out = [ALL, *vectors] if len(vectors) > 1 else [ALL]
    return {
        source: Ensemble.from_vectors(
            np.concatenate([own for name, own in vectors.items() if name != source]), sample_size=0
        )
        for source in left_out
    }


def _bench(resources: Resources, questions: Mapping[str, Ensemble], depth: int) -> Bench:
    scorers: list[Scorer] = [CosineScorer(resources.corpus), DynaMaxScorer(resources.sample_tokens)]
    if resources.lucene is None:
        return Bench(resources.retriever("cosine"), scorers, resources.corpus, questions, depth)
    scorers.insert(0, RetrievedScorer("bm25"))
    retriever = resources.retriever("both-lucene", bm25="bm25-lucene")
    return Bench(retriever, scorers, resources.corpus, questions, depth)


def _halves(source: QuestionSource, seed: int) -> tuple[list[str], list[str]]:
    order = np.random.default_rng(seed).permutation(len(source.texts))
    middle = len(order) // 2
    return [source.texts[i] for i in order[:middle]], [source.texts[i] for i in order[middle:]]


def _error(settings: OffTopicSettings, measured: Sequence[Measured]) -> float:
    """Standard error of the share of one half that a threshold of the other lets through; the largest."""
    alpha = settings.alphas[-1]
    sizes = [sum(map(len, half.values())) for own in measured for half in (own.background, own.others)]
    return float(np.sqrt(2 * alpha * (1 - alpha) / min(sizes)))
