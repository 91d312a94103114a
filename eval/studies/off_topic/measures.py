"""How well a statistic separates questions of a corpus from others, and how many pass a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from sklearn.metrics import roc_auc_score

from surprise_rerank.core.arrays import BoolArray, Float64Array
from surprise_rerank.eval.studies.off_topic.question_contrast import QUESTION_CONTRAST
from surprise_rerank.eval.studies.off_topic.scores import (
    FUSION,
    AskedQuestion,
    View,
    as_system,
    background_of,
    best_is_relevant,
    totals,
)
from surprise_rerank.thresholds.background import QuestionBackground

Questions: TypeAlias = Sequence[AskedQuestion]
Statistic: TypeAlias = Callable[[Questions], Float64Array]


def statistics(scorers: Sequence[str], background: QuestionBackground) -> dict[str, Statistic]:
    """Name -> what it makes of questions: (n,) numbers, larger for those that have an answer.

    Args:
        scorers: whose best raw score is a statistic.
        background: of all scorers.
    """

    def best(scorer: str) -> Statistic:
        return lambda questions: np.array([q.best(scorer) for q in questions])

    raw = {name: best(name) for name in sorted(scorers, key=("cosine", "dynamax", "bm25").index)}
    return {
        **raw,
        "min-max": lambda questions: np.array([q.min_max for q in questions]),
        "z over documents": lambda questions: np.array([q.z_documents for q in questions]),
        "z over questions": best(QUESTION_CONTRAST),
        FUSION: lambda questions: totals(questions, background, as_system(FUSION)),
    }


def auroc(statistic: Statistic, on_topic: Questions, off_topic: Questions) -> float:
    """The probability that a question of the corpus has more than one that is not; ties count half."""
    values = np.concatenate([statistic(on_topic), statistic(off_topic)])
    finite = values[np.isfinite(values)]
    lowest = finite.min() - 1.0 if len(finite) else 0.0
    labels = np.repeat([1, 0], [len(on_topic), len(off_topic)])
    return float(roc_auc_score(labels, np.where(np.isfinite(values), values, lowest)))


def passed(questions: Questions, background: QuestionBackground, view: View, alpha: float) -> float:
    """The share of questions whose best candidate's surprise is at least 1 - alpha."""
    surprise = background.surprise(totals(questions, background, view))
    return float((surprise >= 1 - alpha - 1e-9).mean())


def joined(sources: Mapping[str, Questions], without: Iterable[str] = ()) -> list[AskedQuestion]:
    """The questions of all sources, or of all but some, in one list."""
    left_out = set(without)
    return [question for name, own in sources.items() if name not in left_out for question in own]


@dataclass(frozen=True, eq=False)
class Measured:
    """One corpus, searched with one model's vectors.

    Attributes:
        corpus: its name.
        model: the encoder's name.
        scorers: that scored.
        on_topic: its own judged questions.
        background: source -> the half of its questions that thresholds are set on.
        others: source -> the other half.
    """

    corpus: str
    model: str
    scorers: tuple[str, ...]
    on_topic: Sequence[AskedQuestion]
    background: Mapping[str, Sequence[AskedQuestion]]
    others: Mapping[str, Sequence[AskedQuestion]]

    @property
    def names(self) -> tuple[str, str]:
        """Corpus and model, as tables have them."""
        return self.corpus, self.model

    @cached_property
    def judged(self) -> tuple[QuestionBackground, Float64Array, BoolArray]:
        """The fusion's background; of the corpus' questions the surprise, and if the best is relevant."""
        view = as_system(FUSION)
        background = background_of(joined(self.background), view)
        surprise = background.surprise(totals(self.on_topic, background, view))
        return background, surprise, best_is_relevant(self.on_topic, background, view)
