"""Fields of settings with what a command needs for their options: help text, spelling, range.

Only the standard library is imported here, so that `--help` loads nothing heavy. `eval/cli/options.py` makes
options of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionInfo:
    """What a command shows of a field, and how it reads the field's value.

    The type comes from the annotation of the field: `int` and `float` may have a range, a `Literal` of
    strings is a choice, a `Path` a file or folder, a `bool` a switch. The option of a `tuple` may be given
    several times.

    Attributes:
        help: for readers; empty for an argument.
        flag: the spelling, else the field's name; several with spaces between; `--on/--off` for two.
        metavar: what stands for the value; of a positional argument its name.
        argument: whether it is a positional argument.
        low: the smallest number.
        high: the largest number.
        above: whether `low` itself is too small.
        path: which paths are allowed, also of a text that is a path; whether they exist is not checked.
        parse: makes the value of a text; its ValueError names the mistake, a SurpriseRerankError is complete.
        text: the default as a user writes it, for a field with `parse`.
        sets: for a switch: the value that it sets; with a metavar, the value of an option that is given none.
        joined: for a text: it may be given several times, and is then one text with this between.
        choices: in place of those of a `Literal`.
        kind: a type of click in place of what the annotation names.
        envvar: environment variable that stands for the option.
        show_default: whether the help text shows the default.
    """

    help: str = ""
    flag: str = ""
    metavar: str | None = None
    argument: bool = False
    low: float | None = None
    high: float | None = None
    above: bool = False
    path: Literal["any", "file", "folder"] | None = None
    parse: Callable[[str], Any] | None = None
    text: str | None = None
    sets: str | None = None
    joined: str = ""
    choices: tuple[str, ...] = ()
    kind: Any = None
    envvar: str | None = None
    show_default: bool = True


def option(default: Any = MISSING, *, help: str = "", **how: Any) -> Any:  # noqa: A002 (as click names it)
    """A field of a settings class that is an option of a command, with further attributes of `OptionInfo`.

    A field without a default is a required option.
    """
    return field(default=default, metadata={"option": OptionInfo(help=help, **how)})


def split_names(text: str) -> tuple[str, ...]:
    """Names with commas between, once each."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def some_names(text: str) -> tuple[str, ...]:
    """`split_names`; a ValueError if there is none."""
    names = split_names(text)
    if not names:
        raise ValueError("give at least one name")
    return names
