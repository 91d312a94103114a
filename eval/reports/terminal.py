"""Reports on a terminal, and their rows in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from surprise_rerank.eval.reports.one_line import one_line, tab_separated
from surprise_rerank.eval.reports.report import Report, Table

_GAP = 2  # characters between two columns
_LEAST_TEXT = 24  # characters that a column of texts keeps


def print_report(report: Report, console: Console | None = None, *, quiet: bool = False) -> None:
    """Print a report's tables, verdicts and notes; details, plots and facts are for files.

    In a file or a pipe tables are rows with tabs between the cells, below a row of names, several with a line
    `# title` each; titles, verdicts and notes go to the error stream.
    """
    tables = [table for table in report.tables if not table.detail]
    if console is None and not sys.stdout.isatty():
        _print_rows(report, tables, quiet)
        return
    console = console or Console()
    # Where a table has the title of the whole, it is said once.
    if not tables or tables[0].title != report.title:
        _say([report.title], console, "bold")
    for table in tables:
        console.print()
        _say([table.title], console, "table.title")
        for part in _parts(table, console.width):
            console.print(_grid(table, part, console.width), highlight=False)
        console.print()
        _say([table.verdict], console, "bold")
        _say(table.notes, console)
    if tables and (report.notes or report.verdict):
        console.print()
    _say(report.notes, console)
    _say([report.verdict], console, "bold")


def _print_rows(report: Report, tables: Sequence[Table], quiet: bool) -> None:
    """Tables for other programs, and what is for readers on the error stream."""
    errors = Console(stderr=True, soft_wrap=True, quiet=quiet)
    if not tables or tables[0].title != report.title:
        _say([report.title], errors)
    for number, table in enumerate(tables):
        rows = [*([""] if number else []), f"# {one_line(table.title)}"] if len(tables) > 1 else []
        if not rows:
            _say([table.title], errors)
        names = [column.name for column in table.columns]
        rows += [tab_separated(cells) for cells in (names, *table.shown())]
        # Not by a console, which makes spaces of tabs.
        sys.stdout.writelines(f"{row}\n" for row in rows)
        _say((table.verdict, *table.notes), errors)
    _say((*report.notes, report.verdict), errors)


def _parts(table: Table, room: int) -> Iterator[list[int]]:
    """The columns in as many parts as have room, the keys before each of them."""
    keys, others = list(range(table.keys)), list(range(table.keys, len(table.columns)))
    least = [_least(table, j) + _GAP for j in range(len(table.columns))]
    part = list(keys)
    for j in others:
        if len(part) > len(keys) and sum(least[k] for k in (*part, j)) - _GAP > room:
            yield part
            part = list(keys)
        part.append(j)
    yield part


def _least(table: Table, j: int) -> int:
    """The width below which a column is not legible: no number is folded, no heading inside a word."""
    cells = [one_line(row[j]) for row in table.shown()]
    heading = max(map(cell_len, one_line(table.columns[j].name).split()), default=0)
    longest = max(map(cell_len, cells), default=0)
    return max(heading, longest if table.is_numeric(j) else min(longest, _LEAST_TEXT))


def _grid(table: Table, part: Sequence[int], room: int) -> Grid:
    """Some columns: numbers to the right, the best values bold; texts are folded where there is no room."""
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    names = [one_line(column.name) for column in table.columns]
    rows, best = table.shown(), table.best()
    natural = {j: max(map(cell_len, (names[j], *(one_line(row[j]) for row in rows)))) for j in part}
    tight = sum(natural.values()) + _GAP * (len(part) - 1) > room
    for j in part:
        numeric = table.is_numeric(j)
        grid.add_column(
            Text(names[j]),
            justify="right" if numeric else "left",
            overflow="fold",
            width=_least(table, j) if tight and numeric else None,
        )
    for i, row in enumerate(rows):
        grid.add_row(*(Text(one_line(row[j]), style="bold" if (i, j) in best else "") for j in part))
    return grid


def _say(lines: Iterable[str], console: Console, style: str = "") -> None:
    """Print the lines that are not empty."""
    for line in filter(None, lines):
        console.print(Text(one_line(line), style=style), highlight=False)
