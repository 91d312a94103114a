"""Accuracy of downstream tasks, from names of models to a report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from surprise_rerank.connectors.progress import Advance, Terminal
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.files import cache_folder
from surprise_rerank.eval.reports.report import Cell, Column, Plot, Report, Series, Table
from surprise_rerank.eval.reports.verdicts import best_of
from surprise_rerank.eval.studies.downstream.classification import SEED, TaskResult, Vectors, classify, fits
from surprise_rerank.eval.studies.downstream.classifiers import Classifier, find_classifier
from surprise_rerank.eval.studies.downstream.settings import ClassifierName, DownstreamSettings
from surprise_rerank.eval.studies.downstream.tasks import DownstreamTask, read_task
from surprise_rerank.eval.studies.result_cache import Key, ResultCache
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    SentenceModel,
    load_each,
    load_sentence_model,
    post_processed,
)

# Texts per block: an encoder also makes token vectors, and those of a block are in memory together.
_TEXTS_AT_ONCE = 4096


def evaluate_downstream(settings: DownstreamSettings, terminal: Terminal | None = None) -> Report:
    """Accuracy of classifiers of sentence vectors, as SentEval measures it.

    Results are kept in the cache, by model, task and its texts, and classifier: what was measured before is
    read.

    Args:
        settings: what is measured.
        terminal: for progress and messages; none by default.

    Returns:
        The tables `downstream`, a row for each model, and `downstream-details`, a row for each model and
        task.

    Raises:
        DatasetError: if a task does not exist, or a file is missing.
        DataError: if data are malformed, or two models have one name.
        SurpriseRerankError: if a model cannot be loaded, or a result cannot be kept.
    """
    terminal = terminal or Terminal(quiet=True)
    folder = settings.cache or cache_folder()
    models = load_each(settings.models, load_sentence_model, terminal)
    used = find_classifier(settings.classifier)
    tasks = [read_task(name, settings.data) for name in dict.fromkeys(settings.tasks)]
    results = ResultCache(folder / "downstream", TaskResult, named_by="task")
    measured: dict[str, dict[str, TaskResult]] = {}
    described = []
    for model in models:
        described.append(_described(model))
        texts = _TextVectors(model)
        variants = {model.name: False}
        if settings.post_process:
            variants[model.name + POST_PROCESSED] = True
        measured.update({shown: {} for shown in variants})
        for task in tasks:
            for shown, processed in variants.items():
                key: Key = {
                    **_described(model),
                    "post_process": processed,
                    "task": task.name,
                    "texts": task.digest,
                    "classifier": settings.classifier,
                    "seed": SEED,
                }
                measure = partial(_measure, task, texts, used, shown, processed, terminal)
                measured[shown][task.name] = results.get(key, measure)
    notes = [*_protocol(settings.classifier, used, tasks), *results.remarks()]
    if settings.post_process:
        notes.append(
            f"{POST_PROCESSED}: without the first two principal components of each task's texts, not centred"
        )
    return Report(
        title=f"Downstream tasks: {', '.join(task.name for task in tasks)}",
        tables=(_accuracies(measured, tasks), _details(measured, used)),
        plots=(_bars(measured),),
        notes=tuple(notes),
        facts={"classifier": settings.classifier, "seed": SEED, "models": described},
    )


def _described(model: SentenceModel) -> dict[str, str | int | bool]:
    encoder = model.encoder
    return {"name": model.name, "fingerprint": encoder.fingerprint, "dimension": encoder.dimension}


def _measure(
    task: DownstreamTask,
    texts: _TextVectors,
    classifier: Classifier,
    shown: str,
    post_process: bool,
    terminal: Terminal,
) -> TaskResult:
    start = time.perf_counter()
    new = texts.unknown(task.texts)
    with terminal.bar(f"{texts.model.name}: encoding {task.name}", len(new), "texts") as advance:
        texts.learn(new, advance)
    vectors = _without_components(task.texts, texts) if post_process else texts
    with terminal.bar(f"{shown}: {task.name}", fits(task, classifier), "fits") as advance:
        outcome = classify(task, vectors, classifier, on_progress=advance)
    return TaskResult(outcome, len(task.texts), time.perf_counter() - start)


class _TextVectors:
    """Vectors of texts, each made once.

    Args:
        model: that makes them.
    """

    def __init__(self, model: SentenceModel) -> None:
        self.model = model
        self._rows: dict[str, int] = {}
        self._vectors = np.zeros((0, model.encoder.dimension), dtype=np.float32)

    def __call__(self, texts: tuple[str, ...]) -> Float32Array:
        """(n, d) vectors of n texts that were learnt."""
        return self._vectors[[self._rows[text] for text in texts]]

    def unknown(self, texts: Sequence[str]) -> list[str]:
        """Those that were not learnt, in their order."""
        return [text for text in texts if text not in self._rows]

    def learn(self, texts: Sequence[str], on_progress: Advance) -> None:
        """Make the vectors of texts that are not known."""
        blocks = [
            self.model.vectors(texts[start : start + _TEXTS_AT_ONCE], on_progress)
            for start in range(0, len(texts), _TEXTS_AT_ONCE)
        ]
        self._rows.update({text: len(self._rows) + i for i, text in enumerate(texts)})
        self._vectors = np.concatenate([self._vectors, *blocks])


def _without_components(texts: tuple[str, ...], vectors: _TextVectors) -> Vectors:
    """Vectors of a task's texts, post-processed together."""
    rows = {text: i for i, text in enumerate(texts)}
    processed = post_processed(vectors(texts))
    return lambda wanted: processed[[rows[text] for text in wanted]]


def _accuracies(measured: dict[str, dict[str, TaskResult]], tasks: Sequence[DownstreamTask]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model, results in measured.items():
        values = [results[task.name].outcome.accuracy for task in tasks]
        rows.append((model, *values, float(np.mean(values))))
    columns = [Column(task.name, 1, "max") for task in tasks]
    return Table(
        "downstream",
        "Accuracy in %",
        (Column("model"), *columns, Column("mean", 1, "max")),
        tuple(rows),
    )


def _details(measured: dict[str, dict[str, TaskResult]], classifier: Classifier) -> Table:
    columns = (
        Column("model"),
        Column("task"),
        Column("accuracy", 2),
        Column("deviation", 2),
        Column("dev accuracy", 2),
        Column("F1", 2),
        Column(classifier.parameter),
        Column("texts"),
        Column("seconds", 1),
    )
    rows = tuple(
        (
            model,
            task,
            result.outcome.accuracy,
            result.outcome.deviation,
            result.outcome.dev_accuracy,
            result.outcome.f1,
            ", ".join(f"{value:g}" for value in sorted(set(result.outcome.chosen))),
            result.texts,
            result.seconds,
        )
        for model, results in measured.items()
        for task, result in results.items()
    )
    notes = (
        "deviation: of the accuracies of the single runs",
        f"dev accuracy: by which {classifier.parameter} was chosen in each run",
        "texts: different ones; seconds: encoding of those that no task before had, and classification",
    )
    return Table("downstream-details", "Single tasks, in %", columns, rows, keys=2, notes=notes, detail=True)


def _bars(measured: dict[str, dict[str, TaskResult]]) -> Plot:
    series = tuple(
        Series(model, tuple(results), tuple(result.outcome.accuracy for result in results.values()))
        for model, results in measured.items()
    )
    means = {own.name: sum(own.y) / len(own.y) for own in series if own.y}
    best = best_of(means, 1)
    finding = f"In the mean over the tasks {best}." if best else "Accuracy of the model in each task."
    return Plot("bars", "Downstream tasks", "task", "accuracy in %", series, finding=finding)


def _protocol(name: ClassifierName, classifier: Classifier, tasks: Sequence[DownstreamTask]) -> Iterator[str]:
    crossed = [task.name for task in tasks if "all" in task.parts]
    tested = [task.name for task in tasks if "all" not in task.parts]
    if crossed:
        yield f"{', '.join(crossed)}: nested 5-fold cross-validation, the mean over 5 test folds"
    if tested and classifier.repeats > 1:
        yield f"{', '.join(tested)}: the test set, the mean over {classifier.repeats} seeds"
    if name == "senteval":
        yield "classifier senteval: stopped early, as the published figures were made (those are of one seed)"
    else:
        yield "classifier logistic: converged; published figures come from training that is stopped early"
