"""Reports on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Report, Table

# A table in a file or a pipe is not folded at 80 columns.
_WIDTH = 160
_ENDLESS = 100_000


def print_report(report: Report, console: Console | None = None, *, details: bool = True) -> None:
    """Print a report's tables and notes; its plots and facts are for files.

    Args:
        report: what to print.
        console: where to; by default the standard output, in which nothing is folded unless it is a terminal.
        details: whether to print the tables that are details, too.
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
        _say_all(table.notes, console)
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
