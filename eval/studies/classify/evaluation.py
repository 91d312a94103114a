"""Classification, from settings to a report, and the study of the labels' names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import BoolArray, IntArray
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Plot, Report, Table
from surprise_rerank.eval.stats.significance import holm
from surprise_rerank.eval.studies.classify.answers import label_texts
from surprise_rerank.eval.studies.classify.ensemble_size import EnsembleSizes
from surprise_rerank.eval.studies.classify.few_shot import FewShot
from surprise_rerank.eval.studies.classify.systems import (
    LOGISTIC,
    ZERO_SHOT,
    by_labels,
    logistic_regression,
    mcnemar,
    qualities,
)
from surprise_rerank.eval.studies.classify.task import Task, read_task
from surprise_rerank.eval.studies.labelled import COSINE, LabelledVectors, load_models
from surprise_rerank.eval.studies.measurements import Measurements
from surprise_rerank.eval.studies.settings import ClassifySettings
from surprise_rerank.surprise.ensemble import Ensemble

# In place of a template, for a system that uses no label names.
_NO_TEMPLATE = "-"


def evaluate_classification(settings: ClassifySettings, terminal: Terminal) -> Report:
    """Classify labelled texts with every model.

    Returns:
        The table `zero-shot`, or `ensemble-size`, or `few-shot`; or `answers`, the label of each text.
    """
    if settings.answers:
        return label_texts(settings, terminal)
    task = read_task(settings)
    kind = FewShot if settings.few_shot else EnsembleSizes if settings.ensemble_size else ZeroShot
    study: ZeroShot | EnsembleSizes | FewShot = kind(task, settings, terminal)
    left_out: list[str] = []
    described = []

    def leave_out(note: str) -> None:
        left_out.append(note)
        terminal.say(note)

    for model in load_models(settings, terminal, trainable=settings.few_shot is not None):
        encoder = model.encoder
        described.append({"name": encoder.name, "fingerprint": encoder.fingerprint})
        study.measure(model, leave_out)
    if not len(study.measurements):
        raise DataError(left_out[0])
    return Report(
        f"{study.title}: {task.texts.name}",
        tuple(study.tables()),
        tuple(study.plots()),
        (*study.notes(), *left_out, *task.remarks()),
        {
            "settings": {**settings.facts(), "names": dict(task.names)},
            "models": described,
            "texts": len(task.texts),
            "values": study.measurements.facts(),
        },
    )


class ZeroShot:
    """By the names of the labels, and by a logistic regression where there are texts to learn from."""

    title = "Classification by the names of the labels"

    def __init__(self, task: Task, settings: ClassifySettings, terminal: Terminal) -> None:
        self._task = task
        self._settings = settings
        self._terminal = terminal
        self._right: dict[tuple[str, str, str], BoolArray] = {}
        self.measurements = Measurements("model", "template", "system")

    def measure(self, model: LabelledVectors, leave_out: Callable[[str], None]) -> None:
        """What a model's systems make of the texts."""
        task, train = self._task, self._task.train
        texts = model.of(task.texts)
        source = texts if train is None or not self._settings.inductive else model.of(train)
        ensemble = Ensemble.from_vectors(source, similarity="cosine")
        templates = self._settings.templates
        mixing = (self._settings.weight, self._settings.crossover_size)
        with self._terminal.bar(f"{model.name}: classifying", len(set(templates)), "templates") as advance:
            for template, labels in task.labels_by_template(model.encoder, templates, leave_out):
                for system in ZERO_SHOT:
                    answers = by_labels(system, labels, texts, ensemble, *mixing)
                    self._add((model.name, template, system), *answers)
                advance(1)
        if train is not None:
            places = logistic_regression(model.of(train), task.places(train), texts)
            self._add((model.name, _NO_TEMPLATE, LOGISTIC), places)

    def _add(self, key: tuple[str, str, str], places: IntArray, weight: float | None = None) -> None:
        truth = self._task.truth
        self._right[key] = truth == places
        self.measurements.add(key, {"weight": weight, **qualities(truth, places)})

    def tables(self) -> Iterator[Table]:
        """A row for each model, template and system."""
        tested = {
            key: mcnemar(right, self._right[other])
            for key, right in self._right.items()
            if (other := self._baseline(key)) is not None
        }
        for (key, p), corrected in zip(tested.items(), holm(list(tested.values())), strict=True):
            self.measurements.add(key, {"p (accuracy vs cosine)": p, "p (Holm)": corrected})
        measures = ("accuracy", "macro F1", "weighted F1", "p (accuracy vs cosine)", "p (Holm)")
        shown = [("weight", 3, False), *((name, 4, False) for name in measures)]
        yield self.measurements.table("zero-shot", "How well each system does", shown)

    def _baseline(self, key: tuple[str, str, str]) -> tuple[str, str, str] | None:
        """What a system is compared with: the cosine with its template, or with the first one."""
        model, template, system = key
        if system == COSINE:
            return None
        by_cosine = (other for other in self._right if (other[0], other[2]) == (model, COSINE))
        return next((other for other in by_cosine if template in (other[1], _NO_TEMPLATE)), None)

    def plots(self) -> Iterator[Plot]:
        """The accuracy of each system."""
        yield self.measurements.plot("bars", "Accuracy", "accuracy")

    def notes(self) -> Iterator[str]:
        """Notes for readers."""
        task, settings = self._task, self._settings
        yield f"texts tested: {len(task.texts)}; classes to choose from: {len(task.classes)}"
        if not settings.inductive:
            yield "ensemble: the tested texts themselves, without their labels (transductive)"
        if task.train is not None:
            source = f"the texts of {task.train.name} ({len(task.train)}"
            if settings.inductive:
                yield f"ensemble: {source}; inductive)"
            yield f"{LOGISTIC}: logistic regression, learnt from {source})"
        yield "macro F1: the mean over the classes that have texts; weighted F1: by their number of texts"
        yield (
            "p: McNemar's exact test over the texts, against cosine with the same template (logistic: with "
            "the first), and with Holm's correction"
        )
