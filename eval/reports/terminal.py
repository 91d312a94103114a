"""Reports on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Mark, Plot, Report, Series, Table

# A table in a file or a pipe is not folded at 80 columns.
_WIDTH = 160
_ENDLESS = 100_000

_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN = " .:-=+*#@"
_DRAWING, _NARROWEST = 64, 24  # characters of a histogram
_LEGEND = 24  # characters beside a histogram
_MARK_LINES = 3  # for marks that lie close together


def print_report(
    report: Report, console: Console | None = None, *, details: bool = True, plots: bool = False
) -> None:
    """Print a report's tables and notes; its facts are for files.

    Args:
        report: what to print.
        console: where to; by default the standard output, in which nothing is folded unless it is a terminal.
        details: whether to print the tables that are details, too.
        plots: whether to draw its histograms; other plots are for files.
    """
    tables = [table for table in report.tables if details or not table.detail]
    grids = [_grid(table) for table in tables]
    if console is None:
        console = Console()
        if not console.is_terminal:
            console.width = max(_WIDTH, *(_width(grid, console) for grid in grids), 0)
    if [table.title for table in tables] != [report.title]:
        _say(Text(one_line(report.title), style="bold"), console)
    for table, grid in zip(tables, grids, strict=True):
        console.print()
        # Apart from the grid, which folds its own title at its own width.
        _say(_title(table), console)
        console.print(grid)
        _say_all((table.verdict,) if table.verdict else (), console)
        _say_all(table.notes, console)
    for plot in report.plots:
        if plots and plot.kind == "histogram":
            console.print()
            _say(Text(one_line(plot.title), style="table.title"), console)
            for line in _histogram(plot, console.width, console.encoding):
                _say(Text(line), console)
            _say_all((plot.note,) if plot.note else (), console)
    if tables and report.notes:
        console.print()
    _say_all(report.notes, console)


def rich_table(table: Table) -> Grid:
    """A table for a rich console: numbers to the right, the best values bold, markup in texts as it is."""
    grid = _grid(table)
    grid.title = _title(table)
    grid.title_justify = "left"
    return grid


def _grid(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD)
    for j, column in enumerate(table.columns):
        heading = Text(one_line(column.name))
        grid.add_column(heading, justify="right" if table.is_numeric(j) else "left", overflow="fold")
    best = table.best()
    for i, row in enumerate(table.shown()):
        cells: list[RenderableType] = [
            Text(one_line(cell), style="bold" if (i, j) in best else "") for j, cell in enumerate(row)
        ]
        grid.add_row(*cells)
    return grid


def _title(table: Table) -> Text:
    return Text(one_line(table.title), style="table.title")


def _width(grid: Grid, console: Console) -> int:
    return console.measure(grid, options=console.options.update(width=_ENDLESS)).maximum


def _say_all(notes: tuple[str, ...], console: Console) -> None:
    for note in notes:
        _say(Text(one_line(note)), console)


def _say(text: Text, console: Console) -> None:
    console.print(text, soft_wrap=True)


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
        yield f"{drawn}  {one_line(own.name)[:_LEGEND]}"
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
