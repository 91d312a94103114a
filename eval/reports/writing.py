"""Reports as files: the suffix chooses the format."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors, whole_file
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.eval.reports.html import to_html
from surprise_rerank.eval.reports.latex import to_latex
from surprise_rerank.eval.reports.markdown import to_markdown
from surprise_rerank.eval.reports.plots import to_svg
from surprise_rerank.eval.reports.records import to_json
from surprise_rerank.eval.reports.report import Report


def _picture(report: Report) -> str:
    """A plot as an SVG file: the first one of points (latency against quality), else the first of all."""
    plots = sorted(report.plots, key=lambda plot: plot.kind != "scatter")
    if not plots:
        raise DataError(
            f"the report {report.title!r} has no plot, expected one for an SVG file; give the report a name "
            "that ends in .html or .md"
        )
    return to_svg(plots[0]) + "\n"


_FORMATS: Mapping[str, Callable[[Report], str]] = {
    ".md": to_markdown,
    ".tex": to_latex,
    ".json": to_json,
    ".html": to_html,
    ".svg": _picture,
}


def write_report(report: Report, file: Path) -> None:
    """Write a report to a file, which is there whole or not at all.

    Args:
        report: what to write.
        file: ends in .md, .tex, .json, .html, or in .svg for one plot; its folder is there.

    Raises:
        DataError: if it ends otherwise, or is to be an SVG file of a report without plots.
        MissingExtraError: if a page or a plot needs a library that is not installed.
        StoreError: if it cannot be written.
    """
    content = _format(file)(report).encode()
    with disk_errors(str(file)), whole_file(file) as draft:
        draft.write(content)


def check_files(files: Iterable[Path]) -> None:
    """Raise before an evaluation what `write_report` would raise after it.

    Raises:
        DataError: if a file ends otherwise than in .md, .tex, .json, .html or .svg.
        MissingExtraError: if a page or a plot needs a library that is not installed.
        StoreError: if a file's folder is not there, or a file cannot be written.
    """
    for file in files:
        form = _format(file)
        if form is to_html:
            import_extra("jinja2", "report")
        if form in (to_html, _picture):
            import_extra("matplotlib", "report")
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
