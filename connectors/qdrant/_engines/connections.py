"""The client that a foreign collection is reached by: a url, a client of the user's, or a host's store."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from qdrant_client import AsyncQdrantClient, QdrantClient

from surprise_rerank._errors import DataError, StoreError, did_you_mean
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._engines.nodes import Node, Nodes
from surprise_rerank.connectors.qdrant._location import MEMORY, Location, shown_url
from surprise_rerank.core._process import PerProcess

Reached: TypeAlias = str | Sequence[str] | Location | QdrantClient | AsyncQdrantClient

_locks: weakref.WeakKeyDictionary[object, PerProcess[Any]] = weakref.WeakKeyDictionary()
_making = PerProcess(threading.Lock)
_SERVER = "the Qdrant server"


@dataclass(frozen=True, slots=True)
class Connection:
    """A Qdrant that is reached."""

    nodes: Nodes  # where requests go to
    place: str  # where it is, as a name for folders
    owned: bool  # whether it is closed with the collection

    def engine(self, collection: str) -> ClientEngine:
        """A collection of it, whether it exists or not."""
        return ClientEngine(self.nodes, collection, advice="attach it again")

    def close(self) -> None:
        """Close the connection, if it was opened here."""
        if self.owned:
            self.nodes.close()


def connect(where: Reached, api_key: str | None = None) -> Connection:
    """Reach a Qdrant.

    Args:
        where: the url of a server, or those of a cluster's nodes, a `Location`, or a client, sync or async,
            which stays open.
        api_key: for a url; the environment variable QDRANT_API_KEY by default.

    Raises:
        StoreError: if it cannot be reached.
        DataError: if it is none of these.
    """
    if isinstance(where, str | list | tuple):
        where = Location(url=where, api_key=api_key)
    if isinstance(where, Location):
        # Of several nodes the same whichever is the preferred one.
        place = ",".join(sorted(map(shown_url, where.urls)))
        return Connection(Nodes.of(where), place, True)
    if not isinstance(where, QdrantClient | AsyncQdrantClient):
        raise DataError(
            f"expected the url of a Qdrant server, a QdrantClient or an AsyncQdrantClient, got "
            f"{type(where).__name__}; for a vector store of a framework use SurpriseRerank.attach(store)"
        )
    options = where.init_options
    is_local = options.get("location") == MEMORY or options.get("path") is not None
    if isinstance(where, QdrantClient) and is_local:
        with _making.get():  # one lock for all that ask it: local mode is for one thread at a time
            lock = _locks.setdefault(where, PerProcess(threading.RLock))
        nodes = Nodes([Node(where)], "local", "the local Qdrant", lock=lock)
        return Connection(nodes, place_of(options), False)
    if isinstance(where, QdrantClient):
        return Connection(Nodes([Node(where)], "server", _SERVER), place_of(options), False)
    if is_local:
        raise DataError("an AsyncQdrantClient in this process belongs to its event loop; give a QdrantClient")
    # A sync client of the same: ours may be asked in any thread, with or without an event loop.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its owner was told already that a key travels without TLS
        client = QdrantClient(**options)
    return Connection(Nodes([Node(client)], "server", _SERVER), place_of(options), True)


def existing(connection: Connection, collection: str) -> ClientEngine:
    """A collection that exists, or an alias of one.

    Raises:
        StoreError: if it does not exist; lists those that do.
    """
    engine = connection.engine(collection)
    if engine.exists():
        return engine
    server = connection.nodes.place
    listed = connection.nodes.call(lambda client: client.get_collections(), server, reads=True)
    names = sorted(listing.name for listing in listed.collections)
    shown = ", ".join(names[:12]) or "none"
    hint = did_you_mean(collection, names)
    raise StoreError(f"{server} has no collection {collection!r}; {hint}there is {shown}")


def place_of(options: Mapping[str, Any]) -> str:
    """Return the address that a client was made with, without a password."""
    places = (options.get(name) for name in ("url", "path", "location", "host"))
    place = next((str(place) for place in places if place is not None), "localhost")
    return shown_url(place if options.get("host") is None else f"{place}:{options.get('port', 6333)}")
