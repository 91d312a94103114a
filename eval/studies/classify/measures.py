"""How well texts were classified, and whether a difference could be chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.metrics import f1_score

from surprise_rerank.core.arrays import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Quality:
    """How well n texts were classified, from 0 to 1.

    Attributes:
        accuracy: the share of right answers.
        macro_f1: the mean F1 of the classes that have texts among the n.
        weighted_f1: the same, each class by its number of texts.
    """

    accuracy: float
    macro_f1: float
    weighted_f1: float

    @classmethod
    def of(cls, truth: IntArray, predicted: IntArray) -> Quality:
        """The quality of n answers.

        Args:
            truth: (n,) places of the texts' own classes, n at least 1.
            predicted: (n,) places of the classes that were chosen.
        """
        # A class that is predicted and has no text lowers the others' precision; its own F1 is not defined.
        present = np.unique(truth)
        macro, weighted = (
            float(f1_score(truth, predicted, labels=present, average=average, zero_division=0.0))
            for average in ("macro", "weighted")
        )
        return cls(float((truth == predicted).mean()), macro, weighted)


def confusion(truth: IntArray, predicted: IntArray, classes: int) -> IntArray:
    """(L, L) how many texts of the class of a row were given the class of a column."""
    counts = np.bincount(truth * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.int64)


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    return float(np.mean(values))


def mcnemar(first: BoolArray, second: BoolArray) -> float:
    """Two-sided p-value of McNemar's exact test: whether two classifiers are right equally often.

    Of the texts that one of them has right and the other one wrong, either should have half (McNemar, 1947).

    >>> mcnemar(np.array([True] * 9 + [False]), np.array([False] * 9 + [True]))
    0.021484375

    Args:
        first: (n,) whether one is right.
        second: (n,) whether the other is, about the same texts.
    """
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if not only_first + only_second:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)
