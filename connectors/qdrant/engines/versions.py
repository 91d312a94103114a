"""Which servers of Qdrant serve an index, and what needs a later one."""

from __future__ import annotations

import contextlib
import re
from enum import Enum
from typing import TypeAlias

from surprise_rerank.connectors.qdrant.engines import retries
from surprise_rerank.connectors.qdrant.engines.nodes import Nodes
from surprise_rerank.connectors.qdrant.location import RetryPolicy
from surprise_rerank.errors import StoreError

Version: TypeAlias = tuple[int, int, int]

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class Feature(Enum):
    """What a server must have: in words, and the first version that has it."""

    # Since then a collection remembers how it was made, and so everything else that an index needs is there.
    INDEX = "metadata of collections, which an index is recognised by", (1, 15, 4)
    TURBO_NUMBERS = "vectors in TurboQuant's numbers", (1, 19, 0)

    @property
    def since(self) -> Version:
        """The first version that has it."""
        return self.value[1]


def server_version(nodes: Nodes) -> Version | None:
    """The version of a server, of the oldest node that answers; None where a proxy keeps that back."""
    found, once = [], RetryPolicy(attempts=1)
    for node in nodes.nodes:
        client = node.client if len(nodes.nodes) == 1 else node.quick  # one that keeps still has others
        with contextlib.suppress(StoreError):
            told = _NUMBERS.match(retries.call(client.info, nodes.place, once).version)
            if told is not None:
                found.append((int(told[1]), int(told[2]), int(told[3])))
    return min(found, default=None)


def require(feature: Feature, nodes: Nodes, otherwise: str = "") -> None:
    """Refuse a server that is known to be too old for a feature; `otherwise` is what to do instead.

    Raises:
        StoreError: if its version does not have the feature; names both versions.
    """
    version, (words, since) = server_version(nodes), feature.value
    if version is not None and version < since:
        instead = f", or {otherwise}" if otherwise else ""
        raise StoreError(
            f"{nodes.place} is version {_shown(version)}, older than {_shown(since)}, the first that "
            f"has {words}; upgrade it{instead}"
        )


def _shown(version: Version) -> str:
    return ".".join(map(str, version)).removesuffix(".0")
