"""From what a user gives, a folder or a url, to the home of an index."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.qdrant.engines.base import EngineKind
from surprise_rerank.connectors.qdrant.engines.client import Connection
from surprise_rerank.connectors.qdrant.engines.retries import RetryPolicy
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest
from surprise_rerank.connectors.qdrant.storage.base import Home
from surprise_rerank.connectors.qdrant.storage.folder import FolderHome
from surprise_rerank.connectors.qdrant.storage.server import ServerHome
from surprise_rerank.errors import StoreError


def open_home(
    location: str | os.PathLike[str] | None,
    expected: Manifest | None,
    options: IndexOptions | None,
    *,
    collection: str,
    url: str | None,
    api_key: str | None,
    engine: EngineKind | None,
    prefer_grpc: bool,
    grpc_port: int,
    timeout: float,
    retries: RetryPolicy,
    settings: Mapping[str, Any],
) -> Home:
    """Open an index, or make an empty one; see `DocumentIndex.open`.

    Raises:
        StoreError: if the place cannot be opened or reached, or is not given.
        IndexMismatchError: if it was made with something else.
    """
    if url is not None:
        key = api_key or os.environ.get("QDRANT_API_KEY")
        connection = Connection(url, key, prefer_grpc, grpc_port, timeout, retries)
        return ServerHome.open(connection, collection, expected, options, settings)
    if location is None:
        raise StoreError("give a folder, ':memory:', or the url of a Qdrant server")
    if str(location) == ":memory:":
        return ServerHome.open(None, collection, expected, options, {})
    if engine == "server":
        raise StoreError("the engine 'server' needs a url; choose edge or local for a folder")
    return FolderHome.open(Path(location), expected, options, engine)
