"""Copies of an index with its vectors: nothing is encoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from surprise_rerank import border
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    DENSE,
    STORED_FIELDS,
    SURPRISE,
    TOKEN_VECTORS,
    Point,
    Record,
    StoredVector,
)
from surprise_rerank.connectors.qdrant.storage import Storage
from surprise_rerank.connectors.qdrant.storage.opening import check_new, open_storage
from surprise_rerank.connectors.qdrant.writing.kept_terms import FILE, KeptTerms, changing_points
from surprise_rerank.connectors.qdrant.writing.writer import UPSERT_BYTES, UPSERT_POINTS, upsert_in_halves
from surprise_rerank.core.batches import in_batches
from surprise_rerank.errors import StoreError

_PAGE = 64  # points in a request


def copy_index(
    source: Storage,
    location: Location | str | os.PathLike[str],
    *,
    collection_settings: Mapping[str, Any] | None = None,
    show_progress: bool = False,
) -> int:
    """Copy an index with its vectors, backgrounds and weights to a folder or server; nothing is encoded.

    The other place has no documents. An interrupted copy is not seen there, and another call continues it;
    one that failed before a point was copied, or lacks points, is taken away. Returns how many there are.

    Raises:
        DataError: if there are documents.
        StoreError: if another number of points was stored.
    """
    check_new(None, collection_settings, show_progress=show_progress)
    settings = collection_settings or {}
    manifest = replace(source.manifest, files=())
    storage = open_storage(Location.of(location), manifest, manifest.options, settings)
    try:
        border.equal(f"points of {storage.where}", storage.engine.count(), 0, "copy to an empty place")
        version = storage.successor(replace(manifest, statistics=None, latest=None), settings)
    except BaseException:
        storage.close()
        raise
    try:
        with Terminal(quiet=not show_progress).bar("copying", source.engine.count(), "points") as advance:
            _copy_points(source, version, lambda points: advance(points, points))
        expected, count = source.engine.count(), version.engine.count()
        if count == expected:
            _copy_files(source, version)
            version.promote()
            storage.release()
            version.drop_others()
            return count
        _take_away(storage, version)
        raise StoreError(
            f"{version.where} got {count} points and not {expected}: the index was changed meanwhile, or no "
            "request holds a document; copy it again"
        )
    except BaseException:
        with suppress(StoreError):
            if not version.engine.count():
                _take_away(storage, version)
        raise
    finally:
        version.close()
        storage.close()


def _take_away(storage: Storage, version: Storage) -> None:
    """Remove a copy that nobody can use, and the empty index that it was to replace."""
    version.discard(with_points=True)
    storage.discard()
    if (folder := storage.location.folder) is not None:
        with suppress(OSError):  # it has something else in it
            os.rmdir(folder)


def _copy_points(source: Storage, target: Storage, on_progress: Callable[[int], object]) -> None:
    options = source.reload().options
    wanted = {TOKEN_VECTORS: options.tokens, BM25: options.bm25, SURPRISE: options.surprise_vector}
    names = [DENSE, *(name for name, is_stored in wanted.items() if is_stored)]
    kept = KeptTerms(target.engine, target) if options.bm25 else None
    with target.engine.changing(), changing_points(target.engine, kept) as points:
        for records in source.engine.scroll(STORED_FIELDS, names, batch=_PAGE):
            batches = in_batches(map(_point, records), lambda point: point.size, UPSERT_BYTES, UPSERT_POINTS)
            for batch in batches:
                upsert_in_halves(points.upsert, batch)
            on_progress(len(records))
    target.engine.finish()


def _copy_files(source: Storage, target: Storage) -> None:
    for name in source.file_names():
        content = None if name == FILE else source.read_file(name)
        if content is not None:
            target.write_file(name, content)
    target.save(replace(source.manifest, files=target.manifest.files))


def _point(record: Record) -> Point:
    vectors: dict[str, StoredVector] = {}
    for name, vector in record.vectors.items():
        if name == BM25:
            indices, values = np.array(vector.indices, np.uint32), np.array(vector.values, np.float32)
            vectors[name] = SparseVector(indices, values)
        else:
            vectors[name] = np.array(vector, np.float32)
    return Point(record.id, vectors, dict(record.payload))
