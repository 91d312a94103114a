"""JSON Lines: one object a line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.readers.fields import Columns, Fields, Row, documents_of
from surprise_rerank.connectors.readers.source import Refusals, RefusedError
from surprise_rerank.connectors.readers.text_streams import MAX_ROW, check_decoded, open_text
from surprise_rerank.documents import Document


def read_jsonl(
    path: Path,
    fields: Fields,
    refusals: Refusals,
    prefix: str = "",
    encoding: str | None = None,
    columns: Columns | None = None,
) -> Iterator[Document]:
    """The documents of a JSONL file, in its order; blank lines are skipped.

    Args:
        path: a file, compressed if its name ends in `.gz`.
        fields: the columns that were named.
        refusals: what happens to malformed rows.
        prefix: comes before the numbers of rows, if those are ids.
        encoding: of a file that has no byte order mark and does not begin in UTF-8; never guessed.
        columns: the columns, where they are known; else the first line with an id and a text decides.

    Raises:
        DataError: if a line is no document, unless such lines are skipped.
        DatasetError: if the file cannot be read.
    """
    with open_text(path, newline="\n", encoding=encoding or "utf-8", place=refusals.place) as stream:
        yield from documents_of(_rows(stream, path, prefix), fields, refusals, columns=columns)


def _rows(stream: io.TextIOWrapper, path: Path, prefix: str) -> Iterator[Row]:
    number = 0
    while line := stream.readline(MAX_ROW):
        number += 1
        values: dict[str, Any] | RefusedError
        if len(line) == MAX_ROW and not line.endswith("\n"):
            while (rest := stream.readline(MAX_ROW)) and not rest.endswith("\n"):
                continue
            values = RefusedError("too long", f"the line is longer than {MAX_ROW} characters: is it JSONL?")
        elif not line.strip():
            continue
        else:
            try:
                values = _parse(line)
            except RefusedError as refused:
                values = refused
        yield Row(f"{path}:{number}", f"{prefix}{number}", values)


def _parse(line: str) -> dict[str, Any]:
    check_decoded(line)
    try:
        # Not strict: control characters inside strings are bad JSON, but they do no harm and they do occur.
        record = json.loads(line, strict=False)
    except json.JSONDecodeError as error:
        raise RefusedError(
            "not valid JSON", f"not valid JSON: {error.msg} at column {error.colno}"
        ) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, deep nesting
        raise RefusedError("not valid JSON", f"not valid JSON: {error}") from error
    if not isinstance(record, dict):
        raise RefusedError("not an object", f"must be a JSON object, got {_shown(record)}")
    return record


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
