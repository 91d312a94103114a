"""Which columns of a table a terminal has room for, and how wide each is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Table

GAP = 2  # characters between two columns
# A column of texts is not made narrower: of names, and of sentences.
_NAMES, _SENTENCES = 12, 24
_LONG = 40  # characters of what is a sentence, not a name


@dataclass(frozen=True, slots=True)
class Widths:
    """The columns that are shown, from left to right.

    Attributes:
        shown: column -> its width in characters of a terminal.
        left_out: the names of those that have left.
    """

    shown: dict[int, int]
    left_out: tuple[str, ...]


def widths(table: Table, room: int) -> Widths | None:
    """How a table fits: as it is, with its texts folded, or without the columns that may leave.

    No number is folded, and no heading inside a word. Columns leave in the order of `Column.leaves`.

    Args:
        table: to be shown.
        room: characters of a line.

    Returns:
        None where not even the columns that never leave have room.
    """
    texts = [
        [one_line(column.name), *(one_line(row[j]) for row in table.shown())]
        for j, column in enumerate(table.columns)
    ]
    natural = [_longest(own) for own in texts]
    least = [_least(own, table.is_numeric(j)) for j, own in enumerate(texts)]
    shown = list(range(len(table.columns)))
    leaving = sorted((column.leaves, j) for j, column in enumerate(table.columns) if column.leaves)
    left_out = []
    while _total(least[j] for j in shown) > room:
        if not leaving:
            return None
        j = leaving.pop(0)[1]
        shown.remove(j)
        left_out.append(one_line(table.columns[j].name))
    own = {j: natural[j] for j in shown}
    while _total(own.values()) > room:
        # What is widest gives way first, so that short texts stay in one line.
        widest = max((j for j in shown if own[j] > least[j]), key=lambda j: own[j])
        own[widest] -= 1
    return Widths(own, tuple(left_out))


def _total(many: Iterable[int]) -> int:
    own = [*many]
    return sum(own) + GAP * (len(own) - 1)


def _longest(texts: Iterable[str]) -> int:
    return max((cell_len(text) for text in texts), default=0)


def _least(texts: Sequence[str], numeric: bool) -> int:
    """The width below which a column is not legible, with its heading first among its texts."""
    heading = _longest(texts[0].split())
    if numeric:
        return max(heading, _longest(texts[1:]))
    natural, word = _longest(texts), _longest(word for text in texts for word in text.split())
    return min(natural, max(min(word, _SENTENCES), _SENTENCES if natural > _LONG else _NAMES))
