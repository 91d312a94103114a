"""Off-topic questions put to corpora: from settings to the tables of what finds them, and what passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surprise_rerank import border
from surprise_rerank.candidates import Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.readers import Fields, open_documents
from surprise_rerank.connectors.readers.datasets import open_source
from surprise_rerank.core.extras import pip_line
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.questions import read_questions
from surprise_rerank.eval.reports.report import Report, Table
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.eval.retrieval.workspace import Workspace, has_lucene, index_key
from surprise_rerank.eval.studies.labelled import load_models
from surprise_rerank.eval.studies.measurements import Measurements
from surprise_rerank.eval.studies.off_topic.scores import (
    CONTRAST,
    FUSION,
    AskedQuestion,
    asked_question,
    auroc,
    background_of,
    passed,
    totals,
)
from surprise_rerank.eval.studies.settings import OffTopicSettings
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.surprise.ensemble import Ensemble

_FEWEST = 20  # off-topic questions of a source; halves of fewer are too small to measure
Halves = tuple[Sequence[str], Sequence[str]]


def questions_of(path: Path) -> list[str]:
    """The questions of a file: the column `text` or `question` of a table, or the lines of a text."""
    if path.suffix in (".txt", ""):
        return list(read_questions(str(path)))
    return [document.text for document in open_documents(path, fields=Fields(id="row"))]


def halves(name: str, texts: Sequence[str], limit: int) -> Halves:
    """At most so many questions, at random and always the same: for the background, and for the test."""
    found = list(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))
    if len(found) < _FEWEST:
        raise DataError(f"{name} holds {len(found)} questions; give at least {_FEWEST}")
    kept = [found[i] for i in np.sort(np.random.default_rng(0).permutation(len(found))[:limit])]
    order, middle = np.random.default_rng(0).permutation(len(kept)), len(kept) // 2
    return [kept[i] for i in order[:middle]], [kept[i] for i in order[middle:]]


def evaluate_off_topic(settings: OffTopicSettings, terminal: Terminal) -> Report:
    """Search every corpus with every source's questions: what passes a threshold, beside its level."""
    datasets = [(spec, load_dataset(spec, settings.split)) for spec in settings.datasets]
    sources = _sources(settings)
    folder = settings.cache or cache_folder()
    found = []
    for model in load_models(settings.models, folder, terminal):
        for spec, dataset in datasets:
            workspace = Workspace(folder, index_key(spec, dataset), model.encoder, None, terminal)
            others = {name: own for name, own in sources.items() if name != dataset.name}
            found.append(_measured(settings, spec, dataset, others, model.name, workspace))
    notes = [] if has_lucene() else [f"without BM25: Pyserini is not installed: run {pip_line('pyserini')}"]
    alpha = settings.alphas[-1]
    fewest = min(min(len(own.background), sum(map(len, own.others.values()))) for own in found)
    error = 100 * np.sqrt(2 * alpha * (1 - alpha) / fewest)
    notes.append(
        f"thresholds are set on one half of the off-topic questions, and shown on the other; a share of "
        f"{alpha:g} of n questions is known to +-{error:.1f} points"
    )
    return Report(
        title="Off-topic questions: " + ", ".join(dataset.name for _, dataset in datasets),
        tables=(_thresholds(found, settings.alphas), _auroc(found)),
        notes=tuple(notes),
        facts={"models": settings.models, "limit": settings.limit, "depth": settings.depth},
    )


@dataclass(eq=False)
class Measured:
    """One corpus, searched with one model's vectors: with its own questions, and with those of other sources.

    Thresholds are set on the halves in `background`; `others` has the other half of each source.
    """

    names: tuple[str, str]
    scorers: tuple[str, ...]
    on_topic: Sequence[AskedQuestion]
    background: Sequence[AskedQuestion]
    others: Mapping[str, Sequence[AskedQuestion]]

    def __post_init__(self) -> None:
        self.fusion = background_of(self.background, FUSION)
        self.tested = [question for own in self.others.values() for question in own]


def _sources(settings: OffTopicSettings) -> dict[str, Halves]:
    """The questions of all data sets, judged or not, and of files."""
    texts = [(own.name, [*own.queries().values()]) for own in map(open_source, settings.datasets)]
    texts += [(path.name.partition(".")[0], questions_of(path)) for path in dict.fromkeys(settings.files)]
    names = [name for name, _ in texts]
    border.distinct("names of sources", names, "give each once, or rename a file")
    if len(names) < 2:
        raise DataError(
            f"{', '.join(names)} is the only source of questions; give more data sets, or --questions FILE "
            "with questions that have nothing to do with it"
        )
    return {name: halves(name, own, settings.limit) for name, own in texts}


def _measured(
    settings: OffTopicSettings,
    spec: str,
    dataset: RetrievalDataset,
    sources: Mapping[str, Halves],
    model: str,
    workspace: Workspace,
) -> Measured:
    encoder, terminal = workspace.encoder, workspace.terminal
    total = len(dataset.queries) + sum(len(half) for own in sources.values() for half in own)
    lessons = Lessons(spec, "train", dataset.split, encoder, terminal)
    with (
        workspace.resources(dataset, None, lessons, lucene=has_lucene()) as resources,
        terminal.bar(dataset.name, total, "questions") as advance,
    ):
        scorers: list[Scorer] = [
            CosineScorer(resources.corpus),
            DynaMaxScorer(sample=resources.sample_tokens),
        ]
        retriever = resources.retriever("cosine")
        if resources.lucene is not None:
            scorers.insert(0, RetrievedScorer("bm25"))
            retriever = resources.retriever("both-lucene", bm25="bm25-lucene")
        first = encode_queries(encoder, [text for half, _ in sources.values() for text in half])
        ensemble = Ensemble.from_vectors(np.array([own.require_dense() for own in first]), sample_size=0)

        def ask(queries: Sequence[Query], *, is_member: bool = False) -> list[AskedQuestion]:
            found = []
            for query in queries:
                pool = retriever.retrieve(query, settings.depth, frozenset({"dense", "tokens"}))
                corpus = resources.corpus
                found.append(asked_question(query, pool, scorers, corpus, ensemble, is_member=is_member))
                advance(1)
            return found

        return Measured(
            (dataset.name, model),
            tuple(scorer.name for scorer in scorers),
            ask(encode_queries(encoder, list(dataset.queries.values()), list(dataset.queries))),
            ask(first, is_member=True),
            {name: ask(encode_queries(encoder, half)) for name, (_, half) in sources.items()},
        )


def _thresholds(found: Sequence[Measured], alphas: Sequence[float]) -> Table:
    """What passes the thresholds of each corpus' background, and those of the first corpus."""
    firsts = {own.names[1]: own for own in reversed(found)}
    measured = Measurements("corpus", "model", "scorer")
    for own in found:
        for scorer in (*own.scorers, FUSION):
            raw = FUSION if scorer == FUSION else f"raw {scorer}"
            background = background_of(own.background, scorer)
            carried = background_of(firsts[own.names[1]].background, raw)
            values = {"questions": float(len(own.tested))}
            for alpha in alphas:
                values[f"passed at {alpha:g}"] = passed(own.tested, background, scorer, alpha)
                values[f"raw threshold at {alpha:g}"] = passed(own.tested, carried, raw, alpha)
            measured.add((*own.names, scorer), values)
    columns = [f"{what} at {alpha:g}" for alpha in alphas for what in ("passed", "raw threshold")]
    return measured.table(
        "thresholds",
        "Off-topic questions that pass, %",
        [("questions", 0, False), *((name, 1, False) for name in columns)],
        (
            "passed: with the background of a pipeline by this scorer, of the same corpus and model; raw "
            "threshold: with the best score itself (of fusion T) that lets as many through on "
            f"{found[0].names[0]}",
        ),
    )


def _auroc(found: Sequence[Measured]) -> Table:
    measured = Measurements("corpus", "model", "off-topic")
    scorers = sorted(found[0].scorers, key=("cosine", "dynamax", "bm25").index)
    kept = []
    for own in found:
        on_topic = _statistics(own, own.on_topic, scorers)
        for source, questions in own.others.items():
            off_topic = _statistics(own, questions, scorers)
            values = {name: auroc(on_topic[name], off_topic[name]) for name in on_topic}
            measured.add((*own.names, source), values)
            kept.append(values)
    for values in kept:
        measured.add(("mean", "all", "all"), values)
    return measured.table(
        "auroc",
        "Questions of the corpus told from off-topic ones, AUROC",
        [(name, 3, False) for name in kept[0]],
        (
            "z over documents: the best cosine among those of the question; z over questions: among those "
            "of the document to background questions; fusion: the total of BM25, the latter and dynamax",
        ),
    )


def _statistics(
    own: Measured, questions: Sequence[AskedQuestion], scorers: Sequence[str]
) -> dict[str, np.ndarray]:
    """(n,) numbers of n questions by name, larger for those that have an answer."""
    return {
        **{name: np.array([question.best(name) for question in questions]) for name in scorers},
        "min-max": np.array([question.min_max for question in questions]),
        "z over documents": np.array([question.z_documents for question in questions]),
        "z over questions": np.array([question.best(CONTRAST) for question in questions]),
        FUSION: totals(questions, own.fusion, FUSION),
    }
