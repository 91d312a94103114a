"""The index of a job: augmented vectors in Qdrant, whose product with [q, 1] is the surprise z (`forms.py`).

Point n is row n of the corpus that may be neighbours, with one vector and nothing else. The name of the
collection, or of the folder, ends in the digits of that corpus: a changed corpus has another index. What is
stored is asked of Qdrant itself, so that whoever is killed while filling goes on with the blocks that are
missing; writing a point again changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol, runtime_checkable

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.similar.corpus import Corpus
from surprise_rerank.connectors.similar.index.place import Advance, Collection, Hits, IndexPlace
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError, MissingExtraError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import augmented_documents
from surprise_rerank.surprise.neighbours import KEY_BLOCK

# Queries of a request: Qdrant shares work between them; Edge keeps Python's lock until all are answered.
_QUERIES = 64
# Hits of a request, which are Python objects until it is answered.
_HITS = 1 << 18


class AugmentedIndex:
    """The augmented vectors of a corpus; a context manager.

    Args:
        place: where.
        corpus: the documents that may be neighbours.
        ensemble: of the corpus.
        device: where moments are computed.

    Raises:
        MissingExtraError: if Qdrant Edge is needed, and not installed.
        StoreError: if the place cannot be opened or reached.
    """

    def __init__(self, place: IndexPlace, corpus: Corpus, ensemble: Ensemble, device: str = "cpu") -> None:
        self._corpus, self._ensemble, self._device = corpus, ensemble, device
        self._collection = _open(place, corpus)

    def __enter__(self) -> AugmentedIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def where(self) -> str:
        """The place, for messages."""
        return self._collection.where

    def create(self) -> None:
        """Make the collection, unless it is there.

        Raises:
            StoreError: if it cannot be made.
        """
        self._collection.create()

    def missing(self) -> list[int]:
        """The first rows of the blocks that are not stored as a whole.

        Raises:
            StoreError: if the collection cannot be read.
        """
        if self._collection.count() == len(self._corpus):
            return []
        blocks = self._corpus.key_blocks()
        return [
            first for first in blocks if self._collection.stored(first, self._end(first)) < self.rows(first)
        ]

    def rows(self, first: int) -> int:
        """How many rows a block has."""
        return self._end(first) - first

    def vectors(self, first: int) -> Float32Array:
        """(n, d + 1) the augmented vectors of a block.

        Raises:
            StoreError: if the corpus cannot be read.
        """
        keys = self._corpus.keys(self._ensemble, first, self._device)
        return augmented_documents(keys.vectors, keys.moments)

    def fill_block(self, first: int) -> int:
        """Store a block; returns how many rows it has. Any worker may, in any order, and again.

        Raises:
            StoreError: if it cannot be stored.
        """
        self._collection.upsert(first, self.vectors(first))
        return self.rows(first)

    def finish(self, advance: Advance = lambda _: None) -> None:
        """Have the graph built, and wait for it.

        Args:
            advance: told of vectors that the graph holds.

        Raises:
            StoreError: if it cannot be built, or nothing happens for the patience of the place.
        """
        self._collection.finish(advance)

    def search(self, queries: Float32Array, limit: int, *, ef: int, least: float | None = None) -> list[Hits]:
        """The rows whose augmented vectors have the largest product with augmented queries, approximately.

        Args:
            queries: (m, d + 1) of `augmented_query`.
            limit: how many of each at most.
            ef: how many nodes of the graph are kept at hand.
            least: what scores less is left out.

        Raises:
            StoreError: if the search fails.
        """
        step = max(1, min(_QUERIES, _HITS // limit))
        return [
            hits
            for start in range(0, len(queries), step)
            for hits in self._collection.search(queries[start : start + step], limit, ef, least)
        ]

    def drop(self) -> None:
        """Delete it from the disk or the server."""
        self._collection.drop()

    def close(self) -> None:
        """Close connections and files."""
        self._collection.close()

    def _end(self, first: int) -> int:
        return min(first + KEY_BLOCK, len(self._corpus))


@runtime_checkable
class IndexFiller(Protocol):
    """Workers who fill an index on a server together, such as Ray's (`connectors/ray/workers.py`)."""

    def fill_index(self, place: IndexPlace, corpus: Corpus, ensemble: Path) -> None:
        """Store the blocks that are missing in a collection that is there."""
        ...


def require_shared(place: IndexPlace, workers: object) -> None:
    """Refuse an index in a folder, which one process can open, for workers of several.

    Raises:
        DataError: if it is.
    """
    if place.url is None and isinstance(workers, IndexFiller):
        raise DataError(
            "workers of several processes cannot share an index in a folder; give the url of a Qdrant "
            "server, or choose mode 'exact'"
        )


def fill(
    place: IndexPlace, corpus: Corpus, ensemble: Path, workers: object, terminal: Terminal, device: str
) -> None:
    """Make the index of a corpus, or what is missing of it.

    Args:
        place: see `IndexPlace.of_job`.
        corpus: the documents that may be neighbours.
        ensemble: file of their ensemble.
        workers: fill an index on a server where they are an `IndexFiller`; else this process does.
        terminal: for progress.
        device: where moments are computed.

    Raises:
        MissingExtraError: if Qdrant Edge is needed, and not installed.
        StoreError: if the disk is full, or the place cannot be used.
    """
    with AugmentedIndex(place, corpus, Ensemble.load(ensemble), device) as index:
        index.create()
        missing = index.missing()
        with terminal.bar("filling the index", len(corpus), "docs") as advance:
            advance(len(corpus) - sum(map(index.rows, missing)))
            if missing and place.url is not None and isinstance(workers, IndexFiller):
                workers.fill_index(place, corpus, ensemble)
                left = index.missing()
                advance(sum(map(index.rows, missing)) - sum(map(index.rows, left)))
                missing = left
            for first in missing:
                advance(index.fill_block(first))
        with terminal.bar("building the graph", len(corpus), "docs") as advance:
            index.finish(advance)


def _open(place: IndexPlace, corpus: Corpus) -> Collection:
    size = corpus.dimension + 1
    if place.url is not None:
        from surprise_rerank.connectors.similar.index.server import ServerCollection

        return ServerCollection(place, place.name(corpus), size)
    if place.folder is None:
        raise DataError("the index has no place; give a folder, or the url of a server")
    if not is_installed("qdrant_edge"):
        raise MissingExtraError(
            "mode 'index' without a server needs qdrant_edge, which is not installed: run "
            f"{pip_line('edge')}, or give the url of a Qdrant server"
        )
    from surprise_rerank.connectors.similar.index.edge import EdgeCollection

    with disk_errors(str(place.folder)):
        place.folder.mkdir(parents=True, exist_ok=True)
    return EdgeCollection(place.folder / place.name(corpus), len(corpus), size)
