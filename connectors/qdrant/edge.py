"""Qdrant Edge: the Rust engine in this process, one shard in one folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.connectors.qdrant.engines import EngineKind
from surprise_rerank.connectors.qdrant.schema import DENSE, Point, Record
from surprise_rerank.errors import StoreError
from surprise_rerank.extras import import_extra

if TYPE_CHECKING:
    import qdrant_edge
else:
    qdrant_edge = import_extra("qdrant_edge", "edge")

# A page of Edge's payload storage is 32 MiB, mapped into memory: writing to one that the disk has no room
# for kills the process, so room for the next pages is asked for before every write.
_ROOM = 256 * 2**20


class EdgeEngine:
    """One shard.

    Args:
        folder: where it lives; made where there is none.
        dimension: of the dense vectors.

    Raises:
        StoreError: if the shard cannot be opened.
    """

    kind: EngineKind = "edge"

    def __init__(self, folder: Path, dimension: int) -> None:
        self.where = str(folder)
        self._folder = folder
        with disk_errors(self.where):
            if not folder.exists():
                self._require_room()
                _create(folder, dimension)
            _read_ahead(folder)
        with self._errors():
            self._shard = qdrant_edge.EdgeShard.load(str(folder))

    def count(self) -> int:
        """Number of stored points."""
        with self._errors():
            return int(self._shard.count(qdrant_edge.CountRequest(exact=True)))

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        self._require_room()
        batch = [qdrant_edge.Point(p.id, {DENSE: p.dense.tolist()}, p.payload) for p in points]
        with self._errors():
            self._shard.update(qdrant_edge.UpdateOperation.upsert_points(batch))

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points."""
        with self._errors():
            self._shard.update(qdrant_edge.UpdateOperation.delete_points(list(point_ids)))

    def search(
        self, vector: Sequence[float], limit: int, fields: Sequence[str], *, dense: bool, exact: bool
    ) -> list[Record]:
        """The nearest points, best first."""
        request = qdrant_edge.QueryRequest(
            limit=limit,
            query=qdrant_edge.Query.Nearest(list(vector), using=DENSE),
            with_vector=[DENSE] if dense else False,
            with_payload=_selector(fields),
            params=qdrant_edge.SearchParams(exact=exact),
        )
        with self._errors():
            return [_record(p, p.score) for p in self._shard.query(request)]

    def retrieve(self, point_ids: Sequence[str], fields: Sequence[str], *, dense: bool) -> list[Record]:
        """Points by id."""
        selector = _selector(fields)
        with self._errors():
            records = self._shard.retrieve(list(point_ids), selector, [DENSE] if dense else False)
        return [_record(r) for r in records]

    def scroll(self, fields: Sequence[str], *, dense: bool, batch: int = 1000) -> Iterator[list[Record]]:
        """All points, in batches."""
        offset: Any = None
        while True:
            request = qdrant_edge.ScrollRequest(
                offset=offset,
                limit=batch,
                with_payload=_selector(fields),
                with_vector=[DENSE] if dense else False,
            )
            with self._errors():
                records, offset = self._shard.scroll(request)
            yield [_record(r) for r in records]
            if offset is None:
                return

    def smallest(self, limit: int, fields: Sequence[str]) -> list[Record]:
        """The points of the smallest ids: the first of a scroll."""
        return next(self.scroll(fields, dense=False, batch=limit))

    def flush(self) -> None:
        """Write everything to disk."""
        with self._errors():
            self._shard.flush()

    def close(self) -> None:
        """Flush, and let go of the folder's lock."""
        with self._errors():
            self._shard.close()

    def _require_room(self) -> None:
        folder = self._folder if self._folder.exists() else self._folder.parent
        with disk_errors(self.where):
            free = shutil.disk_usage(folder).free
        if free < _ROOM:
            raise StoreError(
                f"cannot write to {self.where}: the disk is full ({free // 2**20} MiB are free, "
                f"{_ROOM // 2**20} MiB are needed); free some space and run again, what is stored stays"
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # Edge raises nothing more precise
            text = str(error).replace("\n", " ")[:300]
            if "WouldBlock" in text:
                text = "another process has it open; close that one, or use a server"
            elif "os error 28" in text or "No space left" in text:
                text = "the disk is full; free some space and run again, what is stored stays"
            elif "os error 30" in text or "os error 13" in text:
                text = "it is read-only; choose another folder"
            else:
                text += "; if this stays so, delete the folder and index again"
            raise StoreError(f"Qdrant Edge cannot use {self.where}: {text}") from error


def _read_ahead(folder: Path) -> None:
    """Read a shard's files once, from front to back, where they take less than a quarter of the memory.

    Edge maps them into memory and reads them as they are touched. On a disk that has not been read lately,
    going through 5,000 documents that way takes 15 s; after this, which takes 0.7 s, half a second.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return
    if size > memory / 4:
        return
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(2**20):
                pass


def _create(folder: Path, dimension: int) -> None:
    """Make an empty shard beside its place and move it there, so that a half-made one is never opened."""
    draft = folder.with_name(folder.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    params = qdrant_edge.EdgeVectorParams(size=dimension, distance=qdrant_edge.Distance.Dot)
    try:
        shard = qdrant_edge.EdgeShard.create(str(draft), qdrant_edge.EdgeConfig(vectors={DENSE: params}))
        shard.close()
    except Exception as error:  # Edge raises nothing more precise
        raise StoreError(f"Qdrant Edge cannot make {folder}: {error}") from error
    draft.rename(folder)


def _selector(fields: Sequence[str]) -> Any:
    """Which payload fields to read; for none, payloads, which hold the tokens, are not read at all."""
    return qdrant_edge.PayloadSelector.Include(list(fields)) if fields else False


def _record(point: qdrant_edge.ScoredPoint | qdrant_edge.Record, score: float = 0.0) -> Record:
    vector: Any = point.vector
    return Record(payload=point.payload or {}, dense=vector[DENSE] if vector else None, score=score)
