"""Options that commands share; which index a command works on; and the end of an evaluation, its report."""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from surprise_rerank.connectors.qdrant.location import MEMORY, Location
from surprise_rerank.connectors.systems.register import SYSTEMS, find_system
from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError, NoIndexError, near_or_all
from surprise_rerank.eval.cli.console import Output

if TYPE_CHECKING:
    from surprise_rerank.eval.reports.report import Report

Function = TypeVar("Function", bound=Callable[..., Any])

# As `readers.opening.Format`, which `--help` cannot wait for.
FORMATS = ("jsonl", "csv", "tsv", "tsv-unquoted", "parquet", "text")
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
_LEAST_FREE = 16 * 2**20  # bytes; an index of one document takes as many, with its log
_WHICH = (
    "which index? give --index with a folder, or a collection on a server such as "
    "http://localhost:6333/papers (or set SURPRISE_RERANK_INDEX)"
)

index_option = click.option(
    "--index",
    "target",
    metavar="T",
    envvar="SURPRISE_RERANK_INDEX",
    help="A folder, or a collection on a server: http://localhost:6333/papers; of a cluster several urls "
    "with commas between, the last with the collection. Key: $QDRANT_API_KEY.  [$SURPRISE_RERANK_INDEX]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="The result only: no progress, no notes.")
report_option = click.option(
    "--report",
    "reports",
    multiple=True,
    type=NEW_FILE,
    help="Write the result to a file, too: .html, a page with pictures; .json; or .tex, tables for a paper. "
    "Several times.",
)
config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML that names the endpoint of an index's model; or the model, vectors and payload keys of a "
    "collection made by others.",
)
model_option = click.option(
    "--model",
    metavar="NAME",
    help="The model of a collection made by others; or the index's, if it is not where it was: a name, a "
    "folder or a file.",
)
ray_option = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Let Ray's workers compute: `local`, `auto`, or a cluster's address such as head:6379.",
)
filled_with = click.argument("sources", metavar="SOURCE...", nargs=-1, type=click.Path())
format_option = click.option(
    "--format", "form", type=click.Choice(FORMATS), help="What files are, if their names do not show it."
)
id_option = click.option("--id-field", metavar="NAME", help="Column of ids; `content` or `row` makes ids.")
text_option = click.option(
    "--text-field", metavar="NAME", help="Column of texts, or several: question,answer."
)


class _Names(click.ParamType[tuple[str, ...]]):
    """Names with one of these characters between, once each; not inside the parentheses of a measure."""

    name = "names"

    def __init__(self, between: str) -> None:
        self._between = re.compile(rf"[{between}]+(?![^()]*\))")

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names; a usage error if there is none."""
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(filter(None, map(str.strip, self._between.split(value)))))
        return names or self.fail("give at least one name", param, ctx)


NAMES = _Names(", ")
PLACES = _Names(",")  # whose names may have white space in them


class SystemChoice(click.Choice[str]):
    """A system of the register; those of other packages are found, too."""

    def __init__(self) -> None:
        super().__init__([*SYSTEMS])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, where a system of that name is registered; a usage error else."""
        try:
            return find_system(value).name
        except DataError:
            self.fail(f"unknown system {value!r}; {near_or_all(value, self.choices)}", param, ctx)


def location_of(target: str | None) -> Location:
    """Where --index points to; a usage error without it."""
    if not target:
        raise click.UsageError(_WHICH)
    return Location.at(target)


def require_index(location: Location) -> None:
    """Refuse a folder that holds no index, before libraries and models are loaded."""
    if location.folder in (None, MEMORY):
        return
    folder = Path(str(location.folder))
    # A killed process leaves a version without the file that names it.
    if not (folder / "index.json").exists() and not any(folder.glob("[0-9]*/manifest.json")):
        raise NoIndexError(f"there is no index at {folder}; make one first, or give its folder")


def require_place(location: Location) -> None:
    """Refuse a folder that no index can be made or filled in, before documents and models are read."""
    if location.folder in (None, MEMORY):
        return
    folder = Path(str(location.folder)).absolute()
    with disk_errors(str(location.folder)):
        nearest = next(place for place in (folder, *folder.parents) if place.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{nearest} is a file")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "permission denied")
        if shutil.disk_usage(nearest).free < _LEAST_FREE:
            raise OSError(errno.ENOSPC, "no space left")


def takes_index(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --index, --json and --quiet; it gets a `Location` and an `Output`."""

    @index_option
    @json_option
    @quiet_option
    @functools.wraps(function)
    def command(*, target: str | None, as_json: bool, quiet: bool, **others: Any) -> Any:
        location = location_of(target)
        require_index(location)
        return function(location=location, out=Output(as_json=as_json, quiet=quiet), **others)

    return command


def reports(function: Function) -> Function:
    """Give a command of an evaluation --report, --json and --quiet."""
    return report_option(json_option(quiet_option(function)))


def present(
    report: Report,
    files: tuple[Path, ...],
    *,
    as_json: bool = False,
    quiet: bool = False,
    values: Mapping[str, Any] | None = None,
) -> None:
    """Print a report's tables and notes, and write it to files."""
    from surprise_rerank.eval.reports.terminal import print_report
    from surprise_rerank.eval.reports.writing import report_values, write_report

    if as_json:
        Output(as_json=True).json(report_values(report) if values is None else values)
    else:
        print_report(report, quiet=quiet)
    for file in files:
        write_report(report, file)
