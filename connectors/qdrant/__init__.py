"""Qdrant: embedded (Edge or the client's local mode), server or cluster."""

from surprise_rerank.connectors.qdrant.index import DocumentIndex, SyncReport
from surprise_rerank.connectors.qdrant.retriever import DenseRetriever

__all__ = ["DenseRetriever", "DocumentIndex", "SyncReport"]
