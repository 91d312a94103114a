"""Qdrant: embedded (Edge or the client's local mode), server or cluster."""

from surprise_rerank.connectors.qdrant.index import DocumentIndex
from surprise_rerank.connectors.qdrant.indexing import SyncReport
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.maintenance import IndexStatus
from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.connectors.qdrant.queries import SearchOptions
from surprise_rerank.connectors.qdrant.retries import RetryPolicy
from surprise_rerank.connectors.qdrant.retriever import (
    DenseRetriever,
    MaxSimRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.sparse import SparseRetriever

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
