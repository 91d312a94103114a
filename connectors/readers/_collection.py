"""The payloads of another collection of Qdrant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from surprise_rerank._documents import Document
from surprise_rerank.connectors.qdrant._location import shown_url
from surprise_rerank.connectors.readers._fields import Fields, Row, documents_of
from surprise_rerank.connectors.readers._source import DocumentSource, OnError, Skipped

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from surprise_rerank.connectors.qdrant._engines.client import ClientEngine

_BATCH = 256


def from_collection(
    where: str | QdrantClient,
    collection: str,
    *,
    fields: Fields | None = None,
    api_key: str | None = None,
    on_error: OnError = "raise",
) -> DocumentSource:
    """The points of a collection as documents; the point's id is theirs where no payload field is one.

    `where` is the url of a server, whose key is in QDRANT_API_KEY by default, or a client, which stays open.
    """

    @contextlib.contextmanager
    def opened() -> Iterator[ClientEngine]:
        from surprise_rerank.connectors.qdrant._engines.connections import connect, existing

        with contextlib.closing(connect(where, api_key)) as connection:
            yield existing(connection, collection)

    def read(skipped: Skipped) -> Iterator[Document]:
        with opened() as engine:
            yield from documents_of(_rows(engine), fields or Fields(), skipped, keyed=True)

    def count() -> int:
        with opened() as engine:
            return engine.count(None)

    origin = f"{shown_url(where) if isinstance(where, str) else ''}#{collection}"
    return DocumentSource(collection, read, on_error=on_error, may_be_empty=False, count=count, origin=origin)


def _rows(engine: ClientEngine) -> Iterator[Row]:
    from surprise_rerank.connectors.qdrant._manifest import is_index
    from surprise_rerank.connectors.qdrant._schema import DOCUMENT_FIELDS, TEXT

    is_own = is_index(engine.metadata())
    for batch in engine.scroll(DOCUMENT_FIELDS if is_own else None, batch=_BATCH):
        for point in batch:
            # In an index of ours, only the first point of a document in passages has the text.
            if not is_own or TEXT in point.payload:
                yield Row(f"{engine.where}, point {point.id}", point.id, point.payload)
