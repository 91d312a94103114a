"""Reports as files, whose suffix chooses the format: a page, JSON, or LaTeX."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import numpy as np

from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.core._files import disk_errors, whole_file
from surprise_rerank.core._json_values import finite
from surprise_rerank.eval.reports.one_line import one_line, visible
from surprise_rerank.eval.reports.pictures import to_svg
from surprise_rerank.eval.reports.report import Report, Table

_LIBRARIES = (
    *("surprise-rerank", "torch", "sentence-transformers", "numpy", "scipy", "scikit-learn"),
    *("qdrant-client", "qdrant-edge-py", "pyserini", "ir-measures"),
)


def to_json(report: Report) -> str:
    """`report_values` as a file, in ASCII."""
    return json.dumps(report_values(report), indent=1, allow_nan=False) + "\n"


def report_values(report: Report) -> dict[str, Any]:
    """A report as data: its facts by their names, and tables as rows of column -> value or None."""
    verdicts = [report.verdict, *(table.verdict for table in report.tables)]
    tables = {
        table.name: [dict(zip((c.name for c in table.columns), row, strict=True)) for row in table.rows]
        for table in report.tables
    }
    values = {
        "title": report.title,
        **report.facts,
        "tables": tables,
        "verdict": " ".join(filter(None, verdicts)),
        "notes": [*report.notes, *(note for table in report.tables for note in table.notes)],
        **provenance(),
    }
    return dict(finite(_plain(values)))


def provenance() -> dict[str, Any]:
    """The machine, and the versions of the libraries that figures can depend on; None where there is none."""
    return {
        "machine": {
            "cpus": os.cpu_count(),
            "processor": platform.machine(),
            "python": platform.python_version(),
        },
        "versions": {
            name: next((package.version for package in metadata.distributions(name=name)), None)
            for name in _LIBRARIES
        },
    }


def read_values(path: Path) -> dict[str, Any]:
    """What `--report FILE.json` wrote: `tables` by name, each a list of rows; and the facts."""
    with disk_errors(str(path)):
        raw = path.read_bytes()
    expected = "expected what --report FILE.json wrote"
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: no JSON ({error}); {expected}") from error
    tables = content.get("tables") if isinstance(content, dict) else None
    if not isinstance(tables, dict) or not all(
        isinstance(rows, list) and all(isinstance(row, dict) for row in rows) for rows in tables.values()
    ):
        raise DataError(f"{path}: no report, it has no 'tables' of rows; {expected}")
    return dict(content)


def _plain(value: Any) -> Any:
    """Texts for keys, lists for arrays, numbers for numpy's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def to_html(report: Report) -> str:
    """A report as a page, whose policy forbids all but inline styles and its script; texts may be hostile."""
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


_ESCAPED = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def to_latex(report: Report) -> str:
    """The tables that a terminal shows, with their titles as captions; plots and notes are left out."""
    return "\n".join(_table(table) for table in report.tables if not table.detail)


def _table(table: Table) -> str:
    best = table.best()
    sides = "".join("r" if table.is_numeric(j) else "l" for j in range(len(table.columns)))
    rows = [
        [rf"\textbf{{{_escaped(cell)}}}" if (i, j) in best else _escaped(cell) for j, cell in enumerate(row)]
        for i, row in enumerate(table.shown())
    ]
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escaped(table.title)}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        _row([_escaped(column.name) for column in table.columns]),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _row(cells: list[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _escaped(text: str) -> str:
    return one_line(text).translate(_ESCAPED)


_FORMATS: Mapping[str, Callable[[Report], str]] = {".html": to_html, ".json": to_json, ".tex": to_latex}


def write_report(report: Report, file: Path) -> None:
    """Write a report to a file, which is there whole or not at all."""
    content = _format(file)(report).encode(errors="backslashreplace")
    with disk_errors(str(file)), whole_file(file) as draft:
        draft.write(content)


def check_files(files: Iterable[Path]) -> None:
    """Raise before an evaluation what `write_report` would raise after it."""
    for file in files:
        _format(file)
        if file.is_dir():
            raise StoreError(f"{file} is a folder, expected the name of a file to write")
        if not file.parent.is_dir():
            raise StoreError(f"{file}: there is no folder {file.parent}; make it, or choose another place")
        with disk_errors(str(file)):
            tempfile.TemporaryFile(dir=file.parent).close()


def _format(file: Path) -> Callable[[Report], str]:
    if file.suffix.lower() not in _FORMATS:
        raise DataError(
            f"{file}: no format for the suffix {file.suffix!r}; give the report a name that ends in "
            f"{', '.join(_FORMATS)}"
        )
    return _FORMATS[file.suffix.lower()]
