"""How far work is, on the error stream: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Task
    from rich.text import Text

Advance = Callable[[int], None]

_EVERY = 10.0  # seconds from one line to the next
_RECENT = 30.0  # seconds whose work the speed is that of
_BETWEEN = 0.2  # seconds from one sample of the speed to the next
_UNITS = ((1, "s"), (60, "min"), (3600, "h"))


@dataclass(frozen=True, slots=True)
class Expected:
    """How many documents a source has.

    Attributes:
        count: how many.
        exact: whether that is known, and not judged by the part that was read.
    """

    count: int
    exact: bool = True


Total: TypeAlias = int | Callable[[], Expected | None] | None


@runtime_checkable
class Foretold(Protocol):
    """Documents that say how many there will be, such as `readers.DocumentSource`."""

    def expected(self) -> Expected | None:
        """How many there are; None while that cannot be told."""
        ...


class Work:
    """A piece of work: how much is done, of how much, and how fast it goes.

    Called with a number of units, it counts them as done. Units may differ in size, as documents do in
    length, and then the time left is that of the sizes.

    Args:
        title: what is done.
        total: number of units; a function where that becomes known by and by, None where it does not.
        unit: their name, in the plural.
        clock: gives seconds.
    """

    def __init__(
        self, title: str, total: Total, unit: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.title = "".join(c if c.isprintable() else " " for c in title)
        self.done = 0
        self._total = total
        self._unit = unit
        self._clock = clock
        self._begun = clock()
        self._parts = 0
        self._size = 0.0  # of what is done
        self._known, self._known_size = 0, 0.0  # units whose size is known
        self._worked = (self._begun, 0, 0.0)  # when last, and how many units of which size by then
        self._samples = deque([self._worked])

    def __call__(self, count: int, size: float | None = None) -> None:
        """Units are done.

        Args:
            count: how many.
            size: of all of them; their number, where sizes are not told.
        """
        size = count if size is None else size
        self.done += count
        self._size += size
        _, units, worked = self._worked
        self._worked = now, *_ = self._clock(), units + count, worked + size
        if now > self._samples[-1][0] + _BETWEEN:
            self._samples.append(self._worked)
            while len(self._samples) > 2 and self._samples[1][0] < now - _RECENT:
                self._samples.popleft()

    def found(self, count: int, size: float) -> None:
        """The size of units that are done, or will be, is known."""
        self._known += count
        self._known_size += size

    def part(self, count: int) -> None:
        """So many passages of units are encoded: a large unit takes long until it is done."""
        self._parts += count

    def skip(self, count: int, size: float) -> None:
        """Units were done before: they tell nothing of the speed."""
        self.done += count
        self._size += size

    @property
    def total(self) -> Expected | None:
        """Number of units, never less than are done."""
        found = self._total() if callable(self._total) else self._total
        if found is None:
            return None
        if not isinstance(found, Expected):
            found = Expected(found)
        return Expected(max(found.count, self.done), found.exact)

    @property
    def share(self) -> float | None:
        """How much is done, from 0 to 1."""
        left, total = self._size_left(), self.total
        if left is None or total is None:
            return None
        return 1.0 if total.count == self.done else self._size / ((self._size + left) or 1.0)

    @property
    def speed(self) -> float:
        """Units a second, lately; 0 before the first ones."""
        return self._speed(1)

    @property
    def seconds_left(self) -> float | None:
        """As long as the rest takes at the speed of lately; None where that is not known."""
        left, speed = self._size_left(), self._speed(2)
        return None if left is None or not speed else left / speed

    def __str__(self) -> str:
        if self.done == self._parts == 0 and self.total is None:
            return self.title
        return f"{self.title}: {', '.join(self.facts())}"

    def facts(self) -> list[str]:
        """How much of how much, how fast, and how long still: what is known of these."""
        total, left = self.total, self.seconds_left
        if total is None:
            first = f"{self.done:,} {self._unit}"
        elif total.exact:
            first = f"{self.done:,} of {total.count:,} {self._unit}"
        else:
            first = f"{self.done:,} of about {_rounded(total.count):,} {self._unit}"
        if self._parts > self.done:
            first = f"{first} ({self._parts:,} passages)"
        rate = shown_rate(self.speed)
        return [first, *([rate] if rate else []), *([f"{shown_time(left)} left"] if left else [])]

    def ended(self) -> str:
        """What was done, and how long it took."""
        seconds = self._clock() - self._begun
        rate = shown_rate(self._worked[1] / seconds) if seconds else ""
        if not self.done:
            return f"{self.title}: {shown_time(seconds)}"
        facts = [f"{self.done:,} {self._unit} in {shown_time(seconds)}", *([rate] if rate else [])]
        return f"{self.title}: {', '.join(facts)}"

    def _size_left(self) -> float | None:
        total = self.total
        if total is None:
            return None
        if not self._known:
            return float(total.count - self.done)
        unknown = max(total.count - self._known, 0)
        return max(self._known_size - self._size, 0.0) + unknown * self._known_size / self._known

    def _speed(self, which: int) -> float:
        first, last = self._samples[0], self._worked
        # Work that stands still gets slower; between two steps it is not known whether it does.
        seconds = max(last[0], self._clock() - _RECENT) - first[0]
        return (last[which] - first[which]) / seconds if seconds > 0 else 0.0


class Terminal:
    """Where messages and progress go: the error stream.

    Args:
        quiet: nothing at all.
        every: seconds from one line to the next, where no bar can be drawn.
    """

    def __init__(self, *, quiet: bool = False, every: float = _EVERY) -> None:
        self._quiet = quiet
        self._every = every
        self._console: Console | None = None
        if not quiet and _draws():
            from rich.console import Console

            self._console = Console(stderr=True)

    def say(self, message: str) -> None:
        """One line for the user; text in square brackets stays as it is."""
        if self._console is not None:
            self._console.print(message, markup=False, highlight=False, soft_wrap=True)
        elif not self._quiet:
            sys.stderr.write(f"{message}\n")
            sys.stderr.flush()

    @contextlib.contextmanager
    def bar(self, title: str, total: Total, unit: str) -> Iterator[Work]:
        """The progress of a block, which calls what it gets: a bar that is gone at the end, or lines."""
        work = Work(title, total, unit)
        if self._quiet or total == 0:
            yield work
        elif self._console is not None:
            with _drawn(work, self._console):
                yield work
        else:
            with self._told(work):
                yield work

    @contextlib.contextmanager
    def _told(self, work: Work) -> Iterator[None]:
        """A line now and then, and one at the end of what took long enough for them."""
        over, told = threading.Event(), threading.Event()

        def tell() -> None:
            while not over.wait(self._every):
                self.say(str(work))
                told.set()

        thread = threading.Thread(target=tell, name="surprise-rerank-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if told.is_set():
            self.say(work.ended())


def total_of(documents: object) -> Total:
    """How many documents there are, where they tell."""
    if isinstance(documents, Foretold):
        return documents.expected
    try:
        return len(documents)  # type: ignore[arg-type]
    except TypeError:
        return None


def shown_rate(speed: float) -> str:
    """Units a second, or in a longer time where that would be less than one; empty for none.

    >>> shown_rate(1234.5), shown_rate(3.21), shown_rate(0.2), shown_rate(0.0)
    ('1,234/s', '3.2/s', '12/min', '')
    """
    for seconds, name in _UNITS:
        value = speed * seconds
        if value >= 1:
            return f"{value:,.0f}/{name}" if value >= 10 else f"{value:.1f}/{name}"
    return f"{3600 * speed:.1g}/h" if speed > 0 else ""


def shown_time(seconds: float) -> str:
    """A time for people.

    >>> shown_time(0.4), shown_time(75), shown_time(150), shown_time(9000), shown_time(400000)
    ('1 s', '75 s', '2 min', '2.5 h', '4.6 days')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def _rounded(count: int) -> int:
    """Two digits of an estimate."""
    return int(float(f"{count:.1e}"))


def _draws() -> bool:
    """Whether a bar can be drawn: a terminal that moves its cursor, or a notebook."""
    if "ipykernel" in sys.modules:
        return True
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextlib.contextmanager
def _drawn(work: Work, console: Console) -> Iterator[None]:
    """A bar that follows the work by itself."""
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
    from rich.text import Text

    class _Bar(BarColumn):
        def render(self, task: Task) -> object:  # type: ignore[override]
            share = work.share
            task.total, task.completed = (None, 0) if share is None else (1.0, share)
            return super().render(task)

    class _Facts(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("  ".join(work.facts()) if work.done or work.total else "")

    title = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), title, _Bar(bar_width=20), _Facts())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(work.title, total=None)
        yield
