"""One evaluation from settings to results: what `rerank-eval` runs, and what Python can call."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from surprise_rerank import _border as border
from surprise_rerank._candidates import Query, Ranking
from surprise_rerank._errors import DataError, DatasetError, MissingExtraError, did_you_mean
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.qdrant._location import shown_url
from surprise_rerank.connectors.readers._datasets import open_source
from surprise_rerank.connectors.systems._inputs import BuiltSystem
from surprise_rerank.connectors.systems._register import SYSTEMS, Need, System, find_systems
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.core._files import cache_folder
from surprise_rerank.encoders._loading import load_encoder
from surprise_rerank.encoders._openvino import CALIBRATION_TEXTS
from surprise_rerank.encoders.base import Encoder, encode_queries, precision_of
from surprise_rerank.eval.retrieval.datasets import (
    UNJUDGED,
    RetrievalDataset,
    TrainingQuestions,
    load_dataset,
)
from surprise_rerank.eval.retrieval.runs import (
    Run,
    SystemResult,
    judged_ranking,
    measure_run,
    parse_measures,
    read_run,
    run_path,
    run_system,
    split_run,
    try_measures,
)
from surprise_rerank.eval.retrieval.settings import (
    DEFAULTS,
    EVIDENCE_MEASURES,
    FITTED_ON,
    Judged,
    RetrievalSettings,
)
from surprise_rerank.eval.retrieval.systems import EVALUATED, POOLS, Resources, build, similarity_system
from surprise_rerank.eval.retrieval.workspace import Workspace, has_lucene, index_key, load_anchors
from surprise_rerank.similarities.table import with_raw

AnySystem: TypeAlias = System | Run


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came out of one data set; notes are for the table's reader, facts for a report."""

    name: str
    title: str
    measures: tuple[str, ...]
    results: tuple[SystemResult, ...]
    qrels: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...]
    facts: Mapping[str, Any]
    questions: Mapping[str, str] = field(default_factory=dict)


def evaluate(
    settings: RetrievalSettings, terminal: Terminal | None = None, encoder: Encoder | None = None
) -> Evaluation:
    """Load, index what is not indexed yet, run every system over every question, and measure."""
    start = time.perf_counter()
    terminal = terminal or Terminal(quiet=True)
    similarities = {name: similarity_system(name) for name in with_raw() if name not in SYSTEMS}
    # `--systems` and the baseline may name runs, too.
    named_runs = {split_run(run)[0] for run in settings.runs} - SYSTEMS.keys() - EVALUATED.keys()
    others = [name for name in settings.systems if name not in named_runs]
    built_in = find_systems(others, {**similarities, **EVALUATED})
    by_passages = settings.judged in ("pages", "passages")
    usual = by_passages and settings.measures == DEFAULTS.measures
    names = () if settings.judged == "nothing" else EVIDENCE_MEASURES if usual else settings.measures
    measures = parse_measures(names)
    whole = load_dataset(settings.dataset, settings.split, settings.judged)
    if measures:
        try_measures(measures, next(iter(whole.queries)))
    dataset = whole if settings.limit is None else whole.limited(settings.limit)
    every: dict[str, AnySystem] = {**built_in, **_runs(settings, whole)}
    missing = {name: _missing(system, whole.judged) for name, system in every.items()}
    systems = {name: system for name, system in every.items() if not missing[name]}
    notes = [f"{name}: not measured, {reason}" for name, reason in missing.items() if reason]
    if not systems:
        raise MissingExtraError("; ".join(notes))
    pool = settings.candidates if settings.candidates in POOLS else None
    candidates = _run(settings.candidates, whole) if settings.candidates and pool is None else None
    notes = [*_gaps(settings, dataset), *notes, *_without_baseline(settings, systems)]
    runs = {name: system for name, system in systems.items() if isinstance(system, Run)}
    if len(runs) == len(systems):
        return _of_runs(settings, dataset, measures, runs, notes, terminal)
    if encoder is None:
        with terminal.bar(f"loading {settings.model}"):
            encoder = load_model(settings, dataset)
    anchors = load_anchors(settings.ensemble, settings.dataset, encoder, terminal)
    title = f"{_title(dataset)}, {encoder.name}"
    terminal.say(title)
    workspace = Workspace(
        cache=settings.cache or cache_folder(),
        key=index_key(settings.dataset, dataset),
        encoder=encoder,
        url=settings.qdrant_url,
        terminal=terminal,
        passages=settings.passages or by_passages,
        pooling=settings.pooling,
    )
    _require_window(settings, encoder)
    lessons = TrainingQuestions(settings.dataset, FITTED_ON, dataset.split, encoder, terminal)
    if any("judgements" in _needs(system) for system in systems.values()):
        _ = lessons.judged  # errors in them are reported before the documents are indexed
    by_lucene = pool in ("bm25-lucene", "both-lucene") or any("lucene" in _needs(s) for s in systems.values())
    with workspace.resources(dataset, anchors, lessons, lucene=by_lucene and has_lucene()) as opened:
        resources = replace(opened, pool=candidates or pool)
        began, texts, ids = time.perf_counter(), list(dataset.queries.values()), list(dataset.queries)
        with terminal.bar("encoding questions", len(ids), "questions") as advance:
            queries = encode_queries(encoder, texts, ids, on_progress=advance)
        encoding = (time.perf_counter() - began) / len(queries)
        corpus = resources.corpus
        lines = corpus.points.count() if by_passages else len(corpus)
        depth = min(settings.depth, lines)  # engines refuse very large numbers
        documents = {document.id: document for document in dataset.documents}
        results = []
        for name, system in systems.items():
            built = system if isinstance(system, Run) else _built(system, resources, whole.judged)
            with terminal.bar(name, len(queries), "questions") as advance:
                run, seconds = run_system(built, queries, depth, dataset.answers_itself, advance)
            if by_passages and not isinstance(built, Run):
                run = {
                    question: judged_ranking(ranking, dataset.qrels[question], documents, settings.judged)
                    for question, ranking in run.items()
                }
            values, per_query = measure_run(run, dataset, measures) if measures else ({}, {})
            results.append(SystemResult(name, run, values, per_query, seconds, isinstance(built, Run)))
            if isinstance(built, BuiltSystem) and built.note:
                notes.append(f"{name}: {built.note}")
            notes.extend(_remarks(name, run, dataset))
        engine = resources.corpus.engine
        pooling = resources.corpus.manifest.options.pooling
    seconds_in_all = time.perf_counter() - start
    notes += _splitting(settings, encoder)
    notes.append(f"token vectors: {pooling:g} tokens merged into a vector")
    notes.append(f"encoding a question takes {1000 * encoding:.1f} ms more; {seconds_in_all:.1f} s in all")
    facts = _facts(settings, dataset)
    if settings.qdrant_url:
        url = facts["settings"]["qdrant_url"]
        notes.append(f"the collection {workspace.name} stays on {url} for the next run")
    facts |= {
        "model": {
            "name": encoder.name,
            "fingerprint": encoder.fingerprint,
            "dimension": encoder.dimension,
            "precision": precision_of(encoder),
        },
        "engine": engine,
        "collection": workspace.name if engine == "server" else None,
        "pooling": pooling,
        "seconds_in_all": seconds_in_all,
    }
    return Evaluation(
        f"{dataset.name}/{dataset.split}",
        title,
        tuple(measures),
        tuple(results),
        dataset.qrels,
        tuple(notes),
        facts,
        dataset.queries,
    )


def _of_runs(
    settings: RetrievalSettings,
    dataset: RetrievalDataset,
    measures: Mapping[str, Any],
    runs: Mapping[str, Run],
    notes: Sequence[str],
    terminal: Terminal,
) -> Evaluation:
    """Measure runs of other programs alone, which takes no model and no index."""
    title, results, remarks = _title(dataset), [], []
    terminal.say(title)
    queries = [Query(text, id=name) for name, text in dataset.queries.items()]
    for name, of_program in runs.items():
        run, seconds = run_system(of_program, queries, settings.depth, dataset.answers_itself, lambda _: None)
        values, per_query = measure_run(run, dataset, measures) if measures else ({}, {})
        results.append(SystemResult(name, run, values, per_query, seconds, True))
        remarks += _remarks(name, run, dataset)
    return Evaluation(
        f"{dataset.name}/{dataset.split}",
        title,
        tuple(measures),
        tuple(results),
        dataset.qrels,
        (*notes, *remarks),
        _facts(settings, dataset),
        dataset.queries,
    )


def _require_window(settings: RetrievalSettings, encoder: Encoder) -> None:
    """Refuse, by a DataError, a model that reads any length where passages are judged."""
    if settings.judged in ("pages", "passages"):
        advice = "choose one such as all-MiniLM-L6-v2, which does"
        border.present(f"the model's window, by which {settings.judged} are made,", encoder.window, advice)


def _title(dataset: RetrievalDataset) -> str:
    sizes = f"{len(dataset.documents)} documents, {len(dataset.queries)} questions"
    return f"{dataset.name} ({dataset.split}): {sizes}"


def _facts(settings: RetrievalSettings, dataset: RetrievalDataset) -> dict[str, Any]:
    """What a report says of the data and the settings."""
    url = shown_url(settings.qdrant_url) if settings.qdrant_url else None
    return {
        "dataset": dataset.name,
        "split": dataset.split,
        "documents": len(dataset.documents),
        "questions": len(dataset.queries),
        "settings": asdict(settings) | {"cache": None, "qdrant_url": url},
    }


def load_model(settings: RetrievalSettings, dataset: RetrievalDataset | None = None) -> Encoder:
    """The model of the settings."""
    sample = None
    if dataset is not None and settings.precision == "int8":
        chosen = random.Random(0).sample(dataset.documents, min(CALIBRATION_TEXTS, len(dataset.documents)))
        sample = [document.content for document in chosen]
    return load_encoder(settings.model, precision=settings.precision, calibration=sample)


def check_together(settings: RetrievalSettings, datasets: Sequence[str], run_dir: Path | None = None) -> None:
    """Refuse what could not be measured, or would get into each other's way, before anything is."""
    sources = [open_source(name, settings.split) for name in datasets]
    is_judged = settings.judged != "nothing"
    if not is_judged and run_dir is None:
        raise DataError(
            "judged=nothing has rankings and no measures; say where to write them, --run-dir FOLDER"
        )
    places = [short_name(f"{source.name}/{source.split if is_judged else UNJUDGED}") for source in sources]
    twice = next((place for i, place in enumerate(places) if place in places[:i]), None)
    if twice is not None:
        raise DatasetError(f"two data sets are called {twice!r}; give each once, or rename a folder")
    runs = [split_run(run)[1] for run in settings.runs]
    runs += [settings.candidates] if settings.candidates and settings.candidates not in POOLS else []
    for file in (run_path(name, place) for name in runs for place in places):
        if not file.is_file():
            raise DatasetError(f"there is no run file {file} (candidates are also {', '.join(POOLS)})")
        if run_dir is not None and file.resolve().is_relative_to(run_dir.resolve()):
            raise DataError(f"{file} lies in --run-dir, where it could be overwritten; give another folder")


def short_name(name: str) -> str:
    """A data set's name as a file's: `beir/scifact/test` is `beir-scifact-test`."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")


def _runs(settings: RetrievalSettings, dataset: RetrievalDataset) -> dict[str, Run]:
    """Run files of other programs, by the names of their systems."""
    systems: dict[str, Run] = {}
    for named in settings.runs:
        name, file = split_run(named)
        run = _run(file, dataset)
        name = name.strip() or run.name
        if name in systems or name in SYSTEMS or name in EVALUATED:
            raise DataError(f"two systems have the name {name!r}; name the run: runs=NAME={file}")
        systems[name] = run
    return systems


def _run(file: str, dataset: RetrievalDataset) -> Run:
    """A run file with the ids of a whole data set, some of whose questions it must rank."""
    path = run_path(file, short_name(f"{dataset.name}/{dataset.split}"))
    judged = (name for gains in dataset.qrels.values() for name in gains)
    names = (document.id for document in dataset.documents) if dataset.judged == "documents" else judged
    run = read_run(path).named(dataset.queries, names)
    if not run.rankings.keys() & dataset.queries.keys():
        raise DatasetError(
            f"{path} ranks none of the {len(dataset.queries)} questions, such as "
            f"{next(iter(dataset.queries))!r}; its first is {next(iter(run.rankings))!r}: is it of another "
            "data set?"
        )
    return run


def _without_baseline(settings: RetrievalSettings, systems: Mapping[str, AnySystem]) -> list[str]:
    """A note that nothing is compared, where the usual baseline is not asked for."""
    if settings.judged == "nothing":
        return ["nothing is judged, and nothing measured: the rankings are what comes out"]
    if settings.baseline in systems:
        return []
    if settings.baseline != DEFAULTS.baseline:
        hint = did_you_mean(settings.baseline, systems)
        names = ", ".join(systems)
        raise DataError(
            f"the baseline {settings.baseline!r} is not among the systems; {hint}there are: {names}"
        )
    return [f"nothing is compared: the baseline {settings.baseline} is not among the systems"]


def _needs(system: AnySystem) -> frozenset[Need]:
    return frozenset() if isinstance(system, Run) else system.needs | system.uses


def _built(system: System, resources: Resources, judged: Judged) -> BuiltSystem:
    """A system at work, which finds passages where these, or pages, are judged."""
    built = build(system, resources)
    if judged == "documents":
        return built
    by_unit = getattr(built.retriever, "by_unit", None)
    if by_unit is None:
        raise DataError(
            f"{built.name} takes its candidates from {resources.pool!r}, which has documents alone, and "
            f"{judged} are judged; leave candidates away"
        )
    return replace(built, retriever=by_unit("passage"))


def _splitting(settings: RetrievalSettings, encoder: Encoder) -> list[str]:
    """What becomes of documents that are longer than the model reads."""
    if settings.judged == "passages":
        return ["every passage is a line by itself; its id is its document's and its number"]
    if settings.judged == "pages":
        return ["every passage is a line: it counts for the best judged page that it is on, each page once"]
    if encoder.window is None:
        return []
    if settings.passages:
        return [f"documents of more than {encoder.window} tokens are split; their best passage counts"]
    return [f"documents are cut after {encoder.window} tokens (--set passages=yes splits them)"]


def _missing(system: AnySystem, judged: Judged) -> str:
    """What a system needs and this evaluation lacks, with the remedy; empty, where it can run."""
    if isinstance(system, Run):
        return ""
    if judged != "documents" and _needs(system) & {"lucene", "judgements"}:
        return f"it ranks documents alone, and {judged} are judged"
    if "lucene" in system.needs and not has_lucene():
        return f"Pyserini is not installed: run {pip_line('pyserini')}"
    if system.module and not is_installed(system.module):
        return f"{system.module} is not installed: run {pip_line(system.extra)}"
    return ""


def _gaps(settings: RetrievalSettings, dataset: RetrievalDataset) -> list[str]:
    """What is missing from the data set."""
    notes = []
    if settings.limit is not None:
        notes.append(f"--limit {settings.limit}: a part of the corpus; these figures compare with nothing")
    if dataset.missing_documents:
        units = "pages" if settings.judged == "pages" else "documents"
        notes.append(f"{dataset.missing_documents} judged {units} are not in the corpus, and not found")
    if dataset.missing_queries:
        notes.append(f"{dataset.missing_queries} judged questions have no text and were left out")
    if dataset.answers_itself:
        repeated = len(dataset.answers_itself)
        notes.append(f"{repeated} questions are documents of the same id, which are left out for them")
    return notes


def _remarks(name: str, run: Mapping[str, Ranking], dataset: RetrievalDataset) -> list[str]:
    """What a system's rankings say of their scores, a line for each kind of note; what is not there."""
    notes: dict[str, list[str]] = {}
    for ranking in run.values():
        for note in ranking.notes:
            notes.setdefault(" ".join(note.split()[:3]), []).append(note)
    lines = [f"{name}: in {len(alike)} of {len(run)} questions, {alike[0]}" for alike in notes.values()]
    empty = sum(not len(ranking) for ranking in run.values())
    if empty:
        lines.append(f"{name}: no documents for {empty} of {len(dataset.queries)} questions; they count 0")
    return lines
