"""An index on a Qdrant server or in memory: a collection for each version, an alias for the one in use."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, TypeVar

from qdrant_client import QdrantClient, models

from surprise_rerank._errors import ForeignCollectionError, IndexMismatchError, NoIndexError, StoreError
from surprise_rerank.connectors.qdrant._engines import retries
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._engines.nodes import Node, Nodes, require_oldest
from surprise_rerank.connectors.qdrant._engines.placement import difference
from surprise_rerank.connectors.qdrant._location import MEMORY, Location
from surprise_rerank.connectors.qdrant._manifest import IndexOptions, Manifest, is_index
from surprise_rerank.connectors.qdrant._storage.files import CollectionFiles
from surprise_rerank.core._process import NeverCopied

T = TypeVar("T")

_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')  # what Qdrant refuses in the name of a collection
_VERSION = re.compile(r"[0-9]+(-[0-9a-f]{8})?")


class ServerStorage(NeverCopied, CollectionFiles):
    """Collections of a Qdrant: `NAME@VERSION` holds the points, and the alias NAME names the one in use.

    Files are in a second collection, `NAME@VERSION.files`. A version is a number and, after the first, digits
    of what it is made with, so that two processes which build different ones never write into one collection.
    Settings are for `create_collection`; `before` is the version that it is to replace.
    """

    engine: ClientEngine

    def __init__(
        self,
        nodes: Nodes,
        location: Location,
        version: str,
        manifest: Manifest,
        settings: Mapping[str, Any],
        before: str | None = None,
    ) -> None:
        name = location.collection
        self.where = f"{location.server}, collection {name!r}"
        self._nodes, self._name, self._version = nodes, name, version
        self._location, self._settings = location, settings
        self._before = before
        self._owns_nodes = True
        self.engine = self._points(f"{name}@{version}", self._moved)
        super().__init__(self._points(f"{name}@{version}.files"), self._of_files)
        self._is_made_here = not self.engine.exists() and self.engine.create(manifest, settings)
        self.reload()

    @classmethod
    def open(
        cls,
        location: Location,
        expected: Manifest | None,
        options: IndexOptions | None,
        settings: Mapping[str, Any],
    ) -> ServerStorage:
        """The version in use, or an empty first one.

        Raises:
            IndexMismatchError: if the collection is something else, or another model's.
            StoreError: if the server cannot be reached, or there is no index and nothing to make one with.
        """
        name = location.collection
        if not name or set(name) & _FORBIDDEN:
            raise StoreError(f"{name!r} is not a name for a collection; use letters, digits, '-' and '_'")
        if location.url is None:
            nodes = Nodes([Node(QdrantClient(MEMORY))], "local", location.server, location.retries)
        else:
            nodes = Nodes.of(location)
        try:
            if location.url is not None:
                require_oldest(nodes)
            storage = cls._opened(nodes, location, expected, settings)
            storage.manifest.check(expected, storage.where, options)
            storage.check_settings(settings)
        except BaseException:
            nodes.close()
            raise
        return storage

    @property
    def location(self) -> Location:
        """Where the index is."""
        return self._location

    @classmethod
    def _opened(
        cls, nodes: Nodes, location: Location, expected: Manifest | None, settings: Mapping[str, Any]
    ) -> ServerStorage:
        name, where = location.collection, f"{location.server}, collection {location.collection!r}"
        with _naming_rights(name):
            version = nodes.call(lambda client: _version_in_use(client, name), where, reads=True)
            if version is None and nodes.call(lambda client: _exists(client, name), where, reads=True):
                raise ForeignCollectionError(
                    f"{where} was not made by surprise-rerank; search or enrich it as it is "
                    "(Collection.attach), or choose another name for an index"
                )
        if version is not None:
            stored = expected or Manifest("", "", 1)  # the collection exists, so that nothing is made of it
            with _naming_rights(name, version):
                return cls(nodes, location, version, stored, settings)
        if expected is None:
            raise NoIndexError(f"there is no index at {where}; make one first, or give its name")
        storage = cls(nodes, location, "1", expected, settings)
        storage.promote()
        return storage

    @classmethod
    def anew(cls, location: Location, manifest: Manifest, settings: Mapping[str, Any]) -> ServerStorage:
        """An empty version beside one that cannot be opened, spread as that one; see `successor`.

        Raises:
            NoIndexError: if there is none.
            StoreError: if the server cannot be reached.
        """
        nodes, name = Nodes.of(location), location.collection
        try:
            version = nodes.call(lambda client: _version_in_use(client, name), str(location), reads=True)
            if version is None:
                raise NoIndexError(f"there is no index at {location}; make one first, or give its name")
            spread = ClientEngine(nodes, f"{name}@{version}").spread()
            following = _next(version, manifest)
            return cls(nodes, location, following, manifest, {**spread, **settings}, before=version)
        except BaseException:
            nodes.close()
            raise

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse a collection that was made with other settings.

        Raises:
            IndexMismatchError: if one differs; the message names both values.
        """
        if self._is_made_here or not settings:
            return
        different = difference(settings, self.engine.info().config)
        if different is not None:
            name, has, wanted = different
            raise IndexMismatchError(
                f"{self.where} was made with {name}={has!r}, asked for is {wanted!r}; leave the setting away "
                "to take it as it is, or rebuild the index with the new one"
            )

    def reload(self) -> Manifest:
        """The manifest as the collection has it now."""
        self.manifest = Manifest.from_json(self.engine.metadata(), self.engine.where)
        return self.manifest

    def save(self, manifest: Manifest) -> None:
        """Remember a changed manifest, in the collection's metadata."""
        self.engine.set_metadata(manifest.to_json())
        self.manifest = manifest

    def successor(
        self, manifest: Manifest, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> ServerStorage:
        """The version after this one, spread as this one is where the settings do not say otherwise.

        Raises:
            StoreError: if another process has replaced this one.
            IndexMismatchError: if the version was begun with other settings.
        """
        self._require_in_use(self._version)
        wanted = {**self._settings, **settings}
        chosen, version = {**self.engine.spread(), **wanted}, _next(self._version, manifest)
        storage = ServerStorage(self._nodes, self._location, version, manifest, chosen, before=self._version)
        storage.check_settings(wanted)
        storage._owns_nodes = False  # until it is in use
        return storage

    def release(self) -> None:
        """Nothing: the connection belongs to the version that replaced this one."""

    def promote(self) -> None:
        """Let the alias name this version, in one request.

        Raises:
            StoreError: if another process has put one into use since this one was begun.
        """
        self._require_in_use(self._before)
        create = models.CreateAlias(collection_name=self.engine.collection, alias_name=self._name)
        changes: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=create)]
        if self._before is not None:
            delete = models.DeleteAlias(alias_name=self._name)
            changes.insert(0, models.DeleteAliasOperation(delete_alias=delete))
        self._nodes.call(lambda client: client.update_collection_aliases(changes), self.where)
        self._owns_nodes = True

    def drop_others(self) -> None:
        """Delete the collections of the version that this one replaced, and of others that were begun."""
        for name, version in self._answer(lambda client: _collections(client, self._name)).items():
            if version != self._version and _number(version) <= _number(self._version):
                self._points(name).drop()

    def discard(self, *, with_points: bool = False) -> None:
        """Delete the collections, if this process has made them and they hold no points, or may.

        A server keeps nobody out: what another process stores between the two requests is lost, and its next
        request fails. So a collection that another process made is never deleted.
        """
        if self._is_made_here and (with_points or not self.engine.count()):
            self.engine.drop()
            self.kept.drop()

    def close(self) -> None:
        """Close the connection; a version that is not in use leaves that of its predecessor open."""
        if self._owns_nodes:
            self.engine.close()

    def _answer(self, request: Callable[[QdrantClient], T]) -> T:
        """Return the answer to a request that only reads."""
        return self._nodes.call(request, self.where, reads=True)

    def _points(self, collection: str, moved: Callable[[], str | None] = lambda: None) -> ClientEngine:
        return ClientEngine(self._nodes, collection, moved)

    def _of_files(self) -> Mapping[str, Any]:
        """Settings of the files' collection: one small shard, with as many copies as the points have."""
        spread = self.engine.spread()
        return {**spread, "shard_number": 1} if spread else {}

    def _moved(self) -> str | None:
        """The collection that the alias names now; None where that is this one, or there is none."""
        version = self._answer(lambda client: _version_in_use(client, self._name))
        if version is None:
            self._answer(lambda client: _exists(client, self._name))  # an error, where a token sees no more
        if version is None or version == self._version:
            return None
        name = f"{self._name}@{version}"
        now = Manifest.from_json(self._points(name).metadata(), name)
        if now.differs(self.manifest) or now.words != self.manifest.words:
            raise retries.CollectionGone(
                f"{self.where}: version {self._version} does not exist any more, and version {version} was "
                "made with other options, or by another model; open it again"
            )
        self._version, self.manifest = version, now
        self.kept = self._points(f"{name}.files")
        return name

    def _require_in_use(self, version: str | None) -> None:
        """Refuse to build on a version that is not in use."""
        in_use = self._answer(lambda client: _version_in_use(client, self._name))
        if in_use not in (version, self._version):
            raise StoreError(
                f"another process has put version {in_use} of {self.where} into use, this one knows "
                f"{version}; open it again"
            )


def _collections(client: QdrantClient, name: str) -> dict[str, str]:
    """Collection -> version, of all that are an index's own."""
    versions: dict[str, str] = {}
    for entry in client.get_collections().collections:
        stem, _, version = entry.name.removesuffix(".files").rpartition("@")
        if stem == name and _VERSION.fullmatch(version):
            versions[entry.name] = version
    return versions


def _version_in_use(client: QdrantClient, name: str) -> str | None:
    """Return the version that an alias names; None where there is no alias of an index."""
    for alias in client.get_aliases().aliases:
        stem, _, version = alias.collection_name.rpartition("@")
        if alias.alias_name == name and stem == name and _VERSION.fullmatch(version):
            return version
    return None


def _exists(client: QdrantClient, name: str) -> bool:
    """Whether a collection of another program has this name; an error where the key sees no more."""
    if not client.collection_exists(name):
        return False
    if not is_index(client.get_collection(name).config.metadata or {}):
        return True
    raise retries.NoAccess(f"the key or token may read {name!r}, but not the collection that this names")


@contextlib.contextmanager
def _naming_rights(name: str, version: str = "1") -> Iterator[None]:
    """Where access to an index is refused, the error says what a token must reach."""
    try:
        yield
    except retries.NoAccess as error:
        collection = f"{name}@{version}"
        raise retries.NoAccess(
            f"{error}; a token for this index must reach {name!r}, {collection!r} and "
            f"{collection + '.files'!r}, each with 'r' to search or 'prw' to add documents (a version after "
            "the first has another number)"
        ) from error


def _next(version: str, manifest: Manifest) -> str:
    """Return the name of the next version: its number, and digits of a hash of its options and model."""
    options = json.dumps(asdict(manifest.options), sort_keys=True)
    parts = (manifest.fingerprint, str(manifest.dimension), manifest.precision, options)
    return f"{_number(version) + 1}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"


def _number(version: str) -> int:
    return int(version.partition("-")[0])
