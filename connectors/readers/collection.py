"""The payloads of another collection of Qdrant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from surprise_rerank.connectors.qdrant.location import Location, RetryPolicy
from surprise_rerank.connectors.readers.fields import Fields, Row, documents_of
from surprise_rerank.connectors.readers.source import DocumentSource, OnError, Refusals
from surprise_rerank.documents import Document
from surprise_rerank.errors import StoreError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_BATCH = 256
_OWN_METADATA = {"fingerprint", "schema"}  # what a collection of `DocumentIndex` says of itself


def from_collection(
    where: str | QdrantClient,
    collection: str,
    *,
    fields: Fields | None = None,
    api_key: str | None = None,
    on_error: OnError = "raise",
) -> DocumentSource:
    """The points of a collection as documents; the point's id is theirs where no payload field is one.

    Args:
        where: the url of a server, or a client, which stays open.
        collection: its name.
        fields: the payload's fields.
        api_key: for the server; the environment variable QDRANT_API_KEY by default.
        on_error: what happens to a payload that is no document.
    """

    def read(refusals: Refusals) -> Iterator[Document]:
        with _opened(where, api_key) as (client, place):
            reader = _Reader(client, collection, place)
            yield from documents_of(reader.rows(), fields or Fields(), refusals, keyed=True)

    return DocumentSource(collection, read, on_error=on_error, may_be_empty=False)


class _Reader:
    """Scrolls through a collection."""

    def __init__(self, client: QdrantClient, collection: str, place: str) -> None:
        self._client = client
        self._collection = collection
        self._where = f"{place}, collection {collection!r}"
        self._check_exists(place)

    def rows(self) -> Iterator[Row]:
        from qdrant_client import models

        from surprise_rerank.connectors.qdrant.engines.retries import call
        from surprise_rerank.connectors.qdrant.schema import DOCUMENT_FIELDS, TEXT

        info = call(lambda: self._client.get_collection(self._collection), self._where)
        is_own = set(getattr(info.config, "metadata", None) or {}) >= _OWN_METADATA
        payload = models.PayloadSelectorInclude(include=list(DOCUMENT_FIELDS)) if is_own else True
        offset: Any = None
        while True:
            start = offset
            points, offset = call(
                lambda start=start: self._client.scroll(  # type: ignore[misc]
                    self._collection, limit=_BATCH, offset=start, with_payload=payload, with_vectors=False
                ),
                self._where,
            )
            for point in points:
                if is_own and TEXT not in (point.payload or {}):
                    continue  # a later passage of a document whose first point holds the text
                yield Row(f"{self._where}, point {point.id}", str(point.id), point.payload or {})
            if offset is None:
                return

    def _check_exists(self, place: str) -> None:
        from surprise_rerank.connectors.qdrant.engines.retries import call

        # No retries: a wrong address is reported at once.
        listed = call(self._client.get_collections, place, RetryPolicy(attempts=1))
        names = {found.name for found in listed.collections}
        if self._collection not in names:
            aliases = call(self._client.get_aliases, place, RetryPolicy(attempts=1)).aliases
            names |= {alias.alias_name for alias in aliases}
        if self._collection not in names:
            shown = ", ".join(sorted(names)[:12]) or "none"
            raise StoreError(f"{place} has no collection {self._collection!r}; there is {shown}")


@contextmanager
def _opened(where: str | QdrantClient, api_key: str | None) -> Iterator[tuple[QdrantClient, str]]:
    """A client, closed at the end if it was made here, and the place for messages."""
    from surprise_rerank.connectors.qdrant.engines.client import open_server

    if not isinstance(where, str):
        yield where, "the Qdrant client"
        return
    location = Location(url=where, api_key=api_key)
    client = open_server(location)
    try:
        yield client, location.server
    finally:
        client.close()
