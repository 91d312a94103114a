"""Storages as they are opened or made: in a folder, in memory, or on a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surprise_rerank import _border as border
from surprise_rerank._errors import StoreError
from surprise_rerank.connectors.qdrant._location import MEMORY, Location
from surprise_rerank.connectors.qdrant._manifest import IndexOptions, Manifest
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.connectors.qdrant._storage.folder import FolderStorage
from surprise_rerank.connectors.qdrant._storage.server import ServerStorage


def check_new(options: object, settings: object, **flags: object) -> None:
    """Refuse, by a DataError, what no index can be made with: options, and settings of its collection."""
    border.flags(**flags)
    border.optional(border.instance, "options", options, IndexOptions)
    border.optional(border.mapping, "collection_settings", settings)


def new_version(
    location: Location | str | os.PathLike[str], manifest: Manifest, settings: Mapping[str, Any]
) -> FolderStorage | ServerStorage:
    """An empty version beside an index that cannot be opened; see `DocumentIndex.renew`."""
    where = Location.of(location)
    if where.folder is None:
        return ServerStorage.anew(where, manifest, settings)
    return FolderStorage.anew(Path(where.folder), manifest)


def open_storage(
    location: Location,
    expected: Manifest | None,
    options: IndexOptions | None,
    settings: Mapping[str, Any],
) -> Storage:
    """Open an index, or make an empty one; see `DocumentIndex.open`."""
    if location.url is not None or str(location.folder) == MEMORY:
        return ServerStorage.open(location, expected, options, settings if location.url is not None else {})
    if location.folder is None:
        raise StoreError("give a folder, ':memory:', or the url of a Qdrant server")
    return FolderStorage.open(Path(location.folder), expected, options)
