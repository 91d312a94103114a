"""What an index is stored in: its manifest, its points, the files beside them, and its versions.

A version is a complete index. A new one is filled beside the one in use and put into its place in one step:
by an alias on a server, by one small file in a folder. After an error the old one stays in use.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from surprise_rerank.connectors.qdrant.engines.base import Engine
from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.storage.files import Files


class Storage(Files):
    """One version of an index: its points, and files beside them. Every error is a `StoreError`."""

    where: str  # the place, for messages
    manifest: Manifest  # how it was made, and which statistics it has
    engine: Engine  # its points

    def reload(self) -> Manifest:
        """The manifest as it is stored now; another process may have changed it."""
        return self.manifest

    @abstractmethod
    def save(self, manifest: Manifest) -> None:
        """Remember a changed manifest."""

    @abstractmethod
    def successor(self, manifest: Manifest, settings: Mapping[str, Any] = MappingProxyType({})) -> Storage:
        """The next version, not in use yet. It continues what an interrupted call began, where that fits.

        Args:
            manifest: of the next version.
            settings: of a collection on a server; see `QdrantIndex.open`.
        """

    @abstractmethod
    def promote(self) -> None:
        """Put this version into use, in place of the one before."""

    @abstractmethod
    def release(self) -> None:
        """Close this version, which another has replaced; not what both share, such as a connection."""

    @abstractmethod
    def drop_others(self) -> None:
        """Delete the versions that are not in use; they must not be open in this process."""

    @abstractmethod
    def discard(self) -> None:
        """Delete an index that holds no points, where no other process needs it; close it afterwards.

        Raises:
            StoreError: if another process has it open.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections, and release locks."""


def differs(one: Manifest, other: Manifest) -> bool:
    """Whether two versions hold vectors of other models, or store other things."""
    compared = attrgetter("fingerprint", "precision", "dimension", "token_dimension", "options")
    return bool(compared(one) != compared(other))
