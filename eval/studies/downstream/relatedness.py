"""How similar two sentences are, learnt from judged pairs: SentEval's supervised STS-B and SICK-R.

A judgement becomes shares of five grades, and a softmax regression of |u - v| and u * v learns them by Adam
in batches of 64, with the squared error; the prediction is the mean grade (Tai, Socher and Manning, ACL
2015). After every fiftieth pass Pearson's r on the development set is looked at. Training ends when it has
not grown for the fourth time, and the best state is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.eval.stats.correlations import correlations
from surprise_rerank.eval.studies.downstream.classifier import Vectors, pair_features
from surprise_rerank.eval.studies.sts.data import SubTask, read_data_sets

GRADES = np.arange(1.0, 6.0)
_BATCH = 64
_PASSES, _MOST_PASSES = 50, 1000
_TENACITY = 3
# Task -> the data sets of its parts.
_PARTS = {
    "STS-B": ("STS-B-train", "STS-B-dev", "STS-B"),
    "SICK-R": ("SICK-R-train", "SICK-R-trial", "SICK-R"),
}


@dataclass(frozen=True, slots=True, eq=False)
class RelatednessTask:
    """Judged pairs of sentences, to learn from, to stop by and to test."""

    name: str
    train: SubTask
    dev: SubTask
    test: SubTask

    @property
    def texts(self) -> tuple[str, ...]:
        """Every sentence once."""
        parts = (self.train, self.dev, self.test)
        return tuple(dict.fromkeys(text for part in parts for text in (*part.first, *part.second)))


def read_relatedness(name: str, data: Path | None) -> RelatednessTask:
    """A task of `settings.RELATEDNESS`, of the folder that `--data` names."""
    return RelatednessTask(name, *(part.subtasks[0] for part in read_data_sets(data, _PARTS[name])))


def shares_of_grades(judgements: Float64Array) -> Float64Array:
    """(n, 5) shares of the grades 1 to 5 whose mean is the judgement; below 1 they sum to less, as there.

    >>> shares_of_grades(np.array([3.0, 4.25, 0.5])).tolist()
    [[0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.75, 0.25], [0.5, 0.0, 0.0, 0.0, 0.0]]
    """
    return np.asarray(np.maximum(1 - np.abs(judgements[:, None] - GRADES), 0.0))


def learn_relatedness(
    train: tuple[Float32Array, Float64Array],
    dev: tuple[Float32Array, Float64Array],
    tested: Float32Array,
    seed: int,
) -> tuple[Float64Array, float]:
    """(n,) predicted judgements of n tested pairs, and the best r on the development set.

    `train` and `dev` are (m, d) features of pairs, and their (m,) judgements.
    """
    rng = np.random.default_rng(seed)
    features, targets = _with_bias(train[0]), shares_of_grades(train[1]).astype(np.float32)
    bound = train[0].shape[1] ** -0.5
    weights = rng.uniform(-bound, bound, (features.shape[1], len(GRADES))).astype(np.float32)
    adam = Adam(weights)
    best, state, failures = -1.0, weights.copy(), 0
    for _ in range(_MOST_PASSES // _PASSES):
        for _ in range(_PASSES):
            order = rng.permutation(len(features))
            for start in range(0, len(order), _BATCH):
                rows = order[start : start + _BATCH]
                adam.step(slope(weights, features[rows], targets[rows]))
        r = correlations(_predicted(weights, dev[0]), dev[1]).pearson
        if r > best:
            best, state = r, weights.copy()
        else:
            failures += 1
            if failures > _TENACITY:
                break
    return _predicted(state, tested), best


def slope(weights: Float32Array, features: Float32Array, targets: Float32Array) -> Float32Array:
    """(d, 5) gradient of the summed squared error of softmax shares, by (d, 5) weights.

    With p the shares of a pair and t their targets, dL/dlogit = 2 p (e - <p, e>), e = p - t.
    """
    errors = _shares(weights, features)
    shares = errors.copy()
    errors -= targets
    errors -= (shares * errors).sum(axis=1, keepdims=True)
    gradient: Float32Array = 2 * features.T @ (shares * errors)
    return gradient


class Adam:
    """Adam (Kingma and Ba, ICLR 2015) with its usual numbers; changes weights in place."""

    def __init__(self, weights: Float32Array) -> None:
        self._weights, self._steps = weights, 0
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, gradient: Float32Array) -> None:
        """Take a step against a gradient."""
        self._steps += 1
        self._mean += np.float32(0.1) * (gradient - self._mean)
        self._square += np.float32(0.001) * (gradient * gradient - self._square)
        rate = np.float32(0.001 / (1 - 0.9**self._steps))
        root = np.sqrt(self._square / np.float32(1 - 0.999**self._steps)) + np.float32(1e-8)
        self._weights -= rate * self._mean / root


def _with_bias(features: Float32Array) -> Float32Array:
    return np.concatenate([features, np.ones((len(features), 1), np.float32)], axis=1)


def _shares(weights: Float32Array, features: Float32Array) -> Float32Array:
    logits = features @ weights
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _predicted(weights: Float32Array, features: Float32Array) -> Float64Array:
    return np.asarray(_shares(weights, _with_bias(features)) @ GRADES)


def relatedness(task: RelatednessTask, vectors: Vectors, seeds: range) -> Iterator[dict[str, float | None]]:
    """Pearson's and Spearman's coefficients x 100 with the judgements of the test, for each seed."""
    parts = {
        part.name: pair_features(vectors(part.first), vectors(part.second))
        for part in (task.train, task.dev, task.test)
    }
    for seed in seeds:
        predicted, dev = learn_relatedness(
            (parts[task.train.name], task.train.judgements),
            (parts[task.dev.name], task.dev.judgements),
            parts[task.test.name],
            seed,
        )
        coefficients = correlations(predicted, task.test.judgements)
        yield {
            "Pearson": 100 * coefficients.pearson,
            "Spearman": 100 * coefficients.spearman,
            "dev Pearson": 100 * dev,
        }
