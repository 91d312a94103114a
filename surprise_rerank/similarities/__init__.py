"""Similarities of two texts: DynaMax, fuzzy bags of words, averages and others, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.similarities.dynamax import DynaMax as DynaMax
    from surprise_rerank.similarities.dynamax import Measure as Measure
    from surprise_rerank.similarities.dynamax import Universe as Universe
    from surprise_rerank.similarities.registry import SIMILARITIES as SIMILARITIES
    from surprise_rerank.similarities.registry import NamedSimilarity as NamedSimilarity
    from surprise_rerank.similarities.registry import find_similarity as find_similarity
    from surprise_rerank.similarities.registry import similarity_names as similarity_names
    from surprise_rerank.similarities.reranker import SimilarityReranker as SimilarityReranker
    from surprise_rerank.similarities.text_similarity import TextSimilarity as TextSimilarity
    from surprise_rerank.similarities.word_weights import WordStatistics as WordStatistics

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "dynamax": "DynaMax Measure Universe",
        "registry": "SIMILARITIES NamedSimilarity find_similarity similarity_names",
        "reranker": "SimilarityReranker",
        "text_similarity": "TextSimilarity",
        "word_weights": "WordStatistics",
    },
)
