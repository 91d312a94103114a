"""What an index is stored in: its manifest, its points, the files beside them, and its versions.

A version is a complete index. A new one is filled beside the one in use and put into its place in one step:
by an alias on a server, by one small file in a folder. After an error the old one stays in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant._storage.folder import FolderStorage
    from surprise_rerank.connectors.qdrant._storage.server import ServerStorage

Storage: TypeAlias = "FolderStorage | ServerStorage"
