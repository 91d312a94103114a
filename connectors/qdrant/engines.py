"""The engine interface, and which one a place calls for: Edge, the client's local mode, or a server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.connectors.qdrant.schema import Manifest, Point, Record
from surprise_rerank.errors import IndexMismatchError, StoreError
from surprise_rerank.extras import is_installed, pip_line
from surprise_rerank.files import whole_file

EngineKind: TypeAlias = Literal["edge", "local", "server"]

MANIFEST_FILE = "manifest.json"
_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')  # what Qdrant refuses in the name of a collection


class Engine(Protocol):
    """One collection of Qdrant, wherever it runs. Every error is a `StoreError`."""

    @property
    def kind(self) -> EngineKind:
        """Which engine this is."""
        ...

    @property
    def where(self) -> str:
        """The place, for messages."""
        ...

    def count(self) -> int:
        """Number of stored points."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id; they are there when this returns."""
        ...

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""
        ...

    def search(
        self, vector: Sequence[float], limit: int, fields: Sequence[str], *, dense: bool, exact: bool
    ) -> list[Record]:
        """The nearest points by dot product, best first, with these payload fields."""
        ...

    def retrieve(self, point_ids: Sequence[str], fields: Sequence[str], *, dense: bool) -> list[Record]:
        """Points by id, in any order; unknown ids are left out."""
        ...

    def scroll(self, fields: Sequence[str], *, dense: bool, batch: int = 1000) -> Iterator[list[Record]]:
        """All points, in batches, in no certain order; without fields, payloads are not read."""
        ...

    def smallest(self, limit: int, fields: Sequence[str]) -> list[Record]:
        """The points of the smallest ids, in their order."""
        ...

    def flush(self) -> None:
        """Write everything to disk."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def open_engine(
    location: str | os.PathLike[str] | None,
    manifest: Manifest,
    *,
    collection: str,
    url: str | None = None,
    api_key: str | None = None,
    engine: EngineKind | None = None,
) -> Engine:
    """Open a collection, or make it where there is none.

    Args:
        location: a folder, or `:memory:`; not used with a url.
        manifest: what the collection must be, or will be, made with.
        collection: its name.
        url: of a server or cluster.
        api_key: for the server.
        engine: `edge` or `local` for a new folder; Edge where it is installed by default.

    Raises:
        StoreError: if the place cannot be opened or reached, or a folder is to be of the engine `server`.
        IndexMismatchError: if it was made with something else.
    """
    from surprise_rerank.connectors.qdrant.client import ClientEngine

    if not collection or set(collection) & _FORBIDDEN:
        raise StoreError(f"{collection!r} is not a name for a collection; use letters, digits, '-' and '_'")
    if url is not None:
        return ClientEngine.server(url, collection, manifest, api_key=api_key)
    if location is None:
        raise StoreError("give a folder, ':memory:', or the url of a Qdrant server")
    if str(location) == ":memory:":
        return ClientEngine.memory(collection, manifest)
    if engine == "server":
        raise StoreError("the engine 'server' needs a url; choose edge or local for a folder")
    folder = Path(location)
    kind = _prepare(folder, manifest, engine)
    if kind == "edge":
        if not is_installed("qdrant_edge"):
            raise StoreError(f"{folder} is of Qdrant Edge, which is not installed: run {pip_line('edge')}")
        from surprise_rerank.connectors.qdrant.edge import EdgeEngine

        return EdgeEngine(folder / "edge", manifest.dimension)
    return ClientEngine.local(folder / "local", collection, manifest)


def shown_url(url: str) -> str:
    """A server's url for messages and reports: what stands before an @ can be a password."""
    return re.sub(r"//[^/@]*@", "//", url)


def _prepare(folder: Path, manifest: Manifest, engine: EngineKind | None) -> EngineKind:
    """Check the folder's manifest, or write one; returns the engine that the folder is of."""
    path = folder / MANIFEST_FILE
    with disk_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # A killed process can leave a draft of the manifest behind, and nothing else.
            if any(not entry.name.startswith(f".{MANIFEST_FILE}.") for entry in folder.iterdir()):
                raise IndexMismatchError(
                    f"{folder} is not empty and was not made by surprise-rerank; choose another folder"
                )
            kind: EngineKind = engine or ("edge" if is_installed("qdrant_edge") else "local")
            with whole_file(path) as file:
                file.write(json.dumps({**manifest.to_json(), "engine": kind}, indent=1).encode())
            return kind
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise IndexMismatchError(f"{path} is damaged; delete {folder} and index again") from error
    Manifest.from_json(values, str(folder)).check(manifest, str(folder))
    return "local" if values.get("engine") == "local" else "edge"
