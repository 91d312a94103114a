"""The index that users open: documents in Qdrant, and what ranks them."""

from __future__ import annotations

from surprise_rerank.connectors.qdrant.index import QdrantIndex


class DocumentIndex(QdrantIndex):
    """Documents with their dense vectors and token vectors, in one collection of Qdrant.

    Use `DocumentIndex.open`; the index is a context manager. Methods whose names have an `a` before them are
    for event loops: the same in a thread. `docs/qdrant.md` has examples.
    """
