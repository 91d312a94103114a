"""An index on a Qdrant server or in memory: a collection for each version, an alias for the one in use."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from qdrant_client import QdrantClient, models

from surprise_rerank.connectors.qdrant.engines import retries, versions
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.engines.nodes import Nodes
from surprise_rerank.connectors.qdrant.engines.placement import difference
from surprise_rerank.connectors.qdrant.location import MEMORY, Location
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest, is_index
from surprise_rerank.connectors.qdrant.storage.base import check, differs
from surprise_rerank.connectors.qdrant.storage.files import CollectionFiles
from surprise_rerank.errors import (
    ForeignCollectionError,
    IndexMismatchError,
    NoIndexError,
    StoreError,
    did_you_mean,
)

T = TypeVar("T")

_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')  # what Qdrant refuses in the name of a collection
_VERSION = re.compile(r"[0-9]+(-[0-9a-f]{8})?")
_OF_VERSION = re.compile(rf".+@{_VERSION.pattern}(\.files)?")
_LISTED = 12  # names in a message


class ServerStorage:
    """Collections of a Qdrant: `NAME@VERSION` holds the points, and the alias NAME names the one in use.

    Files are in a second collection, `NAME@VERSION.files`. A version is a number and, after the first, digits
    of what it is made with, so that two processes which build different ones never write into one collection.

    Args:
        nodes: of a server, or a client in local mode, whose collections are in memory.
        location: of the server or in memory; its collection is the alias.
        version: which one.
        manifest: of the version.
        settings: more for `create_collection`, and for those of its later versions.
    """

    def __init__(
        self,
        nodes: Nodes,
        location: Location,
        version: str,
        manifest: Manifest,
        settings: Mapping[str, Any],
    ) -> None:
        name = location.collection
        self.where = f"{location.server}, collection {name!r}"
        self._nodes, self._name, self._version = nodes, name, version
        self._location, self._settings = location, settings
        self._before: str | None = None
        self._owns_client = True
        self.engine = self._engine()
        self._files = self._beside()
        self._is_made_here = not self.engine.exists() and self.engine.create(manifest, settings)
        self.manifest = Manifest.from_json(self.engine.metadata(), self.engine.where)
        self.engine = self._engine()

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
        nodes = _in_memory(location) if location.url is None else Nodes.of(location)
        try:
            return cls._opened(nodes, location, expected, options, settings)
        except BaseException:
            nodes.close()
            raise

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
            made = cls(nodes, location, _next(version, manifest), manifest, {**spread, **settings})
        except BaseException:
            nodes.close()
            raise
        made._before = version
        return made

    @classmethod
    def _opened(
        cls,
        nodes: Nodes,
        location: Location,
        expected: Manifest | None,
        options: IndexOptions | None,
        settings: Mapping[str, Any],
    ) -> ServerStorage:
        name = location.collection
        where = f"{location.server}, collection {name!r}"

        def read(request: Callable[[QdrantClient], T]) -> T:
            return nodes.call(request, where, reads=True)

        if location.url is not None:
            versions.require(versions.Feature.INDEX, nodes)
        with _naming_rights(name):
            version = read(lambda client: _version_in_use(client, name))
            exists = version is None and read(lambda client: _exists(client, name))
        if version is None:
            if exists:
                raise ForeignCollectionError(
                    f"{where} was not made by surprise-rerank; attach it as it is with Collection.attach, or "
                    "choose another name for an index"
                )
            if expected is None:
                there = read(_names)
                hint = did_you_mean(name, there)
                listed = f"; {hint}there is {', '.join(there[:_LISTED])}" if there else ""
                raise NoIndexError(f"there is no index at {where}{listed}; make one first, or give its name")
            storage = cls(nodes, location, "1", expected, settings)
            storage.promote()
        else:
            stored = expected or Manifest("", "", 1)  # the collection exists, so that nothing is made of it
            with _naming_rights(name, version):
                storage = cls(nodes, location, version, stored, settings)
        check(storage.manifest, expected, options, where)
        storage.check_settings(settings)
        return storage

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse a collection that was made with other settings.

        Raises:
            IndexMismatchError: if one differs; the message names both values.
        """
        if self._is_made_here or not settings:
            return
        found = difference(settings, self.engine.info().config)
        if found is not None:
            name, has, asked = found
            raise IndexMismatchError(
                f"{self.where} was made with {name}={has!r}, asked for is {asked!r}; leave the setting away "
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

    def read_file(self, name: str) -> bytes | None:
        """A file beside the points; see `CollectionFiles`."""
        return self._files.read_file(name)

    def holds(self, name: str, digest: str) -> bool:
        """Whether a file has the content of a digest; one small request."""
        return self._files.holds(name, digest)

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, in place of the one of this name."""
        self._files.write_file(name, content)

    def delete_file(self, name: str) -> None:
        """Delete a file."""
        self._files.delete_file(name)

    def successor(
        self, manifest: Manifest, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> ServerStorage:
        """The version after this one, spread as this one is where the settings do not say otherwise.

        Raises:
            StoreError: if another process has replaced this one.
            IndexMismatchError: if the version was begun with other settings.
        """
        self._require_in_use(self._version)
        version = _next(self._version, manifest)
        wanted = {**self._settings, **settings}
        chosen = {**self.engine.spread(), **wanted}
        made = ServerStorage(self._nodes, self._location, version, manifest, chosen)
        made.check_settings(wanted)
        made._owns_client = False
        made._before = self._version
        return made

    def hand_over(self) -> None:
        """The connection belongs to the version that replaced this one."""
        self._owns_client = False

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
        self._call(lambda client: client.update_collection_aliases(changes))
        self._owns_client = True

    def drop_others(self) -> None:
        """Delete the collections of the version that this one replaced, and of others that were begun."""
        found = self._call(lambda client: _collections(client, self._name), reads=True)
        for name, version in found.items():
            if version != self._version and _number(version) <= _number(self._version):
                self._points(name, lambda: None).drop()

    def discard(self) -> None:
        """Delete the collection, if this process has made it and it holds no points.

        A server keeps nobody out: what another process stores between the two requests is lost, and its next
        request fails. So a collection that another process made is never deleted.
        """
        if self._is_made_here and not self.engine.count():
            self.engine.drop()

    def close(self) -> None:
        """Close the connection; a version that is not in use leaves that of its predecessor open."""
        if self._owns_client:
            self.engine.close()

    def _call(self, request: Callable[[QdrantClient], T], *, reads: bool = False) -> T:
        return self._nodes.call(request, self.where, reads=reads)

    def _points(self, collection: str, moved: Callable[[], str | None]) -> ClientEngine:
        return ClientEngine(self._nodes, collection, moved)

    def _engine(self) -> ClientEngine:
        return self._points(f"{self._name}@{self._version}", self._moved)

    def _beside(self) -> CollectionFiles:
        """The files of this version: one small shard, with as many copies as the points have."""

        def settings() -> dict[str, Any]:
            spread = self.engine.spread()
            return {**spread, "shard_number": 1} if spread else {}

        return CollectionFiles(self._points(f"{self._name}@{self._version}.files", lambda: None), settings)

    def _moved(self) -> str | None:
        """The collection that the alias names now; None where that is this one, or there is none."""
        version = self._in_use()
        if version is None:
            # An error, where a token sees the alias alone.
            self._call(lambda client: _exists(client, self._name), reads=True)
        if version is None or version == self._version:
            return None
        name = f"{self._name}@{version}"
        now = Manifest.from_json(self._points(name, lambda: None).metadata(), name)
        if differs(now, self.manifest):
            raise retries.CollectionGone(
                f"{self.where}: version {self._version} does not exist any more, and version {version} was "
                "made with other options, or by another model; open it again"
            )
        self._version, self.manifest = version, now
        self._files = self._beside()
        return name

    def _in_use(self) -> str | None:
        return self._call(lambda client: _version_in_use(client, self._name), reads=True)

    def _require_in_use(self, version: str | None) -> None:
        """Refuse to build on a version that is not in use."""
        found = self._in_use()
        if found not in (version, self._version):
            raise StoreError(
                f"another process has put version {found} of {self.where} into use, this one knows "
                f"{version}; open it again"
            )


def _in_memory(location: Location) -> Nodes:
    return Nodes.given(QdrantClient(MEMORY), "local", location.server, location.retries)


def collections_of(location: Location, *, remove: bool = False) -> tuple[str, ...]:
    """The collections of an index on a server: of every version, and of the files beside it.

    Args:
        location: of the index.
        remove: delete them, and the alias with them.

    Raises:
        StoreError: if the server cannot be reached, or refuses it.
    """
    nodes = Nodes.of(location)
    try:
        found = nodes.call(
            lambda client: _collections(client, location.collection), str(location), reads=True
        )
        for name in sorted(found) if remove else ():
            ClientEngine(nodes, name).drop()
    finally:
        nodes.close()
    return tuple(sorted(found))


def _collections(client: QdrantClient, name: str) -> dict[str, str]:
    """Collection -> version, of all that are an index's own."""
    found: dict[str, str] = {}
    for own in client.get_collections().collections:
        stem, _, version = own.name.removesuffix(".files").rpartition("@")
        if stem == name and _VERSION.fullmatch(version):
            found[own.name] = version
    return found


def _version_in_use(client: QdrantClient, name: str) -> str | None:
    """The version that an alias names; None where there is no such alias of ours."""
    for alias in client.get_aliases().aliases:
        stem, _, version = alias.collection_name.rpartition("@")
        if alias.alias_name == name and stem == name and _VERSION.fullmatch(version):
            return version
    return None


def _exists(client: QdrantClient, name: str) -> bool:
    """Whether there is a collection of this name, if no alias of ours that this key may see has it."""
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
        own = f"{name}@{version}"
        raise retries.NoAccess(
            f"{error}; a token for this index must reach {name!r}, {own!r} and {own + '.files'!r}, each with "
            "'r' to search or 'prw' to add documents (a version after the first has another number)"
        ) from error


def _names(client: QdrantClient) -> list[str]:
    """Indexes and collections of others, without the collections that versions of indexes are in."""
    aliases = [alias.alias_name for alias in client.get_aliases().aliases]
    own = [found.name for found in client.get_collections().collections]
    return sorted({*aliases, *(name for name in own if not _OF_VERSION.fullmatch(name))})


def _next(version: str, manifest: Manifest) -> str:
    """What the version after one is called."""
    return f"{_number(version) + 1}-{_digest(manifest)}"


def _number(version: str) -> int:
    return int(version.partition("-")[0])


def _digest(manifest: Manifest) -> str:
    """Eight digits of what a version is made with."""
    options = json.dumps(manifest.options.to_json(), sort_keys=True)
    precision = "" if manifest.precision == "float32" else f"\0{manifest.precision}"
    made = f"{manifest.fingerprint}\0{manifest.dimension}\0{options}{precision}"
    return hashlib.sha256(made.encode()).hexdigest()[:8]
