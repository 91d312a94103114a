"""From rows and objects to documents: which columns are id, title and text, and which are metadata."""

from __future__ import annotations

import datetime
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import DataError
from surprise_rerank.connectors.readers._source import DocumentSource, OnError, RefusedError, Skipped
from surprise_rerank.core._json_values import id_string

# Compared without case; the first one that exists is used.
ID_NAMES = ("_id", "id", "doc_id", "docid", "document_id", "docno", "pid", "passage_id", "uuid")
TEXT_NAMES = ("text", "contents", "content", "body", "passage", "page_content", "document")
TITLE_NAMES = ("title", "headline", "heading")
METADATA_NAMES = ("metadata", "meta")

_SHOWN_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Fields:
    """Which columns make a document; None finds the column by its name."""

    # A column; `content` for a hash of title and text; `row` for the row's number in its file, from 1 (of a
    # JSONL file the line's), unless there is a column of that name.
    id: str | None = None
    title: str | None = None
    text: str | None = None  # a column, or several with commas between: `question,answer`
    metadata: Sequence[str] | None = None  # the columns that become metadata; by default all the others

    def __post_init__(self) -> None:
        border.fields(self, metadata=border.or_none(border.texts))

    def optional(self) -> set[str]:
        """The columns that were named and that a row may lack."""
        return {*([self.title] if self.title else []), *(self.metadata or ())}


class NoColumnError(RefusedError):
    """No column is the id, or the text, or of a name that was given."""


class Columns(NamedTuple):
    """The columns that were found."""

    id: str | None  # where it is None, `made_id` says what ids are made of
    made_id: str  # `content` or `row`
    texts: Sequence[str]
    title: str | None  # None to look for it in every row
    metadata: frozenset[str] | None  # None for all the others

    @classmethod
    def find(cls, fields: Fields, names: Iterable[str], *, keyed: bool = False) -> Columns:
        """Find the columns among those of a row; `keyed` rows have ids where no column is one."""
        columns = list(names)
        made_id, id_column = "row" if keyed else "", None
        if fields.id in ("content", "row") and fields.id not in columns:
            made_id = fields.id
        elif not keyed or fields.id is not None or _match(ID_NAMES, columns):
            advice = "name it (--id-field NAME), or take a hash of title and text (--id-field content)"
            id_column = _find("id", fields.id, ID_NAMES, columns, advice)
        texts = [fields.text]
        if fields.text is not None and fields.text not in columns:
            texts = [name.strip() for name in fields.text.split(",")]
        advice = "name it (--text-field NAME)"
        text_columns = [_find("text", name, TEXT_NAMES, columns, advice) for name in texts]
        chosen = None if fields.metadata is None else frozenset(fields.metadata)
        return cls(id_column, made_id, text_columns, fields.title, chosen)

    @classmethod
    def of_table(cls, fields: Fields, names: Sequence[str], where: object, *, keyed: bool) -> Columns:
        """Find the columns of a table that names all of them in its head."""
        try:
            columns = cls.find(fields, names, keyed=keyed)
            for name in sorted(fields.optional()):
                _find("title or metadata", name, (), names, "")
        except NoColumnError as refused:
            raise refused.at(where) from None
        twice = min((name for name, count in Counter(names).items() if count > 1), default=None)
        if twice is not None:
            raise RefusedError("damaged", f"the column {twice!r} occurs twice; rename one", where=where)
        return columns


class Row(NamedTuple):
    """A row: its file and line for messages, its number or key, and its values."""

    where: str
    number: str
    values: Mapping[str, Any] | Document


def documents_of(
    rows: Iterable[Row],
    fields: Fields,
    skipped: Skipped,
    *,
    columns: Columns | None = None,
    keyed: bool = False,
) -> Iterator[Document]:
    """The documents that rows are, which are read once.

    Columns are those of a table's head, or else the first row with an id and a text decides. Of `keyed` rows
    the number is an id.
    """
    unmatched: NoColumnError | None = None
    unseen = set() if columns else fields.optional()
    for row in rows:
        try:
            if isinstance(row.values, Document):
                document = row.values
            else:
                columns = columns or Columns.find(fields, row.values, keyed=keyed)
                document = _document(row.values, columns, row.number)
                unseen -= row.values.keys() if unseen else set()
        except RefusedError as refused:
            if isinstance(refused, NoColumnError):
                unmatched = unmatched or refused.at(row.where)
            skipped.refuse(row.where, refused, _id_in(row.values, columns))
            continue
        skipped.place = row.where
        yield document
    if columns is None and unmatched is not None:
        raise unmatched
    if columns is not None and unseen:
        detail = f"no row has the column {min(unseen)!r}, which Fields names; check its spelling"
        raise RefusedError("no such column", detail)


def _document(row: Mapping[str, Any], columns: Columns, number: str) -> Document:
    title_column = columns.title or _match(TITLE_NAMES, row)
    title = _text(row, [title_column], "title") if title_column else ""
    text = _text(row, columns.texts, "text")
    if text is None:
        missing = f"`{'`, `'.join(columns.texts)}` is missing or null; there is {shown(row)}"
        raise RefusedError("no text", missing)
    name = number if columns.id is None else _id(row, columns.id)
    taken = {columns.id, *columns.texts, title_column}
    try:
        metadata = _metadata(row, taken, columns.metadata)
    except RecursionError as error:
        raise RefusedError("nested too deeply", "the metadata is nested too deeply") from error
    document = Document(id=name, text=text, title=title or "", metadata=metadata)
    if columns.id is None and columns.made_id == "content":
        return replace(document, id=document.content_hash)
    return document


def json_value(value: Any, name: str) -> Any:
    """A value as JSON: dates become ISO 8601, what is no finite number null, durations seconds.

    >>> import datetime
    >>> json_value({"read": datetime.date(2024, 5, 1), "score": float("nan")}, "row")
    {'read': '2024-05-01', 'score': None}

    A RefusedError that names the column, if JSON has nothing like it, bytes for example.
    """
    # pandas' NA compares with nothing, its NaT is a date, and Decimal has a NaN.
    if (
        value is None
        or type(value).__name__ == "NAType"
        or (not hasattr(value, "__len__") and value != value)
    ):
        return None
    match value:
        case str() | PurePath() | uuid.UUID() | Decimal() | np.datetime64():  # in nanoseconds, too
            return encodable(str(value))
        case bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {encodable(str(key)): json_value(item, f"{name}.{key}") for key, item in value.items()}
        case list() | tuple():
            return [json_value(item, name) for item in value]
        case np.ndarray() | np.generic():
            return json_value(value.tolist(), name)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return value.total_seconds()
    kind = type(value).__name__
    advice = "leave the column out, or name those to keep with Fields(metadata=[...])"
    raise RefusedError(f"{kind} in `{name}`", f"`{name}` holds {kind}, which JSON cannot; {advice}")


def shown(names: Iterable[object]) -> str:
    """The columns, for a message."""
    listed = [str(name) for name in names]
    more = ", ..." if len(listed) > _SHOWN_COLUMNS else ""
    return f"{', '.join(listed[:_SHOWN_COLUMNS])}{more}" or "nothing"


def _find(what: str, wanted: str | None, usual: Sequence[str], columns: Sequence[str], advice: str) -> str:
    """The column that was asked for, or the first usual one."""
    if wanted is not None and wanted in columns:
        return wanted
    column_name = _match(usual, columns) if wanted is None else None
    if column_name is None:
        column = "" if wanted is None else f" {wanted!r}"
        looked = f"; looked for {', '.join(usual)}; {advice}" if wanted is None else ""
        detail = f"no column{column} for the {what} among {shown(columns)}{looked}"
        # Such a table is none of documents.
        raise NoColumnError(f"no column for the {what}", detail, is_gone=True)
    return column_name


def _match(usual: Sequence[str], columns: Iterable[object]) -> str | None:
    """The first of the usual names that is there, as it is written there."""
    written: dict[str, str] = {}
    for name in columns:
        if isinstance(name, str):
            written.setdefault(name.strip().lower(), name)
    return next((written[name] for name in usual if name in written), None)


def _text(row: Mapping[str, Any], names: Sequence[str], what: str) -> str | None:
    """The texts of columns, apart; None where all of them are missing or null."""
    values = {name: row[name] for name in names if row.get(name) is not None}
    parts: list[str] = []
    for name, value in values.items():
        strings = value if what == "text" and isinstance(value, list | tuple) else [value]
        for part in strings:
            if not isinstance(part, str):
                detail = f"`{name}` must be a string, got {type(value).__name__}"
                raise RefusedError(f"{what} is not a string", detail)
        parts += strings
    return "\n\n".join(parts) if values else None


def _id_in(values: Mapping[str, Any] | Document, columns: Columns | None) -> str | None:
    """The id of a row that is no document; None where nobody can tell it."""
    if columns is None or columns.id is None or isinstance(values, Document):
        return None
    return id_string(values.get(columns.id))


def _id(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    name = id_string(value)
    if not name:
        reason = "no id" if value in (None, "") else "id is not a string"
        expected = f"`{column}` must be a string or an integer, got {value!r:.40}; there is {shown(row)}"
        raise RefusedError(reason, expected)
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


# What `from_iterable` takes.
Item: TypeAlias = Document | Mapping[str, Any] | tuple[object, str]

_KINDS = "a Document, a mapping or an (id, text) pair"


def from_iterable(
    items: Iterable[Item] | Callable[[], Iterable[Item]],
    *,
    name: str = "documents",
    fields: Fields | None = None,
    on_error: OnError = "raise",
) -> DocumentSource:
    """Open an iterable of documents, mappings such as rows of a table, or pairs of id and text.

    >>> source = from_iterable([{"id": 7, "text": "Dogs bark.", "year": 2024}, ("8", "Cats purr.")])
    >>> [(document.id, document.text, document.metadata) for document in source]
    [('7', 'Dogs bark.', {'year': 2024}), ('8', 'Cats purr.', {})]

    Items can be iterated again, or are a function that gives an iterator; a generator can be read once.
    `fields` are the columns of mappings.
    """
    if not callable(items) and (isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable)):
        raise DataError(f"documents must come as an iterable of {_KINDS} each, got {type(items).__name__}")
    opened: list[Iterator[Item]] = []

    def read(skipped: Skipped) -> Iterator[Document]:
        stream = iter(items() if callable(items) else items)
        if any(stream is earlier for earlier in opened):
            raise DataError(
                "the iterator of documents was read already; give a list, or a function that makes one"
            )
        opened[:] = [stream]
        return documents_of(_rows(stream, name, skipped), fields or Fields(), skipped)

    count = len(items) if isinstance(items, Sized) else None
    return DocumentSource(name, read, on_error=on_error, count=lambda: count)


def _rows(items: Iterator[Item], name: str, skipped: Skipped) -> Iterator[Row]:
    for n, item in enumerate(items, start=1):
        where = f"{name}, item {n}"
        match item:
            case Document() | Mapping():
                yield Row(where, str(n), item)
            case (key, str() as text) if not isinstance(item, str) and (pair_id := id_string(key)):
                yield Row(where, str(n), Document(pair_id, text))
            case _:
                detail = f"must be {_KINDS}, got {type(item).__name__}"
                skipped.refuse(where, RefusedError("no document", detail))
