"""An index on a Qdrant server or in memory: a collection for each version, an alias for the one in use."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pybase64
from qdrant_client import QdrantClient, models

from surprise_rerank.connectors.qdrant import retries
from surprise_rerank.connectors.qdrant.client import ClientEngine, Connection
from surprise_rerank.connectors.qdrant.engines import EngineKind
from surprise_rerank.connectors.qdrant.homes import check, differs
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest
from surprise_rerank.connectors.qdrant.schema import point_id
from surprise_rerank.errors import IndexMismatchError, NoIndexError, StoreError

_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')  # what Qdrant refuses in the name of a collection
_PART_BYTES = 4 * 2**20  # of a file, in one point; a server takes 32 MiB in a request


class ServerHome:
    """Collections of a Qdrant: `NAME@VERSION` holds the points, and the alias NAME stands for the one in use.

    Files lie in a second collection, `NAME@VERSION.files`.

    Args:
        client: a server's, or one in local mode, whose collections live in memory.
        name: the alias.
        version: which one.
        manifest: of the version.
        connection: how the server is reached; None in memory.
        settings: more for `create_collection`.
    """

    def __init__(
        self,
        client: QdrantClient,
        name: str,
        version: int,
        manifest: Manifest,
        connection: Connection | None,
        settings: Mapping[str, Any],
    ) -> None:
        place = connection.where if connection else "memory"
        self.where = f"{place}, collection {name!r}"
        self._client, self._name, self._version = client, name, version
        self._connection, self._settings = connection, settings
        self._before: int | None = None
        self._owns_client = True
        self.engine = self._points(f"{name}@{version}")
        self._files = self._points(f"{name}@{version}.files")
        if not self.engine.exists():
            self.engine.create(manifest, settings)
        self.manifest = Manifest.from_json(self.engine.metadata(), self.engine.where)

    @classmethod
    def open(
        cls,
        connection: Connection | None,
        name: str,
        expected: Manifest | None,
        options: IndexOptions | None,
        settings: Mapping[str, Any],
    ) -> ServerHome:
        """The version in use, or an empty first one.

        Raises:
            IndexMismatchError: if the collection is something else, or another model's.
            StoreError: if the server cannot be reached, or there is no index and nothing to make one with.
        """
        if not name or set(name) & _FORBIDDEN:
            raise StoreError(f"{name!r} is not a name for a collection; use letters, digits, '-' and '_'")
        client = connection.open() if connection else QdrantClient(":memory:")
        try:
            return cls._opened(client, connection, name, expected, options, settings)
        except BaseException:
            client.close()
            raise

    @classmethod
    def _opened(
        cls,
        client: QdrantClient,
        connection: Connection | None,
        name: str,
        expected: Manifest | None,
        options: IndexOptions | None,
        settings: Mapping[str, Any],
    ) -> ServerHome:
        where = f"{connection.where if connection else 'memory'}, collection {name!r}"
        policy = connection.retries if connection else retries.DEFAULT
        version = retries.call(lambda: _version_in_use(client, name), where, policy)
        if version is None:
            if retries.call(lambda: client.collection_exists(name), where, policy):
                raise IndexMismatchError(
                    f"{where} was not made by surprise-rerank; choose another name for the collection"
                )
            if expected is None:
                raise NoIndexError(f"there is no index at {where}; make one first, or give its name")
            home = cls(client, name, 1, expected, connection, settings)
            home.promote()
        else:
            stored = expected or Manifest("", "", 1)  # the collection exists, so that nothing is made of it
            home = cls(client, name, version, stored, connection, settings)
        check(home.manifest, expected, options, where)
        return home

    def save(self, manifest: Manifest) -> None:
        """Remember a changed manifest, in the collection's metadata."""
        self.engine.set_metadata(manifest.to_json())
        self.manifest = manifest

    def read_file(self, name: str) -> bytes | None:
        """A file, put together from its parts."""
        if not self._files.exists():
            return None
        parts: dict[int, str] = {}
        whole = 0
        for batch in self._files.scroll(("part", "data", "parts"), batch=4, condition=_named(name)):
            parts.update((r.payload["part"], r.payload["data"]) for r in batch)
            whole = max(whole, *(r.payload["parts"] for r in batch), 0)
        if not parts or len(parts) < whole:
            return None
        return pybase64.b64decode("".join(parts[i] for i in sorted(parts)), validate=True)

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, in parts that a request takes; a name stands for one content: no part changes."""
        if not self._files.exists():
            # An attempt whose answer was lost may have made it.
            with contextlib.suppress(retries.CollectionExists):
                retries.call(
                    lambda: self._client.create_collection(self._files.collection, vectors_config={}),
                    self.where,
                    self._policy,
                )
        text = pybase64.b64encode(content).decode("ascii")
        starts = range(0, len(text), _PART_BYTES)
        for part, start in enumerate(starts):
            data = text[start : start + _PART_BYTES]
            payload = {"name": name, "part": part, "parts": len(starts), "data": data}
            point = models.PointStruct(id=point_id(name, part), vector={}, payload=payload)
            retries.call(
                lambda point=point: self._client.upsert(self._files.collection, [point], wait=True),  # type: ignore[misc]
                self.where,
                self._policy,
            )

    def delete_file(self, name: str) -> None:
        """Forget a file."""
        if self._files.exists():
            ids = [r.id for batch in self._files.scroll((), condition=_named(name)) for r in batch]
            self._files.delete(ids)

    def successor(self, manifest: Manifest) -> ServerHome:
        """The version after this one."""
        engine = self._points(f"{self._name}@{self._version + 1}")
        if engine.exists():
            begun = Manifest.from_json(engine.metadata(), engine.where)
            if differs(begun, manifest):
                self._drop(self._version + 1)
        made = ServerHome(
            self._client, self._name, self._version + 1, manifest, self._connection, self._settings
        )
        made._owns_client = False
        return made

    def hand_over(self) -> None:
        """The connection belongs to the version that replaced this one."""
        self._owns_client = False

    def promote(self) -> None:
        """Let the alias stand for this version, in one request."""
        before = retries.call(lambda: _version_in_use(self._client, self._name), self.where, self._policy)
        create = models.CreateAlias(collection_name=self.engine.collection, alias_name=self._name)
        changes: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=create)]
        if before is not None:
            delete = models.DeleteAlias(alias_name=self._name)
            changes.insert(0, models.DeleteAliasOperation(delete_alias=delete))
        retries.call(lambda: self._client.update_collection_aliases(changes), self.where, self._policy)
        self._before = before if before != self._version else None
        self._owns_client = True

    def drop_others(self) -> None:
        """Delete the collections of the version that this one replaced."""
        if self._before is not None:
            self._drop(self._before)

    def close(self) -> None:
        """Close the connection; a version that is not in use has its predecessor's, and leaves it open."""
        if self._owns_client:
            self.engine.close()

    @property
    def _policy(self) -> retries.RetryPolicy:
        return self._connection.retries if self._connection else retries.DEFAULT

    def _points(self, collection: str) -> ClientEngine:
        kind: EngineKind = "server" if self._connection else "local"
        place = self._connection.where if self._connection else "memory"
        return ClientEngine(self._client, kind, place, collection, self._policy, self._moved)

    def _moved(self) -> str | None:
        """The collection that the alias stands for now, if it is of the same model and options."""
        version = _version_in_use(self._client, self._name)
        if version is None:
            return None
        name = f"{self._name}@{version}"
        now = Manifest.from_json(self._client.get_collection(name).config.metadata or {}, name)
        return None if differs(now, self.manifest) else name

    def _drop(self, version: int) -> None:
        for name in (f"{self._name}@{version}", f"{self._name}@{version}.files"):
            retries.call(lambda name=name: self._client.delete_collection(name), self.where, self._policy)  # type: ignore[misc]


def _version_in_use(client: QdrantClient, name: str) -> int | None:
    """The version that an alias stands for; None where there is no such alias of ours."""
    for alias in client.get_aliases().aliases:
        stem, _, version = alias.collection_name.rpartition("@")
        if alias.alias_name == name and stem == name and version.isdecimal():
            return int(version)
    return None


def _named(name: str) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="name", match=models.MatchValue(value=name))])
