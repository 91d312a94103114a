"""Re-rankers: from a candidate pool to a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.rerank.cross_encoder import CrossEncoderScorer as CrossEncoderScorer
    from surprise_rerank.rerank.diversity import Diversity as Diversity
    from surprise_rerank.rerank.feedback import FeedbackScorer as FeedbackScorer
    from surprise_rerank.rerank.fusion import FusionMethod as FusionMethod
    from surprise_rerank.rerank.fusion import FusionReranker as FusionReranker
    from surprise_rerank.rerank.fusion import Trust as Trust
    from surprise_rerank.rerank.payload import PayloadScorer as PayloadScorer
    from surprise_rerank.rerank.scorers import CosineScorer as CosineScorer
    from surprise_rerank.rerank.scorers import DynaMaxScorer as DynaMaxScorer
    from surprise_rerank.rerank.scorers import Reranker as Reranker
    from surprise_rerank.rerank.scorers import RetrievedScorer as RetrievedScorer
    from surprise_rerank.rerank.scorers import Scorer as Scorer
    from surprise_rerank.rerank.surprise import SurpriseReranker as SurpriseReranker
    from surprise_rerank.rerank.weight_fitting import WeightFit as WeightFit
    from surprise_rerank.rerank.weight_fitting import fit_guarded as fit_guarded

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "cross_encoder": "CrossEncoderScorer",
        "diversity": "Diversity",
        "feedback": "FeedbackScorer",
        "fusion": "FusionMethod FusionReranker Trust",
        "payload": "PayloadScorer",
        "scorers": "CosineScorer DynaMaxScorer Reranker RetrievedScorer Scorer",
        "surprise": "SurpriseReranker",
        "weight_fitting": "WeightFit fit_guarded",
    },
)
