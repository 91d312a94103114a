"""Tables of comma- and tab-separated values, with a head line."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surprise_rerank.connectors.readers.fields import Columns, Fields, Row, documents_of
from surprise_rerank.connectors.readers.source import Refusals, RefusedError
from surprise_rerank.connectors.readers.text_streams import MAX_ROW, check_decoded, open_text
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError

Dialect: TypeAlias = Literal["csv", "tsv", "tsv-unquoted"]


def read_delimited(
    path: Path,
    dialect: Dialect,
    fields: Fields,
    refusals: Refusals,
    prefix: str = "",
    encoding: str | None = None,
) -> Iterator[Document]:
    """The documents of a table whose first line names the columns, in its order.

    Args:
        path: a file, compressed if its name ends in `.gz`.
        dialect: `csv` with commas, semicolons, tabs or bars, whichever the first line has most of; `tsv` with
            tabs; both with quotes as spreadsheets write them. `tsv-unquoted` takes a quote as a character.
        fields: the columns that were named.
        refusals: what happens to malformed rows.
        prefix: comes before the numbers of rows, if those are ids.
        encoding: see `open_text`.

    Raises:
        DataError: if the id or the text cannot be found; if a row is malformed, unless such rows are skipped.
        DatasetError: if the file cannot be read.
        MissingExtraError: if the encoding has to be guessed and that is not installed.
    """
    with open_text(path, newline="", encoding=encoding, place=refusals.place) as stream:
        lines = _lines(stream, path)
        blank = 0
        while (head := next(lines, "")) and not head.strip():
            blank += 1
        if not head:
            return
        # csv's own limit is 128 KiB a field, for the whole process: it is only ever raised.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW))
        delimiter = max(",;\t|", key=head.count) if dialect == "csv" else "\t"
        table = _Table(path, dialect, delimiter, itertools.chain([head], lines), blank)
        columns = Columns.of_table(fields, table.names, path)
        yield from documents_of(table.rows(prefix), fields, refusals, columns=columns)


class _Table:
    """A table whose head has been read."""

    def __init__(
        self, path: Path, dialect: Dialect, delimiter: str, lines: Iterator[str], blank: int
    ) -> None:
        self._path = path
        self._dialect = dialect
        self._blank = blank  # lines before the head, which the reader does not see
        self._reader = csv.reader(
            lines,
            delimiter=delimiter,
            quoting=csv.QUOTE_NONE if dialect == "tsv-unquoted" else csv.QUOTE_MINIMAL,
            # A quote that is opened and not closed would swallow the rows after it.
            strict=dialect != "tsv-unquoted",
        )
        first = self._next()
        if isinstance(first, RefusedError):
            raise DataError(f"{path}:{blank + 1}: {first.detail}")
        # pandas writes its row numbers into a column without a name.
        self.names = [name.strip() or f"column_{i}" for i, name in enumerate(first or [], start=1)]

    def rows(self, prefix: str) -> Iterator[Row]:
        number = 0
        while True:
            line = self._blank + self._reader.line_num + 1
            values = self._next()
            if values is None:
                return
            if values == []:
                continue
            number += 1
            yield Row(f"{self._path}:{line}", f"{prefix}{number}", self._checked(values))

    def _next(self) -> list[str] | RefusedError | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            advice = (
                "give format='tsv-unquoted' if quotes mean nothing here" if self._dialect == "tsv" else ""
            )
            advice = advice or "is a quote not closed, or not doubled?"
            return RefusedError("not valid CSV", f"not valid CSV: {error}; {advice}")

    def _checked(self, values: list[str] | RefusedError) -> dict[str, Any] | RefusedError:
        if isinstance(values, RefusedError):
            return values
        if len(values) != len(self.names):
            return RefusedError(
                "wrong number of columns", f"{len(values)} columns, but the head has {len(self.names)}"
            )
        try:
            for value in values:
                check_decoded(value)
        except RefusedError as refused:
            return refused
        return dict(zip(self.names, values, strict=True))


def _lines(stream: io.TextIOWrapper, path: Path) -> Iterator[str]:
    number = 0
    while line := stream.readline(MAX_ROW):
        number += 1
        if len(line) == MAX_ROW and line[-1] not in "\r\n":
            raise DataError(f"{path}:{number}: the line is longer than {MAX_ROW} characters: is it a table?")
        yield line
