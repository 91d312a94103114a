"""How a collection is spread over the nodes of a cluster, and what it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel
from qdrant_client import QdrantClient, models

# Settings of `create_collection` -> where a collection that exists has them.
_OF_PARAMS = (
    "shard_number",
    "sharding_method",
    "replication_factor",
    "write_consistency_factor",
    "on_disk_payload",
)
_OF_CONFIG = {
    "hnsw_config": "hnsw_config",
    "optimizers_config": "optimizer_config",
    "wal_config": "wal_config",
    "quantization_config": "quantization_config",
    "strict_mode_config": "strict_mode_config",
}


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a shard.

    Attributes:
        node: id of the node that it is on.
        address: of that node, for the others; None where the key or token may not see it.
        state: Qdrant's word, such as `Active` or `Dead`.
        points: how many it holds; None of a copy on another node than the one that was asked.
        is_reached: False where the node that was asked cannot reach the copy's. Its state is another one only
            after a write to it has failed.
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
    """One shard with its copies.

    Attributes:
        number: Qdrant's id of it.
        replicas: its copies.
    """

    number: int
    replicas: tuple[Replica, ...]

    @property
    def is_active(self) -> bool:
        """Whether all its copies answer."""
        active = models.ReplicaState.ACTIVE.value
        return all(own.state == active and own.is_reached for own in self.replicas)

    def __str__(self) -> str:
        return "; ".join(map(str, self.replicas))


@dataclass(frozen=True, slots=True)
class Placement:
    """How a collection is spread.

    Attributes:
        collection: its own name.
        replication_factor: copies of each shard that are asked for.
        write_consistency_factor: copies that a write waits for.
        shards: all of them, as the node that was asked knows them.
    """

    collection: str
    replication_factor: int
    write_consistency_factor: int
    shards: tuple[Shard, ...]

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
    """How a collection of a server is spread, in one request.

    Args:
        client: of the server.
        collection: its name.
        params: of the collection.
        addresses: of the nodes, by id; see `node_addresses`.
        away: addresses that are not reached.
    """
    found = client.collection_cluster_info(collection)
    copies: dict[int, list[Replica]] = {}
    listed: list[tuple[models.LocalShardInfo | models.RemoteShardInfo, int, int | None]]
    listed = [(own, found.peer_id, own.points_count) for own in found.local_shards]
    listed += [(own, own.peer_id, None) for own in found.remote_shards]
    for own, node, points in listed:
        address = addresses.get(node)
        state = models.ReplicaState(own.state).value
        replica = Replica(node, address, state, points, is_reached=address not in away)
        copies.setdefault(own.shard_id, []).append(replica)
    shards = (
        Shard(number, tuple(sorted(own, key=lambda copy: copy.node)))
        for number, own in sorted(copies.items())
    )
    return Placement(
        collection, params.replication_factor or 1, params.write_consistency_factor or 1, tuple(shards)
    )


def node_addresses(client: QdrantClient) -> tuple[dict[int, str], frozenset[str]]:
    """Address of every node of a cluster, by id, and those that the node which is asked cannot reach.

    There are none on a server that is no cluster.
    """
    found = client.cluster_status()
    peers = getattr(found, "peers", None) or {}
    away = frozenset(getattr(found, "message_send_failures", None) or ())
    return {int(node): peer.uri for node, peer in peers.items()}, away


def difference(
    settings: Mapping[str, Any], config: models.CollectionConfig
) -> tuple[str, object, object] | None:
    """The first setting that a collection was not made with: its name, what it has, what is asked for.

    Of a setting with parts, those that are given are compared.
    """
    for name, value in settings.items():
        if value is None:
            continue
        if name in _OF_PARAMS:
            has = getattr(config.params, name)
        elif name in _OF_CONFIG:
            has = getattr(config, _OF_CONFIG[name])
        else:
            continue
        found = _first_difference(name, _plain(value), _plain(has))
        if found is not None:
            return found
    return None


def _first_difference(path: str, asked: Any, has: Any) -> tuple[str, object, object] | None:
    if not isinstance(asked, Mapping):
        return None if asked == has else (path, has, asked)
    own = has if isinstance(has, Mapping) else {}
    parts = (_first_difference(f"{path}.{name}", value, own.get(name)) for name, value in asked.items())
    return next((found for found in parts if found is not None), None)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return {name: _plain(own) for name, own in value.items() if own is not None}
    return value.value if isinstance(value, Enum) else value
