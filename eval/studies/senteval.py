"""SentEval's classifier of sentence vectors: logistic regression by stochastic gradients, stopped early.

Published figures come from it (Conneau and Kiela, 'SentEval', LREC 2018, its settings for fast prototyping):
RMSprop in batches of 128. After every second pass the accuracy on a development set is looked at. Training
ends when it has not grown for the fourth time, and the best state is kept. What comes out depends on the
seed: on 500 test questions, by up to three points. A regression to convergence is 4 points above the
published TREC.

How similar two sentences are is learnt from judged pairs: a judgement becomes shares of five grades, which a
softmax regression of |u - v| and u * v learns by Adam with the squared error; the prediction is the mean
grade (Tai, Socher and Manning, ACL 2015). After every fiftieth pass r on the development set is looked at
likewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.eval.stats import correlations

GRID = (1e-5, 1e-4, 1e-3, 1e-2)  # values of l2, one of which is chosen
GRADES = np.arange(1.0, 6.0)  # of pairs

_BATCH, _PAIRS = 128, 64
_PASSES, _MOST_PASSES = 2, 200
_PASSES_OF_PAIRS, _MOST_OF_PAIRS = 50, 1000
_TENACITY = 3
_RATE, _SMOOTHING, _LEAST = np.float32(0.01), np.float32(0.99), np.float32(1e-8)


# (n, d) vectors of n texts.
Vectors = Callable[[tuple[str, ...]], Float32Array]


def _with_bias(features: Float32Array) -> Float32Array:
    return np.concatenate([features, np.ones((len(features), 1), np.float32)], axis=1)


def pair_features(first: Float32Array, second: Float32Array) -> Float32Array:
    """(n, 2d) |u - v| and u * v of n pairs of (n, d) vectors."""
    return np.concatenate([np.abs(first - second), first * second], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """n examples: (n, d) features, and (n,) places of their classes, from 0."""

    features: Float32Array
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: IntArray) -> Examples:
        return Examples(self.features[rows], self.labels[rows])


def predict(weights: Float32Array, features: Float32Array) -> IntArray:
    """(n,) places of the classes that (d + 1, classes) weights, biases last, choose for (n, d) features."""
    return np.asarray((features @ weights[:-1] + weights[-1]).argmax(axis=1), dtype=np.int64)


def accuracy(weights: Float32Array, examples: Examples) -> float:
    """The share of examples whose class is found, from 0 to 1."""
    return float((predict(weights, examples.features) == examples.labels).mean())


def fit_each(
    train: Examples, dev: Examples, grid: Sequence[float], classes: int, seed: int
) -> list[Float32Array]:
    """Weights for each l2, stopped by the development set; RMSprop treats every weight by itself."""
    rng = np.random.default_rng(seed)
    # A bias is the weight of a feature that is always 1.
    features = _with_bias(train.features)
    targets = np.eye(classes, dtype=np.float32)[train.labels, :, None]
    bound = 1 / math.sqrt(train.features.shape[1])
    start = rng.uniform(-bound, bound, (features.shape[1], classes, 1)).astype(np.float32)
    weights = np.repeat(start, len(grid), axis=2)
    squares, decay = np.zeros_like(weights), np.array(grid, dtype=np.float32)
    best = [(-1.0, start[:, :, 0])] * len(grid)
    failures = [0] * len(grid)
    for _ in range(_MOST_PASSES // _PASSES):
        for _ in range(_PASSES):
            order = rng.permutation(len(features))
            for i in range(0, len(order), _BATCH):
                rows = order[i : i + _BATCH]
                take_step(weights, squares, features[rows], targets[rows], decay)
        for i, failed in enumerate(failures):
            if failed > _TENACITY:
                continue
            state = weights[:, :, i].copy()
            reached = accuracy(state, dev)
            if reached > best[i][0]:
                best[i] = reached, state
            else:
                failures[i] += 1
        if min(failures) > _TENACITY:
            break
    return [state for _, state in best]


def take_step(
    weights: Float32Array,
    squares: Float32Array,
    features: Float32Array,
    targets: Float32Array,
    decay: Float32Array,
) -> None:
    """One step of RMSprop (Tieleman and Hinton, 2012) of k softmax regressions, in place.

    With g the gradient of the mean cross-entropy of a batch, and l2 times the weights added to it:

        s <- .99 s + .01 g^2,  w <- w - .01 g / (sqrt(s) + 1e-8)

    as `torch.optim.RMSprop` has it, with weight decay. A step takes less than torch needs to set one up.
    Weights and s are (d, classes, k), features (n, d), targets (n, classes, 1) and the l2 of each (k,).
    """
    shape = weights.shape
    logits = (features @ weights.reshape(shape[0], -1)).reshape(-1, *shape[1:])
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares -= targets
    slope = (features.T @ shares.reshape(len(features), -1)).reshape(shape)
    slope /= np.float32(len(features))
    slope += decay * weights
    squares *= _SMOOTHING
    squares += (1 - _SMOOTHING) * slope * slope
    weights -= _RATE * slope / (np.sqrt(squares) + _LEAST)


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
    """(n,) judgements of n tested pairs, and the best r on the development set; features, and (m,) judged."""
    rng = np.random.default_rng(seed)
    features, targets = _with_bias(train[0]), shares_of_grades(train[1]).astype(np.float32)
    bound = train[0].shape[1] ** -0.5
    weights = rng.uniform(-bound, bound, (features.shape[1], len(GRADES))).astype(np.float32)
    adam = Adam(weights)
    best, state, failures = -1.0, weights.copy(), 0
    for _ in range(_MOST_OF_PAIRS // _PASSES_OF_PAIRS):
        for _ in range(_PASSES_OF_PAIRS):
            order = rng.permutation(len(features))
            for start in range(0, len(order), _PAIRS):
                rows = order[start : start + _PAIRS]
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
    return np.asarray(2 * features.T @ (shares * errors))


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


def _shares(weights: Float32Array, features: Float32Array) -> Float32Array:
    logits = features @ weights
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _predicted(weights: Float32Array, features: Float32Array) -> Float64Array:
    return np.asarray(_shares(weights, _with_bias(features)) @ GRADES)
