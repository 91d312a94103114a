"""Qdrant: embedded (Edge or the client's local mode), server or cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors._document_index import DocumentIndex as DocumentIndex
    from surprise_rerank.connectors.qdrant._copying.copies import copy_index as copy_index
    from surprise_rerank.connectors.qdrant._hybrid import SparseRetriever as SparseRetriever
    from surprise_rerank.connectors.qdrant._lexical import Bm25 as Bm25
    from surprise_rerank.connectors.qdrant._location import Location as Location
    from surprise_rerank.connectors.qdrant._location import RetryPolicy as RetryPolicy
    from surprise_rerank.connectors.qdrant._manifest import IndexOptions as IndexOptions
    from surprise_rerank.connectors.qdrant._retrievers import DenseRetriever as DenseRetriever
    from surprise_rerank.connectors.qdrant._retrievers import SurpriseRetriever as SurpriseRetriever
    from surprise_rerank.connectors.qdrant._schema import ALL as ALL
    from surprise_rerank.connectors.qdrant._search.queries import SearchOptions as SearchOptions
    from surprise_rerank.connectors.qdrant._search.status import CollectionStatus as CollectionStatus
    from surprise_rerank.connectors.qdrant._writing.indexing import SyncReport as SyncReport

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "._document_index": "DocumentIndex",
        "_copying.copies": "copy_index",
        "_lexical": "Bm25",
        "_location": "Location RetryPolicy",
        "_manifest": "IndexOptions",
        "_hybrid": "SparseRetriever",
        "_retrievers": "DenseRetriever SurpriseRetriever",
        "_schema": "ALL",
        "_search.queries": "SearchOptions",
        "_search.status": "CollectionStatus",
        "_writing.indexing": "SyncReport",
    },
)
