"""Why a ranking came about, and what to expect of a model on a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.diagnosis.diagnosis import Diagnosis as Diagnosis
    from surprise_rerank.diagnosis.diagnosis import Occurrences as Occurrences
    from surprise_rerank.diagnosis.diagnosis import diagnose as diagnose
    from surprise_rerank.diagnosis.explanation import RankingExplanation as RankingExplanation

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "diagnosis": "Diagnosis Occurrences diagnose",
        "explanation": "RankingExplanation",
    },
)
