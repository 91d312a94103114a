"""Settings of the studies of classification; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from surprise_rerank.core.settings import option, some_names
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import LabelledColumns, LabelledStudy

Weight: TypeAlias = float | Literal["crossover"]

# As `classify.labels.DEFAULT_TEMPLATE`, which `--help` cannot wait for.
TEMPLATE = "this matter is {}"
TRAIN: Final = "train"
_WEIGHT_HELP = (
    "Of surprise against the cosine: from 0 to 1; crossover: tanh(size of the ensemble / 1000), as published."
)


def to_weight(text: str) -> Weight:
    """A weight of surprise: `crossover`, or a number from 0 to 1.

    Raises:
        ValueError: if it is something else.
    """
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
    """Whole numbers from 1, with commas between, once each.

    Raises:
        ValueError: if there are none, or one is something else.
    """
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",") if part.strip()))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise ValueError(f"{text!r} is not a list of whole numbers from 1, as 3,9,21")
    return numbers


def to_ensemble(text: str) -> Path | Literal["train"]:
    """The texts that similarities are compared with: a file, or `train`."""
    return TRAIN if text == TRAIN else Path(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles(LabelledColumns):
    """The files that a task is read from.

    Attributes:
        file: of labelled texts.
    """

    file: Path = option(metavar="FILE", argument=True, path="file")
    names: Path | None = option(
        None,
        help="YAML, `class: name` or `class: [name, another]`.  [default: the class, with spaces for _]",
        flag="--label-names",
        metavar="FILE",
        path="file",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFiles(TaskFiles):
    """The files of a task that may be a sample."""

    limit: int | None = option(
        None, help="A quick look: N texts, a random sample that is always the same.", metavar="N", low=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroShotFiles(SampledFiles):
    """The files of a classification by the names of the labels."""

    train: Path | None = option(
        None, help="Labelled texts for the logistic regression.", metavar="FILE", path="file"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotFiles(TaskFiles):
    """The files of a study of few examples."""

    test: Path | None = option(
        None,
        help="Labelled texts that are tested.  [default: those of FILE that are no examples]",
        metavar="FILE",
        path="file",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelStudy(LabelledStudy):
    """What the studies with several templates share."""

    templates: tuple[str, ...] = option(
        (TEMPLATE,),
        help="What a label's name is put into, at {}. Several times: each is measured.",
        flag="--template",
        metavar="TEXT",
    )
    seed: int = option(0, help="Of the random draws.", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroShotSettings(LabelStudy):
    """How texts are classified."""

    weight: Weight = option("crossover", help=_WEIGHT_HELP, metavar="W", parse=to_weight)
    ensemble: Path | Literal["train"] | None = option(
        None,
        help="Texts that similarities are compared with: a table, a .txt of one a line, or `train`.  "
        "[default: the tested texts, unlabelled]",
        metavar="FILE",
        parse=to_ensemble,
    )
    text: str | None = option(
        None, help="Column of texts.  [default: text, content, body, ...]", metavar="COLUMN"
    )
    shots: int | None = option(
        None,
        help="The logistic regression learns from K texts of each class; without --train they are drawn from "
        "FILE, and the others are tested.",
        metavar="K",
        low=1,
    )
    regularisation: float = option(1.0, help="C of the logistic regression.", metavar="C", low=0, above=True)
    sample: int | None = option(None, help="Test N texts, drawn at random.", metavar="N", low=1)
    repeats: int = option(1, help="How many times --sample or --shots is drawn.", metavar="N", low=1)

    def __post_init__(self) -> None:
        _check_templates(self.templates)
        if self.repeats > 1 and self.sample is None and self.shots is None:
            raise DataError("several repeats with the same texts are alike; give --sample or --shots, too")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleSizeSettings(LabelStudy):
    """What is measured."""

    sizes: tuple[int, ...] = option(
        (3, 9, 27, 81, 243, 729, 2187), help="Texts in the ensemble.", metavar="N,N,...", parse=to_numbers
    )
    draws: int = option(10, help="Random ensembles of each size.", metavar="N", low=1)

    def __post_init__(self) -> None:
        _check_templates(self.templates)
        if not self.sizes or min(self.sizes) < 1:
            raise DataError(f"the sizes of ensembles must be at least 1, got {self.sizes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotSettings(LabelledStudy):
    """What is measured."""

    weight: Weight = option("crossover", help=_WEIGHT_HELP, metavar="W", parse=to_weight)
    template: str = option(TEMPLATE, help="What a label's name is put into, at {}.", metavar="TEXT")
    test_size: int | None = option(
        None,
        help="Test N of the texts, drawn at random with each seed.  [default: all]",
        metavar="N",
        low=1,
    )
    shots: tuple[int, ...] = option(
        (3, 9, 21), help="Examples of each class.", metavar="K,K,...", parse=to_numbers
    )
    seeds: int = option(3, help="Draws of examples.", metavar="N", low=1)
    balanced: bool = option(
        True,
        help="K examples of each class; or K for each class on average, drawn at random, at least 1 of each.",
        flag="--balanced/--unbalanced",
    )
    systems: tuple[str, ...] | None = option(
        None,
        help="With commas between.  [default: all that the model can be trained for]",
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
        from surprise_rerank.eval.studies.classify.few_shot_systems import SYSTEMS

        _check_templates((self.template,))
        if self.systems == ():
            raise DataError("no system to measure; give at least one")
        unknown = [name for name in self.systems or () if name not in SYSTEMS]
        if unknown:
            raise DataError(f"there is no system {unknown[0]!r}; choose from {', '.join(SYSTEMS)}")
        if not self.shots or min(self.shots) < 1:
            raise DataError(f"the numbers of examples must be at least 1, got {self.shots}")


def _check_templates(templates: tuple[str, ...]) -> None:
    from surprise_rerank.classify.labels import check_template

    for template in templates:
        check_template(template)
