"""What a good score is: background questions, thresholds, verdicts and calibrated chances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.thresholds._background import QuestionBackground as QuestionBackground
    from surprise_rerank.thresholds._promises import monitor as monitor
    from surprise_rerank.thresholds._promises import promise as promise
    from surprise_rerank.thresholds._verdicts import AnswerChance as AnswerChance

__getattr__, __all__ = lazy_names(
    __name__,
    {"_background": "QuestionBackground", "_promises": "monitor promise", "_verdicts": "AnswerChance"},
)
