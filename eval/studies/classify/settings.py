"""Settings of the studies of classification. Imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import LabelledStudy

Weight: TypeAlias = float | Literal["crossover"]

# As `classify.labels.DEFAULT_TEMPLATE`, which `--help` cannot wait for.
TEMPLATE = "this matter is {}"
# What learns from few examples.
FEW_SHOT_SYSTEMS = ("cosine", "surprise", "cosine-linear", "surprise-linear", "logistic", "setfit")


def to_weight(text: str) -> Weight:
    """A weight of surprise: `crossover`, or a number from 0 to 1; a ValueError else."""
    if text == "crossover":
        return "crossover"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"{text!r} is not crossover or a number from 0 to 1")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifySettings(LabelledStudy):
    """What is classified, and what is measured.

    Attributes:
        file: labelled texts.
        train: labelled texts to learn from: for the logistic regression, or for few_shot.
        names: YAML of `class: name` or `class: [name, another]`; the class by default, with spaces for _.
        limit: a quick look: N texts, a random sample that is always the same.
        templates: what a label's name is put into, at {}; each is measured.
        weight: how much surprise counts against the cosine, from 0 to 1; crossover: tanh(size of the ensemble
            / 1000), as published.
        inductive: compare with the texts of train, not with the tested ones (without their labels).
        ensemble_size: measure surprise with random ensembles of N texts, such as 3,9,27,81,243,729,2187; the
            others are tested.
        few_shot: learn from K examples of each class, of train or of the file, whose others are tested.
        draws: how many ensembles or examples of each size; 10 by default, of examples 3.
        test_size: with few_shot, test N texts, drawn at random; all by default.
        unbalanced: with few_shot, K examples of each class on average, at least 1 of each.
        systems: with few_shot, what learns; all by default that the model can be trained for.
        setfit_steps: end SetFit's training after N steps; by default after one epoch of all pairs, whose
            number grows with K squared.
    """

    file: Path
    train: Path | None = None
    names: Path | None = None
    limit: int | None = None
    templates: tuple[str, ...] = (TEMPLATE,)
    weight: Weight = "crossover"
    inductive: bool = False
    ensemble_size: tuple[int, ...] | None = None
    few_shot: tuple[int, ...] | None = None
    draws: int | None = None
    test_size: int | None = None
    unbalanced: bool = False
    systems: tuple[str, ...] | None = None
    setfit_steps: int | None = None

    def __post_init__(self) -> None:
        from surprise_rerank.classify.labels import check_template

        for template in self.templates:
            check_template(template)
        self._check_ranges()
        if self.few_shot is None:
            self._check_without_examples()
        elif self.ensemble_size is not None:
            raise DataError("few_shot and ensemble_size are two studies; give one of them")
        elif len(self.templates) > 1:
            raise DataError("few_shot takes one of templates")
        if self.inductive and (self.train is None or self.few_shot or self.ensemble_size):
            raise DataError("inductive compares with the texts of train, without another study; give it")
        unknown = [name for name in self.systems or () if name not in FEW_SHOT_SYSTEMS]
        if unknown:
            raise DataError(f"there is no system {unknown[0]!r}; choose from {', '.join(FEW_SHOT_SYSTEMS)}")
        if self.setfit_steps and self.systems and "setfit" not in self.systems:
            raise DataError("setfit_steps is for setfit, which is not among systems")

    def _check_ranges(self) -> None:
        if not (self.weight == "crossover" or 0 <= self.weight <= 1):
            raise DataError(f"weight={self.weight}: give crossover, or a number from 0 to 1")
        for name in ("limit", "draws", "test_size", "setfit_steps"):
            if (getattr(self, name) or 1) < 1:
                raise DataError(f"{name}={getattr(self, name)}: give a number from 1")
        for name in ("ensemble_size", "few_shot"):
            sizes = getattr(self, name)
            if sizes is not None and min(sizes, default=0) < 1:
                raise DataError(f"{name}={','.join(map(str, sizes))}: give whole numbers from 1, as 3,9,21")

    def _check_without_examples(self) -> None:
        for name in ("test_size", "unbalanced", "systems", "setfit_steps"):
            if getattr(self, name):
                raise DataError(f"{name} is for few_shot, which is not given")
        if self.draws is not None and self.ensemble_size is None:
            raise DataError("draws is for few_shot and ensemble_size; give one of them")
