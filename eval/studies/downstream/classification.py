"""How the accuracy of a classification task is measured: what is learned from what, and chosen by what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.downstream.classifiers import Classifier, Examples, Predict, accuracy
from surprise_rerank.eval.studies.downstream.tasks import DownstreamTask, PartName

Advance = Callable[[int], None]
Vectors = Callable[[tuple[str, ...]], Float32Array]

FOLDS = 5
SEED = 1111  # SentEval's
# Enough for a class to be in every fold of every fold.
_LEAST = 2 * FOLDS


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What a classifier makes of a task.

    Attributes:
        accuracies: of the single runs, in %: a test fold each, or a seed each.
        dev_accuracy: by which the regularisation was chosen, in %; the mean over the runs.
        chosen: the regularisation of every run.
        f1: of the second class, in %, the mean over the runs; None but for pairs of two classes.
    """

    accuracies: tuple[float, ...]
    dev_accuracy: float
    chosen: tuple[float, ...]
    f1: float | None

    @property
    def accuracy(self) -> float:
        """Mean accuracy in %."""
        return float(np.mean(self.accuracies))

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the runs' accuracies; None where there is one run."""
        return float(np.std(self.accuracies)) if len(self.accuracies) > 1 else None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What was measured of a task.

    Attributes:
        outcome: what the classifier made of it.
        texts: how many different ones the task has.
        seconds: encoding of texts that no task before it had, and classification.
    """

    outcome: TaskOutcome
    texts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Run:
    """A chosen classifier, by what it was chosen, and what it is tested on."""

    predict: Predict
    dev_accuracy: float
    chosen: float
    test: Examples


def fits(task: DownstreamTask, classifier: Classifier) -> int:
    """How many times `classify` advances."""
    if "all" in task.parts:
        return FOLDS * (FOLDS + 1)
    return classifier.repeats * (1 if "dev" in task.parts else FOLDS + 1)


def classify(
    task: DownstreamTask,
    vectors: Vectors,
    classifier: Classifier,
    seed: int = SEED,
    on_progress: Advance | None = None,
) -> TaskOutcome:
    """Measure a task the way SentEval does.

    - One part: nested cross-validation. Every fold is tested once, by a classifier whose regularisation was
      chosen by cross-validation on the others.
    - `train` and `test`: the regularisation is chosen by cross-validation on `train`.
    - `train`, `dev` and `test`: it is chosen on `dev`.

    Pairs (u, v) have the features |u - v| and u * v.

    Args:
        task: of texts and classes.
        vectors: makes (n, d) vectors of n texts.
        classifier: how one is fitted.
        seed: of folds and classifiers; with several runs, the first one's.
        on_progress: called after every fit.

    Raises:
        DataError: if a class has too few examples.
    """
    parts = {name: _examples(task, name, vectors) for name in task.parts}
    _check(task, parts)
    measure = _Measure(classifier, len(task.classes), on_progress or (lambda n: None))
    # Steps are short: where other programs run, two threads wait for each other ten times as long.
    with threadpool_limits(1):
        runs = list(_runs(parts, measure, seed))
        return TaskOutcome(
            accuracies=tuple(100 * accuracy(run.predict, run.test) for run in runs),
            dev_accuracy=100 * float(np.mean([run.dev_accuracy for run in runs])),
            chosen=tuple(run.chosen for run in runs),
            f1=float(np.mean([_f1(run) for run in runs])) if _has_f1(task) else None,
        )


def _runs(parts: dict[PartName, Examples], measure: _Measure, seed: int) -> Iterator[_Run]:
    if "all" in parts:
        for train, test in _folds(parts["all"], seed):
            yield measure.cross_validated(parts["all"][train], parts["all"][test], seed)
        return
    for own_seed in range(seed, seed + measure.classifier.repeats):
        if "dev" in parts:
            yield measure.on_dev(parts["train"], parts["dev"], parts["test"], own_seed)
        else:
            yield measure.cross_validated(parts["train"], parts["test"], own_seed)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Choosing a regularisation, and the classifier that comes of it."""

    classifier: Classifier
    classes: int
    advance: Advance

    def cross_validated(self, train: Examples, test: Examples, seed: int) -> _Run:
        """Chosen by cross-validation, then fitted on all of `train`."""
        found = np.zeros(len(self.classifier.grid))
        for rows, held_out in _folds(train, seed):
            found += self._dev_accuracies(train[rows], train[held_out], seed)[1] / FOLDS
        best = int(found.argmax())
        predict = self.classifier.fit(train, self.classifier.grid[best], self.classes, seed)
        self.advance(1)
        return _Run(predict, float(found[best]), self.classifier.grid[best], test)

    def on_dev(self, train: Examples, dev: Examples, test: Examples, seed: int) -> _Run:
        """Chosen on `dev`."""
        candidates, found = self._dev_accuracies(train, dev, seed)
        best = int(found.argmax())
        return _Run(candidates[best], float(found[best]), self.classifier.grid[best], test)

    def _dev_accuracies(
        self, train: Examples, dev: Examples, seed: int
    ) -> tuple[list[Predict], Float64Array]:
        candidates = self.classifier.candidates(train, dev, self.classes, seed)
        self.advance(1)
        return candidates, np.array([accuracy(predict, dev) for predict in candidates])


def _examples(task: DownstreamTask, name: PartName, vectors: Vectors) -> Examples:
    part = task.parts[name]
    first = vectors(part.texts)
    if not part.others:
        return Examples(first, part.labels)
    second = vectors(part.others)
    return Examples(np.concatenate([np.abs(first - second), first * second], axis=1), part.labels)


def _check(task: DownstreamTask, parts: dict[PartName, Examples]) -> None:
    learned = parts["all" if "all" in parts else "train"]
    counts = np.bincount(learned.labels, minlength=len(task.classes))
    if counts.min() < _LEAST:
        rarest = task.classes[int(counts.argmin())]
        raise DataError(
            f"{task.name}: {counts.min()} examples of the class {rarest!r} to learn from, expected at least "
            f"{_LEAST}; are its files whole?"
        )


def _folds(examples: Examples, seed: int) -> list[tuple[IntArray, IntArray]]:
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return list(folds.split(np.zeros(len(examples)), examples.labels))


def _has_f1(task: DownstreamTask) -> bool:
    """Whether a task is published with F1, too: MRPC."""
    return len(task.classes) == 2 and any(part.others for part in task.parts.values())


def _f1(run: _Run) -> float:
    return 100 * float(f1_score(run.test.labels, run.predict(run.test.features)))
