"""Verdicts in words."""

from __future__ import annotations

import numpy as np
import pytest

from surprise_rerank.candidates import Ranking, verdict_json
from surprise_rerank.thresholds.verdicts import Evidence, verdict_on


def judged(surprise: float) -> Ranking:
    return Ranking(("a",), np.ones(1), surprise=np.array([surprise]))


@pytest.mark.parametrize(
    ("surprise", "shown"), [(3000 / 3001, "99.9 %"), (300 / 301, "99.7 %"), (0.95, "95 %"), (1.0, "100 %")]
)
def test_no_reason_says_that_a_document_is_above_all_questions_that_there_could_be(
    surprise: float, shown: str
) -> None:
    verdict = verdict_on(judged(surprise), Evidence(0.8, 0.5, None))
    assert verdict.reason == f"the best document is above that of {shown} of unrelated questions"


def test_all_interfaces_write_the_same_fields() -> None:
    written = verdict_json(verdict_on(judged(0.95), Evidence(0.3, 0.5, 0.4)))
    assert written == {
        "status": "weak",
        "surprise": 0.95,
        "chance_of_relevance": 0.3,
        "reason": "the best document is above that of 95 % of unrelated questions, and of 40 % of near ones "
        "without an answer; 30 % of such questions find an answer",
    }
    assert verdict_json(None) is None
