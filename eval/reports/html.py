"""Reports as one page that needs nothing else: no other file, no network."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

import jinja2
import markupsafe

from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.eval.reports.one_line import one_line, visible
from surprise_rerank.eval.reports.pictures import to_svg
from surprise_rerank.eval.reports.records import provenance, report_values
from surprise_rerank.eval.reports.report import Report, Table


def to_html(report: Report) -> str:
    """A report as a page: pictures, tables that a click sorts, notes, and the facts to be unfolded.

    Its policy forbids everything but inline styles and the script that sorts. Without matplotlib it has no
    pictures, and says so.

    Args:
        report: what to show; texts may be hostile.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["one_line"] = one_line
    source, script = (
        resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.html.j2", "page.js")
    )
    drawn = is_installed("matplotlib")
    tables = [
        ([*map(table.is_numeric, range(len(table.columns)))], table, _cells(table)) for table in report.tables
    ]
    shown_apart = {"title", "tables", "verdict", "notes", *provenance()}
    facts = {name: value for name, value in report_values(report).items() if name not in shown_apart}
    page: str = environment.from_string(source).render(
        report=report,
        tables=sorted(tables, key=lambda shown: shown[1].detail),
        plots=[(plot, markupsafe.Markup(to_svg(plot))) for plot in report.plots if drawn],
        missing="" if drawn or not report.plots else pip_line("report"),
        verdicts=list(filter(None, [report.verdict, *(t.verdict for t in report.tables if not t.detail)])),
        facts=_legible(facts) if facts else "",
        provenance=_legible(provenance()),
        script=markupsafe.Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page.rstrip("\n") + "\n"


def _cells(table: Table) -> list[list[tuple[str, float | int | None, bool]]]:
    """What is read, what is sorted by, and whether it is the best of its column."""
    best = table.best()
    return [
        [
            (one_line(text), cell if isinstance(cell, int | float) and text else None, (i, j) in best)
            for j, (text, cell) in enumerate(zip(texts, cells, strict=True))
        ]
        for i, (texts, cells) in enumerate(zip(table.shown(), table.rows, strict=True))
    ]


def _legible(facts: Any) -> str:
    """Facts as JSON, with nothing that turns the direction of writing."""
    return "\n".join(map(visible, json.dumps(facts, indent=2, ensure_ascii=False).split("\n")))
