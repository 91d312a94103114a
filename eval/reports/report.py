"""The results of an evaluation: tables, plots and facts, as data; other modules show them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from surprise_rerank import _border as border

Cell: TypeAlias = str | int | float | None
Kind: TypeAlias = Literal["line", "scatter", "bars", "histogram"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, the digits of its floats, and which of its values is marked."""

    name: str
    digits: int = 4
    best: Literal["max", "min", ""] = ""

    def shown(self, cell: Cell) -> str:
        """A cell as a reader sees it; nothing for None and NaN."""
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return ""
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns.

    Attributes:
        name: unique in its report, for programs; the title is for readers.
        keys: how many of the first columns identify a row.
        detail: whether it is for files alone.
        verdict: what it shows, in a sentence; empty where that is not said.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int = 1
    notes: tuple[str, ...] = ()
    detail: bool = False
    verdict: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            border.equal(f"the length of a row of the table {self.name!r}", len(row), len(self.columns))

    def best(self) -> frozenset[tuple[int, int]]:
        """The places (row, column) of the best values as they are shown, where two rows or more compete."""
        places = []
        for j, column in enumerate(self.columns):
            if not column.best:
                continue
            shown = {
                i: float(column.shown(row[j]))
                for i, row in enumerate(self.rows)
                if isinstance(row[j], int | float) and column.shown(row[j])
            }
            if len(shown) > 1:
                top = (max if column.best == "max" else min)(shown.values())
                places += [(i, j) for i, value in shown.items() if value == top]
        return frozenset(places)

    def cell(self, row: str, column: str) -> Cell:
        """A cell by its heading and its row's key cells, which have ` / ` between them."""
        names = [c.name for c in self.columns]
        border.choice(f"column of {self.name!r}", column, names)
        keys = [self.key(i) for i in range(len(self.rows))]
        border.choice(f"row of {self.name!r}", row, keys)
        return self.rows[keys.index(row)][names.index(column)]

    def key(self, i: int) -> str:
        """The key cells of row i, as they are shown, with ` / ` between."""
        cells = zip(self.columns[: self.keys], self.rows[i], strict=False)
        return " / ".join(column.shown(cell) for column, cell in cells)

    def shown(self) -> list[tuple[str, ...]]:
        """The rows as a reader sees them."""
        return [
            tuple(column.shown(cell) for column, cell in zip(self.columns, row, strict=True))
            for row in self.rows
        ]

    def is_numeric(self, j: int) -> bool:
        """Whether column j holds numbers, and nothing else than numbers."""
        return not any(isinstance(row[j], str) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Series:
    """Points of a plot that belong together.

    Attributes:
        x: positions; of a histogram, the n + 1 borders of its bins; of bars, their labels.
        y: heights; of a histogram, n counts.
        low, high: ends of intervals, as many as y, or none.
    """

    name: str
    x: tuple[float, ...] | tuple[str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A named place on the x axis of a histogram."""

    name: str
    x: float


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture, as data: series over each other.

    Attributes:
        note: what a reader must know to read it.
        log_x: whether x is on a logarithmic scale.
        curves: lines over a histogram, of a model, for example.
        marks: places on the x axis of a histogram.
        finding: what is to be seen in it, in a sentence or two.
    """

    kind: Kind
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    note: str = ""
    log_x: bool = False
    curves: tuple[Series, ...] = ()
    marks: tuple[Mark, ...] = ()
    finding: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of an evaluation, or of an explanation.

    Attributes:
        notes: what a reader must know of all tables.
        facts: settings and everything else that was measured, as JSON values.
        verdict: what all of it shows, in a sentence or two; where it is empty, tables have their own.
    """

    title: str
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    verdict: str = ""

    def table(self, name: str) -> Table:
        """A table by its name."""
        tables = {table.name: table for table in self.tables}
        return tables[border.choice("table", name, tables)]
