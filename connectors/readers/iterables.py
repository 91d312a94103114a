"""Documents from Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, TypeAlias

from surprise_rerank.connectors.readers.fields import Fields, Row, documents_of, id_string
from surprise_rerank.connectors.readers.source import DocumentSource, OnError, Refusals, RefusedError
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError

Item: TypeAlias = Document | Mapping[str, Any] | tuple[object, str]


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

    Args:
        items: what can be iterated again, or a function that gives an iterator. A generator can be read once.
        name: of the source.
        fields: the columns of mappings.
        on_error: what happens to something that is no document.

    Raises:
        DataError: if the items cannot be iterated.
    """
    if not callable(items) and (isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable)):
        raise DataError(
            f"documents must come as an iterable of Documents, mappings or (id, text) pairs,"
            f" got {type(items).__name__}"
        )
    opener = _Opener(items)

    def read(refusals: Refusals) -> Iterator[Document]:
        return documents_of(_rows(opener.open(), name), fields or Fields(), refusals)

    sized: Any = items if isinstance(items, Sized) else None
    count = None if sized is None else lambda: len(sized)
    return DocumentSource(name, read, on_error=on_error, count=count)


class _Opener:
    """Gives iterators; an iterator itself only once."""

    def __init__(self, items: Iterable[Item] | Callable[[], Iterable[Item]]) -> None:
        self._items = items
        self._is_spent = False

    def open(self) -> Iterator[Item]:
        if callable(self._items):
            return iter(self._items())
        found = iter(self._items)
        if found is self._items:
            if self._is_spent:
                raise DataError(
                    "the iterator of documents was read already; give a list, or a function that makes one"
                )
            self._is_spent = True
        return found


def _rows(items: Iterator[Item], name: str) -> Iterator[Row]:
    for number, item in enumerate(items, start=1):
        yield Row(f"{name}, item {number}", str(number), _values(item))


def _values(item: object) -> Mapping[str, Any] | Document | RefusedError:
    if isinstance(item, Document | Mapping):
        return item
    if isinstance(item, tuple | list) and len(item) == 2:
        found, text = id_string(item[0]), item[1]
        if found and isinstance(text, str):
            return Document(found, text)
    return RefusedError(
        "no document", f"must be a Document, a mapping or an (id, text) pair, got {type(item).__name__}"
    )
