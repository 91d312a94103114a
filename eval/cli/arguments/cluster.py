"""How the collection of an index is spread over the nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.core.settings import option

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArguments:
    """Shards and copies on a server; None keeps those of an existing index, or takes Qdrant's defaults."""

    shards: int | None = option(
        None,
        low=1,
        metavar="N",
        help="Parts of the collection on a server.  [default: one for each node]",
    )
    replicas: int | None = option(
        None, low=1, metavar="N", help="Copies of each shard, on as many nodes.  [default: 1]"
    )
    write_consistency: int | None = option(
        None, low=1, metavar="N", help="Copies that a write waits for.  [default: 1]"
    )

    def settings(self, location: Location) -> dict[str, Any]:
        """As `collection_settings` of `DocumentIndex.open`.

        Raises:
            UsageError: if some are given, and the index is in a folder.
        """
        given = {
            "shards": ("shard_number", self.shards),
            "replicas": ("replication_factor", self.replicas),
            "write-consistency": ("write_consistency_factor", self.write_consistency),
        }
        chosen = {flag: own for flag, own in given.items() if own[1] is not None}
        if chosen and location.url is None:
            named = " and ".join(f"--{flag}" for flag in chosen)
            raise click.UsageError(f"{named}: a folder has no shards and copies; give --qdrant-url")
        return dict(chosen.values())
