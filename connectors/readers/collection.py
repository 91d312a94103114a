"""The payloads of another collection of Qdrant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surprise_rerank.connectors.progress import Expected
from surprise_rerank.connectors.qdrant.location import Location, RetryPolicy
from surprise_rerank.connectors.readers.fields import Fields, Row, documents_of
from surprise_rerank.connectors.readers.source import DocumentSource, OnError, Refusals
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, StoreError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from surprise_rerank.connectors.qdrant.engines.nodes import Nodes

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

    Args:
        where: the url of a server, or a client, which stays open.
        collection: its name.
        fields: the payload's fields.
        api_key: for the server; the environment variable QDRANT_API_KEY by default.
        on_error: what happens to a payload that is no document.
    """
    is_url = isinstance(where, str) and "://" in where
    if not is_url and not hasattr(where, "scroll"):
        given = repr(where) if isinstance(where, str) else type(where).__name__
        raise DataError(f"collection=... belongs to the url of a Qdrant server or a client, got {given}")

    def read(refusals: Refusals) -> Iterator[Document]:
        with _opened(where, api_key) as nodes:
            yield from documents_of(_rows(nodes, collection), fields or Fields(), refusals, keyed=True)

    def count() -> Expected:
        with _opened(where, api_key) as nodes:
            return Expected(_count(nodes, collection))

    origin = f"{where if isinstance(where, str) else ''}#{collection}"
    return DocumentSource(collection, read, on_error=on_error, may_be_empty=False, count=count, origin=origin)


def _rows(nodes: Nodes, collection: str) -> Iterator[Row]:
    """The points of a collection.

    Raises:
        StoreError: if there is no such collection, or it cannot be read.
    """
    from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
    from surprise_rerank.connectors.qdrant.manifest import is_index
    from surprise_rerank.connectors.qdrant.schema import DOCUMENT_FIELDS, TEXT

    _check_exists(nodes, collection)
    engine = ClientEngine(nodes, collection)
    is_own = is_index(engine.metadata())
    for batch in engine.scroll(DOCUMENT_FIELDS if is_own else None, batch=_BATCH):
        for point in batch:
            # In an index of ours, only the first point of a document in passages has the text.
            if not is_own or TEXT in point.payload:
                yield Row(f"{engine.where}, point {point.id}", point.id, point.payload)


def _count(nodes: Nodes, collection: str) -> int:
    """How many points there are; of an index of ours, how many documents.

    Raises:
        StoreError: if there is no such collection, or it cannot be asked.
    """
    from qdrant_client import models

    from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
    from surprise_rerank.connectors.qdrant.manifest import is_index
    from surprise_rerank.connectors.qdrant.schema import TEXT

    _check_exists(nodes, collection)
    engine = ClientEngine(nodes, collection)
    texts = models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=TEXT))])
    return engine.count(texts if is_index(engine.metadata()) else None)


def _check_exists(nodes: Nodes, collection: str) -> None:
    # No retries: a wrong address is reported at once.
    once = RetryPolicy(attempts=1)
    listed = nodes.call(lambda client: client.get_collections(), nodes.place, reads=True, policy=once)
    names = {found.name for found in listed.collections}
    if collection not in names:
        found = nodes.call(lambda client: client.get_aliases(), nodes.place, reads=True, policy=once)
        names |= {alias.alias_name for alias in found.aliases}
    if collection not in names:
        shown = ", ".join(sorted(names)[:12]) or "none"
        raise StoreError(f"{nodes.place} has no collection {collection!r}; there is {shown}")


@contextmanager
def _opened(where: str | QdrantClient, api_key: str | None) -> Iterator[Nodes]:
    """Where requests go to; closed at the end if it was opened here."""
    from surprise_rerank.connectors.qdrant.engines.nodes import Nodes

    if not isinstance(where, str):
        yield Nodes.given(where, "server", "the Qdrant client")
        return
    nodes = Nodes.of(Location(url=where, api_key=api_key))
    try:
        yield nodes
    finally:
        nodes.close()
