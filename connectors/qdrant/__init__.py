"""Qdrant: embedded (Edge or the client's local mode), server or cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.document_index import DocumentIndex as DocumentIndex
    from surprise_rerank.connectors.qdrant.copying.copies import copy_index as copy_index
    from surprise_rerank.connectors.qdrant.hybrid import SparseRetriever as SparseRetriever
    from surprise_rerank.connectors.qdrant.lexical import Bm25 as Bm25
    from surprise_rerank.connectors.qdrant.location import Location as Location
    from surprise_rerank.connectors.qdrant.location import RetryPolicy as RetryPolicy
    from surprise_rerank.connectors.qdrant.manifest import IndexOptions as IndexOptions
    from surprise_rerank.connectors.qdrant.retrievers import DenseRetriever as DenseRetriever
    from surprise_rerank.connectors.qdrant.retrievers import SurpriseRetriever as SurpriseRetriever
    from surprise_rerank.connectors.qdrant.schema import ALL as ALL
    from surprise_rerank.connectors.qdrant.search.queries import SearchOptions as SearchOptions
    from surprise_rerank.connectors.qdrant.search.status import CollectionStatus as CollectionStatus
    from surprise_rerank.connectors.qdrant.writing.indexing import SyncReport as SyncReport

__getattr__, __all__ = lazy_names(
    __name__,
    {
        ".document_index": "DocumentIndex",
        "copying.copies": "copy_index",
        "lexical": "Bm25",
        "location": "Location RetryPolicy",
        "manifest": "IndexOptions",
        "hybrid": "SparseRetriever",
        "retrievers": "DenseRetriever SurpriseRetriever",
        "schema": "ALL",
        "search.queries": "SearchOptions",
        "search.status": "CollectionStatus",
        "writing.indexing": "SyncReport",
    },
)
