"""Reports as one page that needs nothing else: no other file, no network, and no script to be read."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from surprise_rerank.core.extras import import_extra
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.plots import to_svg
from surprise_rerank.eval.reports.records import json_value, provenance
from surprise_rerank.eval.reports.report import Cell, Report, Table

# A click on a heading sorts by it, another one turns the order round; what is empty stays last.
_SORTING = """
const sorted = (table, column, down) => {
  const body = table.tBodies[0];
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const filled = [...body.rows].filter(row => value(row) !== "");
  const empty = [...body.rows].filter(row => value(row) === "");
  const numeric = filled.every(row => row.cells[column].dataset.value !== undefined);
  const compare = (a, b) => numeric
    ? value(a) - value(b)
    : value(a).localeCompare(value(b), "en", {numeric: true});
  filled.sort((a, b) => down ? compare(b, a) : compare(a, b));
  body.append(...filled, ...empty);
};
for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = head.ariaSort;
      const down = order ? order === "ascending" : head.classList.contains("number");
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sorted(table, column, down);
    });
  });
}
"""


@dataclass(frozen=True, slots=True)
class _ShownCell:
    """A cell as the page has it.

    Attributes:
        text: what is read.
        value: what is sorted by; None for a text.
        best: whether it is the best of its column.
    """

    text: str
    value: Cell
    best: bool


@dataclass(frozen=True, slots=True)
class _ShownTable:
    """A table as the page has it."""

    table: Table
    anchor: str
    numeric: tuple[bool, ...]
    rows: tuple[tuple[_ShownCell, ...], ...]


def to_html(report: Report) -> str:
    """A report as a page: tables that a click sorts, plots, notes, and the facts to be unfolded.

    Its policy forbids everything but inline styles and the script that sorts.

    Args:
        report: what to show; texts may be hostile.

    Raises:
        MissingExtraError: if jinja2, or matplotlib for plots, is not installed.
    """
    jinja2 = import_extra("jinja2", "report")
    markupsafe = import_extra("markupsafe", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["one_line"] = one_line
    source = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(_SORTING.encode()).digest()).decode()
    page: str = environment.from_string(source).render(
        report=report,
        tables=[_shown(t, anchor) for t, anchor in zip(report.tables, report.anchors(), strict=True)],
        plots=[(plot, markupsafe.Markup(to_svg(plot))) for plot in report.plots],
        facts=_legible(report.facts),
        provenance=_legible(provenance()),
        script=markupsafe.Markup(_SORTING),
        script_digest=digest,
    )
    return page.rstrip("\n") + "\n"


def _shown(table: Table, anchor: str) -> _ShownTable:
    best = table.best()
    rows = tuple(
        tuple(
            _ShownCell(one_line(text), json_value(cell) if _is_number(cell) else None, (i, j) in best)
            for j, (text, cell) in enumerate(zip(texts, cells, strict=True))
        )
        for i, (texts, cells) in enumerate(zip(table.shown(), table.rows, strict=True))
    )
    return _ShownTable(table, anchor, tuple(map(table.is_numeric, range(len(table.columns)))), rows)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float)


def _legible(facts: Any) -> str:
    """Facts as JSON, with the lines' indentation kept and nothing that turns the direction of writing."""
    lines = json.dumps(json_value(facts), indent=2, ensure_ascii=False).split("\n")
    return "\n".join(" " * (len(line) - len(line.lstrip(" "))) + one_line(line) for line in lines)
