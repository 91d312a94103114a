"""What every scorer gives the candidates of a question, and the statistics of a question that follow.

Some documents are near to any question. With the document as anchor and background questions as the
ensemble, equation (2) of `surprise/score.py` corrects that: z = (cos(q, d) - mu_d) / sigma_d. The totals T of
this study have this contrast in place of the cosine, those of a pipeline's background the cosine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from surprise_rerank.candidates import Candidates, Query, Ranking
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank.fusion import min_max, weighted_sum
from surprise_rerank.rerank.scorers import Scorer
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import z_scores
from surprise_rerank.thresholds.background import QuestionBackground

FUSION = "fusion"  # all scorers together, as a background adds them
CONTRAST = "contrast"


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with what its candidates score.

    Attributes:
        text: in words.
        scores: scorer, or `contrast` -> (n,) scores of its candidates.
        z_documents: the best cosine in deviations above the question's mean over all documents.
        min_max: the best sum of scores that are moved to [0, 1] within the pool.
    """

    text: str
    scores: Mapping[str, Float64Array]
    z_documents: float = -np.inf
    min_max: float = 0.0

    def best(self, scorer: str) -> float:
        """The best candidate's score; minus infinity without candidates."""
        return float(np.max(self.scores[scorer], initial=-np.inf))

    def ranking(self, view: str) -> Ranking:
        """Raw scores for a background: of `fusion`, of a system of one scorer, or of `raw SCORER` alone."""
        if view.startswith("raw "):
            found = {view[4:]: self.scores[view[4:]]}
        else:
            names = [*self.scores] if view == FUSION else [view, CONTRAST]
            found = {name: self.scores[name] for name in names if name != "cosine"}
        count = len(next(iter(found.values())))
        return Ranking(tuple(map(str, range(count))), np.zeros(count), raw=found)


def asked_question(
    query: Query,
    pool: Candidates,
    scorers: Sequence[Scorer],
    corpus: Ensemble,
    questions: Ensemble,
    *,
    is_member: bool,
) -> AskedQuestion:
    """Score a pool; `is_member` says whether the question is one of the background's."""
    scores = {own.name: np.asarray(own.scores(query, pool), np.float64) for own in scorers}
    scores[CONTRAST] = question_contrast(query, pool, questions, is_member=is_member)
    if not len(pool):
        return AskedQuestion(query.text, scores)
    # A question of no known word is as near to all documents.
    moments = corpus.moments(query.require_dense()[None, :])
    z = np.nan_to_num(z_scores(scores["cosine"], moments), nan=0.0)
    fused = weighted_sum({own.name: min_max(scores[own.name]) for own in scorers}, {})
    return AskedQuestion(query.text, scores, float(z.max()), float(fused.max()))


def question_contrast(
    query: Query, candidates: Candidates, questions: Ensemble, *, is_member: bool = False
) -> Float64Array:
    """(n,) z of every candidate over background questions but the own one; 0 where these have no spread."""
    vectors = candidates.require_dense()
    cosines = np.asarray(vectors @ query.require_dense(), dtype=np.float64)
    moments, count = questions.moments(vectors), questions.count
    if is_member:
        delta = cosines - moments.mean
        variance = moments.deviation**2 * count / (count - 1) - delta**2 * count / (count - 1) ** 2
        deviation = np.sqrt(np.maximum(variance, 0.0)) * (count > 2)
        moments = Moments(moments.mean - delta / (count - 1), deviation)
    return np.nan_to_num(z_scores(cosines, moments), nan=0.0)


def background_of(asked: Iterable[AskedQuestion], view: str) -> QuestionBackground:
    """The background of these questions."""
    return QuestionBackground.of((own.text, own.ranking(view)) for own in asked)


def totals(asked: Iterable[AskedQuestion], background: QuestionBackground, view: str) -> Float64Array:
    """(n,) T of each question's best candidate; minus infinity without candidates."""
    own = [background.totals_of(question.ranking(view), question.text) for question in asked]
    return np.array([values.max(initial=-np.inf) for values in own])


def passed(asked: Iterable[AskedQuestion], background: QuestionBackground, view: str, alpha: float) -> float:
    """The share in % of questions whose best candidate's percentile is at least 1 - alpha."""
    percentiles = background.percentiles(totals(asked, background, view))
    return 100 * float((percentiles >= 1 - alpha - 1e-9).mean())


def auroc(on_topic: Float64Array, off_topic: Float64Array) -> float:
    """The probability that a question of the corpus has more than one that is not; ties count half."""
    values = np.concatenate([on_topic, off_topic])
    finite = values[np.isfinite(values)]
    lowest = finite.min() - 1.0 if len(finite) else 0.0
    labels = np.repeat([1, 0], [len(on_topic), len(off_topic)])
    return float(roc_auc_score(labels, np.where(np.isfinite(values), values, lowest)))
