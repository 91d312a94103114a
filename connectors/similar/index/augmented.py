"""The index of a job: augmented vectors in Qdrant.

Their product with [q, 1] is the surprise z (`surprise/linear_form.py`). Point n is row n of the corpus that
may be neighbours. It has one vector and nothing else. The name of the collection, or of the folder, ends in
the digits of that corpus, so a changed corpus has another index. Qdrant itself reports what is stored. A
killed run therefore continues with the blocks that are missing. Writing a point again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, runtime_checkable

from qdrant_client import models

from surprise_rerank.connectors.progress import Advance, Terminal
from surprise_rerank.connectors.qdrant.engines.base import Engine, Hits
from surprise_rerank.connectors.qdrant.engines.client import REQUEST_BYTES, ClientEngine
from surprise_rerank.connectors.qdrant.engines.nodes import Nodes
from surprise_rerank.connectors.qdrant.engines.retries import TooLarge
from surprise_rerank.connectors.qdrant.schema import SURPRISE, Point
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import augmented_documents
from surprise_rerank.surprise.neighbours import KEY_BLOCK

# Queries of a request: Qdrant shares work between them; Edge keeps Python's lock until all are answered.
_QUERIES = 64
# Hits of a request, which are Python objects until it is answered.
_HITS = 1 << 18
# In the folder of a shard: the graph holds everything that is stored.
_FINISHED = "finished"


class AugmentedIndex:
    """The augmented vectors of a corpus; a context manager.

    Args:
        location: where it is.
        corpus: the documents that may be neighbours.
        ensemble: of the corpus.
        device: where moments are computed.

    Raises:
        MissingExtraError: if Qdrant Edge is needed, and not installed.
        StoreError: if the location cannot be opened or reached.
    """

    def __init__(
        self, location: IndexLocation, corpus: EncodedCorpus, ensemble: Ensemble, device: str = "cpu"
    ) -> None:
        self._corpus, self._ensemble, self._device = corpus, ensemble, device
        self._location, self._dimension = location, corpus.dimension + 1
        self._finished: Path | None = None  # of a shard
        self._engine = self._opened(location.name(corpus))

    def __enter__(self) -> AugmentedIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def where(self) -> str:
        """The location, for messages."""
        return self._engine.where

    @property
    def url(self) -> str:
        """The address that the server answers at now; empty of a folder."""
        return self._engine.nodes.url if isinstance(self._engine, ClientEngine) else ""

    def changing(self) -> AbstractContextManager[None]:
        """While it is filled: see `Engine.changing`."""
        return self._engine.changing()

    def create(self) -> None:
        """Make the collection, unless it is there.

        Raises:
            DataError: if the location has a setting that collections do not have.
            StoreError: if it cannot be made.
        """
        # A shard is made when it is opened.
        if isinstance(self._engine, ClientEngine) and not self._engine.exists():
            params = models.VectorParams(size=self._dimension, distance=models.Distance.DOT)
            self._engine.create_of({SURPRISE: params}, self._location.settings)

    def missing(self) -> list[int]:
        """The first rows of the blocks that are not stored as a whole.

        Raises:
            StoreError: if the collection cannot be read.
        """
        if self._engine.count() == len(self._corpus):
            return []
        return [first for first in self._corpus.key_blocks() if self._stored(first) < self.rows(first)]

    def rows(self, first: int) -> int:
        """How many rows a block has."""
        return min(KEY_BLOCK, len(self._corpus) - first)

    def vectors(self, first: int) -> Float32Array:
        """(n, d + 1) the augmented vectors of a block.

        Raises:
            StoreError: if the corpus cannot be read.
        """
        keys = self._corpus.keys(self._ensemble, first, self._device)
        return augmented_documents(keys.vectors, keys.moments)

    def fill_block(self, first: int) -> int:
        """Store a block; returns how many rows it has. Workers may store blocks in any order, and again.

        Raises:
            StoreError: if it cannot be stored.
        """
        self._store(first, self.vectors(first))
        return self.rows(first)

    def finish(self, advance: Advance = lambda _: None) -> None:
        """Build the graph, and wait for it.

        Args:
            advance: called with the number of vectors that were added to the graph since the last call.

        Raises:
            StoreError: if it cannot be built, or makes no progress for the patience of the location.
        """
        rows = len(self._corpus)
        with disk_errors(self.where):
            if self._finished is not None and self._finished.exists():  # else a full disk would be refused
                advance(rows)
                return
            size = 4 * rows * self._dimension
            self._engine.build_graph(advance, size=size, patience=self._location.patience)
            if self._finished is not None:
                self._finished.touch()

    def search(self, queries: Float32Array, limit: int, *, ef: int, least: float | None = None) -> list[Hits]:
        """The rows whose augmented vectors have the largest product with augmented queries, approximately.

        Args:
            queries: (m, d + 1) of `augmented_query`.
            limit: how many of each at most.
            ef: how many nodes of the graph a search keeps; a larger number finds more and takes longer.
            least: pairs of a smaller score are left out.

        Raises:
            StoreError: if the search fails.
        """
        step = max(1, min(_QUERIES, _HITS // limit))
        return [
            hits
            for start in range(0, len(queries), step)
            for hits in self._engine.search(
                SURPRISE, queries[start : start + step], limit, ef=ef, least=least
            )
        ]

    def close(self) -> None:
        """Close connections and files."""
        self._engine.close()

    def _stored(self, first: int) -> int:
        """How many rows of a block are stored."""
        rows: list[models.ExtendedPointId] = list(range(first, first + self.rows(first)))
        return self._engine.count(models.Filter(must=[models.HasIdCondition(has_id=rows)]))

    def _store(self, first: int, vectors: Float32Array) -> None:
        """Store the vectors of consecutive rows; they are on the disk when this returns."""
        if self._finished is not None:
            with disk_errors(self.where):
                self._finished.unlink(missing_ok=True)
        points = [Point(first + i, {SURPRISE: row}, {}) for i, row in enumerate(vectors)]
        step = max(1, REQUEST_BYTES // points[0].size)
        for start in range(0, len(points), step):
            self._upsert(points[start : start + step])
        self._engine.flush()

    def _upsert(self, points: Sequence[Point]) -> None:
        """Store points in one request, or in halves where the server takes less."""
        try:
            self._engine.upsert(points)
        except TooLarge:
            half = len(points) // 2
            if not half:
                raise
            self._upsert(points[:half])
            self._upsert(points[half:])

    def _opened(self, name: str) -> Engine:
        location = self._location
        if location.url is not None:
            return ClientEngine(Nodes.of(location), name)
        if location.folder is None:
            raise DataError("the index has no location; give a folder, or the url of a server")
        from surprise_rerank.connectors.qdrant.engines.edge import EdgeEngine

        folder = Path(location.folder)
        with disk_errors(str(folder)):
            folder.mkdir(parents=True, exist_ok=True)
        self._finished = folder / name / _FINISHED
        return EdgeEngine.of_vectors(folder / name, SURPRISE, self._dimension)


@runtime_checkable
class IndexFiller(Protocol):
    """Workers that fill an index on a server together, such as Ray's (`connectors/ray/workers.py`)."""

    def fill_index(self, location: IndexLocation, corpus: EncodedCorpus, ensemble: Path) -> None:
        """Store the blocks that are missing in a collection that exists."""
        ...


def require_shared(location: IndexLocation, workers: object) -> None:
    """Refuse an index in a folder, which one process can open, for workers of several.

    Raises:
        DataError: if it is.
    """
    if location.url is None and isinstance(workers, IndexFiller):
        raise DataError(
            "workers of several processes cannot share an index in a folder; give the url of a Qdrant "
            "server, or choose mode 'exact'"
        )


def require_reachable(location: IndexLocation) -> None:
    """Ask a server for anything, once: encoding for an index that cannot be made would be in vain.

    Raises:
        StoreError: if it does not answer.
    """
    if location.url is None:
        return
    Nodes.of(location).close()


def fill(
    location: IndexLocation,
    corpus: EncodedCorpus,
    ensemble: Path,
    workers: object,
    terminal: Terminal,
    device: str,
) -> None:
    """Make the index of a corpus, or what is missing of it.

    Args:
        location: see `IndexLocation.of_job`.
        corpus: the documents that may be neighbours.
        ensemble: file of their ensemble.
        workers: fill an index on a server where they are an `IndexFiller`; else this process does.
        terminal: for progress.
        device: where moments are computed.

    Raises:
        MissingExtraError: if Qdrant Edge is needed, and not installed.
        StoreError: if the disk is full, or the location cannot be used.
    """
    with AugmentedIndex(location, corpus, Ensemble.load(ensemble), device) as index, index.changing():
        index.create()
        missing = index.missing()
        with terminal.bar("filling the index", len(corpus), "documents") as advance:
            advance(len(corpus) - sum(map(index.rows, missing)))
            if missing and location.url is not None and isinstance(workers, IndexFiller):
                workers.fill_index(location, corpus, ensemble)
                left = index.missing()
                advance(sum(map(index.rows, missing)) - sum(map(index.rows, left)))
                missing = left
            for first in missing:
                advance(index.fill_block(first))
        with terminal.bar("building the graph", len(corpus), "documents") as advance:
            index.finish(advance)
