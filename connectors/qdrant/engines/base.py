"""What an index asks of Qdrant, wherever it runs: Edge, the client's local mode, or a server.

Requests are written in qdrant-client's `models`; Edge's are translated (`edge_requests.py`). Everything that
Qdrant offers in a query, filters for one, therefore passes through unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from qdrant_client import models

from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.connectors.qdrant.schema import (
    ID,
    MU,
    NUMBER,
    SIGMA,
    STATISTICS,
    Payload,
    Point,
    Record,
    StoredVector,
)

EngineKind: TypeAlias = Literal["edge", "local", "server"]
Group: TypeAlias = tuple[str | int, list[Record]]


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

    def count(self, condition: models.Filter | None = None) -> int:
        """Number of stored points, or of those that a filter lets through."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id; they are there when this returns."""
        ...

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""
        ...

    def set_payloads(self, changes: Sequence[tuple[str, Payload]]) -> None:
        """Set some fields of points, by id; the others stay."""
        ...

    def set_vectors(self, changes: Sequence[tuple[str, Mapping[str, StoredVector]]]) -> None:
        """Set some vectors of points, by id; the others stay."""
        ...

    def query(self, request: models.QueryRequest) -> list[Record]:
        """The best points, best first."""
        ...

    def query_groups(self, request: models.QueryGroupsRequest) -> list[Group]:
        """The best groups of points that share a payload value, best first."""
        ...

    def retrieve(
        self, point_ids: Sequence[str], fields: Sequence[str], vectors: Sequence[str] = ()
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

    def finish(self) -> None:
        """After many writes: write everything to disk, and index what is not indexed yet."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def payload_indexes(options: IndexOptions) -> dict[str, str]:
    """Path -> type of every payload index: those that the index's own requests need, and the user's."""
    own = {ID: "keyword", MU: "float", SIGMA: "float", STATISTICS: "keyword"}
    if options.passages is not None:
        own[NUMBER] = "integer"
    return {**own, **options.payload_indexes}


def shown_url(url: str) -> str:
    """A server's url for messages and reports: what stands before an @ can be a password."""
    return re.sub(r"//[^/@]*@", "//", url)
