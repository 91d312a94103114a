"""What a command prints: results for people or as JSON, and notes on the error stream."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank._documents import without_title
from surprise_rerank.core._json_values import finite
from surprise_rerank.eval.reports.one_line import one_line, tab_separated

if TYPE_CHECKING:
    from surprise_rerank._candidates import Hit

_TEXT_LENGTH = 160  # characters of a text that a table shows


@dataclass(frozen=True, slots=True)
class Output:
    """Where results and notes go: results as JSON or not, notes and progress or not."""

    as_json: bool = False
    quiet: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return sys.stdout.isatty()

    def note(self, message: str) -> None:
        """A line on the error stream."""
        if not self.quiet:
            click.echo(one_line(message), err=True)

    def result(self, values: Mapping[str, Any], lines: Sequence[str], notes: Sequence[str] = ()) -> None:
        """The same result for programs and for people, who also get notes on it."""
        if self.as_json:
            self.json(values)
            return
        for line in lines:
            click.echo(one_line(line))
        for note in notes:
            self.note(note)

    def json(self, values: Mapping[str, Any]) -> None:
        """One JSON object in one line, in ASCII: nothing in it can reach a terminal."""
        click.echo(json.dumps(finite(values), allow_nan=False))

    def facts(self, title: str, values: Sequence[tuple[str, str]]) -> None:
        """Names and values, below each other; on a terminal long values stay in their column."""
        click.echo(one_line(title))
        width = max((len(name) for name, _ in values), default=0)
        room = shutil.get_terminal_size().columns if self.is_terminal else sys.maxsize
        for name, value in values:
            indent = " " * (width + 4)
            click.echo(click.wrap_text(one_line(value), room, f"  {name:<{width}}  ", indent).rstrip())

    def rows(self, rows: Iterable[Sequence[str]]) -> None:
        """Rows of a table for other programs: tabs between the cells, the names first."""
        for row in rows:
            click.echo(tab_separated(map(shortened, row)))


def body(hit: Hit) -> str:
    """The text without the title, which is shown before it."""
    return without_title(hit.text, hit.title, 0 if hit.passage is None else hit.passage.start)


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural ends in s.

    >>> counted(1, "document"), counted(0, "group")
    ('1 document', '0 groups')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def share(percentile: float) -> str:
    """A percentile as per cent; what is below 1 never reads as all.

    >>> share(0.985), share(300 / 301), share(3000 / 3001)
    ('98.5 %', '99.7 %', '99.9 %')
    """
    rounded = round(100 * percentile, 1)
    return f"{rounded if percentile >= 1 else min(rounded, 99.9):.1f} %"


def shown_percentile(percentile: float) -> float:
    """Four digits, rounded down: what is above all of n questions is n / (n + 1), and must not read as 1.

    >>> shown_percentile(3000 / 3001), shown_percentile(0.95)
    (0.9996, 0.95)
    """
    return math.floor(1e4 * percentile + 1e-6) / 1e4


def shortened(text: str, length: int = _TEXT_LENGTH) -> str:
    """The beginning of a text, in one line that a terminal shows as it is."""
    shown = one_line(text[: 4 * length])
    return shown if len(shown) <= length else f"{shown[: length - 1].rstrip()}…"
