"""Re-rankers: from a candidate pool to a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.rerank.auto import AutoReranker as AutoReranker
    from surprise_rerank.rerank.auto import AutoSettings as AutoSettings
    from surprise_rerank.rerank.auto import PoolAutoReranker as PoolAutoReranker
    from surprise_rerank.rerank.cross_encoder import CrossEncoderScorer as CrossEncoderScorer
    from surprise_rerank.rerank.diversity import Diversity as Diversity
    from surprise_rerank.rerank.fusion import FusionMethod as FusionMethod
    from surprise_rerank.rerank.payload import PayloadScorer as PayloadScorer
    from surprise_rerank.rerank.rerankers import CosineReranker as CosineReranker
    from surprise_rerank.rerank.rerankers import DynaMaxReranker as DynaMaxReranker
    from surprise_rerank.rerank.rerankers import FusionReranker as FusionReranker
    from surprise_rerank.rerank.rerankers import Reranker as Reranker
    from surprise_rerank.rerank.rerankers import SurpriseReranker as SurpriseReranker
    from surprise_rerank.rerank.scorers import CosineScorer as CosineScorer
    from surprise_rerank.rerank.scorers import DynaMaxScorer as DynaMaxScorer
    from surprise_rerank.rerank.scorers import RetrievedScorer as RetrievedScorer
    from surprise_rerank.rerank.scorers import Scorer as Scorer
    from surprise_rerank.rerank.weight_fitting import Weighted as Weighted
    from surprise_rerank.rerank.weight_fitting import WeightFit as WeightFit
    from surprise_rerank.rerank.weight_fitting import fit_guarded as fit_guarded

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "auto": "AutoReranker AutoSettings PoolAutoReranker",
        "cross_encoder": "CrossEncoderScorer",
        "diversity": "Diversity",
        "fusion": "FusionMethod",
        "payload": "PayloadScorer",
        "rerankers": "CosineReranker DynaMaxReranker FusionReranker Reranker SurpriseReranker",
        "scorers": "CosineScorer DynaMaxScorer RetrievedScorer Scorer",
        "weight_fitting": "WeightFit Weighted fit_guarded",
    },
)
