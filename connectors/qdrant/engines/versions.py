"""Which servers of Qdrant serve an index, and what needs a later one."""

from __future__ import annotations

import contextlib
import re

from surprise_rerank.connectors.qdrant.engines import retries
from surprise_rerank.connectors.qdrant.engines.nodes import Nodes
from surprise_rerank.connectors.qdrant.location import RetryPolicy
from surprise_rerank.errors import StoreError

# Since then a collection remembers how it was made, and so everything else that an index needs is there.
OLDEST = (1, 15, 4)
TURBO_NUMBERS = (1, 19, 0)  # vectors in TurboQuant's numbers

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def server_version(nodes: Nodes) -> tuple[int, ...] | None:
    """The version of a server, of the oldest node that answers; None where a proxy keeps that back."""
    found, once = [], RetryPolicy(attempts=1)
    for node in nodes.nodes:
        with contextlib.suppress(StoreError):
            told = _NUMBERS.match(retries.call(node.quick.info, nodes.place, once).version)
            if told is not None:
                found.append(tuple(map(int, told.groups())))
    return min(found, default=None)


def require_oldest(nodes: Nodes) -> None:
    """Refuse a server that is known to be too old for an index; names both versions."""
    version = server_version(nodes)
    if version is not None and version < OLDEST:
        has, needed = (".".join(map(str, own)) for own in (version, OLDEST))
        raise StoreError(
            f"{nodes.place} is version {has}, older than {needed}, the first that remembers how a collection "
            "was made; upgrade it"
        )
