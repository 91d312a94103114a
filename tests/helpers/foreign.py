"""Collections that somebody else made."""

from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client import QdrantClient, models


def foreign(
    vectors: Sequence[Any],
    payloads: Sequence[Mapping[str, Any]],
    name: str = "papers",
    *,
    client: QdrantClient | None = None,
    distance: models.Distance = models.Distance.COSINE,
    ids: Sequence[Any] | None = None,
) -> QdrantClient:
    """A collection of points with one vector without a name; in memory, where no client is given."""
    client = client or QdrantClient(":memory:")
    client.create_collection(name, models.VectorParams(size=len(vectors[0]), distance=distance))
    points = [
        models.PointStruct(id=id_, vector=[float(x) for x in vector], payload=dict(payload))
        for id_, vector, payload in zip(ids or range(len(vectors)), vectors, payloads, strict=True)
    ]
    client.upsert(name, points, wait=True)
    return client
