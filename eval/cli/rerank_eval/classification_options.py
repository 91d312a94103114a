"""Options that the commands of classification share."""

from __future__ import annotations

from pathlib import Path

import click

# As `labels.DEFAULT_TEMPLATE`, which `--help` cannot wait for.
TEMPLATE = "this matter is {}"

file_argument = click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
templates_option = click.option(
    "--template",
    "templates",
    metavar="TEXT",
    multiple=True,
    default=(TEMPLATE,),
    show_default=True,
    help="What a label's name is put into, at {}. Several times: each is measured.",
)
template_option = click.option(
    "--template",
    metavar="TEXT",
    default=TEMPLATE,
    show_default=True,
    help="What a label's name is put into, at {}.",
)
names_option = click.option(
    "--label-names",
    "names",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML, `class: name` or `class: [name, another]`.  [default: the class, with spaces for _]",
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random draws."
)


def to_weight(_: click.Context, __: click.Parameter, value: str) -> str | float:
    """A weight of surprise: `crossover`, `auto`, or a number from 0 to 1.

    Raises:
        BadParameter: if it is something else.
    """
    if value in ("crossover", "auto"):
        return value
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise click.BadParameter(f"{value!r} is not crossover, auto, or a number from 0 to 1")
    return number


def to_numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    """Whole numbers from 1, with commas between, once each.

    Raises:
        BadParameter: if there are none, or one is something else.
    """
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise click.BadParameter(f"{value!r} is not a list of whole numbers from 1, as 3,9,21")
    return numbers


weight_option = click.option(
    "--weight",
    metavar="W",
    callback=to_weight,
    default="crossover",
    show_default=True,
    help="Of surprise against the cosine: from 0 to 1; crossover: tanh(size of the ensemble / 1000), as "
    "published; auto: the crossover where the unlabelled texts promise a gain, else 0.",
)
