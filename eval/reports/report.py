"""The results of an evaluation: tables, plots and facts, as data; other modules draw them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from surprise_rerank.errors import DataError

Cell: TypeAlias = str | int | float | None
Kind: TypeAlias = Literal["line", "scatter", "bars", "histogram", "forest", "gains", "ranks"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its heading.
        digits: how many a float is shown with.
        best: which of its values is marked: the largest, the smallest, or none.
        leaves: when it leaves a table that is wider than a terminal: 1 first; 0 never.
    """

    name: str
    digits: int = 4
    best: Literal["max", "min", ""] = ""
    leaves: int = 0

    def shown(self, cell: Cell) -> str:
        """A cell as a reader sees it; nothing for None and NaN."""
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return ""
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns.

    Attributes:
        name: a short name that is unique in its report, for programs.
        title: a line for readers.
        columns: from left to right.
        rows: of as many cells each.
        keys: how many of the first columns identify a row.
        notes: what a reader must know.
        detail: whether it is for files alone: a terminal shows it on request.
        verdict: what it shows, in a sentence; empty where that is not said.
        decides: the column that tells which row is best; where empty, the first whose best value is marked.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int = 1
    notes: tuple[str, ...] = ()
    detail: bool = False
    verdict: str = ""
    decides: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.keys <= len(self.columns):
            raise DataError(f"table {self.name!r}: {self.keys} key columns of {len(self.columns)}")
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise DataError(
                f"table {self.name!r}: {len(wrong)} cells for {len(self.columns)} columns: {wrong}"
            )

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

    def best_row(self) -> int | None:
        """The row that is best in the column `decides`; None where several are."""
        decides = next((j for j, column in enumerate(self.columns) if column.name == self.decides), None)
        places = sorted(self.best(), key=lambda place: (place[1] != decides, place[1]))
        rows = [i for i, j in places if j == places[0][1]]
        return rows[0] if len(rows) == 1 else None

    def cell(self, row: str, column: str) -> Cell:
        """A cell by the names that `eval/expected/*.yaml` use.

        Args:
            row: its key cells, as they are shown, with ` / ` between.
            column: its heading.

        Raises:
            DataError: if there is no such row or column; names those that there are.
        """
        names = [c.name for c in self.columns]
        if column not in names:
            raise DataError(f"table {self.name!r} has no column {column!r}; it has {', '.join(names)}")
        keys = [self.key(i) for i in range(len(self.rows))]
        if row not in keys:
            raise DataError(f"table {self.name!r} has no row {row!r}; it has {', '.join(keys)}")
        return self.rows[keys.index(row)][names.index(column)]

    def shown(self) -> list[tuple[str, ...]]:
        """The rows as a reader sees them."""
        return [
            tuple(column.shown(cell) for column, cell in zip(self.columns, row, strict=True))
            for row in self.rows
        ]

    def is_numeric(self, j: int) -> bool:
        """Whether column j holds numbers, and nothing else than numbers."""
        return not any(isinstance(row[j], str) for row in self.rows)

    def key(self, i: int) -> str:
        """The key cells of row i, as they are shown, with ` / ` between."""
        cells = zip(self.columns[: self.keys], self.rows[i], strict=False)
        return " / ".join(column.shown(cell) for column, cell in cells)


@dataclass(frozen=True, slots=True)
class Series:
    """Points of a plot that belong together.

    Attributes:
        name: for the legend; of a single point of a scatter plot, the text beside it.
        x: positions; of a histogram, the n + 1 borders of its bins; of bars, their labels.
        y: heights; of a histogram, n counts; of ranks, the places before and after, NaN for none.
        low: lower ends of intervals, as many as y, or none.
        high: upper ends.
        beside: of a forest plot, what stands on the right of each line.
    """

    name: str
    x: tuple[float, ...] | tuple[str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the x axis of a plot.

    Attributes:
        name: short; the text above it, where there is room.
        x: where.
    """

    name: str
    x: float


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture, as data.

    Attributes:
        kind: `line` through the points, `scatter` with names beside single points, `bars`, `histogram` as
            filled steps; `forest`, a line for each system with its interval; `gains`, questions from the
            largest gain to the largest loss; `ranks`, lines from places before to places after.
        title: a line for readers.
        x_label: what x is.
        y_label: what y is.
        series: drawn over each other.
        note: what a reader must know to read it.
        log_x: whether x is on a logarithmic scale.
        curves: lines over a histogram, of a model, for example.
        marks: places on the x axis of a histogram or a forest plot; there it is the baseline.
        finding: what is to be seen in it, in a sentence or two.
        detail: whether it stands behind everything that is no detail.
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
    detail: bool = False

    def __post_init__(self) -> None:
        if (self.curves and self.kind != "histogram") or (
            self.marks and self.kind not in ("histogram", "forest")
        ):
            raise DataError(f"plot {self.title!r}: curves and marks need a histogram, not {self.kind!r}")
        self._check(self.series, more=1 if self.kind == "histogram" else 0)
        self._check(self.curves, more=0)

    def _check(self, many: tuple[Series, ...], more: int) -> None:
        for series in many:
            if len(series.x) != len(series.y) + more:
                raise DataError(
                    f"plot {self.title!r}, series {series.name!r}: {len(series.x)} x for {len(series.y)} y, "
                    f"expected {len(series.y) + more}"
                )
            wrong = {len(series.low), len(series.high), len(series.beside)} - {0, len(series.y)}
            if wrong or len(series.low) != len(series.high):
                raise DataError(
                    f"plot {self.title!r}, series {series.name!r}: {len(series.low)} low, {len(series.high)} "
                    f"high and {len(series.beside)} beside for {len(series.y)} y"
                )
            if self.kind in ("scatter", "histogram") and any(isinstance(x, str) for x in series.x):
                raise DataError(f"plot {self.title!r}, series {series.name!r}: x are texts, expected numbers")
            if self.kind == "ranks" and len(series.y) != 2:
                raise DataError(
                    f"plot {self.title!r}, series {series.name!r}: expected places before and after"
                )


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of a collection, as readers see it.

    Attributes:
        heading: its title, or its id.
        text: as much of it as is to be read.
        marks: [start, end) of what is marked in the text, ascending and apart.
        about: where it stands and why, in a line.
        below: whether it belongs to the one before it, such as a neighbour to its document.
    """

    heading: str
    text: str
    marks: tuple[tuple[int, int], ...] = ()
    about: str = ""
    below: bool = False

    def __post_init__(self) -> None:
        ends = [end for mark in self.marks for end in mark]
        if ends != sorted(ends) or any(not 0 <= end <= len(self.text) for end in ends):
            raise DataError(f"passage {self.heading!r}: marks {self.marks} in a text of {len(self.text)}")

    def parts(self) -> list[tuple[str, bool]]:
        """The text in parts, and whether each is marked.

        >>> Passage("a", "why dogs bark", ((4, 8),)).parts()
        [('why ', False), ('dogs', True), (' bark', False)]
        """
        borders = [0, *(end for mark in self.marks for end in mark), len(self.text)]
        parts = [(self.text[a:b], i % 2 == 1) for i, (a, b) in enumerate(pairwise(borders))]
        return [(text, marked) for text, marked in parts if text]


@dataclass(frozen=True, slots=True)
class Listing:
    """Passages below each other.

    Attributes:
        title: a line for readers.
        passages: in order.
        finding: what is to be seen in it, in a sentence.
    """

    title: str
    passages: tuple[Passage, ...]
    finding: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of an evaluation, of an explanation, or of a comparison of documents.

    Attributes:
        title: a line for readers.
        tables: in order.
        plots: in order.
        notes: what a reader must know of all tables.
        facts: settings and everything else that was measured, as JSON values.
        listings: texts, in order.
        verdict: what all of it shows, in a sentence or two; where it is empty, tables have their own.
    """

    title: str
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    listings: tuple[Listing, ...] = ()
    verdict: str = ""

    def table(self, name: str) -> Table:
        """A table by its name.

        Raises:
            DataError: if there is none; names those that there are.
        """
        for table in self.tables:
            if table.name == name:
                return table
        raise DataError(f"no table {name!r}; there are {', '.join(t.name for t in self.tables) or 'none'}")

    def anchors(self) -> list[str]:
        """A name for links to each table: letters, digits and hyphens, each one once."""
        anchors: list[str] = []
        for number, table in enumerate(self.tables, start=1):
            anchor = re.sub(r"[^A-Za-z0-9]+", "-", table.name).strip("-") or "table"
            anchors.append(anchor if anchor not in anchors else f"{anchor}-{number}")
        return anchors
