"""Progress bars on the terminal's error stream, so that a redirected table stays clean."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import ProgressColumn as _Column
from rich.text import Text

Advance = Callable[[int], None]


class _Rate(_Column):
    """Units a second since the start."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed:.0f} {task.fields['unit']}/s", style="progress.data.speed")


class Terminal:
    """Where messages and progress go: the error stream."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)

    def say(self, message: str) -> None:
        """One line for the user; text in square brackets stays as it is."""
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def bar(self, title: str, total: int | None, unit: str) -> Iterator[Advance]:
        """A bar with rate and, where the total is known, time left; gone when done."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console, transient=True, disable=total == 0) as progress:
            task = progress.add_task(title, total=total, unit=unit)
            yield lambda n: progress.advance(task, n)
