"""Re-rankers: from a candidate pool to a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.rerank._cross_encoder import CrossEncoderScorer as CrossEncoderScorer
    from surprise_rerank.rerank._diversity import Diversity as Diversity
    from surprise_rerank.rerank._feedback import FeedbackScorer as FeedbackScorer
    from surprise_rerank.rerank._fusion import FusionMethod as FusionMethod
    from surprise_rerank.rerank._fusion import FusionReranker as FusionReranker
    from surprise_rerank.rerank._fusion import Trust as Trust
    from surprise_rerank.rerank._payload import PayloadScorer as PayloadScorer
    from surprise_rerank.rerank._scorers import CosineScorer as CosineScorer
    from surprise_rerank.rerank._scorers import DynaMaxScorer as DynaMaxScorer
    from surprise_rerank.rerank._scorers import Reranker as Reranker
    from surprise_rerank.rerank._scorers import RetrievedScorer as RetrievedScorer
    from surprise_rerank.rerank._scorers import Scorer as Scorer
    from surprise_rerank.rerank._surprise import SurpriseReranker as SurpriseReranker
    from surprise_rerank.rerank._weight_fitting import WeightFit as WeightFit
    from surprise_rerank.rerank._weight_fitting import fit_guarded as fit_guarded

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "_cross_encoder": "CrossEncoderScorer",
        "_diversity": "Diversity",
        "_feedback": "FeedbackScorer",
        "_fusion": "FusionMethod FusionReranker Trust",
        "_payload": "PayloadScorer",
        "_scorers": "CosineScorer DynaMaxScorer Reranker RetrievedScorer Scorer",
        "_surprise": "SurpriseReranker",
        "_weight_fitting": "WeightFit fit_guarded",
    },
)
