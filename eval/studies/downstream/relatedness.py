"""How similar two sentences are, learnt from judged pairs: SentEval's supervised STS-B and SICK-R.

A judgement becomes shares of five grades, and a softmax regression of |u - v| and u * v learns them by Adam
in batches of 64, with the squared error; the prediction is the mean grade (Tai, Socher and Manning, ACL
2015). After every fiftieth pass Pearson's r on the development set is looked at. Training ends when it has
not grown for the fourth time, and the best state is kept.
"""

from __future__ import annotations

import copy
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
    import torch

    generator = torch.Generator().manual_seed(seed)
    features, targets = torch.from_numpy(train[0]), torch.from_numpy(shares_of_grades(train[1])).float()
    model = torch.nn.Linear(features.shape[1], len(GRADES))
    bound = features.shape[1] ** -0.5
    for weights in model.parameters():
        torch.nn.init.uniform_(weights, -bound, bound, generator=generator)
    optimizer = torch.optim.Adam(model.parameters())

    def predicted(of: Float32Array) -> Float64Array:
        with torch.inference_mode():
            shares = torch.softmax(model(torch.from_numpy(of)), dim=1).numpy()
        return np.asarray(shares @ GRADES)

    best, state, failures = -1.0, copy.deepcopy(model.state_dict()), 0
    for _ in range(_MOST_PASSES // _PASSES):
        for _ in range(_PASSES):
            for rows in torch.randperm(len(features), generator=generator).split(_BATCH):  # type: ignore[no-untyped-call]
                optimizer.zero_grad()
                loss = (torch.softmax(model(features[rows]), dim=1) - targets[rows]).square().sum()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        r = correlations(predicted(dev[0]), dev[1]).pearson
        if r > best:
            best, state = r, copy.deepcopy(model.state_dict())
        else:
            failures += 1
            if failures > _TENACITY:
                break
    model.load_state_dict(state)
    return predicted(tested), best


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
