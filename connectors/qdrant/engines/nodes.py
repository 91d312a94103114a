"""The Qdrant that requests go to: a client in local mode, or the nodes of a server or cluster.

A request goes to the first node that is up, in the order of the addresses. Where that node is away, the next
one takes over in the same request. A node that is away is looked after in the background, and used again when
it is back. So one question is late when a node dies, and none when it returns.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
import httpx
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException

from surprise_rerank.connectors.qdrant.engines import retries
from surprise_rerank.connectors.qdrant.location import (
    DEFAULT_RETRIES,
    EngineKind,
    Location,
    RetryPolicy,
    shown_url,
    split_url,
)
from surprise_rerank.errors import StoreError

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

# Seconds that a node may take for a read before it is asked whether it is up, where there is another.
_HOP = 2.0
# Seconds that all nodes may take to see a change, and between two looks. Of 149 changes on three nodes, five
# were not there at once on the node that was asked, and took up to 29 ms.
_SETTLED, _SETTLING = 10.0, 0.02
_HERE = re.compile(r"127\.[\d.]+|::1|(.+\.)?localhost")  # what is sent there stays on this machine
_FIRST_LOOK, _LONGEST_LOOK = 0.5, 5.0  # seconds between two looks at a node that is away


class Node:
    """One address.

    Attributes:
        url: of it; empty of a client that was given.
        client: waits as long as the location says.
        is_up: whether it answered, when it was asked last.
        is_looked_after: whether a thread waits until it is back.
    """

    def __init__(self, client: QdrantClient, url: str = "", location: Location | None = None) -> None:
        self.url = url
        self.client = client
        self.is_up = True
        self.is_looked_after = False
        self._location = location

    @functools.cached_property
    def quick(self) -> QdrantClient:
        """A client of the same that waits for `_HOP` seconds at most."""
        return self.client if self._location is None else _client(self._location, self.url, _HOP)

    def is_ready(self) -> bool:
        """Whether it answers now, and has caught up with its cluster."""
        try:
            if self.quick.init_options["prefer_grpc"]:
                self.quick.info()
                return True
            # A server that is not ready yet answers 503; a proxy that passes on nothing but requests, 404.
            # The client's own address: it knows the port that a url leaves out, and has no password in it.
            address = self.quick.http.client.host.rstrip("/")
            return httpx.get(f"{address}/readyz", timeout=_HOP).status_code < 500
        except (httpx.HTTPError, grpc.RpcError):
            return False

    def close(self) -> None:
        """Close its connections."""
        self.client.close()
        if "quick" in vars(self) and self.quick is not self.client:
            self.quick.close()


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
        lock: threading.RLock | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self.kind: EngineKind = kind
        self.place = place
        self.policy = policy
        self._lock: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if kind != "server":
            self._lock = lock or threading.RLock()
        self._state = threading.Lock()
        self._changes = 0  # how many go on
        self._closed = threading.Event()

    @classmethod
    def of(cls, location: Location) -> Nodes:
        """The nodes of a location with a url; one has answered.

        Raises:
            StoreError: if none can be reached, or it refuses the key.
        """
        made = [Node(_client(location, url, location.timeout), url, location) for url in location.urls]
        nodes = cls(made, "server", location.server, location.retries)
        try:
            # One attempt: a wrong address is reported at once.
            once = RetryPolicy(attempts=1)
            nodes.call(lambda client: client.get_collections(), nodes.place, reads=True, policy=once)
        except BaseException:
            nodes.close()
            raise
        return nodes

    @classmethod
    def given(
        cls,
        client: QdrantClient,
        kind: EngineKind,
        place: str,
        policy: RetryPolicy = DEFAULT_RETRIES,
        lock: threading.RLock | None = None,
    ) -> Nodes:
        """A client of the user's, or one in local mode."""
        return cls([Node(client)], kind, place, policy, lock)

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
        own = policy or (self.policy if waits else self.policy.for_questions())
        return retries.call(lambda: self._attempt(request, quickly=reads and not waits), where, own)

    def wait_for_all(self, is_seen: Callable[[QdrantClient], bool]) -> None:
        """Wait until every node that is up sees a change.

        A change of a collection's settings may be answered before the node that was asked shows it, and the
        others show it a moment later still. What is read next may come from any of them.

        Args:
            is_seen: asks a node.
        """
        end = time.monotonic() + _SETTLED
        for node in self.nodes:
            with contextlib.suppress(ApiException, grpc.RpcError):  # away: it is used when it has caught up
                while node.is_up and not is_seen(node.quick) and time.monotonic() < end:
                    time.sleep(_SETTLING)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """While a change goes on: what it reads is waited for as long as what it writes."""
        with self._state:
            self._changes += 1
        try:
            yield
        finally:
            with self._state:
                self._changes -= 1

    def _attempt(self, request: Callable[[QdrantClient], T], *, quickly: bool) -> T:
        """Send a request once: to the first node that is up; `quickly` leaves one that keeps still."""
        order = self._order()
        for node in order:
            hops = quickly and any(other.is_up for other in self.nodes if other is not node)
            try:
                return self._sent(request, node, hops=hops)
            except (ApiException, grpc.RpcError) as fault:
                if retries.is_away(fault) and len(self.nodes) > 1:
                    self._mark_away(node)
                may_pass = retries.is_away(fault) or retries.is_lost_shard(fault)
                if not may_pass or node is order[-1]:
                    raise
        raise AssertionError("there is at least one node")

    def _sent(self, request: Callable[[QdrantClient], T], node: Node, *, hops: bool) -> T:
        """Send a request to a node; once more without haste, where it answers that it is up."""
        try:
            with self._lock:
                answer = request(node.quick if hops else node.client)
        except (ApiException, grpc.RpcError) as fault:
            if not (hops and retries.is_timeout(fault) and node.is_ready()):
                raise
            return self._sent(request, node, hops=False)
        node.is_up = True
        return answer

    def close(self) -> None:
        """Close all connections."""
        self._closed.set()
        for node in self.nodes:
            node.close()

    def _order(self) -> list[Node]:
        """The nodes to ask, in their order; all of them where none is known to be up."""
        return [node for node in self.nodes if node.is_up] or list(self.nodes)

    def _mark_away(self, node: Node) -> None:
        with self._state:
            node.is_up = False
            if node.is_looked_after or self._closed.is_set():
                return
            node.is_looked_after = True
        threading.Thread(target=self._await, args=(node,), name="surprise-rerank-node", daemon=True).start()

    def _await(self, node: Node) -> None:
        """Look at a node that is away until it is back; at random times: clients shall not come together."""
        pause = _FIRST_LOOK
        while not self._closed.wait(random.uniform(0.5, 1.0) * pause):
            if node.is_up or node.is_ready():
                with self._state:
                    node.is_up, node.is_looked_after = True, False
                return
            pause = min(2 * pause, _LONGEST_LOOK)


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
