"""How far work is, on the error stream: rich's bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sized
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Task


class Advance(Protocol):
    """Tells that units are done, or a part of a large one.

    The effort is how many usual units that was as work, where they differ; 0 of what was done before.
    """

    def __call__(self, count: float, effort: float | None = None, /) -> None:
        """Count them."""


# A function where counting takes a while; None where it is not known.
Total: TypeAlias = int | Callable[[], int | None] | None


class Terminal:
    """Where messages and progress go: the error stream; `quiet` is nothing at all.

    `every` is how many seconds are from one line to the next, where no bar can be drawn.
    """

    def __init__(self, *, quiet: bool = False, every: float = 10.0) -> None:
        self.quiet = quiet
        self._every = every

    def say(self, message: str) -> None:
        """One line for the user; above a bar, where there is one."""
        if not self.quiet:
            sys.stderr.write(f"{message}\n")
            sys.stderr.flush()

    @contextlib.contextmanager
    def bar(self, title: str, total: Total = None, unit: str = "") -> Iterator[Advance]:
        """Show the progress of a block as a bar that vanishes at the end, or as lines.

        The block calls the function that it gets with counts. Without a unit only the time is shown.
        """
        if self.quiet or total == 0:
            yield lambda count, effort=None: None
            return
        from rich import progress as rich
        from rich.console import Console

        console = Console(stderr=True)
        draws = (console.is_terminal or console.is_jupyter) and not console.is_dumb_terminal
        columns = (
            rich.SpinnerColumn(),
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(20),
            *([rich.MofNCompleteColumn(), rich.TextColumn(unit, markup=False)] if unit else []),
            rich.TextColumn("{task.fields[left]}"),
        )
        shown = "".join(c if c.isprintable() else " " for c in title)
        expected = total() if callable(total) else total
        with rich.Progress(*columns, console=console, transient=True, disable=not draws) as progress:
            name = progress.add_task(shown, total=expected, left="", effort=0.0, ready=0.0)
            (task,) = progress.tasks

            def advance(count: float, effort: float | None = None, /) -> None:
                # Never less than are done: a total may be an estimate.
                task.total = None if expected is None else max(expected, round(task.completed + count, 6))
                task.fields["effort"] += count if effort is None else effort
                task.fields["ready"] += count if effort == 0 else 0
                progress.update(name, advance=count, left=_left(task))

            with contextlib.nullcontext() if draws else self._lines_now_and_then(task, unit):
                yield advance

    @contextlib.contextmanager
    def _lines_now_and_then(self, task: Task, unit: str) -> Iterator[None]:
        """Write a line of progress every few seconds, and one at the end if there was any."""
        over, written = threading.Event(), threading.Event()

        def tell() -> None:
            while not over.wait(self._every):
                self.say(_line(task, unit))
                written.set()

        thread = threading.Thread(target=tell, name="surprise-rerank-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if written.is_set():
            counted = f"{_count(task.completed)} {unit} in " if unit else ""
            self.say(f"{task.description}: {counted}{_time(task.elapsed or 0)}")


def total_of(documents: object) -> Total:
    """How many documents there are, where they tell: as a `readers.DocumentSource`, or by their length."""
    expected: Callable[[], int | None] | None = getattr(documents, "expected", None)
    if expected is not None or not isinstance(documents, Sized) or not getattr(documents, "ndim", 1):
        return expected
    return len(documents)


def _line(task: Task, unit: str) -> str:
    total = "" if task.total is None else f"{task.total:,.0f} {unit}"
    elapsed = task.elapsed or 0.0
    if not task.completed:
        return f"{' '.join(filter(None, [task.description, total]))}: {_time(elapsed)} so far"
    facts = [f"{task.description}: {_count(task.completed)} {f'of {total}' if total else unit}"]
    if elapsed:
        speed = task.completed / elapsed
        facts.append(f"{speed:,.3g}/s" if speed < 100 else f"{speed:,.0f}/s")
    return ", ".join([*facts, *filter(None, [_left(task)])])


def _left(task: Task) -> str:
    """The time left at the speed of all that is done; rich's own is that of 30 seconds, and forgets it."""
    effort = task.fields["effort"]
    if task.total is None or not task.elapsed or not 0 < effort < task.total - task.fields["ready"]:
        return ""
    return f"{_time(task.elapsed * (task.total - task.fields['ready'] - effort) / effort)} left"


def _count(done: float) -> str:
    """Units that are done as a whole; parts of one add up to nearly 1."""
    return f"{int(done + 1e-6):,}"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
