"""Qdrant: embedded (Edge or the client's local mode), server or cluster."""

from surprise_rerank.connectors.qdrant.engines.retries import RetryPolicy
from surprise_rerank.connectors.qdrant.index import DocumentIndex
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.connectors.qdrant.retrievers.dense import (
    DenseRetriever,
    MaxSimRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.qdrant.search.queries import SearchOptions
from surprise_rerank.connectors.qdrant.writing.indexing import SyncReport
from surprise_rerank.connectors.qdrant.writing.maintenance import IndexStatus

__all__ = [
    "Bm25",
    "DenseRetriever",
    "DocumentIndex",
    "IndexOptions",
    "IndexStatus",
    "MaxSimRetriever",
    "RetryPolicy",
    "SearchOptions",
    "SparseRetriever",
    "SurpriseRetriever",
    "SyncReport",
]
