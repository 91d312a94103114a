"""Reports as files: the suffix chooses the format."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from surprise_rerank.core.files import disk_errors, whole_file
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.eval.reports.html import to_html
from surprise_rerank.eval.reports.latex import to_latex
from surprise_rerank.eval.reports.records import to_json
from surprise_rerank.eval.reports.report import Report

_FORMATS: Mapping[str, Callable[[Report], str]] = {
    ".html": to_html,
    ".json": to_json,
    ".tex": to_latex,
}


def write_report(report: Report, file: Path) -> None:
    """Write a report to a file, which is there whole or not at all.

    Args:
        report: what to write.
        file: ends in .html, .json or .tex; its folder is there.
    """
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
