"""Collections of Qdrant that somebody else made: `Collection.attach`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached._collection import Collection as Collection
    from surprise_rerank.connectors.attached._enrichment import EnrichCost as EnrichCost
    from surprise_rerank.connectors.attached._hosts import attach_store as attach_store

__getattr__, __all__ = lazy_names(
    __name__,
    {"_collection": "Collection", "_enrichment": "EnrichCost", "_hosts": "attach_store"},
)
