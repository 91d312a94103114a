"""Every document's nearest neighbours, and groups of near-duplicates: one job, on one machine or on Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar._cluster import RayCluster as RayCluster
    from surprise_rerank.connectors.similar._job import SimilarDocuments as SimilarDocuments
    from surprise_rerank.connectors.similar._job import similar_documents as similar_documents
    from surprise_rerank.connectors.similar._ray_encoder import RayEncoder as RayEncoder
    from surprise_rerank.connectors.similar._settings import SimilaritySettings as SimilaritySettings

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "_cluster": "RayCluster",
        "_job": "SimilarDocuments similar_documents",
        "_ray_encoder": "RayEncoder",
        "_settings": "SimilaritySettings",
    },
)
