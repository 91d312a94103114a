"""One collection of points: Edge's in a folder, or one behind qdrant-client. Every error is a `StoreError`.

Requests are written in qdrant-client's `models`; Edge's are translated (`edge.py`). Everything that
Qdrant offers in a filter therefore passes through unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
    from surprise_rerank.connectors.qdrant._engines.edge import EdgeEngine

Engine: TypeAlias = "ClientEngine | EdgeEngine"
