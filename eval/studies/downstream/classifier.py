"""SentEval's classifier of sentence vectors: logistic regression by stochastic gradients, stopped early.

Published figures come from it (Conneau and Kiela, 'SentEval: An Evaluation Toolkit for Universal Sentence
Representations', LREC 2018, with its settings for fast prototyping): RMSprop in batches of 128. After every
second pass the accuracy on a development set is looked at. Training ends when it has not grown for the fourth
time, and the best state is kept. What comes out depends on the seed: on 500 test questions, by up to
three points. A regression to convergence is 4 points above the published accuracy of TREC.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.core.arrays import Float32Array, IntArray

# Values of l2, one of which is chosen.
GRID = (1e-5, 1e-4, 1e-3, 1e-2)

_BATCH = 128
_PASSES, _MOST_PASSES = 2, 200
_TENACITY = 3
_HELD_OUT = 0.05
_RATE, _SMOOTHING, _LEAST = np.float32(0.01), np.float32(0.99), np.float32(1e-8)


# (n, d) vectors of n texts.
Vectors = Callable[[tuple[str, ...]], Float32Array]


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


def fit(train: Examples, l2: float, classes: int, seed: int) -> Float32Array:
    """Weights for an l2 that was chosen, stopped by a twentieth of the examples that is held out."""
    order = np.random.default_rng(seed).permutation(len(train))
    held_out = max(1, int(_HELD_OUT * len(train)))
    return fit_each(train[order[held_out:]], train[order[:held_out]], (l2,), classes, seed)[0]


def fit_each(
    train: Examples, dev: Examples, grid: Sequence[float], classes: int, seed: int
) -> list[Float32Array]:
    """Weights for each l2, stopped by the development set.

    All are fitted in the same batches: RMSprop treats every weight by itself.
    """
    rng = np.random.default_rng(seed)
    # A bias is the weight of a feature that is always 1.
    features = np.concatenate([train.features, np.ones((len(train), 1), np.float32)], axis=1)
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
