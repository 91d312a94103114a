"""Classification by the names of the labels, and how large an ensemble must be; the choice of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from surprise_rerank import border
from surprise_rerank.classify.classifier import SurpriseClassifier
from surprise_rerank.classify.labels import Labels
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import BoolArray, IntArray
from surprise_rerank.encoders.base import dense_vectors
from surprise_rerank.eval.reports.report import Plot, Table
from surprise_rerank.eval.stats.significance import holm
from surprise_rerank.eval.studies.classify.few_shot import FewShot
from surprise_rerank.eval.studies.classify.systems import (
    HALF_POOLED,
    LOGISTIC,
    ZERO_SHOT,
    by_labels,
    logistic_regression,
    mcnemar,
    qualities,
)
from surprise_rerank.eval.studies.classify.task import ClassifyStudy, Task, read_label_names
from surprise_rerank.eval.studies.labelled import COSINE, Answers, LabelledTexts, LabelledVectors
from surprise_rerank.eval.studies.measurements import Shown
from surprise_rerank.eval.studies.settings import ClassifySettings
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Weight

# In place of a template, for a system that uses no label names.
_NO_TEMPLATE = "-"
# Row of the table -> system, weight.
ENSEMBLE_SYSTEMS: dict[str, tuple[str, Weight]] = {
    COSINE: (COSINE, 0.0),
    "surprise, crossover": ("surprise", "crossover"),
    "surprise, weight 1": ("surprise", 1.0),
    "pooled, crossover": ("pooled", "crossover"),
    "half-pooled, crossover": (HALF_POOLED, "crossover"),
    "half-pooled, weight 1": (HALF_POOLED, 1.0),
}
_DRAWS = 10
_SEED = 0


def classification(settings: ClassifySettings, terminal: Terminal) -> ClassifyStudy | Answers:
    """The study that settings ask for; or the label of each text, by the classifier's defaults."""
    if not settings.answers:
        kind = FewShot if settings.few_shot else EnsembleSizes if settings.ensemble_size else ZeroShot
        return kind(settings, terminal)
    advice = "answers=yes classifies by them: give --set names=FILE.yaml"
    labels = Labels.of(read_label_names(border.present("names", settings.names, advice)))

    def answers(model: LabelledVectors, texts: LabelledTexts) -> Iterable[str]:
        anchors = labels.vectors(settings.templates[0], partial(dense_vectors, model.encoder, kind="query"))
        by_label = dict(zip(labels.classes.tolist(), anchors, strict=True))
        weight, size = settings.weight, settings.crossover_size
        vectors = model.of(texts)
        classifier = SurpriseClassifier(by_label, weight=weight, crossover_size=size).fit(vectors)
        return map(str, classifier.predict(vectors))

    return Answers(settings, terminal, [settings.file], "label", answers)


class ZeroShot(ClassifyStudy):
    """By the names of the labels, and by a logistic regression where there are texts to learn from."""

    heading = "Classification by the names of the labels"
    keys = ("model", "template", "system")

    def prepare(self) -> None:
        """Begin with no answer."""
        super().prepare()
        self._right: dict[tuple[str, str, str], BoolArray] = {}

    def measure(self, model: LabelledVectors) -> None:
        """What a model's systems make of the texts."""
        task, train = self.data, self.data.train
        texts = model.of(task.texts)
        source = texts if train is None or not self.settings.inductive else model.of(train)
        ensemble = Ensemble.from_vectors(source, similarity="cosine")
        templates = self.settings.templates
        mixing = (self.settings.weight, self.settings.crossover_size)
        with self.terminal.bar(f"{model.name}: classifying", len(set(templates)), "templates") as advance:
            for template, labels in task.labels_by_template(model.encoder, templates, self.leave_out):
                for system in ZERO_SHOT:
                    answers = by_labels(system, labels, texts, ensemble, *mixing)
                    self._add((model.name, template, system), *answers)
                advance(1)
        if train is not None:
            places = logistic_regression(model.of(train), task.places(train), texts)
            self._add((model.name, _NO_TEMPLATE, LOGISTIC), places)

    def _add(self, key: tuple[str, str, str], places: IntArray, weight: float | None = None) -> None:
        truth = self.data.truth
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
        shown = [Shown("weight", 3), *map(Shown, measures)]
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
        """What is tested, against which ensemble, and how."""
        task, settings = self.data, self.settings
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
        yield from task.remarks()


class EnsembleSizes(ClassifyStudy):
    """Ensembles are drawn from the texts, without their labels; the other texts are tested (inductive)."""

    heading = "Sizes of ensembles"
    keys = ("model", "template", "ensemble", "system")

    def read(self) -> Task:
        """The texts; ensembles that leave none to test are left out."""
        task, sizes = super().read(), self.settings.ensemble_size or ()
        self._sizes = [size for size in sizes if size < len(task.texts)]
        advice = f"it has {len(task.texts)}: give more texts, or smaller ensembles"
        border.some(f"ensembles of {task.texts.name} that leave a text to test", self._sizes, advice)
        self._draws = self.settings.draws or _DRAWS
        return task

    def measure(self, model: LabelledVectors) -> None:
        """Every size, with the same draws for every model and template."""
        texts, truth, templates = model.of(self.data.texts), self.data.truth, self.settings.templates
        total = len(set(templates)) * len(self._sizes) * self._draws
        with self.terminal.bar(f"{model.name}: drawing ensembles", total, "draws") as advance:
            for template, labels in self.data.labels_by_template(model.encoder, templates, self.leave_out):
                for size in self._sizes:
                    for number in range(self._draws):
                        rows = np.random.default_rng((_SEED, size, number)).permutation(len(texts))
                        ensemble = Ensemble.from_vectors(texts[rows[:size]], similarity="cosine")
                        tested = rows[size:]
                        for shown, (system, weight) in ENSEMBLE_SYSTEMS.items():
                            mixing = (weight, self.settings.crossover_size)
                            places, used = by_labels(system, labels, texts[tested], ensemble, *mixing)
                            f1 = qualities(truth[tested], places)["weighted F1"]
                            key = (model.name, template, size, shown)
                            self.measurements.add(key, {"weight": used, "weighted F1": f1})
                        advance(1)
                    self._compare((model.name, template, size))

    def _compare(self, place: tuple[str, str, int]) -> None:
        cosine = self.measurements.mean((*place, COSINE), "weighted F1")
        for system in ENSEMBLE_SYSTEMS:
            if system != COSINE and cosine:
                f1 = self.measurements.mean((*place, system), "weighted F1")
                ratio = None if f1 is None else f1 / cosine
                self.measurements.add((*place, system), {"ratio to cosine": ratio})

    def tables(self) -> Iterator[Table]:
        """A row for each model, template, size and system."""
        shown = [Shown("weight", 3), Shown("weighted F1", spread=True), Shown("ratio to cosine")]
        yield self.measurements.table("ensemble-size", "Means over random ensembles", shown)

    def plots(self) -> Iterator[Plot]:
        """The ratio over the size."""
        yield self.measurements.plot(
            "line",
            "Surprise by cosine",
            "ratio to cosine",
            log_x=True,
            note="Ratios of means over the draws; above 1 surprise is better than cosine.",
        )

    def notes(self) -> Iterator[str]:
        """How ensembles are drawn."""
        yield (
            f"random ensembles of each size: {self._draws}, from the {len(self.data.texts)} texts, without "
            "labels; the texts outside of the ensemble are tested (inductive)"
        )
        yield "dev.: standard deviation over the draws; ratio: of the means of surprise and cosine"
        yield "crossover: weight tanh(size / 1000)"
        left = [str(size) for size in self.settings.ensemble_size or () if size not in self._sizes]
        if left:
            yield f"ensembles of {', '.join(left)} leave no text to test and are left out"
        yield from self.data.remarks()
