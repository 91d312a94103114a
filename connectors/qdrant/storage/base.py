"""What an index is stored in: its manifest, its points, the files beside them, and its versions.

A version is a complete index. A new one is filled beside the one in use and put into its place in one step:
by an alias on a server, by one small file in a folder. After an error the old one stays in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Protocol

from surprise_rerank.connectors.qdrant.engines.base import Engine
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest
from surprise_rerank.connectors.qdrant.storage.files import Files


class Storage(Files, Protocol):
    """One version of an index: its points, and files beside them. Every error is a `StoreError`."""

    @property
    def where(self) -> str:
        """The place, for messages."""
        ...

    @property
    def manifest(self) -> Manifest:
        """How it was made, and which statistics it has."""
        ...

    @property
    def engine(self) -> Engine:
        """Its points."""
        ...

    def reload(self) -> Manifest:
        """The manifest as it is stored now; another process may have changed it."""
        ...

    def save(self, manifest: Manifest) -> None:
        """Remember a changed manifest."""
        ...

    def successor(self, manifest: Manifest, settings: Mapping[str, Any] = MappingProxyType({})) -> Storage:
        """The next version, not in use yet. It continues what an interrupted call began, where that fits.

        Args:
            manifest: of the next version.
            settings: of a collection on a server; see `QdrantIndex.open`.
        """
        ...

    def promote(self) -> None:
        """Put this version into use, in place of the one before."""
        ...

    def hand_over(self) -> None:
        """Leave what both versions share, such as a connection, to the one that replaced this one."""
        ...

    def drop_others(self) -> None:
        """Delete the versions that are not in use; they must not be open in this process."""
        ...

    def discard(self) -> None:
        """Delete an index that holds no points, where no other process needs it; close it afterwards.

        Raises:
            StoreError: if another process has it open.
        """
        ...

    def close(self) -> None:
        """Close files and connections, and release locks."""
        ...


def check(manifest: Manifest, expected: Manifest | None, options: IndexOptions | None, where: str) -> None:
    """Compare an index with the model and the options that the caller brings, where they are given.

    Raises:
        IndexMismatchError: if they differ.
    """
    if expected is not None:
        manifest.check(expected, where)
    if options is not None:
        manifest.check_options(options, where)


def differs(one: Manifest, other: Manifest) -> bool:
    """Whether two versions hold vectors of other models, or store other things."""
    compared = attrgetter("fingerprint", "precision", "dimension", "token_dimension", "options")
    return bool(compared(one) != compared(other))
