"""Probabilities of relevance: fitted, and checked."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

from surprise_rerank.errors import DataError
from surprise_rerank.thresholds.chance import RelevanceCurve


def drawn(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and documents that are relevant with probability 1 / (1 + exp(1 - 2 score))."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    return scores, rng.random(n) < 1 / (1 + np.exp(1 - 2 * scores))


def test_the_curve_is_found_again_and_holds_on_other_questions():
    curve = RelevanceCurve.fit(*drawn())
    assert curve.slope == pytest.approx(2, abs=0.2)
    assert curve.intercept == pytest.approx(-1, abs=0.1)
    scores, relevant = drawn(seed=1)
    chances = curve.probability(scores)
    observed, predicted = calibration_curve(relevant, chances, n_bins=10)
    counts = np.histogram(chances, 10, (0, 1))[0]
    assert np.average(np.abs(observed - predicted), weights=counts[counts > 0]) < 0.03


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_score_does_not_matter(factor: float):
    scores, relevant = drawn(400)
    curve = RelevanceCurve.fit(scores * factor + factor, relevant)
    np.testing.assert_allclose(
        curve.probability(scores * factor + factor),
        RelevanceCurve.fit(scores, relevant).probability(scores),
        atol=1e-4,
    )


def test_few_judged_questions_do_not_make_the_curve_certain():
    """Ten of which the better half is relevant are all that a curve without smoothing needs for 0 and 1."""
    new, good = drawn(2000, seed=99)
    losses = []
    for seed in range(100):
        scores, relevant = drawn(10, seed)
        if 0 < relevant.sum() < 10:
            losses.append(log_loss(good, RelevanceCurve.fit(scores, relevant).probability(new)))
    assert np.mean(losses) < 0.65, "ten coins would have .69, the true curve has .40"


def test_a_better_score_is_never_a_reason_for_doubt():
    curve = RelevanceCurve.fit([0.0, 1.0, 2.0, 3.0], [1, 1, 0, 0])
    assert curve.slope == 0
    np.testing.assert_allclose(curve.probability([-5.0, 5.0]), 0.5)


@pytest.mark.parametrize(
    ("scores", "relevant", "told"),
    [
        ([0.1], [1, 0], "one for each question"),
        ([[0.1]], [[1]], "one for each question"),
        ([np.inf, 0.0], [1, 0], "omit questions without a candidate"),
        ([0.1, 0.2], [1, 1], "2 of 2 judged documents are relevant"),
    ],
)
def test_what_cannot_be_fitted_is_told(scores: list, relevant: list, told: str):
    with pytest.raises(DataError, match=told):
        RelevanceCurve.fit(scores, relevant)
