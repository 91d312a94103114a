"""From rows to documents, whatever the rows come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from surprise_rerank.connectors.readers.fields import Columns, Fields, document_of
from surprise_rerank.connectors.readers.source import Refusals, RefusedError
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError


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
