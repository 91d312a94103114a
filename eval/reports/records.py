"""Reports as JSON: what was measured, with the machine and the versions of libraries."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.core.files import disk_errors
from surprise_rerank.core.json_values import finite
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Report

_LIBRARIES = (
    *("surprise-rerank", "torch", "sentence-transformers", "numpy", "scipy", "scikit-learn"),
    *("qdrant-client", "qdrant-edge-py", "pyserini", "ir-measures"),
)


def to_json(report: Report) -> str:
    """`report_values` as a file, in ASCII."""
    return json.dumps(report_values(report), indent=1, allow_nan=False) + "\n"


def report_values(report: Report) -> dict[str, Any]:
    """A report as data: its facts by their names, and tables as rows of column -> value.

    What is no number or not finite becomes None.
    """
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
        "versions": {name: _version(name) for name in _LIBRARIES},
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


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
