"""Similarities of two texts: DynaMax, fuzzy bags of words, averages and others, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.similarities.definitions import Similarity as Similarity
    from surprise_rerank.similarities.definitions import WordStatistics as WordStatistics
    from surprise_rerank.similarities.dynamax import DynaMax as DynaMax
    from surprise_rerank.similarities.dynamax import Measure as Measure
    from surprise_rerank.similarities.dynamax import Universe as Universe
    from surprise_rerank.similarities.table import SIMILARITIES as SIMILARITIES
    from surprise_rerank.similarities.table import NamedSimilarity as NamedSimilarity
    from surprise_rerank.similarities.table import find_similarity as find_similarity
    from surprise_rerank.similarities.table import similarity_names as similarity_names
    from surprise_rerank.similarities.text_similarity import SimilarityReranker as SimilarityReranker
    from surprise_rerank.similarities.text_similarity import TextSimilarity as TextSimilarity

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "definitions": "Similarity WordStatistics",
        "dynamax": "DynaMax Measure Universe",
        "table": "SIMILARITIES NamedSimilarity find_similarity similarity_names",
        "text_similarity": "SimilarityReranker TextSimilarity",
    },
)
