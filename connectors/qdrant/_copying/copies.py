"""Copies of an index with its vectors: to a folder or a server, or to a file and from it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, TypeAlias

from surprise_rerank import _border as border
from surprise_rerank._errors import NoIndexError, StoreError, UnreadableIndexError
from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.qdrant._copying.content import Content, IndexContent, fill
from surprise_rerank.connectors.qdrant._copying.copy_file import CopyFile, write_copy
from surprise_rerank.connectors.qdrant._location import COPY_ENDING, Location
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.connectors.qdrant._storage.opening import check_new, new_version, open_storage

Place: TypeAlias = "Location | str | os.PathLike[str]"


def copy_index(
    source: DocumentIndex | Place,
    target: Place,
    *,
    replace: bool = False,
    collection_settings: Mapping[str, Any] | None = None,
    show_progress: bool = False,
) -> int:
    """Copy an index with its vectors, ensembles, backgrounds and weights; returns its number of points.

    Both are a folder or a server's collection, or a file whose name ends in `.vectors`, which every version
    reads: nothing is encoded. The target has no documents, unless `replace` puts the copy into their place
    once it is whole. An interrupted copy is not seen there, and another call continues it.

    Raises:
        DataError: if there are documents, or the file is damaged or of another form.
        StoreError: if the index was changed meanwhile, or a place cannot be used.
    """
    check_new(None, collection_settings, replace=replace, show_progress=show_progress)
    settings, path = collection_settings or {}, _file_at(target)
    with ExitStack() as opened:
        content = opened.enter_context(_content(source))
        bar = Terminal(quiet=not show_progress).bar("copying", len(content), "documents")
        advance = opened.enter_context(bar)
        if path is not None:
            return write_copy(content, path, advance)
        before, version = _versions(Location.of(target), content.manifest, settings, replaces=replace)
        try:
            fill(version, content, advance)
            expected, count = content.count(), version.engine.count()
            if count == expected:
                version.promote()
                if before is not None:
                    before.release()
                version.drop_others()
                return count
            _take_away(before, version)
            raise StoreError(
                f"{version.where} got {count} points and not {expected}: the index was changed "
                "meanwhile; copy it again"
            )
        except BaseException:
            with suppress(StoreError):
                if not version.engine.count():
                    _take_away(before, version)
            raise
        finally:
            version.close()
            if before is not None:
                before.close()


@contextmanager
def _content(source: DocumentIndex | Place) -> Iterator[Content]:
    """What is at a place, or in an index that is open."""
    if not isinstance(source, Location | str | os.PathLike):
        yield IndexContent(source.corpus.storage)
    elif (path := _file_at(source)) is not None:
        with CopyFile(path) as content:
            yield content
    else:
        with closing(open_storage(Location.of(source), None, None, {})) as storage:
            yield IndexContent(storage)


def _file_at(place: Place) -> Path | None:
    """The file that a place is by its name; None for a folder or a server."""
    folder = Location.of(place).folder
    return None if folder is None or Path(folder).suffix != COPY_ENDING else Path(folder)


def _versions(
    where: Location, content: Manifest, settings: Mapping[str, Any], *, replaces: bool
) -> tuple[Storage | None, Storage]:
    """The index that is at a place, or an empty one, and a version to put into its place.

    None for one that cannot be read. A DataError if it has documents that are not to be replaced.
    """
    manifest = changed(content, statistics=None, latest=None, files=())
    before = None
    if replaces:
        with suppress(NoIndexError):
            try:
                before = open_storage(where, None, None, {})
            except UnreadableIndexError:
                return None, new_version(where, manifest, settings)
    before = before or open_storage(where, manifest, manifest.options, settings)
    try:
        if not replaces:
            advice = "copy to an empty place, or replace what is there (--rebuild, in Python replace=True)"
            border.equal(f"points of {before.where}", before.engine.count(), 0, advice)
        return before, before.successor(manifest, settings)
    except BaseException:
        before.close()
        raise


def _take_away(before: Storage | None, version: Storage) -> None:
    """Remove a copy that nobody can use, and the empty index that it was to replace."""
    version.discard(with_points=True)
    if before is None:
        return
    before.discard()
    if (folder := before.location.folder) is not None:
        with suppress(OSError):  # it has something else in it
            os.rmdir(folder)
