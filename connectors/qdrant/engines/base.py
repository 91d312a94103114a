"""What an index asks of Qdrant, wherever it runs: Edge, the client's local mode, or a server.

Requests are written in qdrant-client's `models`; Edge's are translated (`edge_requests.py`). Everything that
Qdrant offers in a query, filters for one, therefore passes through unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.placement import Placement
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.connectors.qdrant.schema import (
    ID,
    MU,
    NUMBER,
    SIGMA,
    STATISTICS,
    Payload,
    Point,
    PointId,
    Record,
    StoredVector,
)
from surprise_rerank.core.arrays import Float32Array, IntArray

# How many copies of a shard must agree on what is read: a number, or Qdrant's words.
Consistency: TypeAlias = int | Literal["majority", "quorum", "all"]

# Of one query: the numbers of the points, best first, and their float32 scores.
Hits: TypeAlias = tuple[IntArray, Float32Array]
# What Qdrant calls the vector of a collection that has one without a name.
UNNAMED = ""


class Engine(Protocol):
    """One collection of points. Every error is a `StoreError`."""

    @property
    def kind(self) -> EngineKind:
        """Which engine this is."""
        ...

    @property
    def where(self) -> str:
        """The place, for messages."""
        ...

    def changing(self) -> AbstractContextManager[None]:
        """While a change goes on: what it reads is waited for as long as what it writes."""
        ...

    def placement(self) -> Placement | None:
        """How the points are spread over the nodes of a server; None of what is on this machine."""
        ...

    def claim(self) -> None:
        """Before a change: keep others out, where a folder may be read by several."""
        ...

    def count(self, condition: models.Filter | None = None) -> int:
        """Number of stored points, or of those that a filter lets through."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id; they are there when this returns."""
        ...

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""
        ...

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points, by id; the others stay."""
        ...

    def set_vectors(self, changes: Sequence[tuple[str, Mapping[str, StoredVector]]]) -> None:
        """Set some vectors of points, by id; the others stay."""
        ...

    def query(self, request: models.QueryRequest) -> list[Record]:
        """The best points, best first."""
        ...

    def query_batch(
        self, requests: Sequence[models.QueryRequest], consistency: Consistency | None = None
    ) -> list[list[Record]]:
        """The points that each of several queries finds, best first, in one request.

        Args:
            requests: what is asked.
            consistency: copies on a server that must agree; Qdrant asks one of them by default.
        """
        ...

    def search(
        self, vector: str, queries: Float32Array, limit: int, *, ef: int, least: float | None = None
    ) -> list[Hits]:
        """The best points of each of several queries, in one request; the points' ids are numbers.

        Args:
            vector: name of the vector that is compared.
            queries: (m, d) of them.
            limit: how many points of each query at most.
            ef: how many nodes of the graph a search keeps; a larger number finds more and takes longer.
            least: points of a smaller score are left out.
        """
        ...

    def retrieve(
        self,
        point_ids: Sequence[str],
        fields: Sequence[str],
        vectors: Sequence[str] = (),
        consistency: Consistency | None = None,
    ) -> list[Record]:
        """Points by id, in any order; unknown ids are left out."""
        ...

    def scroll(
        self,
        fields: Sequence[str],
        vectors: Sequence[str] = (),
        *,
        batch: int = 1000,
        condition: models.Filter | None = None,
    ) -> Iterator[list[Record]]:
        """All points, in batches, in no certain order; without fields, payloads are not read."""
        ...

    def smallest(
        self, limit: int, fields: Sequence[str], condition: models.Filter | None = None
    ) -> list[Record]:
        """The points of the smallest ids, of those that a filter lets through, in their order."""
        ...

    def flush(self) -> None:
        """Write everything to disk."""
        ...

    def finish(self) -> None:
        """After many writes: write everything to disk, and index what is not indexed yet."""
        ...

    def build_graph(self, advance: Callable[[int], None], *, size: int, patience: float) -> None:
        """Index all vectors, and wait until that is done.

        Args:
            advance: called with the number of vectors that were indexed since the last call.
            size: bytes of the vectors, which Edge writes a second time.
            patience: seconds after which a server counts as stuck if it has indexed no further vector.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def read_consistency(given: Consistency) -> models.ReadConsistency:
    """As qdrant-client has it."""
    return given if isinstance(given, int) else models.ReadConsistencyType(given)


def payload_indexes(options: IndexOptions) -> dict[str, str]:
    """Path -> type of every payload index: those that the index's own requests need, and the user's."""
    own = {ID: "keyword", MU: "float", SIGMA: "float", STATISTICS: "keyword"}
    if options.passages is not None:
        own[NUMBER] = "integer"
    if options.tenant is not None:
        own[options.tenant_path] = "keyword"
    return {**options.payload_indexes, **own}


def to_record(point: Any, score: float = 0.0) -> Record:
    """A point that Edge or a client has found; its only vector may have no name."""
    vectors = point.vector or {}
    named = vectors if isinstance(vectors, dict) else {UNNAMED: vectors}
    return Record(str(point.id), point.payload or {}, named, float(score))


def pages(read: Callable[[Any], tuple[Sequence[Any], Any]]) -> Iterator[list[Record]]:
    """All pages of a scroll.

    Args:
        read: offset, None for the first page -> the points of a page, and the next offset, None at the end.
    """
    points, offset = read(None)
    yield [to_record(point) for point in points]
    while offset is not None:
        points, offset = read(offset)
        yield [to_record(point) for point in points]


def hits_of(points: Sequence[Any]) -> Hits:
    """The points that Edge or a server has found."""
    return np.array([p.id for p in points], np.int64), np.array([p.score for p in points], np.float32)
