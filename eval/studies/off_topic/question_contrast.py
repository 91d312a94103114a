"""The surprise of a document's cosine over background questions: it corrects documents near to everything.

Some documents are near to any question. Where similarities lie in a narrow cone, an off-topic question finds
these. With the document as anchor and background questions as the ensemble, equation (2) of
`surprise/score.py` corrects that:

    z = (cos(q, d) - mu_d) / sigma_d,   mu_d and sigma_d over background questions.

An ensemble of documents, or of the corpus' own questions, is not suitable: it removes relevance, too. The
totals T of this study have it in place of the cosine, those of a pipeline's background the cosine.
"""

from __future__ import annotations

import numpy as np

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import z_scores

QUESTION_CONTRAST = "contrast"


def question_contrast(
    query: Query, candidates: Candidates, questions: Ensemble, *, is_member: bool = False
) -> Float64Array:
    """(n,) z of every candidate over background `questions`; 0 where these give it no spread.

    A query that is one of them is omitted, because a new question is none of them.
    """
    vectors = candidates.require_dense()
    cosines = np.asarray(vectors @ query.require_dense(), dtype=np.float64)
    moments = questions.moments(vectors)
    if is_member:
        moments = _without(cosines, moments, questions.count)
    return np.nan_to_num(z_scores(cosines, moments), nan=0.0)


def _without(member: Float64Array, moments: Moments, count: int) -> Moments:
    """The moments of an ensemble without one member, of these similarities."""
    if count < 3:
        return Moments(moments.mean, np.zeros_like(moments.deviation))
    delta = member - moments.mean
    variance = moments.deviation**2 * count / (count - 1) - delta**2 * count / (count - 1) ** 2
    return Moments(moments.mean - delta / (count - 1), np.sqrt(np.maximum(variance, 0.0)))
