"""What a good score is: background questions, thresholds, verdicts and calibrated probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.thresholds.background import QuestionBackground as QuestionBackground
    from surprise_rerank.thresholds.calibration import Answered as Answered
    from surprise_rerank.thresholds.calibration import RelevanceCurve as RelevanceCurve
    from surprise_rerank.thresholds.calibration import ReliabilityBin as ReliabilityBin
    from surprise_rerank.thresholds.calibration import answered as answered
    from surprise_rerank.thresholds.calibration import (
        expected_calibration_error as expected_calibration_error,
    )
    from surprise_rerank.thresholds.calibration import reliability as reliability
    from surprise_rerank.thresholds.calibration import threshold_for as threshold_for
    from surprise_rerank.thresholds.chance import AnswerChance as AnswerChance
    from surprise_rerank.thresholds.monitor import BackgroundMonitor as BackgroundMonitor
    from surprise_rerank.thresholds.monitor import Promise as Promise
    from surprise_rerank.thresholds.monitor import Traffic as Traffic

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "background": "QuestionBackground",
        "calibration": "Answered RelevanceCurve ReliabilityBin "
        "answered expected_calibration_error reliability threshold_for",
        "chance": "AnswerChance",
        "monitor": "BackgroundMonitor Promise Traffic",
    },
)
