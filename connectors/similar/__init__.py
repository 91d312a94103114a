"""Every document's nearest neighbours, and groups of near-duplicates: one job, on one machine or on Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar.cluster import RayCluster as RayCluster
    from surprise_rerank.connectors.similar.job import SimilarDocuments as SimilarDocuments
    from surprise_rerank.connectors.similar.job import similar_documents as similar_documents
    from surprise_rerank.connectors.similar.ray_encoder import RayEncoder as RayEncoder
    from surprise_rerank.connectors.similar.settings import SimilaritySettings as SimilaritySettings

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "cluster": "RayCluster",
        "job": "SimilarDocuments similar_documents",
        "ray_encoder": "RayEncoder",
        "settings": "SimilaritySettings",
    },
)
