"""Every similarity by every model on semantic textual similarity, with intervals of the differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.stats.intervals import Differences, difference_intervals
from surprise_rerank.eval.studies.sentence_models import POST_PROCESSED, SentenceModel, distinct_models
from surprise_rerank.eval.studies.sts.data import DataSet
from surprise_rerank.eval.studies.sts.plots import plots
from surprise_rerank.eval.studies.sts.scoring import COSINE, EncodedPairs, Scores
from surprise_rerank.eval.studies.sts.settings import StsSettings
from surprise_rerank.eval.studies.sts.systems import (
    StsSystem,
    missing_modules,
    similarities_for,
)
from surprise_rerank.eval.studies.sts.tables import Compared, tables
from surprise_rerank.eval.studies.sts.word_counts import statistics_of
from surprise_rerank.similarities.definitions import WordStatistics
from surprise_rerank.similarities.table import find_similarity


def evaluate_sts(
    models: Iterable[SentenceModel],
    data_sets: Sequence[DataSet],
    settings: StsSettings | None = None,
    terminal: Terminal | None = None,
) -> Report:
    """Measure how well similarities of sentences agree with people.

    Args:
        models: at least one, of different names; an iterator may load them one at a time.
        data_sets: at least one, read by `read_data_sets`.
        settings: how to compare.
        terminal: for progress; quiet by default.

    Raises:
        DataError: if there is no model or no data set, two models have one name, or a similarity has nothing
            that it could be fitted on.
    """
    settings = settings or StsSettings()
    terminal = terminal or Terminal(quiet=True)
    if not data_sets:
        raise DataError("no data set to measure on; give at least one")
    measured: dict[str, _Measured] = {}
    for model in distinct_models(models):
        measured[model.name] = _Measured(model, data_sets, settings, terminal)
    compared = _compared(list(measured.values()), data_sets, settings, terminal)
    systems = [system for m in measured.values() for system in m.systems]
    notes = dict.fromkeys(note for m in measured.values() for note in m.notes())
    undefined = [note for system in systems for d in data_sets for note in system.undefined(d.subtasks)]
    return Report(
        "Semantic textual similarity",
        tables(systems, data_sets, compared, settings.baseline),
        plots(systems, data_sets, compared, settings.baseline),
        (*notes, *undefined),
        _facts(measured, data_sets, settings),
    )


class _Measured:
    """One model under every similarity, on every data set.

    Attributes:
        systems: the baseline first.
        unknown: data set -> how many of its sentences have no known word.
    """

    def __init__(
        self, model: SentenceModel, data_sets: Sequence[DataSet], settings: StsSettings, terminal: Terminal
    ) -> None:
        names = similarities_for(model, settings.similarities, settings.baseline)
        missing = missing_modules(names)
        if settings.baseline in missing:
            raise DataError(f"the baseline is missing: {missing[settings.baseline]}")
        names = tuple(name for name in names if name not in missing)
        self._missing = tuple(missing.values())
        self.unknown: dict[str, int] = {}
        statistics = _statistics(model, data_sets, settings, names, terminal)
        found = {name: StsSystem(model.name, name) for name in names}
        processed = StsSystem(model.name + POST_PROCESSED, COSINE)
        for data_set in data_sets:
            pairs = _encoded(model, data_set, settings, terminal)
            self.unknown[data_set.name] = pairs.unknown
            with terminal.bar(f"{model.name}: {data_set.name}", len(names), "similarities") as advance:
                for name, scores in _scores(pairs, names, statistics):
                    found[name] = found[name].extended(data_set, scores.values, scores.seconds)
                    advance(1)
            if settings.post_process:
                scores = pairs.cosine_post_processed()
                processed = processed.extended(data_set, scores.values, scores.seconds)
        self.systems = [*found.values(), *([processed] if settings.post_process else [])]

    def notes(self) -> Iterator[str]:
        """What could not be measured, and what figures hang on."""
        yield from self._missing
        unknown = sum(self.unknown.values())
        if unknown:
            yield (
                f"{self.systems[0].model}: no known word in {unknown} of the sentences. Their vector for "
                f"{COSINE} is the same for all, as in EvalRank; under the other similarities they are "
                "similar to nothing (0), as in fuzzymax."
            )


def _statistics(
    model: SentenceModel,
    data_sets: Sequence[DataSet],
    settings: StsSettings,
    names: Sequence[str],
    terminal: Terminal,
) -> WordStatistics:
    """How often words are used, where a similarity asks for it."""
    if not any(name != COSINE and "statistics" in find_similarity(name).fitted_on for name in names):
        return WordStatistics()
    total = sum(len(data_set.sentences) for data_set in data_sets)
    with terminal.bar(f"{model.name}: counting words", total, "sentences") as advance:
        return statistics_of(model.encoder, data_sets, settings.counts, advance)


def _encoded(
    model: SentenceModel, data_set: DataSet, settings: StsSettings, terminal: Terminal
) -> EncodedPairs:
    sentences = set(data_set.sentences) | (set(data_set.other_sentences) if settings.post_process else set())
    with terminal.bar(f"{model.name}: encoding {data_set.name}", len(sentences), "sentences") as advance:
        return EncodedPairs(model, data_set, post_process=settings.post_process, on_progress=advance)


def _scores(
    pairs: EncodedPairs, names: Sequence[str], statistics: WordStatistics
) -> Iterator[tuple[str, Scores]]:
    for name in names:
        yield name, pairs.cosine() if name == COSINE else pairs.similarity(name, statistics)


def _compared(
    measured: Sequence[_Measured], data_sets: Sequence[DataSet], settings: StsSettings, terminal: Terminal
) -> list[Compared]:
    """Every other system compared with the baseline of its model, on every sub-task."""
    if not settings.resamples:
        return []
    tasks = [task for data_set in data_sets for task in data_set.subtasks]
    found: list[Compared] = []
    with terminal.bar("intervals", len(measured) * len(tasks), "sub-tasks") as advance:
        for baseline, *others in (m.systems for m in measured):
            rows: dict[str, Differences] = {}
            for task in tasks:
                rows[task.name] = difference_intervals(
                    task.judgements,
                    np.array([s.scores[task.name] for s in others]).reshape(len(others), len(task)),
                    baseline.scores[task.name],
                    resamples=settings.resamples,
                )
                advance(1)
            for i, system in enumerate(others):
                found += [Compared(system, name, differences, i) for name, differences in rows.items()]
    return found


def _facts(
    measured: Mapping[str, _Measured], data_sets: Sequence[DataSet], settings: StsSettings
) -> dict[str, Any]:
    return {
        "baseline": settings.baseline,
        "resamples": settings.resamples,
        "word_counts": "the sentences" if settings.counts is None else "a list of counts",
        "pairs": {data_set.name: len(data_set) for data_set in data_sets},
        "sentences_without_known_words": {model: m.unknown for model, m in measured.items()},
        "seconds": {s.name: round(s.seconds, 3) for m in measured.values() for s in m.systems},
    }
