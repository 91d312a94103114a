"""Settings of the studies of classification; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from surprise_rerank.core.settings import option, some_names
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import LabelledStudy

Weight: TypeAlias = float | Literal["crossover"]

# As `classify.labels.DEFAULT_TEMPLATE`, which `--help` cannot wait for.
TEMPLATE = "this matter is {}"
# What learns from few examples.
FEW_SHOT_SYSTEMS = ("cosine", "surprise", "cosine-linear", "surprise-linear", "logistic", "setfit")


def to_weight(text: str) -> Weight:
    """A weight of surprise: `crossover`, or a number from 0 to 1."""
    if text == "crossover":
        return "crossover"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"{text!r} is not crossover or a number from 0 to 1")
    return number


def to_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers from 1, with commas between, once each."""
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",") if part.strip()))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise ValueError(f"{text!r} is not a list of whole numbers from 1, as 3,9,21")
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifySettings(LabelledStudy):
    """What is classified, and what is measured."""

    file: Path = option(metavar="FILE", argument=True, path="file")
    train: Path | None = option(
        None,
        help="Labelled texts to learn from: for the logistic regression, or for --few-shot.",
        metavar="FILE",
        path="file",
    )
    names: Path | None = option(
        None,
        help="YAML, `class: name` or `class: [name, another]`.  [default: the class, with spaces for _]",
        flag="--label-names",
        metavar="FILE",
        path="file",
    )
    limit: int | None = option(
        None, help="A quick look: N texts, a random sample that is always the same.", metavar="N", low=1
    )
    templates: tuple[str, ...] = option(
        (TEMPLATE,),
        help="What a label's name is put into, at {}. Several times: each is measured.",
        flag="--template",
        metavar="TEXT",
    )
    weight: Weight = option(
        "crossover",
        help="Of surprise against the cosine: from 0 to 1; crossover: tanh(size of the ensemble / 1000), as "
        "published.",
        metavar="W",
        parse=to_weight,
    )
    inductive: bool = option(
        False, help="Compare with the texts of --train, not with the tested ones (without their labels)."
    )
    ensemble_size: tuple[int, ...] | None = option(
        None,
        help="Measure surprise with random ensembles of N texts; the others are tested.  "
        "[without N: 3,9,27,81,243,729,2187]",
        metavar="N,N,...",
        parse=to_numbers,
        sets="3,9,27,81,243,729,2187",
    )
    few_shot: tuple[int, ...] | None = option(
        None,
        help="Learn from K examples of each class, of --train or of FILE, whose others are tested.",
        metavar="K,K,...",
        parse=to_numbers,
    )
    draws: int | None = option(
        None, help="Of ensembles or examples of each size.  [default: 10; of examples 3]", metavar="N", low=1
    )
    test_size: int | None = option(
        None, help="With --few-shot: test N texts, drawn at random.  [default: all]", metavar="N", low=1
    )
    unbalanced: bool = option(
        False, help="With --few-shot: K examples of each class on average, at least 1 of each."
    )
    systems: tuple[str, ...] | None = option(
        None,
        help="With --few-shot, with commas between.  [default: all that the model can be trained for]",
        metavar="NAMES",
        parse=some_names,
    )
    setfit_steps: int | None = option(
        None,
        help="End SetFit's training after N steps.  [default: one epoch of all pairs, whose number grows "
        "with K squared]",
        metavar="N",
        low=1,
    )

    def __post_init__(self) -> None:
        from surprise_rerank.classify.labels import check_template

        for template in self.templates:
            check_template(template)
        if self.few_shot is not None and self.ensemble_size is not None:
            raise DataError("--few-shot and --ensemble-size are two studies; give one of them")
        if self.few_shot is not None and len(self.templates) > 1:
            raise DataError("--few-shot takes one --template")
        if self.inductive and (self.train is None or self.few_shot or self.ensemble_size):
            raise DataError("--inductive compares with the texts of --train, without another study; give it")
        for name in ("test_size", "unbalanced", "systems", "setfit_steps"):
            if getattr(self, name) and self.few_shot is None:
                raise DataError(f"--{name.replace('_', '-')} is for --few-shot, which is not given")
        if self.draws is not None and self.few_shot is None and self.ensemble_size is None:
            raise DataError("--draws is for --few-shot and --ensemble-size; give one of them")
        unknown = [name for name in self.systems or () if name not in FEW_SHOT_SYSTEMS]
        if unknown:
            raise DataError(f"there is no system {unknown[0]!r}; choose from {', '.join(FEW_SHOT_SYSTEMS)}")
        if self.setfit_steps and self.systems and "setfit" not in self.systems:
            raise DataError("--setfit-steps is for setfit, which is not among --systems")
