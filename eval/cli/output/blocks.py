"""Results of a search on a terminal: a block each, with the sentence that matched best."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from surprise_rerank.eval.cli.output.console import share, shortened
from surprise_rerank.eval.reports.one_line import one_line, visible

# Longer lines are hard to read.
_WIDEST = 110
_LINES = 3  # of an excerpt, about
_HEADING = 60  # characters of a text that stand for a title
_BAR, _SHORT = 10, 5  # of a surprise, and where titles need the room
_NARROW = 80
_LINE = ("━", "╸", "━")
_PLAIN = ("=", "=", " ")


# How long a bar is, and what it is drawn with: done, half done, and the rest.
Bar: TypeAlias = tuple[int, tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Block:
    """A result.

    Attributes:
        rank: 1 for the best.
        id: of the document.
        title: of the document; the first words of its text stand for one that is missing.
        text: without the title.
        sentence: what is shown of the text.
        marks: (start, end) of the question's words in the sentence.
        surprise: 0 to 1; None where it is not known, and the score is shown.
        score: the system's.
        more: lines below.
    """

    rank: int
    id: str
    title: str
    text: str
    sentence: str
    marks: Sequence[tuple[int, int]]
    surprise: float | None
    score: float
    more: tuple[str, ...] = ()


def excerpt_length(console: Console) -> int:
    """How many characters of a sentence there is room for."""
    return min(_LINES * (_width(console) - 8), 300)


def print_blocks(blocks: Sequence[Block], console: Console) -> None:
    """Print results below each other, an empty line between."""
    indent = max((len(str(block.rank)) for block in blocks), default=0) + 3
    for number, block in enumerate(blocks):
        if number:
            console.print()
        for part in _parts(block, indent, _bar(console)):
            console.print(part, width=_width(console), highlight=False)


def print_text(text: Text, console: Console, *, apart: bool) -> None:
    """Print a line that belongs to the results, an empty line before it where it stands apart."""
    if apart:
        console.print()
    if text:
        console.print(text, width=_width(console), highlight=False)


def _width(console: Console) -> int:
    return min(console.width, _WIDEST)


def _parts(block: Block, indent: int, bar: Bar) -> Iterable[RenderableType]:
    head = Table.grid(expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    head.add_column(width=indent - 2, justify="right")
    head.add_column(ratio=1, overflow="fold")
    head.add_column(justify="right", no_wrap=True)
    head.add_row(Text(str(block.rank)), _heading(block), _measure(block, bar))
    yield head
    for text in (
        _marked(block.sentence, block.marks),
        *(Text(one_line(line), style="dim") for line in block.more),
    ):
        if text:
            yield Padding(text, (0, 0, 0, indent), expand=False)


def _heading(block: Block) -> Text:
    """The title and the id."""
    title = shortened(block.title)
    if not title and not block.sentence.startswith(block.text[:_HEADING]):
        title = shortened(block.text, _HEADING)
    heading = Text(title, style="bold")
    if title:
        heading.append("  ")
    return heading.append(one_line(block.id), style="not bold cyan")


def _measure(block: Block, bar: Bar) -> Text:
    """The surprise as a bar and a share, or the score."""
    if block.surprise is None:
        return Text(f"{block.score:.4f}")
    length, (full, half, rest) = bar
    steps = round(2 * length * block.surprise)
    done = full * (steps // 2) + half * (steps % 2)
    return Text.assemble(
        (done, "green"), (rest * (length - len(done)), "bright_black"), f" {share(block.surprise):>6}"
    )


def _bar(console: Console) -> Bar:
    length = _SHORT if console.width < _NARROW else _BAR
    try:
        "".join(_LINE).encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return length, _PLAIN
    return length, _LINE


def _marked(sentence: str, marks: Sequence[tuple[int, int]]) -> Text:
    """The sentence with its words marked; in one line, without what moves a cursor."""
    text = Text()
    end = 0
    for start, stop in (*marks, (len(sentence), len(sentence))):
        text.append(_cleaned(sentence[end:start]))
        text.append(_cleaned(sentence[start:stop]), style="bold underline")
        end = stop
    return text


def _cleaned(part: str) -> str:
    return visible(re.sub(r"\s+", " ", part))
