"""Every similarity by every model on semantic textual similarity, with intervals of the differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from surprise_rerank import border
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.stats.intervals import difference_intervals
from surprise_rerank.eval.studies.sentence_models import POST_PROCESSED, SentenceModel, load_sentence_models
from surprise_rerank.eval.studies.settings import StsSettings
from surprise_rerank.eval.studies.sts.data import DataSet, read_data_sets
from surprise_rerank.eval.studies.sts.scoring import COSINE, EncodedPairs, read_word_counts
from surprise_rerank.eval.studies.sts.tables import Compared, StsSystem, plots, tables
from surprise_rerank.similarities.table import RAW, find_similarity, with_raw

ALL = "all"
# The paper's, over raw word vectors. Token vectors of a sentence encoder are compared at length 1.
_WORDS = (
    "max-jaccard-raw",
    "dynamax-jaccard-raw",
    "dynamax-otsuka-raw",
    "dynamax-dice-raw",
    "sif-pc-cosine-raw",
)


def check_similarities(settings: StsSettings) -> None:
    """Refuse names that are no similarities."""
    if settings.similarities is not None:
        border.some("similarities", settings.similarities, f"give some, {COSINE!r} or {ALL!r}")
    if settings.baseline == ALL:
        raise DataError(f"the baseline is one similarity, not {ALL!r}")
    for name in {*(settings.similarities or ()), settings.baseline} - {COSINE, ALL}:
        find_similarity(name)


def similarities_for(model: SentenceModel, names: Sequence[str] | None, baseline: str) -> tuple[str, ...]:
    """The names of similarities for a model: the baseline first, once each.

    `all` are those of the register but for `fbow-words`, which takes long. By default they are those
    of the paper, over raw vectors for word vectors, over unit vectors for other encoders.
    """
    if names is None:
        raw = model.word_vectors is not None
        names = (COSINE, *(name if raw else name.removesuffix(RAW) for name in _WORDS))
    every = (COSINE, *(name for name in with_raw() if "embedding" not in find_similarity(name).fitted_on))
    wanted = [n for name in names for n in (every if name == ALL else (name,))]
    return tuple(dict.fromkeys((baseline, *wanted)))


def evaluate_sts(settings: StsSettings, terminal: Terminal) -> Report:
    """Measure how well similarities of sentences agree with people."""
    check_similarities(settings)
    data_sets = read_data_sets(settings.data, settings.sets, other_parts=settings.post_process)
    return compare_similarities(load_sentence_models(settings, terminal), data_sets, settings, terminal)


def compare_similarities(
    models: Iterable[SentenceModel], data_sets: Sequence[DataSet], settings: StsSettings, terminal: Terminal
) -> Report:
    """The report of models on data sets."""
    systems: list[StsSystem] = []
    compared: list[Compared] = []
    notes: dict[str, None] = {}
    unknown: dict[str, dict[str, int]] = {}
    for model in models:
        measured, unknown[model.name] = _measured(model, data_sets, settings, terminal, notes)
        systems += measured
        compared += _compared(measured, data_sets, settings, terminal) if settings.resamples else []
        if missing := sum(unknown[model.name].values()):
            note = (
                f"{model.name}: no known word in {missing} of the sentences. Their vector for {COSINE} is "
                "the same for all, as in EvalRank; under the other similarities they are similar to nothing "
                "(0), as in fuzzymax."
            )
            notes[note] = None
    for system in systems:
        for task, coefficients in system.correlations.items():
            if not coefficients.defined:
                name = f"{system.model} {system.similarity}"
                notes[f"{name}: no correlation on {task}, where it is the same for every pair"] = None
    facts = {
        "baseline": settings.baseline,
        "resamples": settings.resamples,
        "pairs": {data_set.name: len(data_set) for data_set in data_sets},
        "sentences_without_known_words": unknown,
    }
    return Report(
        "Semantic textual similarity",
        tables(systems, data_sets, compared, settings.baseline),
        tuple(plots(compared, settings.baseline)),
        tuple(notes),
        facts,
    )


def _measured(
    model: SentenceModel,
    data_sets: Sequence[DataSet],
    settings: StsSettings,
    terminal: Terminal,
    notes: dict[str, None],
) -> tuple[list[StsSystem], dict[str, int]]:
    """A model under every similarity, the baseline first; how many sentences it lacks of each data set."""
    names = [
        name
        for name in similarities_for(model, settings.similarities, settings.baseline)
        if not _is_missing(name, settings.baseline, notes)
    ]
    counts = None if settings.word_counts is None else read_word_counts(settings.word_counts)
    by_name = {name: StsSystem(model.name, name) for name in names}
    processed = StsSystem(model.name + POST_PROCESSED, COSINE)
    unknown: dict[str, int] = {}
    for data_set in data_sets:
        with terminal.bar(f"{model.name}: encoding {data_set.name}", None, "sentences") as advance:
            pairs = EncodedPairs(
                model,
                data_set,
                word_counts=counts,
                post_process=settings.post_process,
                on_progress=advance,
            )
        unknown[data_set.name] = pairs.unknown
        with terminal.bar(f"{model.name}: {data_set.name}", len(names), "similarities") as advance:
            for name, system in by_name.items():
                system.add(data_set, pairs.similarities(name))
                advance(1)
        if settings.post_process:
            processed.add(data_set, pairs.cosines_post_processed())
    return [*by_name.values(), *([processed] if settings.post_process else [])], unknown


def _is_missing(name: str, baseline: str, notes: dict[str, None]) -> bool:
    """Whether a similarity needs a module that is not installed; adds a note."""
    named = None if name == COSINE else find_similarity(name)
    if named is None or not named.module or is_installed(named.module):
        return False
    note = f"{name}: not measured, {named.module} is not installed: run {pip_line(named.extra)}"
    if name == baseline:
        raise DataError(f"the baseline is missing: {note}")
    notes[note] = None
    return True


def _compared(
    systems: Sequence[StsSystem], data_sets: Sequence[DataSet], settings: StsSettings, terminal: Terminal
) -> list[Compared]:
    """Every other system compared with the baseline, the first one, on every sub-task."""
    baseline, *others = systems
    tasks = [task for data_set in data_sets for task in data_set.subtasks]
    rows: list[Compared] = []
    with terminal.bar(f"{baseline.model}: intervals", len(tasks), "sub-tasks") as advance:
        for task in tasks:
            differences = difference_intervals(
                task.judgements,
                np.array([s.scores[task.name] for s in others]).reshape(len(others), len(task)),
                baseline.scores[task.name],
                resamples=settings.resamples,
            )
            for i, system in enumerate(others):
                ends = (differences.values[i], differences.low[i], differences.high[i])
                value, low, high = (100 * float(end) for end in ends)
                verdict = differences.verdict(i)
                rows.append(Compared(system.model, system.similarity, task.name, value, low, high, verdict))
            advance(1)
    place = {(s.model, s.similarity): i for i, s in enumerate(others)}
    return sorted(rows, key=lambda c: place[c.model, c.similarity])
