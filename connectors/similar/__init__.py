"""Document similarity in batches: every document's most surprising neighbours, from a laptop to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar.index.location import IndexLocation as IndexLocation
    from surprise_rerank.connectors.similar.job import SimilarityJob as SimilarityJob
    from surprise_rerank.connectors.similar.neighbour_batches import neighbours as neighbours
    from surprise_rerank.connectors.similar.recall import sample_check as sample_check
    from surprise_rerank.connectors.similar.settings import SimilaritySettings as SimilaritySettings
    from surprise_rerank.connectors.similar.threads import Threads as Threads

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "index.location": "IndexLocation",
        "job": "SimilarityJob",
        "neighbour_batches": "neighbours",
        "recall": "sample_check",
        "settings": "SimilaritySettings",
        "threads": "Threads",
    },
)
