"""The Qdrant of QDRANT_URL, which tests with the marks `server` and `cluster` are run on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient

TOO_OLD = ", the first that has "  # in what is said of a server that lacks a feature


def server_url() -> str:
    """The first address of QDRANT_URL; skips the test where there is none."""
    first = os.environ.get("QDRANT_URL", "").split(",")[0].strip()
    if not first:
        pytest.skip("no Qdrant server: set QDRANT_URL (docker compose up -d)")
    return first


@contextlib.contextmanager
def cleaned(url: str, prefix: str) -> Iterator[QdrantClient]:
    """A client of a server; the collections whose name begins so are removed afterwards."""
    client = QdrantClient(url, api_key=os.environ.get("QDRANT_API_KEY"), check_compatibility=False)
    try:
        yield client
    finally:
        for collection in client.get_collections().collections:
            if collection.name.startswith(prefix):
                client.delete_collection(collection.name)
        client.close()
