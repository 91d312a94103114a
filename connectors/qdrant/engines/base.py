"""What an index asks of Qdrant, wherever it runs: Edge, the client's local mode, or a server.

Requests are written in qdrant-client's `models`; Edge's are translated (`edge_requests.py`). Everything that
Qdrant offers in a filter therefore passes through unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

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

# What Qdrant calls the vector of a collection that has one without a name.
UNNAMED = ""


class Engine(ABC):
    """One collection of points. Every error is a `StoreError`."""

    kind: EngineKind  # which engine this is
    where: str  # the place, for messages

    def changing(self) -> AbstractContextManager[None]:
        """While a change goes on: what it reads is waited for as long as what it writes."""
        return nullcontext()

    def placement(self) -> Placement | None:
        """How the points are spread over the nodes of a server; None of what is on this machine."""
        return None

    def claim(self) -> None:  # noqa: B027 - a server orders the changes of its clients
        """Before a change: keep others out, where a folder may be read by several."""

    @abstractmethod
    def count(self, condition: models.Filter | None = None) -> int:
        """Number of stored points, or of those that a filter lets through."""

    @abstractmethod
    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id; they are there when this returns."""

    @abstractmethod
    def delete(self, point_ids: Sequence[PointId]) -> None:
        """Remove points; unknown ids are ignored."""

    @abstractmethod
    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points, by id; the others stay."""

    @abstractmethod
    def set_vectors(self, changes: Sequence[tuple[PointId, Mapping[str, StoredVector]]]) -> None:
        """Set some vectors of points, by id; the others stay."""

    @abstractmethod
    def query_batch(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds, best first, in one request."""

    @abstractmethod
    def retrieve(
        self, point_ids: Sequence[PointId], fields: Sequence[str], vectors: Sequence[str] = ()
    ) -> list[Record]:
        """Points by id, in any order; unknown ids are left out."""

    @abstractmethod
    def scroll(
        self,
        fields: Sequence[str],
        vectors: Sequence[str] = (),
        *,
        batch: int = 1000,
        condition: models.Filter | None = None,
    ) -> Iterator[list[Record]]:
        """All points, in batches, in no certain order; without fields, payloads are not read."""

    def smallest(self, limit: int, fields: Sequence[str]) -> list[Record]:
        """The points of the smallest ids, in their order."""
        return next(self.scroll(fields, batch=limit))

    def finish(self) -> None:  # noqa: B027 - a server optimises by itself
        """After many writes: write everything to disk, and index what is not indexed yet."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections, after the requests of other threads."""


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
