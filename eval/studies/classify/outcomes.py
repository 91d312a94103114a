"""What a system made of texts, over several draws of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from surprise_rerank.core.arrays import BoolArray, Float64Array, IntArray
from surprise_rerank.eval.stats.significance import holm, paired_randomization
from surprise_rerank.eval.studies.classify.measures import Quality, confusion, mcnemar
from surprise_rerank.eval.studies.classify.systems import Answers
from surprise_rerank.eval.studies.labelled_models import COSINE

# Model, template, system.
Key: TypeAlias = tuple[str, str, str]
# In place of a template, for a system that uses no label names.
NO_TEMPLATE = "-"


@dataclass(slots=True)
class Outcome:
    """What a system made of the texts of all repeats.

    Attributes:
        qualities: of each repeat.
        right: of each repeat, which texts it had right.
        rows: of each repeat, which texts were tested.
        weights: of surprise, in each repeat; empty for a system that has none.
        confusion: (L, L) texts by their class and the one that was chosen, of all repeats together.
    """

    qualities: list[Quality] = field(default_factory=list)
    right: list[BoolArray] = field(default_factory=list)
    rows: list[IntArray] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    confusion: IntArray | None = None

    def add(self, truth: IntArray, answers: Answers, classes: int, rows: IntArray) -> None:
        """One repeat more.

        Args:
            truth: (n,) places of the texts' own classes.
            answers: about these texts.
            classes: L.
            rows: (n,) which texts these are, of all there are.
        """
        self.qualities.append(Quality.of(truth, answers.places))
        self.right.append(truth == answers.places)
        self.rows.append(rows)
        if answers.weight is not None:
            self.weights.append(answers.weight)
        counts = confusion(truth, answers.places, classes)
        self.confusion = counts if self.confusion is None else self.confusion + counts

    def rightness(self) -> Float64Array:
        """(m,) for each text that was tested at all, in order: the share of its repeats that had it right."""
        rows, right = np.concatenate(self.rows), np.concatenate(self.right)
        tested, places = np.unique(rows, return_inverse=True)
        return np.bincount(places, weights=right, minlength=len(tested)) / np.bincount(places)

    def values(self, measure: str) -> list[float]:
        """A measure of `Quality`, of each repeat."""
        return [float(getattr(quality, measure)) for quality in self.qualities]


def p_values(found: Mapping[Key, Outcome]) -> dict[Key, tuple[float, float]]:
    """Of each system but cosine: p of its accuracy against cosine's, and with Holm's correction for all.

    Of one repeat it is McNemar's exact test over the texts; of several, the paired randomisation test over
    the texts, each with the share of its repeats that had it right: draws of the same texts are no new texts.
    A system without a template is compared with the first one's cosine.
    """
    tested: dict[Key, float] = {}
    for key, outcome in found.items():
        baseline = baseline_of(key, found)
        if baseline is None:
            continue
        other = found[baseline]
        if len(outcome.right) == 1:
            tested[key] = mcnemar(outcome.right[0], other.right[0])
        else:
            tested[key] = paired_randomization(other.rightness(), outcome.rightness())
    corrected = holm(list(tested.values()))
    return {key: (p, more) for (key, p), more in zip(tested.items(), corrected, strict=True)}


def baseline_of(key: Key, keys: Iterable[Key]) -> Key | None:
    """What a system is compared with: cosine with its template; None for cosine itself."""
    model, template, system = key
    if system == COSINE:
        return None
    return next(
        (k for k in keys if k[0] == model and k[2] == COSINE and template in (k[1], NO_TEMPLATE)), None
    )
