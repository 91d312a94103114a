"""Results of a search on a terminal: a block each, with the sentence that matched best."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from surprise_rerank.candidates import Hit
from surprise_rerank.connectors.highlights import Excerpt
from surprise_rerank.eval.cli.output.console import body, share, shortened
from surprise_rerank.eval.reports.one_line import one_line, visible

# Longer lines are hard to read.
_WIDEST = 110
_LINES = 3  # of an excerpt, about
_HEADING = 60  # characters of a text that stand for a title


# A rank, what has it, and its best sentence.
Block: TypeAlias = tuple[int, Hit, Excerpt]


def excerpt_length(console: Console) -> int:
    """How many characters of a sentence there is room for."""
    return min(_LINES * (_width(console) - 8), 300)


def print_blocks(blocks: Sequence[Block], console: Console) -> None:
    """Print results below each other, an empty line between."""
    indent = max((len(str(rank)) for rank, _, _ in blocks), default=0) + 3
    for number, block in enumerate(blocks):
        if number:
            console.print()
        for part in _parts(block, indent):
            console.print(part, width=_width(console), highlight=False)


def print_text(text: Text, console: Console, *, apart: bool) -> None:
    """Print a line that belongs to the results, an empty line before it where it stands apart."""
    if apart:
        console.print()
    if text:
        console.print(text, width=_width(console), highlight=False)


def _width(console: Console) -> int:
    return min(console.width, _WIDEST)


def _parts(block: Block, indent: int) -> Iterable[RenderableType]:
    rank, hit, excerpt = block
    head = Table.grid(expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    head.add_column(width=indent - 2, justify="right")
    head.add_column(ratio=1, overflow="fold")
    head.add_column(justify="right", no_wrap=True)
    percentile = hit.percentile
    measure = Text(f"{hit.score:.4f}") if percentile is None else Text(share(percentile), "green")
    head.add_row(Text(str(rank)), _heading(hit, excerpt), measure)
    yield head
    more = Text(f"nearly the same: {one_line(', '.join(hit.duplicates))}" if hit.duplicates else "", "dim")
    for text in (_marked(excerpt.text, excerpt.marks), more):
        if text:
            yield Padding(text, (0, 0, 0, indent), expand=False)


def _heading(hit: Hit, excerpt: Excerpt) -> Text:
    """The title, or the first words of the text, the id, and where it stands."""
    title, text = shortened(hit.title), body(hit)
    if not title and not excerpt.text.startswith(text[:_HEADING]):
        title = shortened(text, _HEADING)
    heading = Text(title, style="bold")
    heading.append("  " if title else "").append(one_line(hit.id), style="not bold cyan")
    return heading.append(f"  {one_line(str(hit.place))}" if hit.place else "", style="not bold dim")


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
