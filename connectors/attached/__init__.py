"""Collections of Qdrant that somebody else made: `Collection.attach`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached.collection import Collection as Collection
    from surprise_rerank.connectors.attached.enrichment import EnrichCost as EnrichCost
    from surprise_rerank.connectors.attached.hosts import attach_store as attach_store

__getattr__, __all__ = lazy_names(
    __name__,
    {"collection": "Collection", "enrichment": "EnrichCost", "hosts": "attach_store"},
)
