"""A table of documents and questions: scores by definition, thresholds, cutoffs, and the best of each."""

import numpy as np
import pytest
from scipy.stats import norm

from surprise_rerank import FunctionEncoder, SurpriseRerankError, rank_documents
from surprise_rerank.core.arrays import unit_rows

DOCUMENTS = [f"d{i}" for i in range(30)]
TEXTS = [*DOCUMENTS, "edge0", "edge1", "q0", "q1"]
VECTORS = dict(
    zip(TEXTS, unit_rows((np.random.default_rng(0).normal(size=(34, 6)) + 1).astype(np.float32)), strict=True)
)
ENCODER = FunctionEncoder(lambda texts: np.stack([VECTORS[text] for text in texts]), name="x", dimension=6)


def table(**more: object) -> dict[str, list[float]]:
    ranked = rank_documents(DOCUMENTS, ["q0", "q1"], ENCODER, **more)
    assert (np.diff(ranked.scores[:, 0]) <= 0).all()
    return dict(zip(ranked.documents, ranked.scores.tolist(), strict=True))


def expected(texts: list[str]) -> dict[str, list[float]]:
    """Phi of z of every question's cosine among the cosines of all texts, the document as the anchor."""
    everything = np.stack([VECTORS[text] for text in texts]).astype(float)
    questions = np.stack([VECTORS["q0"], VECTORS["q1"]]).astype(float)
    scores = {}
    for text in texts:
        cosines = everything @ VECTORS[text]
        scores[text] = norm.cdf((questions @ VECTORS[text] - cosines.mean()) / cosines.std()).tolist()
    return scores


def test_scores_are_those_of_the_definition_and_edges_are_among_the_texts():
    plain = [*DOCUMENTS, "q0", "q1"]
    whole = table(weight=1.0)
    assert whole.keys() == set(DOCUMENTS)
    for name, scores in whole.items():
        assert scores == pytest.approx(expected(plain)[name], abs=1e-5)
    with_edges = expected(TEXTS)
    kept = {
        name for name in DOCUMENTS if any(with_edges[name][i] > with_edges[f"edge{i}"][i] for i in range(2))
    }
    assert 0 < len(kept) < 30
    assert table(weight=1.0, cutoffs=["edge0", "edge1"]).keys() == kept


def test_thresholds_hold_for_each_question_and_the_best_of_any_stay():
    whole = table(weight=0.5)
    kept = {name for name, (first, second) in whole.items() if 0.2 < first < 0.8 and second > 0.4}
    assert 0 < len(kept) < 30
    more = {"above": {"q0": 0.2, "q1": 0.4}, "below": {"q0": 0.8}}
    assert table(weight=0.5, **more).keys() == kept
    best = {name for i in range(2) for name in sorted(whole, key=lambda name: -whole[name][i])[:3]}
    assert table(weight=0.5, top_k=3).keys() == best
    assert max(max(scores) for scores in whole.values()) < 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"above": {"q2": 0.5}}, "a question of above='q2' is not known; there are: q0, q1"),
        ({"below": {"q0": "high"}}, r"below\['q0'\]"),
        ({"cutoffs": ["edge0"]}, "the number of cutoffs must be 2, got 1; give one for each question"),
        ({"top_k": 0}, "top_k must be a whole number of at least 1"),
        ({"weight": 2}, "weight"),
    ],
)
def test_what_fits_no_question_is_refused(values, message):
    with pytest.raises(SurpriseRerankError, match=message):
        table(**values)
