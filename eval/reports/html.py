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

    Its policy forbids everything but inline styles, the script that sorts and saves, and the picture that is
    made of a plot to save it.

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
    environment.filters["legible"] = _legible_text
    environment.filters["said"] = _said
    source, script = (
        resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.html.j2", "page.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    tables = [_shown(t, anchor) for t, anchor in zip(report.tables, report.anchors(), strict=True)]
    page: str = environment.from_string(source).render(
        report=report,
        tables=tables,
        contents=_contents(report),
        plots=[
            (plot, f"plot-{number}", markupsafe.Markup(to_svg(plot)))
            for number, plot in enumerate(report.plots, start=1)
        ],
        verdicts=_verdicts(report),
        facts=_legible(report.facts),
        provenance=_legible(provenance()),
        script=markupsafe.Markup(script),
        script_digest=digest,
    )
    return page.rstrip("\n") + "\n"


def _contents(report: Report) -> list[tuple[str, str]]:
    """Anchors and titles in the order of the page."""
    plots = [(f"plot-{number}", plot.title, plot.detail) for number, plot in enumerate(report.plots, start=1)]
    tables = [(anchor, t.title, t.detail) for t, anchor in zip(report.tables, report.anchors(), strict=True)]
    texts = [
        (f"texts-{number}", listing.title, False) for number, listing in enumerate(report.listings, start=1)
    ]
    ordered = (*plots, *texts, *tables)
    return [(a, title) for detail in (False, True) for a, title, own in ordered if own is detail]


def _verdicts(report: Report) -> list[tuple[str, str]]:
    """Sentences for the top of the page, each with what it is about, where that is not the whole."""
    if report.verdict:
        return [("", report.verdict)]
    tables = [table for table in report.tables if table.verdict and not table.detail]
    return [(table.title if len(tables) > 1 else "", table.verdict) for table in tables]


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


def _said(text: str) -> str:
    """A sentence, whose numbers stay in the line of their percent sign."""
    return one_line(text).replace(" %", "\u00a0%")


def _legible_text(text: str) -> str:
    """A text with its lines and spaces at both ends, and nothing that turns the direction of writing."""
    return "\n".join(_with_ends(line) for line in text.splitlines()) + ("\n" if text.endswith("\n") else "")


def _with_ends(line: str) -> str:
    inner = one_line(line)
    if not inner:
        return " " if line else ""
    return " " * line[:1].isspace() + inner + " " * line[-1:].isspace()


def _legible(facts: Any) -> str:
    """Facts as JSON, with the lines' indentation kept and nothing that turns the direction of writing."""
    lines = json.dumps(json_value(facts), indent=2, ensure_ascii=False).split("\n")
    return "\n".join(" " * (len(line) - len(line.lstrip(" "))) + one_line(line) for line in lines)
