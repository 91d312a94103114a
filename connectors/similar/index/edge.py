"""Augmented vectors in a shard of Qdrant Edge."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from surprise_rerank.connectors.qdrant.engines.edge_shard import Shard
from surprise_rerank.connectors.qdrant.schema import SURPRISE
from surprise_rerank.connectors.similar.index.place import Hits, hits_of
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors

if TYPE_CHECKING:
    import qdrant_edge
else:
    qdrant_edge = import_extra("qdrant_edge", "edge")

# KiB; Edge would make several graphs of 200 MiB for each core, and each query would search all of them.
_SEGMENT = 10**9
# In the shard's folder: everything that is stored is in the graph.
_FINISHED = "finished"


class EdgeCollection:
    """One shard, in one segment: a query searches one graph.

    Args:
        folder: of the shard; made where there is none.
        rows: how many vectors it will hold.
        size: their dimension.

    Raises:
        StoreError: if the shard cannot be opened.
    """

    def __init__(self, folder: Path, rows: int, size: int) -> None:
        self._folder, self._rows, self._size = folder, rows, size
        self._finished = folder / _FINISHED
        vectors = {SURPRISE: qdrant_edge.EdgeVectorParams(size, qdrant_edge.Distance.Dot)}
        optimizers = qdrant_edge.EdgeOptimizersConfig(default_segment_number=1, max_segment_size=_SEGMENT)
        self._shard = Shard(folder, qdrant_edge.EdgeConfig(vectors=vectors, optimizers=optimizers))

    @property
    def where(self) -> str:
        """See `Collection`."""
        return self._shard.where

    def create(self) -> None:
        """See `Collection`; opening has made it."""

    def count(self) -> int:
        """See `Collection`."""
        with self._shard.use() as shard:
            return int(shard.count(qdrant_edge.CountRequest(exact=True)))

    def stored(self, first: int, last: int) -> int:
        """See `Collection`."""
        request = qdrant_edge.ScrollRequest(
            offset=first, limit=last - first, with_payload=False, with_vector=False
        )
        with self._shard.use() as shard:
            found, _ = shard.scroll(request)
        return sum(int(record.id) < last for record in found)

    def upsert(self, first: int, vectors: Float32Array) -> None:
        """See `Collection`."""
        points = [qdrant_edge.Point(first + i, {SURPRISE: row}) for i, row in enumerate(vectors)]
        with disk_errors(self.where):
            self._finished.unlink(missing_ok=True)
        self._shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
        self._shard.flush()

    def finish(self, advance: Callable[[int], None]) -> None:
        """See `Collection`; Edge tells of no progress."""
        with disk_errors(self.where):
            if not self._finished.exists():  # else a disk that is full by now would do
                self._shard.finish(size=4 * self._rows * self._size)
                self._finished.touch()
        advance(self._rows)

    def search(self, queries: Float32Array, limit: int, ef: int, least: float | None) -> list[Hits]:
        """See `Collection`."""
        params = qdrant_edge.SearchParams(hnsw_ef=ef)
        requests = [
            qdrant_edge.QueryRequest(
                query=qdrant_edge.Query.Nearest(query, using=SURPRISE),
                limit=limit,
                score_threshold=least,
                params=params,
            )
            for query in queries
        ]
        with self._shard.use() as shard:
            answers = shard.query_batch(qdrant_edge.QueryBatchRequest(requests))
        return [hits_of(answer) for answer in answers]

    def drop(self) -> None:
        """See `Collection`."""
        self._shard.close()
        with disk_errors(self.where):
            shutil.rmtree(self._folder)

    def close(self) -> None:
        """See `Collection`."""
        self._shard.close()
