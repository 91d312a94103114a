"""Documents of tables: JSON Lines, comma- and tab-separated values, and Parquet files."""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias, get_args

from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError
from surprise_rerank.connectors.readers._fields import (
    TEXT_NAMES,
    TITLE_NAMES,
    Columns,
    Fields,
    Row,
    documents_of,
)
from surprise_rerank.connectors.readers._lines import (
    EXTRA,
    LONGEST,
    check_decoded,
    check_length,
    count_lines,
    decoded,
    parsed_json,
    read_lines,
    read_objects,
    uncompressed_name,
    unreadable,
)
from surprise_rerank.connectors.readers._source import RefusedError, Skipped
from surprise_rerank.core._extras import import_extra

Table: TypeAlias = Literal["jsonl", "csv", "tsv", "tsv-unquoted", "parquet"]

_BATCH = 256  # rows of a Parquet file that are Python objects at a time
_PAGE_BUFFER = 2**20
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?")
_NOT_CSV = "not valid CSV: {}; is a quote not closed, or not doubled? Or give the format tsv-unquoted"


def table_format(name: str) -> Table | None:
    """The kind of table by a file's name; `.gz` or `.zst` may come after it where lines are read."""
    suffix = PurePath(uncompressed_name(name.lower())).suffix
    kind = "jsonl" if suffix == ".ndjson" else suffix.removeprefix(".")
    is_whole = kind != "parquet" or name.lower().endswith(".parquet")
    return next((table for table in get_args(Table) if table == kind and is_whole), None)


def count_table(path: Path, kind: Table) -> int:
    """How many documents a table has at most."""
    if kind == "parquet":
        with _parquet(path) as file:
            return int(file.metadata.num_rows)
    return count_lines(path) - (kind != "jsonl")


def read_table(
    path: Path, kind: Table, fields: Fields, skipped: Skipped, prefix: str = ""
) -> Iterator[Document]:
    """The documents of a table, in its order.

    `prefix`, of a table in a folder, comes before the numbers of rows; they are the ids where no column is.

    Of `csv` the delimiter is the one of , ; tab and | that the first line has most of; quotes are those of
    spreadsheets, but for `tsv-unquoted`.
    """
    if kind == "parquet":
        return _of_parquet(path, fields, skipped, prefix)
    if kind == "jsonl":
        rows = (Row(f"{path}:{n}", f"{prefix}{n}", values) for n, values in read_objects(path, skipped))
        return documents_of(rows, fields, skipped, keyed=bool(prefix))
    return _delimited(path, kind, fields, skipped, prefix)


def read_json(
    raw: bytes, path: Path, name: str, fields: Fields, skipped: Skipped
) -> Iterator[Document] | None:
    """The documents of a JSON file: an array of objects, or one; None where they have no text of their own.

    Where no column is the id, it is the file's name, with the object's number in an array.
    """
    values = parsed_json(decoded(raw)[0])
    rows = values if isinstance(values, list) else [values]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    if fields == Fields() and not any(key.lower() in TEXT_NAMES for key in rows[0]):
        return None
    number = "{}#{}" if rows is values else "{}"
    named = (Row(f"{path}, item {n}", number.format(name, n), row) for n, row in enumerate(rows, start=1))
    return documents_of(named, fields, skipped, keyed=True)


def _of_parquet(path: Path, fields: Fields, skipped: Skipped, prefix: str) -> Iterator[Document]:
    with _parquet(path) as file:
        columns = Columns.of_table(fields, file.schema_arrow.names, path, keyed=bool(prefix))
        batches = file.iter_batches(batch_size=_BATCH)
        values = itertools.chain.from_iterable(_in_microseconds(batch).to_pylist() for batch in batches)
        rows = (Row(f"{path}, row {n}", f"{prefix}{n}", row) for n, row in enumerate(values, start=1))
        yield from documents_of(rows, fields, skipped, columns=columns)


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """An open file, whose errors are one line."""
    pyarrow, parquet = import_extra("pyarrow", EXTRA), import_extra("pyarrow.parquet", EXTRA)
    try:
        # Without pre-buffering, or a whole row group would be in memory.
        with parquet.ParquetFile(path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
            yield file
    except DataError:
        raise  # it is a ValueError, as pyarrow's are
    except (pyarrow.ArrowException, OSError, EOFError, ValueError, OverflowError) as error:
        raise unreadable(path, error) from error


def _in_microseconds(batch: Any) -> Any:
    """Python's dates have no nanoseconds, in which pandas writes them."""
    pyarrow = import_extra("pyarrow", EXTRA)
    kinds = [
        column.with_type(pyarrow.timestamp("us", column.type.tz))
        if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns"
        else column
        for column in batch.schema
    ]
    return batch.cast(pyarrow.schema(kinds), safe=False)


def _delimited(path: Path, kind: Table, fields: Fields, skipped: Skipped, prefix: str) -> Iterator[Document]:
    # csv's own limit is 128 KiB, for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    lines = read_lines(path, newline="", guess=True)
    blank, head = next(((n, line) for n, line in enumerate(lines) if line.strip()), (0, ""))
    if not head:
        return
    strict = kind != "tsv-unquoted"
    delimiter = max(",;\t|", key=head.count) if kind == "csv" else "\t"
    # Not strict, a quote that is opened and not closed would swallow the rows after it.
    rows = csv.reader(
        map(check_length, itertools.chain([head], lines)),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if strict else csv.QUOTE_NONE,
        strict=strict,
    )
    try:
        first = next(rows)
    except (csv.Error, RefusedError) as error:
        raise RefusedError("damaged", _NOT_CSV.format(error), where=f"{path}:{blank + 1}") from error
    # pandas writes its row numbers into a column without a name.
    names = [name.strip() or f"column_{i}" for i, name in enumerate(first, start=1)]
    columns = Columns.of_table(fields, names, path, keyed=bool(prefix))
    texts = {
        columns.id,
        columns.title,
        *columns.texts,
        *(name for name in names if name.lower() in TITLE_NAMES),
    }

    def numbered() -> Iterator[Row]:
        number = 0
        while True:
            where = f"{path}:{blank + rows.line_num + 1}"
            try:
                values = next(rows, None)
                if values is None:
                    return
                if values:
                    number += 1
                    yield Row(where, f"{prefix}{number}", _record(names, values, texts))
            except csv.Error as error:
                number += 1
                skipped.refuse(where, RefusedError("not valid CSV", _NOT_CSV.format(error)))
            except RefusedError as refused:
                skipped.refuse(where, refused)

    yield from documents_of(numbered(), fields, skipped, columns=columns)


def _record(names: list[str], values: list[str], texts: set[str | None]) -> dict[str, str | int | float]:
    """A row; numbers outside of the columns of texts are numbers, which filters compare by size."""
    if len(values) != len(names):
        wrong = f"{len(values)} columns, but the head has {len(names)}"
        raise RefusedError("wrong number of columns", wrong)
    check_decoded("".join(values))
    pairs = zip(names, values, strict=True)
    return {name: value if name in texts else _number(value) for name, value in pairs}


def _number(cell: str) -> str | int | float:
    """A number, where a cell is one as Python writes it: what begins with a 0 or a + is a name."""
    if not _NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)
