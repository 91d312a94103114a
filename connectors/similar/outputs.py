"""A result as it was asked for: one file in Parquet, CSV or JSON Lines, or its parts in a folder."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from surprise_rerank.connectors.readers.arrow import CountedBatches
from surprise_rerank.connectors.similar.corpus import EXTRA
from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors, require_replaceable, staged_folder, whole_file
from surprise_rerank.errors import DataError

Form: TypeAlias = Literal["parquet", "csv", "jsonl", "parts"]
# What writes a schema and rows to an open file.
_Writer: TypeAlias = Callable[[IO[bytes], Any, Iterable[Any]], None]

# Columns of parts only: the rows of both documents in their corpora, by which groups are made.
ROW_COLUMNS = ("document_row", "neighbour_row")
# In a complete folder of parts, as Hadoop and Spark write it; readers ignore it.
COMPLETE = "_SUCCESS"
# Marks a folder that may be replaced; `_SUCCESS` may be another program's.
MARKER = "_similar.json"
_CONTENTS = re.compile(rf"part-\d+\.parquet|{COMPLETE}|{re.escape(MARKER)}")

_BATCH = 1 << 16  # rows that are in memory at a time
_ROW_GROUP = 1 << 17  # of a Parquet file, whatever the parts


@dataclass(frozen=True, slots=True)
class Target:
    """Where a result goes.

    Attributes:
        path: of the file, or of the folder.
        form: `parquet`, `csv`, `jsonl`, or `parts` for a folder of Parquet files.
    """

    path: Path
    form: Form

    @classmethod
    def of(cls, given: str) -> Target:
        """What a path means: a file by its suffix; a folder, which ends in `/` or exists, for parts.

        Raises:
            DataError: if the suffix is not known, or the folder that it is to be in does not exist.
        """
        path = Path(given)
        if given.endswith(("/", "\\")) or path.is_dir():
            return cls(path, "parts")
        form = path.suffix.lower().removeprefix(".")
        if form not in _WRITERS:
            known = ", ".join(f".{name}" for name in _WRITERS)
            raise DataError(
                f"{given}: a result is written by its suffix, {known}; or to a folder, with a / at the end"
            )
        if not path.parent.is_dir():
            raise DataError(f"{given}: there is no folder {path.parent}; make it, or choose another one")
        return cls(path, form)  # type: ignore[arg-type]  # a key of the writers

    @property
    def place(self) -> Path:
        """The path without symbolic links and dots."""
        return self.path.resolve()

    def require_writable(self) -> None:
        """Check that a result can be written, before it is computed.

        Raises:
            StoreError: if the folder holds something else, or its place cannot be written.
        """
        with disk_errors(str(self.path)):
            if self.form == "parts":
                require_replaceable(self.place, MARKER, self._what, _CONTENTS)
            beside = Path(os.path.abspath(self.path)) if self.form != "parts" else self.place
            existing = next(folder for folder in beside.parents if folder.exists())
            with tempfile.TemporaryFile(dir=existing):
                pass

    def write(self, schema: Any, batches: Iterable[Any]) -> int:
        """Write rows to the file, completely or not at all; returns how many there were.

        Args:
            schema: a `pyarrow.Schema`.
            batches: `pyarrow.RecordBatch`es of it.

        Raises:
            StoreError: if the disk is full, or cannot be written.
        """
        counted = CountedBatches(batches)
        with disk_errors(str(self.path)):
            _remove_drafts(self.path)
            with whole_file(self.path) as file:
                _WRITERS[self.form](file, schema, counted)
        return counted.rows

    def write_parts(self, parts: Iterable[Path]) -> int:
        """Write a result, completely or not at all; returns how many pairs there are.

        Args:
            parts: Parquet files of one schema, in order, such as `SimilarityJob.parts` gives; at least one.

        Raises:
            StoreError: if the disk is full, or cannot be written; if the folder holds something else.
        """
        if self.form == "parts":
            return self._write_folder(parts)
        stream = iter(parts)
        first = next(stream)
        batches = (batch for own in (iter((first,)), stream) for path in own for batch in part_batches(path))
        return self.write(_schema(first), batches)

    def _write_folder(self, parts: Iterable[Path]) -> int:
        rows = 0
        with staged_folder(self.place, MARKER, self._what, _CONTENTS) as draft:
            for path in parts:
                counted = CountedBatches(part_batches(path))
                with disk_errors(str(self.path)), (draft / path.name).open("wb") as file:
                    _write_parquet(file, _schema(path), counted)
                rows += counted.rows
            with disk_errors(str(self.path)):
                (draft / MARKER).write_text(json.dumps({"pairs": rows}), encoding="utf-8")
                (draft / COMPLETE).touch()
        return rows

    @property
    def _what(self) -> str:
        return f"the folder {self.path}"


def part_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """A part as `pyarrow.RecordBatch`es.

    Args:
        path: of the part.
        columns: those to read; all of the result, without `ROW_COLUMNS`, where None.

    Raises:
        StoreError: if it cannot be read.
    """
    parquet = import_extra("pyarrow.parquet", EXTRA)
    with disk_errors(str(path)), parquet.ParquetFile(path) as file:
        names = _result_columns(file.schema_arrow) if columns is None else list(columns)
        yield from file.iter_batches(_BATCH, columns=names)


def _schema(path: Path) -> Any:
    parquet = import_extra("pyarrow.parquet", EXTRA)
    pyarrow = import_extra("pyarrow", EXTRA)
    with disk_errors(str(path)):
        schema = parquet.read_schema(path)
    return pyarrow.schema([schema.field(name) for name in _result_columns(schema)])


def _result_columns(schema: Any) -> list[str]:
    return [name for name in schema.names if name not in ROW_COLUMNS]


def _write_parquet(file: IO[bytes], schema: Any, batches: Iterable[Any]) -> None:
    parquet = import_extra("pyarrow.parquet", EXTRA)
    with parquet.ParquetWriter(file, schema) as writer:
        for table in _row_groups(schema, batches):
            writer.write_table(table, _ROW_GROUP)


def _row_groups(schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Tables of one row group each, so that the file does not depend on how the rows came."""
    pyarrow = import_extra("pyarrow", EXTRA)
    waiting, rows = [], 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= _ROW_GROUP:
            table = pyarrow.Table.from_batches(waiting, schema)
            yield table.slice(0, _ROW_GROUP)
            waiting = table.slice(_ROW_GROUP).to_batches()
            rows -= _ROW_GROUP
    if rows:
        yield pyarrow.Table.from_batches(waiting, schema)


def _write_csv(file: IO[bytes], schema: Any, batches: Iterable[Any]) -> None:
    """RFC 4180 with a header; `csv` ends lines as it says, which pyarrow's writer does not."""
    file.write(_csv_lines([schema.names]))
    for batch in batches:
        file.write(_csv_lines(_rows(batch)))


def _csv_lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _write_jsonl(file: IO[bytes], schema: Any, batches: Iterable[Any]) -> None:
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    for batch in batches:
        lines = (f"{encode(dict(zip(schema.names, row, strict=True)))}\n" for row in _rows(batch))
        file.write("".join(lines).encode())


def _rows(batch: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


_WRITERS: dict[str, _Writer] = {"parquet": _write_parquet, "csv": _write_csv, "jsonl": _write_jsonl}


def _remove_drafts(path: Path) -> None:
    """Delete drafts of the same file that killed processes left behind."""
    for draft in path.parent.glob(f".{_literal(path.name)}.{'[0-9a-f]' * 32}.part"):
        draft.unlink(missing_ok=True)


def _literal(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
