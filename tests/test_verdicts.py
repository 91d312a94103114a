"""Verdicts in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surprise_rerank.candidates import Ranking, Verdict, verdict_json
from surprise_rerank.eval.cli.surprise_rerank.found import Found, FoundHit
from surprise_rerank.eval.cli.surprise_rerank.showing import in_words
from surprise_rerank.thresholds.verdicts import Evidence, verdict_on


def judged(surprise: float) -> Ranking:
    return Ranking(("a",), np.ones(1), surprise=np.array([surprise]))


@pytest.mark.parametrize(
    ("surprise", "shown"), [(3000 / 3001, "99.9 %"), (300 / 301, "99.7 %"), (0.95, "95 %"), (1.0, "100 %")]
)
def test_no_reason_says_that_a_document_is_above_all_questions_that_there_could_be(
    surprise: float, shown: str
) -> None:
    verdict = verdict_on(judged(surprise), Evidence(0.8, False, None))
    assert verdict.reason == f"the best document is above that of {shown} of unrelated questions"


def test_all_interfaces_write_the_same_fields() -> None:
    written = verdict_json(verdict_on(judged(0.95), Evidence(0.3, True, 0.1)))
    assert written == {
        "status": "weak",
        "surprise": 0.95,
        "chance_of_relevance": 0.3,
        "reason": "the best document is above that of 95 % of unrelated questions, and only of 10 % of near "
        "ones without an answer; the chance of an answer among the first ten is 30 %",
    }
    assert verdict_json(None) is None


@pytest.mark.parametrize(
    ("verdict", "hits", "told"),
    [
        (
            ("answered", 0.97, 0.8),
            1,
            "answered: because; the chance of an answer among the first ten is 80 %",
        ),
        (("answered", None, None), 1, "answered: because"),
        (("weak", 0.97, 0.3), 1, "weak: because. Ask in other words, or look further down"),
        (
            ("off-topic", 0.3, None),
            0,
            "off-topic: because. Ask about what the documents hold (nothing is shown",
        ),
        (("off-topic", 0.3, None), 1, "off-topic: because. Ask about what the documents hold (what is shown"),
    ],
)
def test_a_line_of_the_terminal_says_what_to_do(verdict: tuple[Any, ...], hits: int, told: str) -> None:
    hit = FoundHit("a", 1.0, 0.3, {}, "", "", None, {})
    found = Found("q", "auto", 0.1, [hit] * hits, 5, verdict_json(Verdict(*verdict, "because")))
    said = in_words(found)
    assert said.startswith(told)
    if verdict[0] != "off-topic":
        assert said == told


def test_a_server_of_before_gives_no_line() -> None:
    assert in_words(Found("q", "auto", 0.1, [], 0, None)) == ""
