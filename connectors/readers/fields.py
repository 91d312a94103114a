"""From rows to documents: which columns are id, title and text, and how the others become metadata."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Literal, TypeAlias

import numpy as np

from surprise_rerank.connectors.readers.source import Refusals, RefusedError
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError

IdFrom: TypeAlias = Literal["column", "content", "row"]

# Compared without case; the first one that exists is used.
ID_NAMES = ("_id", "id", "doc_id", "docid", "document_id", "docno", "pid", "passage_id", "uuid")
TEXT_NAMES = ("text", "contents", "content", "body", "passage", "page_content", "document")
TITLE_NAMES = ("title", "headline", "heading")
METADATA_NAMES = ("metadata", "meta")

_SHOWN_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Fields:
    """Which columns make a document; None finds the column by its name.

    Attributes:
        id: a column; `content` for a hash of title and text; `row` for the row's number in its file, from 1
            (of a JSONL file the line's), unless there is a column `row`.
        title: a column.
        text: a column.
        metadata: the columns that become metadata; by default all the others.
    """

    id: str | None = None
    title: str | None = None
    text: str | None = None
    metadata: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.metadata, str):
            raise DataError(f"Fields.metadata must be a list of columns, got {self.metadata!r}")

    @property
    def optional(self) -> frozenset[str]:
        """The columns that were named, and that a row may nevertheless lack."""
        return frozenset([*([self.title] if self.title else []), *(self.metadata or ())])


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that were found.

    Attributes:
        id_from: where ids come from.
        id: the column of the id, None where it comes from elsewhere.
        text: the column of the text.
        title: the column of the title, None to look for it in every row.
        metadata: the columns that become metadata, None for all the others.
    """

    id_from: IdFrom
    id: str | None
    text: str
    title: str | None
    metadata: frozenset[str] | None

    @classmethod
    def find(cls, fields: Fields, names: Iterable[str], *, keyed: bool = False) -> Columns:
        """Find the columns among those of a row.

        Args:
            fields: the names that were given.
            names: the columns that there are.
            keyed: rows have ids of their own, which count where no column is one.

        Raises:
            RefusedError: if the id or the text cannot be found; lists the columns and what to do.
        """
        known = list(names)
        id_from, id_column = _find_id(fields.id, known, keyed)
        text = _find("text", fields.text, TEXT_NAMES, known)
        if text is None:
            raise RefusedError(
                "no text",
                f"no column for the text among {shown(known)}; looked for {', '.join(TEXT_NAMES)};"
                " name it with Fields(text=...)",
            )
        chosen = None if fields.metadata is None else frozenset(fields.metadata)
        return cls(id_from, id_column, text, fields.title, chosen)

    @classmethod
    def of_table(cls, fields: Fields, names: Sequence[str], where: object) -> Columns:
        """Find the columns of a table that names all of them in its head.

        Args:
            fields: the names that were given.
            names: the head.
            where: the table, for messages.

        Raises:
            DataError: if the id, the text or a column that was named is missing, or a name occurs twice.
        """
        try:
            columns = cls.find(fields, names)
        except RefusedError as refused:
            raise DataError(f"{where}: {refused.detail}") from refused
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"{where}: the column {twice[0]!r} occurs twice; rename one")
        for name in [*([columns.title] if columns.title else []), *sorted(columns.metadata or ())]:
            if name not in names:
                raise DataError(f"{where}: no column {name!r} among {shown(names)}")
        return columns

    def used(self, names: Sequence[str]) -> list[str]:
        """The columns that have to be read."""
        if self.metadata is None:
            return list(names)
        title = self.title or _match(TITLE_NAMES, names)
        return [name for name in names if name in {self.id, self.text, title, *self.metadata}]


@dataclass(frozen=True, slots=True)
class Row:
    """A row and its place.

    Attributes:
        where: file and line, for messages.
        number: its number in the file or its key in the store.
        values: column -> value; or a document as it is; or why there is neither.
    """

    where: str
    number: str
    values: Mapping[str, Any] | Document | RefusedError


def documents_of(
    rows: Iterable[Row],
    fields: Fields,
    refusals: Refusals,
    *,
    columns: Columns | None = None,
    keyed: bool = False,
) -> Iterator[Document]:
    """The documents that rows are.

    Args:
        rows: read once.
        fields: the columns that were named.
        refusals: what happens to malformed rows.
        columns: the columns, where there is a table's head; else the first row with an id and a text decides.
        keyed: a row's number is an id.

    Raises:
        DataError: if a row is malformed (unless such rows are skipped); if no row has an id and a text, or
            one of the columns that were named.
    """
    unmatched: DataError | None = None
    unseen = fields.optional if columns is None else frozenset[str]()
    for row in rows:
        try:
            if isinstance(row.values, Document):
                document = row.values
            elif isinstance(row.values, RefusedError):
                raise row.values
            else:
                if columns is None:
                    columns = Columns.find(fields, row.values, keyed=keyed)
                document = document_of(row.values, columns, row.number)
                unseen = unseen.difference(row.values) if unseen else unseen
        except RefusedError as refused:
            if columns is None and unmatched is None and not isinstance(row.values, RefusedError):
                unmatched = DataError(f"{row.where}: {refused.detail}")
            refusals.refuse(row.where, refused)
            continue
        yield document
    if columns is None and unmatched is not None:
        raise unmatched
    if columns is not None and unseen:
        raise DataError(f"no row has the column {min(unseen)!r}, which Fields names; check its spelling")


def document_of(row: Mapping[str, Any], columns: Columns, number: str) -> Document:
    """The document that a row is.

    Args:
        row: column -> value.
        columns: which is which.
        number: the row's number or key.

    Raises:
        RefusedError: if the row is no document.
    """
    text = row.get(columns.text)
    if text is None:
        raise RefusedError("no text", f"`{columns.text}` is missing or null; there is {shown(row)}")
    if not isinstance(text, str):
        raise RefusedError("text is not a string", f"`{columns.text}` must be a string, got {_kind(text)}")
    title_column = columns.title or _match(TITLE_NAMES, row)
    title = row.get(title_column) if title_column is not None else None
    if not isinstance(title, str | None):
        raise RefusedError("title is not a string", f"`{title_column}` must be a string, got {_kind(title)}")
    name = number if columns.id_from == "row" else _id(row, columns)
    try:
        metadata = _metadata(row, {columns.id, columns.text, title_column}, columns.metadata)
    except RecursionError as error:
        raise RefusedError("nested too deeply", "the metadata is nested too deeply") from error
    document = Document(id=name, text=text, title=title or "", metadata=metadata)
    return replace(document, id=document.content_hash) if columns.id_from == "content" else document


def json_value(value: Any, name: str) -> Any:
    """A value as JSON: dates become ISO 8601, what is no finite number null, durations seconds.

    >>> import datetime
    >>> json_value({"read": datetime.date(2024, 5, 1), "score": float("nan")}, "row")
    {'read': '2024-05-01', 'score': None}

    Args:
        value: anything.
        name: its column, for the error.

    Raises:
        RefusedError: if JSON has nothing like it, bytes for example; names the column.
        RecursionError: if it is nested too deeply.
    """
    if isinstance(value, str):
        return encodable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {encodable(str(key)): json_value(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item, name) for item in value]
    return _json_of_object(value, name)


def id_string(value: object) -> str | None:
    """An id as a string: strings, integers and UUIDs; None for everything else."""
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, str | int | np.integer | uuid.UUID) else None


def shown(names: Iterable[object]) -> str:
    """The columns, for a message."""
    listed = [str(name) for name in names]
    more = ", ..." if len(listed) > _SHOWN_COLUMNS else ""
    return f"{', '.join(listed[:_SHOWN_COLUMNS])}{more}" or "nothing"


def _json_of_object(value: Any, name: str) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raise RefusedError(
            f"bytes in `{name}`",
            f"`{name}` holds bytes, which JSON cannot; list the columns to keep with Fields(metadata=[...])",
        )
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist(), name)
    # pandas' NA compares with nothing, its NaT is a date, and Decimal has a NaN.
    if type(value).__name__ == "NAType" or value != value:
        return None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | uuid.UUID | PurePath):
        return encodable(str(value))
    raise RefusedError(f"no JSON in `{name}`", f"`{name}` holds {_kind(value)}, which JSON cannot")


def _find_id(asked: str | None, known: Sequence[str], keyed: bool) -> tuple[IdFrom, str | None]:
    if asked == "content":
        return "content", None
    if asked == "row" and "row" not in known:
        return "row", None
    found = _find("id", asked, ID_NAMES, known)
    if found is not None:
        return "column", found
    if keyed:
        return "row", None
    raise RefusedError(
        "no id",
        f"no column for the id among {shown(known)}; looked for {', '.join(ID_NAMES)}; name it with"
        " Fields(id=...), or take a hash of title and text with Fields(id='content')",
    )


def _find(what: str, asked: str | None, usual: Sequence[str], known: Sequence[str]) -> str | None:
    if asked is None:
        return _match(usual, known)
    if asked not in known:
        raise RefusedError(f"no {what}", f"no column {asked!r} for the {what} among {shown(known)}")
    return asked


def _match(usual: Sequence[str], known: Iterable[object]) -> str | None:
    """The first of the usual names that is there, as it is written there."""
    written: dict[str, str] = {}
    for name in known:
        if isinstance(name, str):
            written.setdefault(name.strip().lower(), name)
    return next((written[name] for name in usual if name in written), None)


def _id(row: Mapping[str, Any], columns: Columns) -> str:
    if columns.id is None:
        return "content"  # replaced by the hash when the document is there
    value = row.get(columns.id)
    if value is None or value == "":
        raise RefusedError("no id", f"`{columns.id}` is missing, null or empty; there is {shown(row)}")
    name = id_string(value)
    if name is None:
        raise RefusedError(
            "id is not a string", f"`{columns.id}` must be a string or an integer, got {_kind(value)}"
        )
    return name


def _metadata(
    row: Mapping[str, Any], taken: set[str | None], chosen: frozenset[str] | None
) -> dict[str, Any]:
    """The other columns; keys of an object in `metadata` are moved up, unless a column has the same name."""
    values = {
        encodable(str(key)): json_value(value, str(key))
        for key, value in row.items()
        if key not in taken and (chosen is None or key in chosen)
    }
    for name in METADATA_NAMES:
        if isinstance(values.get(name), dict):
            inner = values.pop(name)
            clashing = {key: value for key, value in inner.items() if key in values}
            values = {**inner, **values, **({name: clashing} if clashing else {})}
    return values


def _kind(value: object) -> str:
    return "null" if value is None else f"a value of type {type(value).__name__}"
