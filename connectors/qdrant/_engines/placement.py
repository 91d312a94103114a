"""How a collection is spread over the nodes of a cluster, and what it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a shard: on which node, its address where the key may see that, and Qdrant's state of it.

    The node that was asked knows the points of its own copies. Where it cannot reach another's node, the
    state changes only after a write to it has failed.
    """

    node: int
    address: str | None
    state: str
    points: int | None
    is_reached: bool = True

    def __str__(self) -> str:
        held = "" if self.points is None else f", {self.points} points"
        away = "" if self.is_reached else ", not reached"
        return f"{self.address or f'node {self.node}'} {self.state.lower()}{held}{away}"


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard: Qdrant's number of it, and its copies."""

    number: int
    replicas: tuple[Replica, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.replicas))


@dataclass(frozen=True, slots=True)
class Placement:
    """How a collection is spread."""

    collection: str  # its own name
    replication_factor: int  # copies of each shard that are asked for
    write_consistency_factor: int  # copies that a write waits for
    shards: tuple[Shard, ...]  # all of them, as the node that was asked knows them

    def __str__(self) -> str:
        shards, copies, waits = len(self.shards), self.replication_factor, self.write_consistency_factor
        return (
            f"{shards} {'shard' if shards == 1 else 'shards'}, {copies} "
            f"{'copy' if copies == 1 else 'copies'} of each, a write waits for {waits}"
        )


def placement(
    client: QdrantClient,
    collection: str,
    params: models.CollectionParams,
    addresses: Mapping[int, str],
    away: Set[str],
) -> Placement:
    """How a collection of a server is spread, in one request; see `node_addresses` for the last two."""
    info = client.collection_cluster_info(collection)
    copies: dict[int, list[Replica]] = {}
    listed: list[tuple[models.LocalShardInfo | models.RemoteShardInfo, int, int | None]]
    listed = [(shard, info.peer_id, shard.points_count) for shard in info.local_shards]
    listed += [(shard, shard.peer_id, None) for shard in info.remote_shards]
    for shard, node, points in listed:
        address, state = addresses.get(node), models.ReplicaState(shard.state).value
        replica = Replica(node, address, state, points, is_reached=address not in away)
        copies.setdefault(shard.shard_id, []).append(replica)
    shards = (
        Shard(number, tuple(sorted(replicas, key=lambda copy: copy.node)))
        for number, replicas in sorted(copies.items())
    )
    return Placement(
        collection, params.replication_factor or 1, params.write_consistency_factor or 1, tuple(shards)
    )


def node_addresses(client: QdrantClient) -> tuple[dict[int, str], frozenset[str]]:
    """Address of every node of a cluster, by id, and those that the node which is asked cannot reach.

    There are none on a server that is no cluster.
    """
    status = client.cluster_status()
    peers = getattr(status, "peers", None) or {}
    away = frozenset(getattr(status, "message_send_failures", None) or ())
    return {int(node): peer.uri for node, peer in peers.items()}, away


def difference(settings: Mapping[str, Any], config: models.CollectionConfig) -> tuple[str, Any, Any] | None:
    """Return the first setting that a collection lacks: its name, the stored value, and the wanted one.

    Only the given parts of a setting are compared, and only settings that the collection reports.
    """
    has = config.model_dump(mode="json")
    present = {**has["params"], **has, "optimizers_config": has["optimizer_config"]}
    wanted = TypeAdapter(dict[str, Any]).dump_python(dict(settings), mode="json")
    return _first_difference("", {name: value for name, value in wanted.items() if name in present}, present)


def _first_difference(path: str, wanted: Any, has: Any) -> tuple[str, Any, Any] | None:
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping):
        return None if wanted == has else (path.removeprefix("."), has, wanted)
    values = has if isinstance(has, Mapping) else {}
    parts = (_first_difference(f"{path}.{name}", value, values.get(name)) for name, value in wanted.items())
    return next((part for part in parts if part is not None), None)
