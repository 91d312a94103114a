"""Learning from a few labelled texts or none: a fine-tuned encoder, a linear map, a regression, SetFit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice

import numpy as np

from surprise_rerank import border
from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    TrainingHistory,
    fine_tune,
    fit_linear_map,
    mapped,
)
from surprise_rerank.classify.labels import Labels
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.core.extras import import_extra, is_installed, pip_line
from surprise_rerank.encoders.base import dense_vectors
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.errors import DataError, ModelError
from surprise_rerank.eval.reports.report import Plot, Table
from surprise_rerank.eval.studies.classify.systems import (
    EXTRA,
    LOGISTIC,
    by_labels,
    logistic_regression,
    qualities,
    setfit_answers,
)
from surprise_rerank.eval.studies.classify.task import ClassifyStudy, Task
from surprise_rerank.eval.studies.labelled import LabelledVectors
from surprise_rerank.eval.studies.measurements import Shown
from surprise_rerank.eval.studies.settings import FEW_SHOT_SYSTEMS, ClassifySettings
from surprise_rerank.surprise.ensemble import Ensemble

SETFIT = "setfit"
_NEED_TRAINING = ("cosine", "surprise", SETFIT)
_DRAWS = 3
# SetFit's number of sentences of each class that it learns from where there are no examples.
_SENTENCES = 8


class FewShot(ClassifyStudy):
    """Draws of examples, which are the same for every model and system, and what is learnt from them."""

    heading, trainable = "Few examples", True
    keys = ("model", "k", "system")

    def read(self) -> Task:
        """The texts, and all draws of examples."""
        task = super().read()
        self._source, self._shots, self._unreached = task.train or task.texts, self.settings.few_shot or (), 0
        self._classes = len(self._source.classes)
        border.some(f"labels of {self._source.name}", self._source.classes, "give texts of more", 2)
        draws = range(self.settings.draws or _DRAWS)
        self._draws = [drawn(task, self.settings, seed) for seed in draws]
        return task

    def measure(self, model: LabelledVectors) -> None:
        """What a model's systems learn from every draw."""
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
                import_extra("setfit", EXTRA)  # raises
            self.leave_out(f"no setfit: it is not installed: run {pip_line(EXTRA)}")
            systems = tuple(name for name in systems if name != SETFIT)
        try:
            self.data.label_vectors(model.encoder, self.settings.templates[0])
        except DataError as error:
            self.leave_out(f"{shown}: no system that uses the labels' names, as {error}")
            systems = tuple(name for name in systems if name in (LOGISTIC, SETFIT))
        return systems

    def tables(self) -> Iterator[Table]:
        """A row for each model, number of examples and system."""
        shown = [Shown(name, spread=True) for name in ("weighted F1", "macro F1", "accuracy")]
        yield self.measurements.table(
            "few-shot",
            "Means over the draws of examples",
            [*shown, Shown("seconds of training", 1)],
            ("dev.: standard deviations over the draws; seconds: means",),
        )

    def plots(self) -> Iterator[Plot]:
        """Weighted F1 over the number of examples."""
        note = "Means over the draws of examples, and lines from the worst draw to the best."
        yield self.measurements.plot("line", "Learning from few examples", "weighted F1", note=note)

    def notes(self) -> Iterator[str]:
        """How examples are drawn, and what learns from them."""
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


@dataclass(frozen=True, eq=False)
class _TrainedStudent:
    """The labels' vectors and (n, d) those of the tested texts, after a training if there was one."""

    labels: Mapping[str, Float32Array]
    tested: Float32Array
    history: TrainingHistory | None


class _Learner:
    """One draw of examples; what two systems share is trained once, when it is asked for."""

    def __init__(
        self,
        model: LabelledVectors,
        task: Task,
        settings: ClassifySettings,
        rows: IntArray,
        tested: IntArray,
        seed: int,
    ) -> None:
        source = task.train or task.texts
        self._encoder, self._task, self._settings, self._seed = model.encoder, task, settings, seed
        self._template = settings.templates[0]
        self._examples = [source.texts[row] for row in rows]
        self._tested = [task.texts.texts[row] for row in tested]
        self._truth = task.places(source)[rows]
        self._model, self._source, self._rows = model, source, (rows, tested)

    def answers(self, system: str) -> tuple[IntArray, float | None, float, TrainingHistory | None]:
        """(n,) places of the chosen classes, the weight of surprise, seconds and course of the training."""
        if system == SETFIT:
            examples, truth = (self._examples, self._truth) if self._examples else self._sentences
            places, seconds = setfit_answers(self._encoder, examples, truth, self._tested, self._seed)
            return places, None, seconds, None
        if system == LOGISTIC:
            vectors, tested = self._frozen
            start = time.perf_counter()
            places = logistic_regression(vectors, self._truth, tested)
            return places, None, time.perf_counter() - start, None
        trained = self._mapped if system.endswith("-linear") else self._fine_tuned
        ensemble = Ensemble.from_vectors(trained.tested, similarity="cosine")
        name, mixing = system.removesuffix("-linear"), (self._settings.weight, self._settings.crossover_size)
        places, weight = by_labels(name, trained.labels, trained.tested, ensemble, *mixing)
        return places, weight, trained.history.seconds if trained.history else 0.0, trained.history

    @cached_property
    def _frozen(self) -> tuple[Float32Array, Float32Array]:
        """Vectors of the examples and of the tested texts before any training."""
        rows, tested = self._rows
        return self._model.of(self._source)[rows], self._model.of(self._task.texts)[tested]

    @cached_property
    def _sentences(self) -> tuple[list[str], IntArray]:
        """The labels' names in the template as examples, and the places of their classes."""
        groups = Labels.of(self._task.names).texts(self._template)
        sentences = [text for group in groups for text in islice(cycle(group), _SENTENCES)]
        return sentences, np.repeat(np.arange(len(groups)), _SENTENCES)

    @cached_property
    def _fine_tuned(self) -> _TrainedStudent:
        if not self._examples:
            labels = self._task.label_vectors(self._encoder, self._template)
            return _TrainedStudent(labels, self._frozen[1], None)
        groups = Labels.of(self._task.names).texts(self._template)
        # A class may have several names.
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        names = [text for group in groups for text in group]
        training = training_of(self._settings, self._seed)
        members = self._truth[:, None] == owners
        encoder, history = fine_tune(self._encoder, self._examples, members, names, training)
        labels = self._task.label_vectors(encoder, self._template)
        return _TrainedStudent(labels, dense_vectors(encoder, self._tested), history)

    @cached_property
    def _mapped(self) -> _TrainedStudent:
        vectors, tested = self._frozen
        labels = self._task.label_vectors(self._encoder, self._template)
        anchors = np.stack(list(labels.values()))
        members = self._truth[:, None] == np.arange(len(labels))
        training = replace(training_of(self._settings, self._seed), method="linear")
        weights, history = fit_linear_map(vectors, members, anchors, training)
        moved = dict(zip(labels, mapped(anchors, weights), strict=True))
        return _TrainedStudent(moved, mapped(tested, weights), history)


def training_of(settings: ClassifySettings, seed: int) -> FewShotTraining:
    """The training that settings ask for."""
    return FewShotTraining(
        soft_negative=settings.soft_negative,
        gamma=settings.gamma,
        weight_decay=settings.weight_decay,
        target_f1=settings.target_f1,
        seed=seed,
    )


def draw_examples(truth: IntArray, shots: int, classes: Sequence[str], rng: np.random.Generator) -> IntArray:
    """Rows of so many examples of each class that has texts, in the order in which they were drawn.

    The draws of several numbers of shots are nested, where the generator is in the same state: the examples
    of a smaller number are among those of a larger one.
    """
    order = rng.permutation(len(truth))
    present = np.unique(truth)
    by_class = [order[truth[order] == place] for place in present]
    for place, rows in zip(present.tolist(), by_class, strict=True):
        border.some(f"texts of the class {classes[place]!r}", rows, "give a smaller K", shots)
    # One of each class after the other, so that the first examples are of all classes.
    return np.stack([rows[:shots] for rows in by_class], axis=1).ravel()
