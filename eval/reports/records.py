"""Reports as JSON: written with the machine and the versions of libraries, and read again."""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import (
    Cell,
    Column,
    Kind,
    Listing,
    Mark,
    Passage,
    Plot,
    Report,
    Series,
    Table,
)

LIBRARIES = (
    "surprise-rerank",
    "torch",
    "sentence-transformers",
    "numpy",
    "scipy",
    "scikit-learn",
    "qdrant-client",
    "qdrant-edge-py",
    "pyserini",
    "ir-measures",
)

_TYPES: Mapping[type, str] = {str: "a text", int: "a whole number", bool: "true or false"}
_SURROGATE = re.compile("[\ud800-\udfff]")

T = TypeVar("T")


def to_json(report: Report) -> str:
    """`report_values` as a file."""
    text = json.dumps(report_values(report), indent=1, ensure_ascii=False, allow_nan=False)
    # Halves of characters, which some data hold, cannot be written as UTF-8.
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text) + "\n"


def report_values(report: Report) -> dict[str, Any]:
    """A report with everything in it, the machine and the versions of libraries, as JSON values.

    What is no number or not finite becomes None.
    """
    content = {
        "title": report.title,
        "tables": [asdict(table) for table in report.tables],
        "plots": [asdict(plot) for plot in report.plots],
        "notes": report.notes,
        "facts": report.facts,
        "listings": [asdict(listing) for listing in report.listings],
        "verdict": report.verdict,
    }
    return {**json_value(content), **provenance()}


def provenance() -> dict[str, Any]:
    """The machine, and the versions of the libraries that figures can depend on; None where there is none."""
    return {
        "machine": {
            "cpus": os.cpu_count(),
            "processor": platform.machine(),
            "python": platform.python_version(),
        },
        "versions": {name: _version(name) for name in LIBRARIES},
    }


def json_value(value: Any) -> Any:
    """A value that JSON has: lists for tuples, numbers for numpy's, None for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def read_report(path: Path) -> Report:
    """The report that a file holds; the machine and the versions of its writer are left there.

    Args:
        path: of a file that `--report FILE.json` wrote.

    Raises:
        DataError: if the file is no JSON, or no report; names what is missing.
        StoreError: if it cannot be read.
    """
    with disk_errors(str(path)):
        raw = path.read_bytes()
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: no JSON ({error}); expected what --report FILE.json wrote") from error
    try:
        return _report(content)
    except DataError as error:
        raise DataError(f"{path}: no report: {error}; expected what --report FILE.json wrote") from error


def _report(content: Any) -> Report:
    return Report(
        title=_part(content, "title", str),
        tables=tuple(_each(content, "tables", _table)),
        plots=tuple(_each(content, "plots", _plot)),
        notes=tuple(_each(content, "notes", _text)),
        facts=_part(content, "facts", dict),
        listings=tuple(_each(content, "listings", _listing)),
        verdict=_part(content, "verdict", str),
    )


def _table(content: Any) -> Table:
    return Table(
        name=_part(content, "name", str),
        title=_part(content, "title", str),
        columns=tuple(_each(content, "columns", _column)),
        rows=tuple(_each(content, "rows", _row)),
        keys=_part(content, "keys", int),
        notes=tuple(_each(content, "notes", _text)),
        detail=_part(content, "detail", bool),
        verdict=_part(content, "verdict", str),
        decides=_part(content, "decides", str),
    )


def _column(content: Any) -> Column:
    best: Any = _part(content, "best", str)
    if best not in ("max", "min", ""):
        raise DataError(f"'best' is {best[:40]!r}, expected 'max', 'min' or ''")
    digits = _part(content, "digits", int)
    if not 0 <= digits <= 100:
        raise DataError(f"'digits' is {digits}, expected 0 to 100")
    leaves = _part(content, "leaves", int)
    return Column(_part(content, "name", str), digits, best, leaves)


def _row(content: Any) -> tuple[Cell, ...]:
    if not isinstance(content, list) or not all(
        cell is None or isinstance(cell, str | int | float) for cell in content
    ):
        raise DataError("a row is no list of texts and numbers")
    return tuple(content)


def _plot(content: Any) -> Plot:
    kind: Any = _part(content, "kind", str)
    if kind not in get_args(Kind):
        raise DataError(f"'kind' is {kind[:40]!r}, expected one of {', '.join(get_args(Kind))}")
    return Plot(
        kind=kind,
        title=_part(content, "title", str),
        x_label=_part(content, "x_label", str),
        y_label=_part(content, "y_label", str),
        series=tuple(_each(content, "series", _series)),
        note=_part(content, "note", str),
        log_x=_part(content, "log_x", bool),
        curves=tuple(_each(content, "curves", _series)),
        marks=tuple(_each(content, "marks", _mark)),
        finding=_part(content, "finding", str),
        detail=_part(content, "detail", bool),
    )


def _mark(content: Any) -> Mark:
    return Mark(name=_part(content, "name", str), x=_number(_part(content, "x", object)))


def _series(content: Any) -> Series:
    x = tuple(_each(content, "x", _text_or_number))
    return Series(
        name=_part(content, "name", str),
        # Of a plot either all or none are texts.
        x=tuple(map(str, x)) if any(isinstance(item, str) for item in x) else x,  # type: ignore[arg-type]
        y=tuple(_each(content, "y", _number)),
        low=tuple(_each(content, "low", _number)),
        high=tuple(_each(content, "high", _number)),
        beside=tuple(_each(content, "beside", _text)),
    )


def _listing(content: Any) -> Listing:
    return Listing(
        title=_part(content, "title", str),
        passages=tuple(_each(content, "passages", _passage)),
        finding=_part(content, "finding", str),
    )


def _passage(content: Any) -> Passage:
    return Passage(
        heading=_part(content, "heading", str),
        text=_part(content, "text", str),
        marks=tuple(_each(content, "marks", _place)),
        about=_part(content, "about", str),
        below=_part(content, "below", bool),
    )


def _place(content: Any) -> tuple[int, int]:
    if not isinstance(content, list) or [type(end) for end in content] != [int, int]:
        raise DataError("not the start and the end of a mark")
    return content[0], content[1]


def _part(content: Any, name: str, kind: type[T]) -> T:
    if not isinstance(content, dict) or name not in content:
        raise DataError(f"no {name!r}")
    value = content[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DataError(f"{name!r} is not {_TYPES.get(kind, 'an object')}")
    return value


def _each(content: Any, name: str, made: Callable[[Any], T]) -> Iterator[T]:
    """What is made of each item of a list; errors name the item."""
    if not isinstance(content, dict) or not isinstance(content.get(name), list):
        raise DataError(f"no list {name!r}")
    for number, item in enumerate(content[name], start=1):
        try:
            yield made(item)
        except DataError as error:
            raise DataError(f"{name} {number}: {error}") from error


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise DataError("not a text")
    return content


def _number(content: Any) -> float:
    if content is None:
        return math.nan
    if not isinstance(content, int | float):
        raise DataError("not a number")
    return content


def _text_or_number(content: Any) -> str | float:
    return content if isinstance(content, str) else _number(content)
