"""What a monitor of real questions tells of a background's promise."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.candidates import Ranking, Verdict
from surprise_rerank.errors import DataError
from surprise_rerank.thresholds import BackgroundMonitor, Traffic

N = 300


def observed(surprise: np.ndarray, questions: int = N, **options: float) -> Traffic:
    monitor = BackgroundMonitor(questions, **options)
    for own in surprise:
        monitor.observe(float(own))
    return monitor.traffic()


def measured(background: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """The surprise of totals: the share of the background below, as `QuestionBackground` has it."""
    return np.searchsorted(np.sort(background), totals) / (len(background) + 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_off_topic_questions_alone_are_all_off_topic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    traffic = observed(measured(rng.normal(size=N), rng.normal(size=2000)))
    assert traffic.off_topic == pytest.approx(1, abs=0.2)
    assert traffic.wrong == pytest.approx(0.1 * traffic.off_topic)


def test_drift_is_called_as_often_as_its_level_says() -> None:
    """Although the background is a sample itself, which 2,000 questions are enough to see."""
    rng = np.random.default_rng(0)
    called = sum(
        observed(measured(rng.normal(size=N), rng.normal(size=2000))).drift_p < 0.05 for _ in range(400)
    )
    assert 400 * 0.05 * 0.4 < called < 400 * 0.05 * 1.8


@settings(max_examples=30, deadline=None)
@given(st.floats(0.1, 0.9), st.integers(0, 10_000))
def test_a_mixture_gives_its_share(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    off = rng.random(3000) < share
    totals = rng.normal(size=3000) + np.where(off, 0, 6)
    traffic = observed(measured(rng.normal(size=3000), totals), questions=3000)
    assert traffic.off_topic == pytest.approx(share, abs=0.09)
    assert traffic.passed_low <= traffic.passed / traffic.asked <= traffic.passed_high
    assert traffic.passed / traffic.asked == pytest.approx(1 - share + 0.1 * share, abs=0.05)


@pytest.mark.parametrize(("moved", "drift", "said"), [(1.0, 1, "find more"), (-1.0, -1, "find less")])
def test_questions_of_another_kind_are_drift_with_its_direction(moved: float, drift: int, said: str) -> None:
    rng = np.random.default_rng(1)
    traffic = observed(measured(rng.normal(size=N), rng.normal(moved, size=1000)))
    assert traffic.drift == drift
    assert traffic.drift_p < 0.01
    assert said in str(traffic)


def test_rankings_verdicts_and_numbers_are_the_same_question() -> None:
    monitor = BackgroundMonitor(19, 0.05)
    verdict = Verdict("answered", 0.95, None, "")
    whole = Ranking(("a", "b"), np.array([2.0, 1.0]), surprise=np.array([0.95, 0.1]))
    refused = Ranking((), np.zeros(0), verdict=verdict)
    assert [monitor.observe(found) for found in (0.95, verdict, whole, refused)] == [1, 2, 3, 4]
    for unknown in (None, Verdict("answered", None, None, ""), Ranking((), np.zeros(0))):
        monitor.observe(unknown)
    traffic = monitor.traffic()
    assert (traffic.asked, traffic.passed, traffic.unmeasured) == (4, 4, 3)
    assert traffic.passed_high == 1
    assert "\n" not in str(traffic)


def test_before_the_first_question_it_says_so() -> None:
    assert str(BackgroundMonitor(N).traffic()) == "no question was measured (0 without a surprise)"
    assert BackgroundMonitor(N).traffic().drift == 0


def test_one_background_question_tells_no_drift() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traffic = observed(np.full(100, 0.0), questions=1)
    assert (traffic.drift, traffic.drift_p) == (0, 1.0)


def test_only_the_last_questions_count() -> None:
    traffic = observed(np.r_[np.zeros(100), np.full(50, 0.99)], window=50)
    assert (traffic.asked, traffic.passed, traffic.off_topic) == (50, 50, 0)


def test_threads_may_share_one() -> None:
    monitor = BackgroundMonitor(N)
    threads = [threading.Thread(target=lambda: [monitor.observe(0.5) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        monitor.traffic()
    for thread in threads:
        thread.join()
    assert monitor.traffic().asked == 2000


@pytest.mark.parametrize("wrong", [{"alpha": 2}, {"window": 0}, {"questions": 0}])
def test_what_is_no_share_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        BackgroundMonitor(**{"questions": N, **wrong})
