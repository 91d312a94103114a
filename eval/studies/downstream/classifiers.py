"""Classifiers of sentence vectors: a converged logistic regression, and SentEval's stopped early."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, get_args

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.downstream.settings import ClassifierName

# (n, d) features -> (n,) places of classes.
Predict: TypeAlias = Callable[[Float32Array], IntArray]

# Rows that are multiplied at a time, so that predictions take no memory beside the features.
_ROWS = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What a classifier learns from.

    Attributes:
        features: (n, d).
        labels: (n,) places of classes, from 0.
    """

    features: Float32Array
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: IntArray) -> Examples:
        return Examples(self.features[rows], self.labels[rows])


class Classifier(Protocol):
    """A way to fit a linear classifier, under each of several regularisations.

    Attributes:
        parameter: what the regularisation is called.
        grid: its values, from which one is chosen.
        repeats: how many seeds an accuracy is the mean of, where there is a test set.
    """

    parameter: str
    grid: tuple[float, ...]
    repeats: int

    def candidates(self, train: Examples, dev: Examples, classes: int, seed: int) -> list[Predict]:
        """A classifier for each value of the grid, one of which is to be chosen by its accuracy on dev."""
        ...

    def fit(self, train: Examples, value: float, classes: int, seed: int) -> Predict:
        """The classifier for a value that was chosen."""
        ...


class LogisticClassifier:
    """Logistic regression on standardised features, to convergence (scikit-learn).

    It has no randomness of its own; the features are standardised, so that one grid serves vectors of any
    length.
    """

    parameter: str = "C"
    grid: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0)
    repeats: int = 1

    def candidates(self, train: Examples, dev: Examples, classes: int, seed: int) -> list[Predict]:
        """A classifier for each C; the development set is not looked at."""
        return [self.fit(train, value, classes, seed) for value in self.grid]

    def fit(self, train: Examples, value: float, classes: int, seed: int) -> Predict:
        """The classifier for a C."""
        model = make_pipeline(StandardScaler(), LogisticRegression(C=value, max_iter=1000))
        model.fit(train.features.astype(np.float64), train.labels)

        def predict(features: Float32Array) -> IntArray:
            return np.asarray(model.predict(features), dtype=np.int64)

        return predict


class SentEvalClassifier:
    """Logistic regression by stochastic gradients, stopped early: what the published figures come from.

    (Conneau and Kiela, 'SentEval: An Evaluation Toolkit for Universal Sentence Representations', LREC 2018,
    with its settings for fast prototyping: RMSprop in batches of 128; after every second pass the accuracy on
    the development set is looked at; training ends when it has not grown for the fourth time, and the best
    state is kept.) What comes out depends on the seed: on 500 test questions, by up to three points.
    """

    parameter: str = "l2"
    grid: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2)
    repeats: int = 5

    batch = 128
    passes = 2
    most_passes = 200
    tenacity = 3
    held_out = 0.05

    def candidates(self, train: Examples, dev: Examples, classes: int, seed: int) -> list[Predict]:
        """A classifier for each l2, stopped by the development set."""
        return self._train(train, dev, self.grid, classes, seed)

    def fit(self, train: Examples, value: float, classes: int, seed: int) -> Predict:
        """The classifier for an l2, stopped by a twentieth of the examples that is held out."""
        order = np.random.default_rng(seed).permutation(len(train))
        held_out = max(1, int(self.held_out * len(train)))
        (predict,) = self._train(train[order[held_out:]], train[order[:held_out]], (value,), classes, seed)
        return predict

    def _train(
        self, train: Examples, dev: Examples, grid: Sequence[float], classes: int, seed: int
    ) -> list[Predict]:
        """One for each l2, all in the same batches: RMSprop treats every weight by itself."""
        rng = np.random.default_rng(seed)
        features = _with_ones(train.features)
        targets = np.eye(classes, dtype=np.float32)[train.labels, :, None]
        bound = 1 / math.sqrt(train.features.shape[1])
        start = rng.uniform(-bound, bound, (features.shape[1], classes, 1)).astype(np.float32)
        descent = _Descent(np.repeat(start, len(grid), axis=2), grid)
        best = _Best(len(grid), self.tenacity)
        for _ in range(self.most_passes // self.passes):
            for _ in range(self.passes):
                order = rng.permutation(len(features))
                for i in range(0, len(order), self.batch):
                    rows = order[i : i + self.batch]
                    descent.step(features[rows], targets[rows])
            best.update(descent.weights, dev)
            if not best.is_growing:
                break
        return [_linear(found) for found in best.weights]


class _Descent:
    """Softmax regressions that are fitted side by side by RMSprop (Tieleman and Hinton, 2012).

    With g the gradient of the mean cross-entropy of a batch, and l2 times the weights added to it:

        s <- .99 s + .01 g^2,  w <- w - .01 g / (sqrt(s) + 1e-8)

    as `torch.optim.RMSprop` has it, with weight decay. A step takes less than torch needs to set one up.

    Args:
        weights: (d, classes, k) of k regressions.
        decay: (k,) the l2 of each.
    """

    rate = np.float32(0.01)
    smoothing = np.float32(0.99)
    least = np.float32(1e-8)

    def __init__(self, weights: Float32Array, decay: Sequence[float]) -> None:
        self.weights = weights
        self._decay = np.array(decay, dtype=np.float32)
        self._squares = np.zeros_like(weights)

    def step(self, features: Float32Array, targets: Float32Array) -> None:
        """One step.

        Args:
            features: (n, d) of a batch.
            targets: (n, classes, 1) ones where the class is.
        """
        shape = self.weights.shape
        logits = (features @ self.weights.reshape(shape[0], -1)).reshape(-1, *shape[1:])
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares -= targets
        slope = (features.T @ shares.reshape(len(features), -1)).reshape(shape)
        slope /= np.float32(len(features))
        slope += self._decay * self.weights
        self._squares *= self.smoothing
        self._squares += (1 - self.smoothing) * slope * slope
        self.weights -= self.rate * slope / (np.sqrt(self._squares) + self.least)


class _Best:
    """The best state of several classifiers that are trained side by side.

    Args:
        size: how many.
        tenacity: how often an accuracy may fail to grow.
    """

    def __init__(self, size: int, tenacity: int) -> None:
        self.weights: list[Float32Array] = [np.zeros((0, 0), np.float32)] * size
        self._accuracies = [-1.0] * size
        self._failures = [0] * size
        self._tenacity = tenacity

    @property
    def is_growing(self) -> bool:
        """Whether one of them may still grow."""
        return any(failures <= self._tenacity for failures in self._failures)

    def update(self, weights: Float32Array, dev: Examples) -> None:
        """Look at the accuracies of (d + 1, classes, size) weights."""
        for i, failures in enumerate(self._failures):
            if failures > self._tenacity:
                continue
            state = weights[:, :, i].copy()
            found = accuracy(_linear(state), dev)
            if found > self._accuracies[i]:
                self._accuracies[i], self.weights[i] = found, state
            else:
                self._failures[i] += 1


CLASSIFIERS: dict[ClassifierName, Classifier] = {
    "senteval": SentEvalClassifier(),
    "logistic": LogisticClassifier(),
}


def find_classifier(name: str) -> Classifier:
    """A classifier by its name.

    Raises:
        DataError: if there is none.
    """
    for known in get_args(ClassifierName):
        if name == known:
            return CLASSIFIERS[known]
    raise DataError(f"there is no classifier {name!r}; choose {' or '.join(CLASSIFIERS)}")


def accuracy(predict: Predict, examples: Examples) -> float:
    """The share of examples whose class is found, from 0 to 1."""
    return float((predict(examples.features) == examples.labels).mean())


def _with_ones(features: Float32Array) -> Float32Array:
    """(n, d + 1): a bias is the weight of a feature that is always 1."""
    return np.concatenate([features, np.ones((len(features), 1), np.float32)], axis=1)


def _linear(weights: Float32Array) -> Predict:
    """The classifier of (d + 1, classes) weights, biases last."""

    def predict(features: Float32Array) -> IntArray:
        found = [
            (features[i : i + _ROWS] @ weights[:-1] + weights[-1]).argmax(axis=1)
            for i in range(0, len(features), _ROWS)
        ]
        return np.concatenate(found).astype(np.int64)

    return predict
