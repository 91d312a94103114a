"""What learns from a few labelled texts: a fine-tuned encoder, a linear map, logistic regression, SetFit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    TrainingHistory,
    fine_tune,
    fit_linear_map,
    mapped,
)
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import BoolArray, Float32Array, IntArray
from surprise_rerank.core.extras import import_extra, is_installed, pip_line
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.text_vectors import dense_vectors
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.errors import ModelError
from surprise_rerank.eval.studies.classify.measures import Quality
from surprise_rerank.eval.studies.classify.setfit_baseline import EXTRA, setfit_answers
from surprise_rerank.eval.studies.classify.systems import Answers, by_labels, logistic_regression
from surprise_rerank.eval.studies.classify.task import Task
from surprise_rerank.eval.studies.labelled_models import LabelledVectors
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Weight

LOGISTIC, SETFIT = "logistic", "setfit"
# System -> the system of `systems.ZERO_SHOT` that follows the training.
_FINE_TUNED = {"cosine": "cosine", "surprise": "surprise"}
_LINEAR = {"cosine-linear": "cosine", "surprise-linear": "surprise"}
SYSTEMS = (*_FINE_TUNED, *_LINEAR, LOGISTIC, SETFIT)
_NEED_TRAINING = (*_FINE_TUNED, SETFIT)
# Those that learn from the classes alone, whatever they are called.
NAMELESS = (LOGISTIC, SETFIT)
# Those that have a weight.
SURPRISES = ("surprise", "surprise-linear")


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What is learnt from, and what is tested.

    Attributes:
        texts: m examples.
        truth: (m,) places of their classes.
        tested: n texts.
        tested_truth: (n,) places of their classes, for the measures alone.
        seed: of the training.
    """

    texts: Sequence[str]
    truth: IntArray
    tested: Sequence[str]
    tested_truth: IntArray
    seed: int


@dataclass(frozen=True, slots=True)
class FewShotResult:
    """What a system learnt from one draw of examples.

    Attributes:
        quality: of its answers about the tested texts.
        seconds: of training.
        epochs: of training; None for a system that counts none.
        reached: whether the training's loss became low enough; None likewise.
        weight: of surprise; None for a system that has none.
    """

    quality: Quality
    seconds: float
    epochs: int | None = None
    reached: bool | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Trained:
    """What a training leaves.

    Attributes:
        labels: class -> (d,) vector.
        tested: (n, d) vectors of the tested texts.
        history: of the training.
    """

    labels: Mapping[str, Float32Array]
    tested: Float32Array
    history: TrainingHistory


def possible_systems(wanted: Sequence[str] | None, encoder: Encoder) -> tuple[tuple[str, ...], list[str]]:
    """The systems that learn, and why others are left out.

    Args:
        wanted: names of `SYSTEMS`; None for those that are possible.
        encoder: of the model.

    Raises:
        MissingExtraError: if SetFit is wanted and not installed.
        ModelError: if a wanted one needs a model that can be trained.
    """
    trainable = isinstance(encoder, SentenceTransformerEncoder)
    if wanted is None:
        left = []
        systems = SYSTEMS
        if not trainable:
            systems = tuple(name for name in systems if name not in _NEED_TRAINING)
            left.append(f"{encoder.name} cannot be fine-tuned: no {', '.join(_NEED_TRAINING)}")
        elif not is_installed(EXTRA):
            systems = tuple(name for name in systems if name != SETFIT)
            left.append(f"no {SETFIT}, as it is not installed: {pip_line(EXTRA)}")
        return systems, left
    if SETFIT in wanted:
        import_extra("setfit", EXTRA)
    if not trainable:
        refuse_training(wanted, encoder.name)
    return tuple(dict.fromkeys(wanted)), []


def refuse_training(wanted: Sequence[str], model: str) -> None:
    """Refuse systems that train a model which cannot be trained.

    Raises:
        ModelError: if one of them does.
    """
    impossible = [name for name in wanted if name in _NEED_TRAINING]
    if impossible:
        raise ModelError(
            f"{model} cannot be fine-tuned, as {impossible[0]} needs it; choose a model of "
            f"sentence-transformers, or {', '.join((*_LINEAR, LOGISTIC))}"
        )


class Learners:
    """The systems with one draw of examples; what two of them share is trained once, when it is asked for.

    Args:
        vectors: of the model.
        task: its labels.
        examples: what is learnt from, and what is tested.
        frozen: gives the vectors of the examples (m, d) and of the tested texts (n, d) before any training.
        template: of the labels' names.
        weight: of surprise.
        setfit_steps: after which SetFit's training ends; None: after one epoch.
        terminal: for progress.
        title: of the bars.
    """

    def __init__(
        self,
        vectors: LabelledVectors,
        task: Task,
        examples: Examples,
        frozen: Callable[[], tuple[Float32Array, Float32Array]],
        template: str,
        weight: Weight,
        setfit_steps: int | None,
        terminal: Terminal,
        title: str,
    ) -> None:
        self.examples = examples
        self._vectors = vectors
        self._task = task
        self._frozen = frozen
        self._template = template
        self._weight = weight
        self._setfit_steps = setfit_steps
        self._terminal = terminal
        self._title = title

    def result(self, system: str) -> FewShotResult:
        """What a system of `SYSTEMS` learns.

        Raises:
            DataError: if a training diverges.
        """
        if system in _FINE_TUNED:
            return self._after(self._fine_tuned, _FINE_TUNED[system])
        if system in _LINEAR:
            return self._after(self._mapped, _LINEAR[system])
        if system == LOGISTIC:
            return self._logistic()
        return self._setfit()

    def _after(self, trained: _Trained, system: str) -> FewShotResult:
        ensemble = Ensemble.from_vectors(trained.tested, similarity="cosine")
        answers = by_labels(system, trained.labels, trained.tested, ensemble, self._weight)
        history = trained.history
        return FewShotResult(
            self._quality(answers), history.seconds, len(history.losses), history.reached, answers.weight
        )

    def _logistic(self) -> FewShotResult:
        own, tested = self._frozen()
        start = time.perf_counter()
        answers = logistic_regression(own, self.examples.truth, tested)
        return FewShotResult(self._quality(answers), time.perf_counter() - start)

    def _setfit(self) -> FewShotResult:
        encoder, examples = self._vectors.encoder, self.examples
        with self._terminal.bar(f"{self._title}: SetFit", None, "steps") as advance:
            places, seconds = setfit_answers(
                encoder,
                examples.texts,
                examples.truth,
                examples.tested,
                examples.seed,
                advance,
                steps=self._setfit_steps,
            )
        return FewShotResult(self._quality(Answers(places)), seconds)

    def _quality(self, answers: Answers) -> Quality:
        return Quality.of(self.examples.tested_truth, answers.places)

    @cached_property
    def _fine_tuned(self) -> _Trained:
        descriptions, owners = self._descriptions()
        with self._terminal.bar(f"{self._title}: fine-tuning", None, "texts") as advance:
            encoder, history = fine_tune(
                self._vectors.encoder,
                self.examples.texts,
                self._members()[:, owners],
                descriptions,
                self._training("fine-tune"),
                on_progress=advance,
            )
        tested = self.examples.tested
        with self._terminal.bar(f"{self._title}: encoding", len(tested), "texts") as advance:
            vectors = dense_vectors(encoder, tested, on_progress=advance)
        return _Trained(self._task.label_vectors(encoder, self._template), vectors, history)

    @cached_property
    def _mapped(self) -> _Trained:
        own, tested = self._frozen()
        labels = self._task.label_vectors(self._vectors.encoder, self._template)
        anchors = np.stack(list(labels.values()))
        with self._terminal.bar(f"{self._title}: fitting a map", None, "texts") as advance:
            weights, history = fit_linear_map(
                own, self._members(), anchors, self._training("linear"), on_progress=advance
            )
        moved = dict(zip(labels, mapped(anchors, weights), strict=True))
        return _Trained(moved, mapped(tested, weights), history)

    def _training(self, method: str) -> FewShotTraining:
        return FewShotTraining(
            method="linear" if method == "linear" else "fine-tune", seed=self.examples.seed
        )

    def _members(self) -> BoolArray:
        """(m, L) which class is an example's own."""
        members: BoolArray = self.examples.truth[:, None] == np.arange(len(self._task.classes))
        return members

    def _descriptions(self) -> tuple[list[str], IntArray]:
        """All names in the template, and the places of their classes: a class may have several."""
        groups = self._task.labels().texts(self._template)
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        return [text for group in groups for text in group], owners
