"""Studies of classification: by the names of the labels, by the size of the ensemble, from few examples."""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from typing import TypeAlias

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, ModelError
from surprise_rerank.classify._classifier import ClassifierModel, SurpriseClassifier
from surprise_rerank.classify._labels import Labels
from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    TrainingHistory,
    fine_tune,
    fit_linear_map,
    mapped,
)
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.core._extras import import_extra, is_installed, pip_line
from surprise_rerank.core.arrays import BoolArray, Float32Array, IntArray
from surprise_rerank.encoders.base import Encoder, dense_vectors
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.eval.reports.report import Plot, Table
from surprise_rerank.eval.stats import holm, mcnemar
from surprise_rerank.eval.studies.labelled import (
    COSINE,
    SURPRISE,
    Answers,
    ClassifyStudy,
    LabelledTexts,
    LabelledVectors,
    Task,
    label_names,
    read_label_names,
)
from surprise_rerank.eval.studies.settings import FEW_SHOT_SYSTEMS, ClassifySettings
from surprise_rerank.eval.studies.study import Shown
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.score import Weight

LOGISTIC = "logistic"
HALF_POOLED = "half-pooled"  # the default of the classifier
_MODELS: Mapping[str, ClassifierModel] = {**SURPRISE, HALF_POOLED: "half-pooled"}
ZERO_SHOT = (COSINE, *_MODELS)  # by the labels' names alone
_ITERATIONS = 2000  # of the regression: enough for unit vectors of a hundred classes
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
SETFIT = "setfit"  # also the extra that brings it
_NEED_TRAINING = ("cosine", "surprise", SETFIT)
_DRAWS_OF_EXAMPLES, _DRAWS_OF_ENSEMBLES = 3, 10
_SENTENCES = 8  # of each class, which SetFit learns from where there are no examples
# The labels' vectors and (n, d) those of the tested texts, after a training if there was one.
_Trained: TypeAlias = tuple[Mapping[str, Float32Array], Float32Array, TrainingHistory | None]


class FewShot(ClassifyStudy):
    """What is learnt from draws of examples, which are the same for every model and system."""

    heading, trainable = "Few examples", True
    keys = ("model", "k", "system")

    def read(self) -> Task:
        task = super().read()
        self._source, self._shots, self._unreached = task.train or task.texts, self.settings.few_shot or (), 0
        self._classes = len(self._source.classes)
        border.some(f"labels of {self._source.name}", self._source.classes, "give texts of more", 2)
        draws = range(self.settings.draws or _DRAWS_OF_EXAMPLES)
        self._draws = [drawn(task, self.settings, seed) for seed in draws]
        return task

    def measure(self, model: LabelledVectors) -> None:
        systems = self._possible(model)
        for shots in self._shots:
            learning = systems if shots else tuple(name for name in systems if name in _NEED_TRAINING)
            for seed, (examples, tested) in enumerate(self._draws):
                rows = examples[: shots * self._classes]
                title = f"{model.name}: k = {shots}, draw {seed + 1} of {len(self._draws)}"
                with self.terminal.bar(title, len(learning), "systems") as advance:
                    learner = _Learner(model, self.data, self.settings, rows, tested, seed)
                    for system in learning:
                        places, weight, seconds, history = learner.answers(system)
                        self._unreached += history is not None and not history.reached
                        quality = qualities(self.data.truth[tested], places)
                        values = {**quality, "weight": weight, "seconds of training": seconds}
                        self.measurements.add((model.name, shots, system), values)
                        advance(1)

    def _possible(self, model: LabelledVectors) -> tuple[str, ...]:
        """The systems that a model can learn; those that were asked for must be among them."""
        wanted, shown = self.settings.systems, model.name
        systems = tuple(dict.fromkeys(wanted or FEW_SHOT_SYSTEMS))
        impossible = [name for name in systems if name in _NEED_TRAINING]
        if not isinstance(model.encoder, SentenceTransformerEncoder) and impossible:
            if wanted:
                raise ModelError(
                    f"{shown} cannot be fine-tuned, as {impossible[0]} needs it; choose a model of "
                    "sentence-transformers, or cosine-linear, surprise-linear, logistic"
                )
            self.leave_out(f"{shown} cannot be fine-tuned: no {', '.join(impossible)}")
            systems = tuple(name for name in systems if name not in impossible)
        if SETFIT in systems and not is_installed("setfit"):
            if wanted:
                import_extra("setfit", SETFIT)  # raises
            self.leave_out(f"no setfit: it is not installed: run {pip_line(SETFIT)}")
            systems = tuple(name for name in systems if name != SETFIT)
        try:
            self.data.label_vectors(model.encoder, self.settings.templates[0])
        except DataError as error:
            self.leave_out(f"{shown}: no system that uses the labels' names, as {error}")
            systems = tuple(name for name in systems if name in (LOGISTIC, SETFIT))
        return systems

    def tables(self) -> Iterator[Table]:
        shown = [Shown(name, spread=True) for name in ("weighted F1", "macro F1", "accuracy")]
        yield self.measurements.table(
            "few-shot",
            "Means over the draws of examples",
            [*shown, Shown("seconds of training", 1)],
            ("dev.: standard deviations over the draws; seconds: means",),
        )

    def plots(self) -> Iterator[Plot]:
        note = "Means over the draws of examples, and lines from the worst draw to the best."
        yield self.measurements.plot("line", "Learning from few examples", "weighted F1", note=note)

    def notes(self) -> Iterator[str]:
        source = self._source.name
        drawn = "of each class" if self.settings.balanced else "for each class in the mean, of any class"
        yield f"k: examples {drawn}, drawn from {source}; a smaller k's are among a larger one's"
        if 0 in self._shots:
            yield (
                "k = 0: cosine and surprise by the labels' names, untrained; setfit learns from these names "
                f"in the template, {_SENTENCES} sentences of each class"
            )
        tested = " or ".join(map(str, sorted({len(rows) for _, rows in self._draws})))
        yield f"texts tested: {tested}, of {self.data.texts.name}; draws of examples: {len(self._draws)}"
        yield "cosine, surprise: the encoder fine-tuned once for both; -linear: a linear map of its vectors"
        yield "surprise's ensemble: the tested texts, without their labels"
        if self._unreached:
            training = training_of(self.settings, 0)
            yield (
                f"{self._unreached} results come from a training that ended after {training.max_epochs} "
                f"epochs, above the loss of {training.target_loss:g}"
            )
        if any(key[-1] == SETFIT for key in self.measurements):
            yield "setfit: its defaults, one epoch of all pairs, and a logistic regression as head"
        yield from self.data.remarks()


def drawn(task: Task, settings: ClassifySettings, seed: int) -> tuple[IntArray, IntArray]:
    """Rows of the examples of the largest k, of which a smaller one takes the first; and tested rows."""
    size, truth = settings.test_size, task.places(task.train or task.texts)
    every, tested, most = np.arange(len(truth)), np.arange(len(task.texts)), max(settings.few_shot or ())
    if size is not None and size < len(tested):
        # Drawn first, so that they are the same whatever numbers of examples are asked for.
        tested = np.sort(np.random.default_rng(seed).permutation(tested)[:size])
    source = every
    if task.train is None and size is not None:
        source = np.setdiff1d(every, tested)
        lost = np.setdiff1d(truth, truth[source])
        if len(lost):
            raise DataError(
                f"the test takes all texts of the class {task.classes[lost[0]]!r}; give a smaller "
                "test_size, or train"
            )
    rng = np.random.default_rng((seed, 1))
    if settings.balanced:
        examples = source[draw_examples(truth[source], most, task.classes, rng)]
    else:
        examples = source[rng.permutation(len(source))[: most * len(np.unique(truth))]]
    if task.train is None and size is None:
        tested = np.setdiff1d(source, examples)
    border.some("tested texts", tested, f"all {len(every)} texts are examples; give a smaller K")
    return examples, tested


@dataclass
class _Learner:
    """One draw: rows of examples and of tested texts; what two systems share is trained once."""

    model: LabelledVectors
    task: Task
    settings: ClassifySettings
    rows: IntArray
    tested_rows: IntArray
    seed: int

    def __post_init__(self) -> None:
        source = self.task.train or self.task.texts
        self._encoder, self._template = self.model.encoder, self.settings.templates[0]
        self._examples = [source.texts[row] for row in self.rows]
        self._tested = [self.task.texts.texts[row] for row in self.tested_rows]
        self._truth = self.task.places(source)[self.rows]

    def answers(self, system: str) -> tuple[IntArray, float | None, float, TrainingHistory | None]:
        """(n,) places of the chosen classes, the weight of surprise, seconds and course of the training."""
        if system == SETFIT:
            examples, truth = self._examples, self._truth
            if not examples:  # it learns from the labels' names in the template
                groups = Labels.of(self.task.names).texts(self._template)
                examples = [text for group in groups for text in islice(cycle(group), _SENTENCES)]
                truth = np.repeat(np.arange(len(groups)), _SENTENCES)
            places, seconds = setfit_answers(self._encoder, examples, truth, self._tested, self.seed)
            return places, None, seconds, None
        if system == LOGISTIC:
            vectors, tested = self._frozen
            start = time.perf_counter()
            places = logistic_regression(vectors, self._truth, tested)
            return places, None, time.perf_counter() - start, None
        labels, tested, history = self._mapped if system.endswith("-linear") else self._fine_tuned
        ensemble = Ensemble.from_vectors(tested, similarity="cosine")
        name, mixing = system.removesuffix("-linear"), (self.settings.weight, self.settings.crossover_size)
        places, weight = by_labels(name, labels, tested, ensemble, *mixing)
        return places, weight, history.seconds if history else 0.0, history

    @cached_property
    def _frozen(self) -> tuple[Float32Array, Float32Array]:
        """Vectors of the examples and of the tested texts before any training."""
        texts = self.task.texts
        return self.model.of(self.task.train or texts)[self.rows], self.model.of(texts)[self.tested_rows]

    @cached_property
    def _fine_tuned(self) -> _Trained:
        if not self._examples:
            return self.task.label_vectors(self._encoder, self._template), self._frozen[1], None
        groups = Labels.of(self.task.names).texts(self._template)
        # A class may have several names.
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        names = [text for group in groups for text in group]
        training = training_of(self.settings, self.seed)
        members = self._truth[:, None] == owners
        encoder, history = fine_tune(self._encoder, self._examples, members, names, training)
        return self.task.label_vectors(encoder, self._template), dense_vectors(encoder, self._tested), history

    @cached_property
    def _mapped(self) -> _Trained:
        vectors, tested = self._frozen
        labels = self.task.label_vectors(self._encoder, self._template)
        anchors = np.stack(list(labels.values()))
        members = self._truth[:, None] == np.arange(len(labels))
        training = replace(training_of(self.settings, self.seed), method="linear")
        weights, history = fit_linear_map(vectors, members, anchors, training)
        moved = dict(zip(labels, mapped(anchors, weights), strict=True))
        return moved, mapped(tested, weights), history


def training_of(settings: ClassifySettings, seed: int) -> FewShotTraining:
    """The training that settings ask for."""
    names = ("soft_negative", "gamma", "weight_decay", "target_f1")
    return FewShotTraining(**{name: getattr(settings, name) for name in names}, seed=seed)


def draw_examples(truth: IntArray, shots: int, classes: Sequence[str], rng: np.random.Generator) -> IntArray:
    """Rows of so many examples of each class that has texts; those of a smaller number come first."""
    order = rng.permutation(len(truth))
    present = np.unique(truth)
    by_class = [order[truth[order] == place] for place in present]
    for place, rows in zip(present.tolist(), by_class, strict=True):
        border.some(f"texts of the class {classes[place]!r}", rows, "give a smaller K", shots)
    # One of each class after the other, so that the first examples are of all classes.
    return np.stack([rows[:shots] for rows in by_class], axis=1).ravel()


def classification(settings: ClassifySettings, terminal: Terminal) -> ClassifyStudy | Answers:
    """The study that settings ask for; or the label of each text, by the classifier's defaults."""
    if not settings.answers:
        kind = FewShot if settings.few_shot else EnsembleSizes if settings.ensemble_size else ZeroShot
        return kind(settings, terminal)
    advice = "give --set names=FILE.yaml, with a line `class: name` for each"
    file = border.present("the names of the labels", settings.names, advice)
    names = label_names((), read_label_names(file))

    def answers(model: LabelledVectors, texts: LabelledTexts) -> Iterable[str]:
        labels = Task(texts, names).label_vectors(model.encoder, settings.templates[0])
        weight, size = settings.weight, settings.crossover_size
        vectors = model.of(texts)
        classifier = SurpriseClassifier(labels, weight=weight, crossover_size=size).fit(vectors)
        return map(str, classifier.predict(vectors))

    return Answers(settings, terminal, [settings.file], "label", answers)


class ZeroShot(ClassifyStudy):
    """By the names of the labels, and by a logistic regression where there are texts to learn from."""

    heading = "Classification by the names of the labels"
    keys = ("model", "template", "system")

    def prepare(self) -> None:
        super().prepare()
        self._right: dict[tuple[str, str, str], BoolArray] = {}

    def measure(self, model: LabelledVectors) -> None:
        task, train, templates = self.data, self.data.train, self.settings.templates
        texts = model.of(task.texts)
        source = texts if train is None or not self.settings.inductive else model.of(train)
        ensemble = Ensemble.from_vectors(source, similarity="cosine")
        mixing = (self.settings.weight, self.settings.crossover_size)
        with self.terminal.bar(f"{model.name}: classifying", len(set(templates)), "templates") as advance:
            for template, labels in self.labels_by_template(model):
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
        yield self.measurements.plot("bars", "Accuracy", "accuracy")

    def notes(self) -> Iterator[str]:
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
        task, sizes = super().read(), self.settings.ensemble_size or ()
        self._sizes = [size for size in sizes if size < len(task.texts)]
        advice = f"it has {len(task.texts)}: give more texts, or smaller ensembles"
        border.some(f"ensembles of {task.texts.name} that leave a text to test", self._sizes, advice)
        self._draws = self.settings.draws or _DRAWS_OF_ENSEMBLES
        return task

    def measure(self, model: LabelledVectors) -> None:
        texts, truth, templates = model.of(self.data.texts), self.data.truth, self.settings.templates
        total = len(set(templates)) * len(self._sizes) * self._draws
        with self.terminal.bar(f"{model.name}: drawing ensembles", total, "draws") as advance:
            for template, labels in self.labels_by_template(model):
                for size in self._sizes:
                    for number in range(self._draws):
                        rows = np.random.default_rng((0, size, number)).permutation(len(texts))
                        ensemble = Ensemble.from_vectors(texts[rows[:size]], similarity="cosine")
                        tested = rows[size:]
                        for shown, (system, weight) in ENSEMBLE_SYSTEMS.items():
                            mixing = (weight, self.settings.crossover_size)
                            places, used = by_labels(system, labels, texts[tested], ensemble, *mixing)
                            f1 = qualities(truth[tested], places)["weighted F1"]
                            key = (model.name, template, size, shown)
                            self.measurements.add(key, {"weight": used, "weighted F1": f1})
                        advance(1)
                    keys = [(model.name, template, size, shown) for shown in ENSEMBLE_SYSTEMS]
                    cosine, *others = (self.measurements.values(k, "weighted F1").mean() for k in keys)
                    for key, mean in zip(keys[1:], others if cosine else (), strict=bool(cosine)):
                        self.measurements.add(key, {"ratio to cosine": mean / cosine})

    def tables(self) -> Iterator[Table]:
        shown = [Shown("weight", 3), Shown("weighted F1", spread=True), Shown("ratio to cosine")]
        yield self.measurements.table("ensemble-size", "Means over random ensembles", shown)

    def plots(self) -> Iterator[Plot]:
        yield self.measurements.plot(
            "line",
            "Surprise by cosine",
            "ratio to cosine",
            log_x=True,
            note="Ratios of means over the draws; above 1 surprise is better than cosine.",
        )

    def notes(self) -> Iterator[str]:
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


def by_labels(
    system: str,
    labels: Mapping[str, Float32Array],
    texts: Float32Array,
    ensemble: Ensemble,
    weight: Weight,
    crossover_size: float,
) -> tuple[IntArray, float | None]:
    """(n,) places of the classes that a system of `ZERO_SHOT` chooses, and the weight of surprise."""
    plain = system == COSINE
    how = {"weight": 0.0} if plain else {"model": _MODELS[system], "weight": weight}
    classifier = SurpriseClassifier(labels, **how, crossover_size=crossover_size)
    classifier.fit(texts, ensemble=ensemble)
    places = np.searchsorted(np.array(list(labels)), classifier.predict(texts)).astype(np.int64)
    return places, None if plain else float(classifier.weight_)


def logistic_regression(examples: Float32Array, truth: IntArray, texts: Float32Array) -> IntArray:
    """(n,) places of the chosen classes of a logistic regression on unit vectors, to convergence."""
    border.some("classes of the examples", np.unique(truth), "give some of two", 2)
    model = LogisticRegression(max_iter=_ITERATIONS).fit(examples.astype(np.float64), truth)
    return np.asarray(model.predict(texts.astype(np.float64)), dtype=np.int64)


def qualities(truth: IntArray, chosen: IntArray) -> dict[str, float]:
    """Accuracy, macro F1 (of the classes that have texts) and weighted F1 of n answers, from 0 to 1."""
    # A class that is chosen and has no text lowers the others' precision; its own F1 is not defined.
    present = np.unique(truth)
    macro, weighted = (
        float(f1_score(truth, chosen, labels=present, average=average, zero_division=0.0))
        for average in ("macro", "weighted")
    )
    return {"accuracy": float((truth == chosen).mean()), "macro F1": macro, "weighted F1": weighted}


def setfit_answers(
    encoder: Encoder, examples: Sequence[str], truth: IntArray, texts: Sequence[str], seed: int
) -> tuple[IntArray, float]:
    """(n,) classes that SetFit (arXiv 2209.11055) chooses by its defaults, without prompts; and seconds."""
    setfit = import_extra("setfit", SETFIT)
    datasets = import_extra("datasets", SETFIT)
    from transformers import PrinterCallback, ProgressCallback

    setfit.logging.set_verbosity_error()  # its import turns its log on
    datasets.disable_progress_bars()
    body = copy.deepcopy(encoder.model)  # type: ignore[attr-defined]
    model = setfit.SetFitModel(model_body=body, model_head=LogisticRegression())
    data = datasets.Dataset.from_dict({"text": list(examples), "label": truth.tolist()})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.filterwarnings("ignore", message=".*pin_memory.*")  # for a GPU where there is none
        arguments = setfit.TrainingArguments(
            output_dir=folder, seed=seed, save_strategy="no", report_to="none", show_progress_bar=False
        )
        trainer = setfit.Trainer(model=model, args=arguments, train_dataset=data)
        for usual in (ProgressCallback, PrinterCallback):
            trainer.remove_callback(usual)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        places = model.predict(list(texts), as_numpy=True, show_progress_bar=False)
    return np.asarray(places, dtype=np.int64), seconds
