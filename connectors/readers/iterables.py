"""Documents from Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, TypeAlias

from surprise_rerank.connectors.readers.fields import Fields, Row, documents_of, id_string
from surprise_rerank.connectors.readers.source import DocumentSource, OnError, RefusedError, Skipped
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError

Item: TypeAlias = Document | Mapping[str, Any] | tuple[object, str]

_KINDS = "a Document, a mapping or an (id, text) pair"


def from_iterable(
    items: Iterable[Item] | Callable[[], Iterable[Item]],
    *,
    name: str = "documents",
    fields: Fields | None = None,
    on_error: OnError = "raise",
) -> DocumentSource:
    """Documents, mappings such as rows of a table, or pairs of id and text.

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
        found = iter(items() if callable(items) else items)
        if any(found is own for own in opened):
            raise DataError(
                "the iterator of documents was read already; give a list, or a function that makes one"
            )
        opened[:] = [found]
        return documents_of(_rows(found, name, skipped), fields or Fields(), skipped)

    count = len(items) if isinstance(items, Sized) else None
    return DocumentSource(name, read, on_error=on_error, count=lambda: count)


def _rows(items: Iterator[Item], name: str, skipped: Skipped) -> Iterator[Row]:
    for n, item in enumerate(items, start=1):
        where = f"{name}, item {n}"
        if isinstance(item, Document | Mapping):
            yield Row(where, str(n), item)
        elif (own := _pair(item)) is not None:
            yield Row(where, str(n), own)
        else:
            detail = f"must be {_KINDS}, got {type(item).__name__}"
            skipped.refuse(where, RefusedError("no document", detail))


def _pair(item: object) -> Document | None:
    """A pair of id and text as a document."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return None
    found, text = id_string(item[0]), item[1]
    return Document(found, text) if found and isinstance(text, str) else None
