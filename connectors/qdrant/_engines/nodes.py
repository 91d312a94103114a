"""The Qdrant that requests go to: a client in local mode, or the nodes of a server or cluster.

A request goes to the first node that is up, in the order of the addresses. Where that node is away, the next
one takes over in the same request. A node that is away is left alone for some seconds, and then asked again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
import httpx
from qdrant_client import QdrantClient
from qdrant_client import grpc as messages
from qdrant_client.http.exceptions import ApiException

from surprise_rerank._errors import StoreError
from surprise_rerank.connectors.qdrant._engines import retries
from surprise_rerank.connectors.qdrant._location import (
    DEFAULT_RETRIES,
    MEMORY,
    EngineKind,
    Location,
    RetryPolicy,
    shown_url,
    split_url,
)
from surprise_rerank.core._process import PerProcess

T = TypeVar("T")

_log = logging.getLogger(__name__)

# A server compresses its answers for clients that say they read gzip, as both kinds of client do. Vectors are
# as good as random: they take ten times as long then, and are hardly smaller.
_REST_UNCOMPRESSED = {"Accept-Encoding": "identity"}
_GRPC = {
    "grpc.compression_enabled_algorithms_bitset": 1,
    # What is sent before the reader has said that it goes on: the answer to a question in one go.
    "grpc.http2.lookahead_bytes": 8 * 2**20,
    "grpc.http2.max_frame_size": 2**20,
    # gRPC tries a lost connection again by itself; at first after a second, and by default after two minutes.
    "grpc.initial_reconnect_backoff_ms": 200,
    "grpc.max_reconnect_backoff_ms": 2000,
}
# qdrant-client opens a connection for each request to this machine. Compressed answers come in parts, which a
# connection that is kept acknowledges 40 ms late.
_CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=64)

# Seconds that a node may take for a question, where there is another one to ask; the last has its full time.
_HOP = 2.0
_AWAY = 10.0  # seconds that a node is left alone which did not answer
# Seconds that all nodes may take to see a change, and between two looks. Of 149 changes on three nodes, five
# were not there at once on the node that was asked, and took up to 29 ms.
_SETTLED, _SETTLING = 10.0, 0.02
_LOOKS = 5  # until two ports that tell of different collections count as two servers
_HERE = re.compile(r"127\.[\d.]+|::1|(.+\.)?localhost")  # what is sent there stays on this machine


class Node:
    """One address.

    Attributes:
        away_until: a time of the monotonic clock until which another one is asked first.
    """

    def __init__(self, client: QdrantClient, quick: QdrantClient | None = None) -> None:
        self._clients = PerProcess(_NodeClients(client, quick or client))
        self._clients.get()
        self._is_compared = not client.init_options["prefer_grpc"]
        self.away_until = 0.0

    @property
    def client(self) -> QdrantClient:
        """This process' own: a connection that two processes use mixes up their answers."""
        return self._clients.get()[0]

    @property
    def quick(self) -> QdrantClient:
        """This process' own as well."""
        return self._clients.get()[1]

    @property
    def is_up(self) -> bool:
        """Whether it answered when it was asked last, or may be asked again."""
        return time.monotonic() >= self.away_until

    def require_one_server(self) -> None:
        """Refuse an address whose gRPC port is another server's; asked again until there is what tells.

        Raises:
            StoreError: if it is.
        """
        if not self._is_compared:
            self._is_compared = _is_one_server(self.quick)

    def close(self) -> None:
        """Close its connections."""
        if not self._clients.is_open:
            return  # they are the parent's
        for client in {self.client, self.quick}:
            client.close()


class _NodeClients:
    """The clients of a node: those that were given, and the same again in a forked process."""

    def __init__(self, *clients: QdrantClient) -> None:
        self._clients, self._process = clients, os.getpid()

    def __call__(self) -> tuple[QdrantClient, ...]:
        if self._process == os.getpid() or not all(map(is_remote, self._clients)):
            return self._clients
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their owner was told of a key without TLS already
            clients = {client: QdrantClient(**client.init_options) for client in self._clients}
        return tuple(clients[client] for client in self._clients)


def is_remote(client: object) -> bool:
    """Whether a client reaches a server; one in local mode has its points in this process."""
    options = getattr(client, "init_options", {"location": MEMORY})
    return options.get("location") != MEMORY and options.get("path") is None


class Nodes:
    """Where requests go to: at least one node, the preferred one first. Threads may share it.

    Local mode is asked under a lock. The place is for messages.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        kind: EngineKind,
        place: str,
        policy: RetryPolicy = DEFAULT_RETRIES,
        lock: PerProcess[Any] | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self.kind: EngineKind = kind
        self.place = place
        self.policy = policy
        self._lock = PerProcess[contextlib.AbstractContextManager[Any]](contextlib.nullcontext)
        if kind != "server":
            self._lock = lock or PerProcess(threading.RLock)
        self._state = PerProcess(threading.Lock)
        self._changes = 0  # how many go on

    @classmethod
    def of(cls, location: Location) -> Nodes:
        """The nodes of a location with a url; one has answered.

        Raises:
            StoreError: if none can be reached, or it refuses the key.
        """
        hops = len(location.urls) > 1
        reached = [
            Node(_client(location, url, location.timeout), _client(location, url, _HOP) if hops else None)
            for url in location.urls
        ]
        nodes = cls(reached, "server", location.server, location.retries)
        try:
            # One attempt: a wrong address is reported at once.
            once = RetryPolicy(attempts=1)
            nodes.call(lambda client: client.get_collections(), nodes.place, reads=True, policy=once)
        except BaseException:
            nodes.close()
            raise
        return nodes

    def call(
        self,
        request: Callable[[QdrantClient], T],
        where: str,
        *,
        reads: bool = False,
        patient: bool | None = None,
        policy: RetryPolicy | None = None,
    ) -> T:
        """Send a request; again while its fault may pass, as all of them are idempotent; see `retries.call`.

        One that `reads` changes nothing. A patient one may be sent again for as long as
        `RetryPolicy.time_limit`, as changes and what is read for them by default, and not for `search_limit`,
        as questions.
        """
        waits = (not reads or self._changes > 0) if patient is None else patient
        chosen = policy or (self.policy if waits else self.policy.for_questions())
        return retries.call(lambda: self._attempt(request, quickly=reads and not waits), where, chosen)

    def wait_for_all(self, is_seen: Callable[[QdrantClient], bool]) -> None:
        """Wait until every node that is up sees a change.

        A change of a collection's settings may be answered before the node that was asked shows it, and the
        others show it a moment later still. What is read next may come from any of them.

        Args:
            is_seen: asks a node.
        """
        end = time.monotonic() + _SETTLED
        for node in self.nodes:
            with contextlib.suppress(*retries.FAULTS):  # away: it is used when it has caught up
                while node.is_up and not is_seen(node.quick) and time.monotonic() < end:
                    time.sleep(_SETTLING)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Wait as long for reads as for writes inside the block, which is a change."""
        with self._state.get():
            self._changes += 1
        try:
            yield
        finally:
            with self._state.get():
                self._changes -= 1

    def _attempt(self, request: Callable[[QdrantClient], T], *, quickly: bool) -> T:
        """Send a request once: to the first node that is up; `quickly` leaves one that keeps still."""
        order = [node for node in self.nodes if node.is_up] or list(self.nodes)
        for node in order:
            try:
                with self._lock.get():
                    node.require_one_server()
                    answer = request(node.quick if quickly and node is not order[-1] else node.client)
            except (ApiException, grpc.RpcError) as fault:
                if retries.is_away(fault):
                    node.away_until = time.monotonic() + _AWAY
                if node is order[-1] or not (retries.is_away(fault) or retries.is_lost_shard(fault)):
                    raise
                continue
            node.away_until = 0.0
            return answer
        raise AssertionError("there is at least one node")

    def close(self) -> None:
        """Close all connections."""
        for node in self.nodes:
            node.close()


def _client(location: Location, url: str, timeout: float) -> QdrantClient:
    """A client of one address; nothing is sent yet. StoreError if the key or the url cannot be one."""
    try:
        return QdrantClient(
            url=url,
            headers=key_header(location, url),
            timeout=math.ceil(timeout),
            prefer_grpc=location.prefer_grpc,
            grpc_port=location.grpc_port_of(url),
            grpc_options=dict(_GRPC),  # to which the client adds
            check_compatibility=False,
            metadata=dict(_REST_UNCOMPRESSED),
            limits=_CONNECTIONS,
        )
    except UnicodeEncodeError:  # it contains the whole key, as a header
        raise StoreError(
            "the API key holds characters that no key of Qdrant has; check QDRANT_API_KEY"
        ) from None
    except ValueError:  # it can contain a password of the url
        raise StoreError(f"{shown_url(url)!r} is not the url of a Qdrant server") from None


def key_header(location: Location, url: str) -> dict[str, str] | None:
    """The header with the key for one of the location's addresses; None where there is none.

    qdrant-client would warn of a key without TLS in two lines, one of them of source code, for this machine's
    own server, too. A log line is written instead, once for each address that is not of this machine.
    """
    if location.key is None:
        return None
    address = split_url(url)
    if address.scheme == "http" and not _HERE.fullmatch(address.hostname or ""):
        _warn(f"http://{address.netloc.rpartition('@')[2]}")
    return {"api-key": location.key}


@functools.cache
def _warn(address: str) -> None:
    _log.warning("the API key travels to %s without TLS, readable on the way; use https", address)


def _is_one_server(client: QdrantClient) -> bool:
    """Whether REST and gRPC of an address are one server or cluster; False while it has no collection.

    Every node tells its own number, and those of the other nodes, with a collection that both ports list.

    Raises:
        StoreError: if they are two.
    """
    for _ in range(_LOOKS):
        answer = client.grpc_collections.List(messages.ListCollectionsRequest(), timeout=_HOP)
        listed_by_grpc = {collection.name for collection in answer.collections}
        result = client.http.collections_api.get_collections().result
        listed_by_rest = {collection.name for collection in getattr(result, "collections", ())}
        if not listed_by_rest | listed_by_grpc:
            return False
        try:
            for name in listed_by_rest & listed_by_grpc:
                request = messages.CollectionClusterInfoRequest(collection_name=name)
                spread = client.grpc_collections.CollectionClusterInfo(request, timeout=_HOP)
                spread_by_rest = client.http.distributed_api.collection_cluster_info(name)
                if _peers(spread) & _peers(spread_by_rest.result):
                    return True
                break
        except (ApiException, grpc.RpcError) as fault:
            if retries.is_away(fault):
                raise
            if retries.is_forbidden(fault):  # this key may not see it
                return True
        time.sleep(_SETTLING)  # a collection comes or goes
    raise StoreError(
        f"gRPC at port {client.init_options['grpc_port']} is another Qdrant than that of "
        f"{shown_url(client.http.client.host)}; give grpc_port= its own port, or leave gRPC out"
    )


def by_rest(client: QdrantClient) -> QdrantClient:
    """Return a client that reaches the same address by REST: where gRPC goes is not known before it is asked.

    An empty server has nothing to tell it by, so that its first collection is made there.
    """
    if not client.init_options["prefer_grpc"]:
        return client
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return QdrantClient(**{**client.init_options, "prefer_grpc": False})


def _peers(spread: Any) -> set[int]:
    return {spread.peer_id, *(shard.peer_id for shard in spread.remote_shards)}


# Since then a collection remembers how it was made, and so everything else that an index needs is there.
OLDEST = (1, 15, 4)
TURBO_NUMBERS = (1, 19, 0)  # vectors in TurboQuant's numbers

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def server_version(nodes: Nodes) -> tuple[int, ...] | None:
    """The version of a server, of the oldest node that answers; None where a proxy keeps that back."""
    versions, once = [], RetryPolicy(attempts=1)
    for node in nodes.nodes:
        with contextlib.suppress(StoreError):
            numbers = _NUMBERS.match(retries.call(node.quick.info, nodes.place, once).version)
            if numbers is not None:
                versions.append(tuple(map(int, numbers.groups())))
    return min(versions, default=None)


def require_oldest(nodes: Nodes) -> None:
    """Refuse a server that is known to be too old for an index; names both versions."""
    version = server_version(nodes)
    if version is not None and version < OLDEST:
        has, needed = (".".join(map(str, numbers)) for numbers in (version, OLDEST))
        raise StoreError(
            f"{nodes.place} is version {has}, older than {needed}, the first that remembers how a collection "
            "was made; upgrade it"
        )
