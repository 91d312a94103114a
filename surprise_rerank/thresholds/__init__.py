"""What a good score is: background questions, thresholds, verdicts and calibrated chances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.thresholds.background import QuestionBackground as QuestionBackground
    from surprise_rerank.thresholds.promises import monitor as monitor
    from surprise_rerank.thresholds.promises import promise as promise
    from surprise_rerank.thresholds.verdicts import AnswerChance as AnswerChance

__getattr__, __all__ = lazy_names(
    __name__,
    {"background": "QuestionBackground", "promises": "monitor promise", "verdicts": "AnswerChance"},
)
