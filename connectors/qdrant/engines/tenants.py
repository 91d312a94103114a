"""A collection of a cluster in which every tenant has a shard of its own."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.base import Consistency
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.engines.retries import CollectionExists, NoShard
from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.schema import Payload, Point, PointId, Record, StoredVector

# Seconds between attempts to write into a shard that was just made, which another node may not know yet.
_WAITS = (0.0, 0.1, 0.3, 1.0, 3.0)


class TenantEngine(ClientEngine):
    """Points in the shards of their tenants. A shard is made with its first point.

    Qdrant changes points by id in a shard that is named, so the shards of points are asked for first. A read
    without a shard asks all of them.
    """

    _is_filled = False  # as far as is known

    def create(self, manifest: Manifest, settings: Mapping[str, Any]) -> bool:
        """Make the collection; see `ClientEngine.create`."""
        return super().create(manifest, {**settings, "sharding_method": models.ShardingMethod.CUSTOM})

    def upsert(self, points: Sequence[Point], shard: str | None = None) -> None:
        """Store points, or replace those of the same id, also those in the shard of another tenant."""
        wanted = {str(point.id): point.tenant for point in points}
        for before, ids in self._by_shard(list(wanted)).items():
            # Deleted first: a document that is lost in between is stored by the next `sync`, but one that is
            # there twice would stay.
            super().delete([own for own in ids if wanted[str(own)] != before], before)
        parts: dict[str | None, list[Point]] = defaultdict(list)
        for point in points:
            parts[point.tenant].append(point)
        for tenant, own in parts.items():
            self._write(tenant, partial(super().upsert, own, tenant))

    def delete(self, point_ids: Sequence[PointId], shard: str | None = None) -> None:
        """Remove points; waits until they are gone."""
        for tenant, own in self._by_shard(point_ids).items():
            super().delete(own, tenant)

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]], shard: str | None = None) -> None:
        """Set some fields of points."""
        values = {str(name): payload for name, payload in changes}
        for tenant, own in self._by_shard(list(values)).items():
            super().set_payloads([(name, values[str(name)]) for name in own], tenant)

    def set_vectors(
        self, changes: Sequence[tuple[PointId, Mapping[str, StoredVector]]], shard: str | None = None
    ) -> None:
        """Set some vectors of points."""
        values = {str(name): vectors for name, vectors in changes}
        for tenant, own in self._by_shard(list(values)).items():
            super().set_vectors([(name, values[str(name)]) for name in own], tenant)

    def query_batch(
        self, requests: Sequence[models.QueryRequest], consistency: Consistency | None = None
    ) -> list[list[Record]]:
        """The points that each of several queries finds, best first, in one request.

        A tenant without a shard has no points: all shards are asked, and its filter finds none.
        """
        if not self._has_points():
            return [[] for _ in requests]
        try:
            return super().query_batch(requests, consistency)
        except NoShard:
            return super().query_batch(_anywhere(requests), consistency)

    def _has_points(self) -> bool:
        """Whether there is a shard. Qdrant 1.18.3 breaks the connection of who searches without any."""
        self._is_filled = self._is_filled or self.count() > 0
        return self._is_filled

    def _by_shard(self, point_ids: Sequence[PointId]) -> dict[str, list[PointId]]:
        """Tenant -> those of these points that are in its shard; points that are nowhere are left out."""
        found: dict[str, list[PointId]] = defaultdict(list)
        for record in self.retrieve(point_ids, ()):
            if record.tenant is not None:
                found[record.tenant].append(record.id)
        return found

    def _write(self, tenant: str | None, request: Callable[[], None]) -> None:
        """Write into the shard of a tenant, which is made where there is none.

        Raises:
            StoreError: if the server makes none, as one that is no cluster.
        """
        for seconds in _WAITS:
            try:
                return request()
            except NoShard:
                with contextlib.suppress(CollectionExists):  # by another process, or an attempt before
                    self._call(lambda client: client.create_shard_key(self.collection, str(tenant)))
                time.sleep(seconds)
        return request()


def _anywhere(requests: Sequence[models.QueryRequest]) -> list[models.QueryRequest]:
    return [request.model_copy(update={"shard_key": None}) for request in requests]
