"""Reports on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.one_line import one_line, tab_separated
from surprise_rerank.eval.reports.report import Mark, Plot, Report, Series, Table
from surprise_rerank.eval.reports.widths import GAP, widths

_WIDEST = 32  # characters of a column of a table that is turned
_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN = " .:-=+*#@"
_DRAWING, _NARROWEST = 64, 24  # characters of a histogram
_LEGEND = 24  # characters beside a histogram, with the gap
_MARK_LINES = 3  # for marks that lie close together


def print_report(
    report: Report,
    console: Console | None = None,
    *,
    details: bool = True,
    plots: bool = False,
    quiet: bool = False,
) -> None:
    """Print a report's tables, verdicts and notes; its facts are for files.

    In a file or a pipe the tables are rows with tabs between the cells, below a row of names. Several are
    apart by an empty line, and have a line `# title` each. Titles, verdicts and notes then go to the error
    stream.

    Args:
        report: what to print.
        console: where to; by default the standard output.
        details: whether to print the tables that are details, too.
        plots: whether to draw its histograms on a terminal; other plots are for files.
        quiet: whether the error stream gets nothing.
    """
    tables = [table for table in report.tables if details or not table.detail]
    if console is None and not sys.stdout.isatty():
        _print_rows(report, tables, quiet)
        return
    console = console or Console()
    # Where a table has the title of the whole, it is said once.
    if not tables or tables[0].title != report.title:
        _say(Text(one_line(report.title), style="bold"), console)
    for table in tables:
        console.print()
        _say(_title(table), console)
        for part in _fitting(table, console.width):
            console.print(part, highlight=False)
        console.print()
        _say(Text(one_line(table.verdict), style="bold"), console)
        _say_all(table.notes, console)
    for plot in report.plots:
        if plots and plot.kind == "histogram":
            console.print()
            _say(Text(one_line(plot.title), style="table.title"), console)
            for line in _histogram(plot, console.width, console.encoding):
                console.print(Text(line), soft_wrap=True)
            _say_all((plot.finding, plot.note), console)
    if tables and (report.notes or report.verdict):
        console.print()
    _say_all(report.notes, console)
    _say(Text(one_line(report.verdict), style="bold"), console)


def _print_rows(report: Report, tables: Sequence[Table], quiet: bool) -> None:
    """Tables for other programs, and what is for readers on the error stream."""
    errors = Console(stderr=True, soft_wrap=True, quiet=quiet)
    if not tables or tables[0].title != report.title:
        _say(Text(one_line(report.title)), errors)
    for number, table in enumerate(tables):
        if len(tables) > 1:
            rows = [*([""] if number else []), f"# {one_line(table.title)}"]
        else:
            rows = []
            _say(Text(one_line(table.title)), errors)
        rows += [tab_separated(cells) for cells in (_names(table), *table.shown())]
        # Not by a console, which makes spaces of tabs.
        sys.stdout.writelines(f"{row}\n" for row in rows)
        _say_all((table.verdict, *table.notes), errors)
    _say_all((*report.notes, report.verdict), errors)


def rich_table(table: Table) -> Grid:
    """A table for a rich console: numbers to the right, the best values bold, markup in texts as it is."""
    grid = _grid(table, dict.fromkeys(range(len(table.columns))))
    grid.title = _title(table)
    grid.title_justify = "left"
    return grid


def _fitting(table: Table, room: int) -> Iterator[RenderableType]:
    """A table that has this much room: with columns left out in their order, or turned."""
    found = widths(table, room)
    if found is None:
        yield from _turned(table, room)
        return
    yield _grid(table, found.shown)
    if found.left_out:
        names = ", ".join(found.left_out)
        yield Text(f"no room for: {names} (--report and --json have them)", style="dim")


def _grid(table: Table, shown: Mapping[int, int | None]) -> Grid:
    """The columns that are shown, with their widths; None for that of the text."""
    grid = _empty_grid()
    names = _names(table)
    for j, width in shown.items():
        justify: Literal["left", "right"] = "right" if table.is_numeric(j) else "left"
        grid.add_column(Text(names[j]), justify=justify, overflow="fold", width=width)
    best, best_row = table.best(), table.best_row()
    for i, row in enumerate(table.shown()):
        cells = [Text(one_line(row[j]), style="bold" if (i, j) in best else "") for j in shown]
        grid.add_row(*cells, style="bold" if i == best_row else None)
    return grid


def _turned(table: Table, room: int) -> Iterator[RenderableType]:
    """The table with a column for each of its rows, as many beside each other as there is room for."""
    names, shown = _names(table), [[one_line(cell) for cell in row] for row in table.shown()]
    values = range(table.keys, len(names))
    head = min(max(map(cell_len, names)), room // 2)
    blocks: list[dict[int, int]] = []
    left = 0
    for i, row in enumerate(shown):
        texts = (one_line(table.key(i)), *row[table.keys :])
        width = min(max(map(cell_len, texts)), _WIDEST, room - head - GAP)
        if width + GAP > left:
            blocks.append({})
            left = room - head
        blocks[-1][i] = width
        left -= width + GAP
    best, best_row = table.best(), table.best_row()
    for number, widths_of in enumerate(blocks):
        grid = _empty_grid()
        grid.add_column(Text(" / ".join(names[: table.keys])), overflow="fold", width=head)
        for i, width in widths_of.items():
            style = "bold" if i == best_row else ""
            heading = Text(one_line(table.key(i)))
            grid.add_column(heading, justify="right", overflow="fold", width=width, style=style)
        for j in values:
            cells = [Text(shown[i][j], style="bold" if (i, j) in best else "") for i in widths_of]
            for cell, width in zip(cells, widths_of.values(), strict=True):
                cell.justify = "left" if cell.cell_len > width else None
            grid.add_row(Text(names[j]), *cells)
        yield from ([""] if number else [])
        yield grid


def _empty_grid() -> Grid:
    return Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))


def _names(table: Table) -> list[str]:
    return [one_line(column.name) for column in table.columns]


def _title(table: Table) -> Text:
    return Text(one_line(table.title), style="table.title")


def _say_all(notes: Iterable[str], console: Console) -> None:
    for note in notes:
        _say(Text(one_line(note)), console)


def _say(text: Text, console: Console) -> None:
    """A line, if there is something to say."""
    if text:
        console.print(text, highlight=False)


def _histogram(plot: Plot, width: int, encoding: str) -> Iterator[str]:
    """A histogram as lines: counts, curves, the names of marks that find room, and the two ends of x.

    Args:
        plot: of the kind `histogram`.
        width: of the console.
        encoding: of the console; one without block characters gets others.
    """
    series, curves = ([own for own in many if own.y] for many in (plot.series, plot.curves))
    ends = [float(x) for own in (*series, *curves) for x in own.x] + [mark.x for mark in plot.marks]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    high = high if high > low else low + 1.0
    width = min(max(width - _LEGEND, _NARROWEST), _DRAWING)
    counts = [_counts(own, low, high, width) for own in series]
    heights = [_heights(own, low, high, width) for own in curves]
    largest = max((float(own.max()) for own in (*counts, *heights)), default=0.0) or 1.0
    levels = _levels(encoding)
    unit = (len(levels) - 1) / largest
    # All that is counted is seen; of a curve, what is nearer to a block than to none.
    steps = [*(np.ceil(own * unit) for own in counts), *(np.round(own * unit) for own in heights)]
    for own, bars in zip((*series, *curves), steps, strict=True):
        drawn = "".join(levels[int(step)] for step in bars)
        yield f"{drawn}  {one_line(own.name)[: _LEGEND - 2]}"
    yield from _marks(plot.marks, low, high, width)
    first, last = f"{low:.4g}", f"{high:.4g}"
    yield f"{first}{last:>{width - len(first)}}"


def _counts(series: Series, low: float, high: float, width: int) -> Float64Array:
    """(width,) heights of bins; where several share a character, the largest."""
    heights = np.zeros(width)
    borders = np.asarray(series.x, np.float64)
    columns = ((borders - low) / (high - low) * width).astype(int).clip(0, width - 1)
    columns[-1] += 1
    for left, right, count in zip(columns[:-1], columns[1:], series.y, strict=True):
        own = slice(left, max(right, left + 1))
        heights[own] = np.maximum(heights[own], count)
    return heights


def _heights(series: Series, low: float, high: float, width: int) -> Float64Array:
    """(width,) heights of a curve; 0 beside it."""
    centres = low + (np.arange(width) + 0.5) * (high - low) / width
    x, y = np.asarray(series.x, np.float64), np.asarray(series.y, np.float64)
    return np.interp(centres, x, y, left=0.0, right=0.0)


def _levels(encoding: str) -> str:
    try:
        _BLOCKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _BLOCKS


def _marks(marks: Sequence[Mark], low: float, high: float, width: int) -> Iterator[str]:
    """The marks' names below their places, the first ones first; beside another one a line further down."""
    rows = [[" "] * width for _ in range(_MARK_LINES)]
    for mark in marks:
        name = one_line(mark.name)[:width]
        column = min(int((mark.x - low) / (high - low) * width), width - 1)
        start = min(max(column - len(name) // 2, 0), width - len(name))
        # With a character between two names, which would read as one.
        around = slice(max(start - 1, 0), start + len(name) + 1)
        row = next((row for row in rows if not "".join(row[around]).strip()), None)
        if row is not None:
            row[start : start + len(name)] = name
    yield from (line for line in ("".join(row).rstrip() for row in rows) if line)
