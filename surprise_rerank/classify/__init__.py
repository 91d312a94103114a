"""Classification and clustering by surprise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.classify.classifier import SurpriseClassifier as SurpriseClassifier
    from surprise_rerank.classify.cluster import SurpriseAssignment as SurpriseAssignment
    from surprise_rerank.classify.cluster import SurpriseKMeans as SurpriseKMeans
    from surprise_rerank.classify.few_shot import FewShotTraining as FewShotTraining
    from surprise_rerank.classify.few_shot import TrainingHistory as TrainingHistory

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "classifier": "SurpriseClassifier",
        "cluster": "SurpriseAssignment SurpriseKMeans",
        "few_shot": "FewShotTraining TrainingHistory",
    },
)
