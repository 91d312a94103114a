"""Options that commands share, and what they name: documents, models, filters, an index."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from surprise_rerank._errors import DataError, near_or_all
from surprise_rerank.connectors.qdrant._location import MEMORY, Location, no_index, require_no_copy
from surprise_rerank.connectors.systems._register import SYSTEMS, find_system
from surprise_rerank.core._files import disk_errors
from surprise_rerank.core._json_values import read_json
from surprise_rerank.eval.cli.console import Output

if TYPE_CHECKING:
    from qdrant_client.models import Filter

    from surprise_rerank._documents import Document
    from surprise_rerank.connectors.readers import DocumentSource, Fields, FileRules
    from surprise_rerank.connectors.readers._opening import Format
    from surprise_rerank.connectors.readers._source import OnError, Unusable
    from surprise_rerank.encoders.base import Encoder, Precision
    from surprise_rerank.eval.reports.report import Report

Function = TypeVar("Function", bound=Callable[..., Any])

# As `readers.opening.Format`, which `--help` cannot wait for.
FORMATS = ("jsonl", "csv", "tsv", "tsv-unquoted", "parquet", "text")
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
NOTHING_PASSES = "the filter lets no document through (metadata is at metadata.KEY)"
_PLACES = 3  # of what was skipped, that a reason shows
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
        require_no_copy(folder)
        raise no_index(folder)


def require_place(location: Location) -> None:
    """Refuse a folder that no index can be made or filled in, before documents and models are read."""
    if location.folder in (None, MEMORY):
        return
    folder = Path(str(location.folder)).absolute()
    require_no_copy(Path(str(location.folder)))
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


class Sources:
    """Documents of several sources, one after another; `named` are what the user called them, and they."""

    def __init__(self, names: Sequence[str], sources: Sequence[DocumentSource]) -> None:
        self.named = list(zip(names, sources, strict=True))

    @classmethod
    def opened(
        cls,
        names: Sequence[str],
        form: Format | None,
        fields: Fields,
        on_error: OnError = "raise",
        files: FileRules | None = None,
        id_prefix: str = "",
    ) -> Sources:
        """Files, folders, ids of data sets, collections of Qdrant servers; only their names are read."""
        from surprise_rerank.connectors.readers import Fields, open_documents

        if not names:
            raise click.UsageError(
                "what is to be read? give files, folders, data sets, or a collection on a Qdrant server such "
                "as http://localhost:6333/papers"
            )
        columns = None if fields == Fields() else fields
        key = os.environ.get("QDRANT_FROM_API_KEY")  # or QDRANT_API_KEY
        opened = []
        for name in names:
            source = open_documents(
                name, format=form, fields=columns, on_error=on_error, files=files, api_key=key
            )
            opened.append(source.with_prefix(id_prefix))
        return cls(names, opened)

    def __iter__(self) -> Iterator[Document]:
        for _, source in self.named:
            yield from source

    def require_readable(self) -> None:
        """Read the first document of each: what is wrong with all of them is told before anything is made."""
        for _, source in self.named:
            with contextlib.closing(iter(source)) as documents:
                next(documents, None)

    def expected(self) -> int | None:
        """About how many documents there are; None where that cannot be told."""
        counts = [source.expected() for _, source in self.named]
        return None if None in counts else sum(map(int, counts))  # type: ignore[arg-type]

    @property
    def unusable(self) -> list[Unusable]:
        """What the last reading could not use; documents of these places are not pruned."""
        return [place for _, source in self.named for place in source.unusable]

    def places(self, document_id: str) -> list[str]:
        """Where the documents of an id are, for a message."""
        return [place for _, source in self.named for place in source.places(document_id)]

    def end(self, *, strict: bool) -> None:
        """End a command with exit code 1 where that was asked for, and a row or file could not be used."""
        if strict and self.unusable:
            click.get_current_context().exit(1)

    def skipped(self) -> list[dict[str, Any]]:
        """What the last reading left out, by source and reason, with the first places."""
        return [
            {"source": name, "reason": reason, "count": count, "places": source.skipped.places[reason]}
            for name, source in self.named
            for reason, count in source.skipped.counts.items()
        ]


def skipped_lines(skipped: Sequence[dict[str, Any]]) -> list[str]:
    """What was skipped, a line for each reason."""
    lines = []
    for row in skipped:
        shown = ", ".join(row["places"][:_PLACES])
        more = ", ..." if row["count"] > _PLACES else ""
        lines.append(f"skipped {row['count']} of {row['source']}: {row['reason']} ({shown}{more})")
    return lines


def load_model(name: str, precision: str = "float32", calibration: Sequence[str] | None = None) -> Encoder:
    """`load_encoder`; a folder or file is remembered by its whole path, so that an index finds it again."""
    from surprise_rerank.connectors.attached._opening import whole_path
    from surprise_rerank.encoders._loading import load_encoder

    return load_encoder(whole_path(name), precision=cast("Precision", precision), calibration=calibration)


def read_filter(option: str, text: str) -> Filter | None:
    """Return Qdrant's filter from its JSON, None for an empty one; a DataError names the option."""
    from surprise_rerank.connectors.qdrant._search.filters import filter_of

    try:
        values = read_json(text)
        return filter_of(values) if values else None
    except DataError as error:
        raise DataError(f"{option}: {error}") from error
    except ValueError as error:
        raise DataError(
            f"{option} is not JSON ({error}); write it like "
            """'{"must": [{"key": "metadata.year", "match": {"value": 2024}}]}'"""
        ) from error
