"""Off-topic questions put to corpora: from settings to the tables of what finds them, and what passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surprise_rerank.candidates import Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.readers import Fields, open_documents
from surprise_rerank.connectors.readers.datasets import open_source
from surprise_rerank.core.extras import pip_line
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.line_files import read_lines
from surprise_rerank.eval.reports.report import Report, Table
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.eval.retrieval.workspace import Workspace, has_lucene, index_key
from surprise_rerank.eval.stats.reliability import expected_calibration_error
from surprise_rerank.eval.studies.labelled import load_models
from surprise_rerank.eval.studies.measurements import Measurements
from surprise_rerank.eval.studies.off_topic.scores import (
    ALL,
    FUSION,
    AskedQuestion,
    Bench,
    alone,
    as_system,
    auroc,
    background_of,
    best_is_relevant,
    passed,
    statistics,
    totals,
)
from surprise_rerank.eval.studies.off_topic.settings import OffTopicSettings
from surprise_rerank.eval.studies.sentence_models import refuse_duplicates
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.thresholds.chance import RelevanceCurve

# The fewest off-topic questions of a source; halves of fewer are too small to measure.
_FEWEST = 20
# Thresholds whose answers are counted.
_LEVELS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
_SAMPLE_SEED = _HALVES_SEED = 0


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """Questions that come from one place.

    Attributes:
        name: of the data set or file.
        texts: n questions, each once.
    """

    name: str
    texts: tuple[str, ...]

    @classmethod
    def of(cls, name: str, texts: Sequence[str], limit: int) -> QuestionSource:
        """So many of the questions at random, always the same, in their order."""
        found = tuple(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))
        if len(found) < _FEWEST:
            raise DataError(f"{name} holds {len(found)} questions; give at least {_FEWEST}")
        if limit < len(found):
            rows = np.sort(np.random.default_rng(_SAMPLE_SEED).permutation(len(found))[:limit])
            found = tuple(found[i] for i in rows)
        return cls(name, found)

    @property
    def halves(self) -> tuple[list[str], list[str]]:
        """One for the background, one that is put to the test."""
        order = np.random.default_rng(_HALVES_SEED).permutation(len(self.texts))
        middle = len(order) // 2
        return [self.texts[i] for i in order[:middle]], [self.texts[i] for i in order[middle:]]


def read_questions(path: Path) -> list[str]:
    """The questions of a file: the column `text` or `question` of a table, or the lines of a text."""
    if path.suffix in (".txt", ""):
        return list(read_lines(path))
    return [document.text for document in open_documents(path, fields=Fields(id="row"))]


def evaluate_off_topic(settings: OffTopicSettings, terminal: Terminal) -> Report:
    """Search every corpus with every source's questions: what passes a threshold, beside its level."""
    datasets: dict[str, tuple[str, RetrievalDataset]] = {}
    for spec in settings.datasets:
        loaded = load_dataset(spec, settings.split)
        if loaded.name in datasets:
            raise DatasetError(
                f"two data sets are called {loaded.name!r}; give each once, or rename a folder"
            )
        datasets[loaded.name] = spec, loaded
    sources = _sources(settings)
    folder = settings.cache or cache_folder()
    found = []
    for model in load_models(settings.models, folder, terminal):
        for spec, dataset in datasets.values():
            workspace = Workspace(folder, index_key(spec, dataset), model.encoder, None, terminal)
            found.append(_measured(settings, spec, dataset, sources, model.name, workspace))
    notes = [] if has_lucene() else [f"without BM25: Pyserini is not installed: run {pip_line('pyserini')}"]
    alpha = settings.alphas[-1]
    fewest = min(sum(map(len, half.values())) for own in found for half in (own.background, own.others))
    error = 100 * np.sqrt(2 * alpha * (1 - alpha) / fewest)
    notes.append(
        f"thresholds are set on one half of the off-topic questions, and shown on the other; a share of "
        f"{alpha:g} of n questions is known to +-{error:.1f} points"
    )
    return Report(
        title="Off-topic questions: " + ", ".join(datasets),
        tables=(
            _thresholds(found, settings.alphas),
            _auroc(found),
            _answered(found),
            _calibration(found),
            _other_sources(found, settings.alphas),
        ),
        notes=tuple(notes),
        facts={
            "models": settings.models,
            "limit": settings.limit,
            "depth": settings.depth,
            "questions": {source.name: len(source.texts) for source in sources},
        },
    )


@dataclass(eq=False)
class Measured:
    """One corpus, searched with one model's vectors.

    Attributes:
        names: the corpus' and the model's, as tables have them.
        scorers: that scored.
        on_topic: its own judged questions.
        background: source -> the half of its questions that thresholds are set on.
        others: source -> the other half.
    """

    names: tuple[str, str]
    scorers: tuple[str, ...]
    on_topic: Sequence[AskedQuestion]
    background: Mapping[str, Sequence[AskedQuestion]]
    others: Mapping[str, Sequence[AskedQuestion]]

    def __post_init__(self) -> None:
        view = as_system(FUSION)
        self.fusion = background_of(joined(self.background), view)
        self.totals = totals(self.on_topic, self.fusion, view)
        self.surprise = self.fusion.surprise(self.totals)
        self.relevant = best_is_relevant(self.on_topic, self.fusion, view)


def joined(sources: Mapping[str, Sequence[AskedQuestion]], without: str = ALL) -> list[AskedQuestion]:
    """The questions of all sources, or of all but one, in one list."""
    return [question for name, own in sources.items() if name != without for question in own]


def _sources(settings: OffTopicSettings) -> list[QuestionSource]:
    """The questions of all data sets, judged or not, and of files."""
    texts: list[tuple[str, Sequence[str]]] = []
    for spec in settings.datasets:
        source = open_source(spec)
        texts.append((source.name, list(source.queries().values())))
    files = dict.fromkeys(settings.files)
    texts += [(path.name.partition(".")[0], read_questions(path)) for path in files]
    names = [name for name, _ in texts]
    refuse_duplicates(names, "sources of questions", "rename a file")
    if len(names) < 2:
        raise DataError(
            f"{', '.join(names)} is the only source of questions; give more data sets, or --questions FILE "
            "with questions that have nothing to do with it"
        )
    return [QuestionSource.of(name, own, settings.limit) for name, own in texts]


def _measured(
    settings: OffTopicSettings,
    spec: str,
    dataset: RetrievalDataset,
    sources: Sequence[QuestionSource],
    model: str,
    workspace: Workspace,
) -> Measured:
    encoder, terminal = workspace.encoder, workspace.terminal
    others = [source for source in sources if source.name != dataset.name]
    total = len(dataset.queries) + sum(len(source.texts) for source in others)
    lessons = Lessons(spec, "train", dataset.split, encoder, terminal)
    with (
        workspace.resources(dataset, None, lessons, lucene=has_lucene()) as resources,
        terminal.bar(dataset.name, total, "questions") as advance,
    ):
        halves = {source.name: [encode_queries(encoder, half) for half in source.halves] for source in others}
        scorers: list[Scorer] = [CosineScorer(resources.corpus), DynaMaxScorer(resources.sample_tokens)]
        if resources.lucene is None:
            retriever = resources.retriever("cosine")
        else:
            scorers.insert(0, RetrievedScorer("bm25"))
            retriever = resources.retriever("both-lucene", bm25="bm25-lucene")
        ensembles = _ensembles({name: first for name, (first, _) in halves.items()})
        bench = Bench(retriever, scorers, resources.corpus, ensembles, settings.depth)
        own = encode_queries(encoder, list(dataset.queries.values()), list(dataset.queries))
        return Measured(
            (dataset.name, model),
            tuple(scorer.name for scorer in scorers),
            bench.ask(own, advance, qrels=dataset.qrels),
            {
                name: bench.ask(first, advance, source=name, is_background=True)
                for name, (first, _) in halves.items()
            },
            {name: bench.ask(second, advance, source=name) for name, (_, second) in halves.items()},
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


def _thresholds(found: Sequence[Measured], alphas: Sequence[float]) -> Table:
    """What passes the thresholds of each corpus' background, and those of the first corpus."""
    first = found[0].names[0]
    firsts = {own.names[1]: own for own in reversed(found)}
    measured = Measurements("corpus", "model", "scorer")
    for own in found:
        others = joined(own.others)
        for scorer in (*own.scorers, FUSION):
            view = as_system(scorer)
            background = background_of(joined(own.background), view)
            raw = view if scorer == FUSION else alone(scorer)
            carried = background_of(joined(firsts[own.names[1]].background), raw)
            measured.add((*own.names, scorer), {"questions": len(others)})
            for alpha in alphas:
                shares = passed(others, background, view, alpha), passed(others, carried, raw, alpha)
                names = f"passed at {alpha:g}", f"raw threshold at {alpha:g}"
                measured.add((*own.names, scorer), dict(zip(names, shares, strict=True)))
    columns = [f"{what} at {alpha:g}" for alpha in alphas for what in ("passed", "raw threshold")]
    return measured.table(
        "thresholds",
        "Off-topic questions that pass, %",
        [("questions", 0, False), *((name, 1, False) for name in columns)],
        (
            "passed: with the background of a pipeline by this scorer, of the same corpus and model; raw "
            f"threshold: with the best score itself (of fusion T) that lets as many through on {first}",
        ),
    )


def _auroc(found: Sequence[Measured]) -> Table:
    measured, mean = Measurements("corpus", "model", "off-topic"), ("mean", "all", "all")
    rows = {
        (*own.names, source): {
            name: auroc(statistic, own.on_topic, questions)
            for name, statistic in statistics(own.scorers, own.fusion).items()
        }
        for own in found
        for source, questions in own.others.items()
    }
    for key, values in rows.items():
        measured.add(key, values)
    for values in rows.values():
        measured.add(mean, values)
    return measured.table(
        "auroc",
        "Questions of the corpus told from off-topic ones, AUROC",
        [(name, 3, False) for name in next(iter(rows.values()))],
        (
            "z over documents: the best cosine among those of the question; z over questions: among those "
            "of the document to background questions; fusion: the total of BM25, the latter and dynamax",
        ),
    )


def _answered(found: Sequence[Measured]) -> Table:
    measured = Measurements("corpus", "model", "min_surprise")
    for own in found:
        off = own.fusion.surprise(totals(joined(own.others), own.fusion, as_system(FUSION)))
        for level in _LEVELS:
            answers = own.surprise >= level
            values = {
                "answered": 100 * answers.mean(),
                "best relevant": 100 * own.relevant[answers].mean() if answers.any() else None,
                "off-topic answered": 100 * (off >= level).mean(),
            }
            measured.add((*own.names, f"{level:g}"), values)
    return measured.table(
        "answered",
        "Answered questions against precision, by the least surprise of fusion, %",
        [(name, 1, False) for name in ("answered", "best relevant", "off-topic answered")],
        ("best: the document of the largest total T, which need not be the first of the ranking",),
    )


def _calibration(found: Sequence[Measured]) -> Table:
    measured = Measurements("corpus", "model")
    for own in found:
        finite = np.flatnonzero(np.isfinite(own.totals))
        shown, taught = finite[::2], finite[1::2]
        relevant = own.relevant[shown]
        if len(set(own.relevant[taught].tolist())) < 2:  # that share is all there is to learn
            share = float(own.relevant[taught].mean()) if len(taught) else 0.0
            probabilities = np.full(len(shown), share)
        else:
            curve = RelevanceCurve.fit(own.totals[taught], own.relevant[taught])
            probabilities = curve.probability(own.totals[shown])
        cosines = np.clip([own.on_topic[i].best("cosine") for i in shown], 0.0, 1.0)
        values = {"cosine": cosines, "surprise": own.surprise[shown], "fitted curve": probabilities}
        errors = {name: expected_calibration_error(value, relevant) for name, value in values.items()}
        measured.add(own.names, {"questions": len(shown), "relevant": float(relevant.mean()), **errors})
    return measured.table(
        "calibration",
        "Expected calibration error of the best document's relevance",
        [
            ("questions", 0, False),
            *((name, 3, False) for name in ("relevant", "cosine", "surprise", "fitted curve")),
        ],
        (
            "every number is taken as if it were the probability that the document of the largest T is "
            "relevant; the curve is fitted on the other half of the judged questions",
        ),
    )


def _other_sources(found: Sequence[Measured], alphas: Sequence[float]) -> Table:
    measured = Measurements("corpus", "model", "off-topic")
    for own in found:
        for source, questions in own.others.items() if len(own.background) > 1 else ():
            view = as_system(FUSION, without=source)
            background = background_of(joined(own.background, source), view)
            shares = {f"passed at {a:g}": passed(questions, background, view, a) for a in alphas}
            measured.add((*own.names, source), shares)
    return measured.table(
        "other-sources",
        "Questions of one source that pass by fusion, with a background of the other sources, %",
        [(f"passed at {alpha:g}", 1, False) for alpha in alphas],
        ("nothing is promised here: the background does not come from where the questions do",),
        detail=True,
    )
