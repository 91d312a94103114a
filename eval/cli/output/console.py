"""What a command prints: results for people or as JSON, and notes on the error stream."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from surprise_rerank.core.json_values import finite
from surprise_rerank.eval.reports.one_line import one_line

_TEXT_LENGTH = 160  # characters of a text that a table shows


@dataclass(frozen=True, slots=True)
class Output:
    """Where results and notes go.

    Attributes:
        as_json: results as JSON, a line each.
        quiet: no notes and no progress.
    """

    as_json: bool = False
    quiet: bool = False

    @property
    def shows_progress(self) -> bool:
        """Whether the error stream gets a bar, or lines where it is no terminal."""
        return not self.quiet

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return sys.stdout.isatty()

    def line(self, text: str) -> None:
        """A line of the result."""
        click.echo(one_line(text))

    def heading(self, text: str) -> None:
        """What a part of the result is about."""
        click.echo()
        click.secho(one_line(text), bold=True)

    def note(self, message: str) -> None:
        """A line on the error stream."""
        if not self.quiet:
            click.echo(one_line(message), err=True)

    def result(self, values: Mapping[str, Any], lines: Sequence[str]) -> None:
        """The same result for programs and for people."""
        if self.as_json:
            self.json(values)
        else:
            for line in lines:
                self.line(line)

    def json(self, values: Mapping[str, Any]) -> None:
        """One JSON object in one line, in ASCII: nothing in it can reach a terminal."""
        click.echo(json.dumps(finite(values), allow_nan=False))

    def facts(self, title: str, values: Sequence[tuple[str, str]]) -> None:
        """Names and values, below each other."""
        click.echo(one_line(title))
        width = max((len(name) for name, _ in values), default=0)
        for name, value in values:
            click.echo(f"  {name:<{width}}  {one_line(value)}".rstrip())

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], wide: str, *, head: bool = False
    ) -> None:
        """A table in a terminal; in a file or a pipe, lines with tabs between.

        Args:
            columns: their names; those of numbers begin with '#'.
            rows: their cells.
            wide: the column that gets the remaining width.
            head: whether a pipe gets a line of names, too; a terminal always does.
        """
        cells = [[shortened(cell) for cell in row] for row in rows]
        if not self.is_terminal:
            for row in [[name.lstrip("#") for name in columns]] * head + cells:
                click.echo("\t".join(row))
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, expand=True, header_style="bold", pad_edge=False)
        for column in columns:
            is_number = column.startswith("#")
            table.add_column(
                Text(column.lstrip("#")),
                justify="right" if is_number else "left",
                no_wrap=is_number,
                overflow="fold",
                ratio=1 if column == wide else None,
            )
        for row in cells:
            table.add_row(*map(Text, row))  # as they are: no markup, no emoji
        Console(highlight=False).print(table)


def shown_surprise(surprise: float) -> float:
    """Four digits, rounded down: what is above all of n questions is n / (n + 1), and must not read as 1.

    >>> shown_surprise(3000 / 3001)
    0.9996
    >>> shown_surprise(0.95)
    0.95
    """
    return math.floor(1e4 * surprise + 1e-6) / 1e4


def shortened(text: str, length: int = _TEXT_LENGTH) -> str:
    """The beginning of a text, in one line that a terminal shows as it is."""
    shown = one_line(text[: 4 * length])
    return shown if len(shown) <= length else f"{shown[: length - 1].rstrip()}…"
