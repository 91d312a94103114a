"""Whether surprise may rank better than the cosine, predicted from unlabelled data alone.

Over questions q and documents d, cos(q, d) = q.d varies from document to document for two reasons: some
documents are nearer to all questions, and some to this one. With the means m and covariances C of both,

    a = m_q' C_d m_q      is the variance of the documents' means over the questions, mu_d = d.m_q
    b = tr(C_d C_q)       is what is left: of one question's cosines, about these means

and the mean share is a / (a + b). Surprise with the document as anchor subtracts mu_d, and divides by
sigma_d, whose spread is measured, too. Counts of k-occurrences (Radovanovic et al., JMLR 2010) show how often
the same documents are among the nearest. docs/diagnosis.md reports how good these numbers are as advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, row_norms
from surprise_rerank.core.vectors import is_linear
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import LinearForm
from surprise_rerank.surprise.neighbours import QUERY_BLOCK, nearest

Advice: TypeAlias = Literal["cosine", "measure"]

# Mean cosines of two documents between which surprise gained: half way to models of training data without a
# gain, which lay below .21 and above .94.
WIDEST, NARROWEST = 0.5, 0.9
# Documents and questions below which there is no advice: a mean over 100 is known to a tenth of a deviation.
FEWEST = 100
# Documents whose occurrences are counted; the sample of an ensemble may be larger.
MOST_COUNTED = 5000
_K = 10
_FEWEST_QUESTIONS = 4  # two in each half
_UNIT = 1e-3  # how far a length may be from 1; what indexes hold was rounded to float32


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often documents are among the k nearest of others, N_k, beside what chance alone would give.

    Attributes:
        skewness: of N_k over the documents; 0 where all are found equally often.
        chance_skewness: of the binomial distribution that N_k has where every document is as near as another.
        unfound: the share of documents that are found by none, the anti-hubs.
        chance_unfound: the same by chance.
        largest: the largest N_k as a share of the queries.
    """

    skewness: float
    chance_skewness: float
    unfound: float
    chance_unfound: float
    largest: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the vectors of documents and of unlabelled questions show.

    Attributes:
        documents: how many there are.
        questions: how many there are.
        asked: whether users asked the questions; otherwise they are titles.
        document_cone: the mean cosine of two different documents; near 1 in a narrow cone.
        question_cone: of two different questions.
        pair_cone: of a question and a document.
        mean_share: a / (a + b), from 0 to 1: the part of the variance of a question's cosines over the
            documents that is the same for all questions.
        deviation_spread: coefficient of variation of sigma_d over the documents, to first order: half that of
            the variances. 0 where all documents have the same deviation, and for fewer than 4 questions.
        among_documents: how often documents are among the 10 nearest of other documents.
        among_questions: how often documents are among the 10 nearest of questions.
    """

    documents: int
    questions: int
    asked: bool
    document_cone: float
    question_cone: float
    pair_cone: float
    mean_share: float
    deviation_spread: float
    among_documents: Occurrences
    among_questions: Occurrences

    @property
    def advice(self) -> Advice:
        """Which ranking to begin with: `cosine`, or the cosine and to `measure` surprise beside it."""
        return "measure" if self.asked and self._is_narrow and not self._few else "cosine"

    @property
    def reason(self) -> str:
        """Why, in a sentence."""
        if self._few:
            return self._few
        cone = f"the mean cosine of two documents is {self.document_cone:.2f}"
        if self.document_cone < WIDEST:
            return f"{cone}, no narrow cone, and outside of one surprise did not rank better"
        if self.document_cone > NARROWEST:
            return (
                f"{cone}, and where documents hardly differ, as averages of word vectors do, surprise did "
                "not rank better"
            )
        if not self.asked:
            return f"{cone}, a narrow cone, but over titles surprise can lose; questions that were asked tell"
        return (
            f"{cone}, a narrow cone: begin with the cosine; surprise over these questions with w = .5 can "
            "gain a little, which labelled questions tell"
        )

    @property
    def _is_narrow(self) -> bool:
        return WIDEST <= self.document_cone <= NARROWEST

    @property
    def _few(self) -> str:
        """The reason where there are too few documents or questions; empty otherwise."""
        if min(self.documents, self.questions) >= FEWEST:
            return ""
        return (
            f"{self.documents} documents and {self.questions} questions are too few to tell; it takes "
            f"{FEWEST} of each"
        )


def diagnose(documents: Ensemble, questions: Ensemble, *, asked: bool = True) -> Diagnosis:
    """The diagnosis of unlabelled documents and questions.

    Cones and mean share are exact, from the ensembles' moments.
    Deviations and occurrences come from their samples, of at most 5,000 documents. Cones, mean share and the
    spread of deviations are corrected for what a finite number of questions adds by chance.

    Args:
        documents: unit vectors, such as `DocumentIndex.ensemble(5000)`.
        questions: unit vectors of the same model: questions that were asked, or titles in their place.
        asked: whether they were asked; over titles surprise is no advice.

    Raises:
        DataError: if vectors have other lengths than 1 (or 0), are compared otherwise than by dot product or
            cosine, or the two differ in dimension or similarity.
    """
    _require_units(documents, "documents")
    _require_units(questions, "questions")
    documents.require_same_kind(questions)
    counted = documents.sample[:MOST_COUNTED]
    return Diagnosis(
        documents=documents.count,
        questions=questions.count,
        asked=asked,
        document_cone=_cone(documents),
        question_cone=_cone(questions),
        pair_cone=float(documents.mean @ questions.mean),
        mean_share=_mean_share(documents, questions),
        deviation_spread=_deviation_spread(counted, questions.sample),
        among_documents=_occurrences(counted, counted, own=True),
        among_questions=_occurrences(counted, questions.sample),
    )


def _cone(ensemble: Ensemble) -> float:
    """The mean cosine of two different members; 0 where there are no two."""
    n = ensemble.count
    if n < 2:
        return 0.0
    # The squared mean counts every member with itself, too.
    return float(ensemble.mean @ ensemble.mean - np.trace(ensemble.scatter) / (n * (n - 1)))


def _mean_share(documents: Ensemble, questions: Ensemble) -> float:
    if questions.count < 2:
        return 0.0
    spread = documents.covariance
    left = float((spread * questions.scatter).sum()) / (questions.count - 1)
    # The mean of n questions varies by an n-th of what they vary by, which is chance.
    same = float(questions.mean @ spread @ questions.mean) - left / questions.count
    same = max(same, 0.0)
    return same / (same + left) if same + left > 0 else 0.0


def _deviation_spread(documents: Float32Array, questions: Float32Array) -> float:
    if len(documents) < 2 or len(questions) < _FEWEST_QUESTIONS:
        return 0.0
    first, second = (_variances(documents, questions[half::2]) for half in (0, 1))
    scale = first.mean() * second.mean()
    if scale <= 0:
        return 0.0
    # Errors of the two halves are independent: their covariance is what documents differ by.
    shared = float(((first - first.mean()) * (second - second.mean())).mean())
    return float(np.sqrt(max(shared, 0.0) / scale)) / 2


def _occurrences(documents: Float32Array, searching: Float32Array, *, own: bool = False) -> Occurrences:
    others = len(documents) - own
    k = min(_K, others)
    if k < 1 or not len(searching):
        return Occurrences(0.0, 0.0, 0.0, 0.0, 0.0)
    counts = _counts(documents, searching, k, own)
    chance = stats.binom(len(searching) - own, k / others)
    return Occurrences(
        skewness=float(stats.skew(counts)) if counts.std() > 0 else 0.0,
        chance_skewness=float(chance.stats("s")) if k < others else 0.0,
        unfound=float((counts == 0).mean()),
        chance_unfound=float(chance.pmf(0)),
        largest=float(counts.max()) / len(searching),
    )


def _counts(documents: Float32Array, searching: Float32Array, k: int, own: bool) -> IntArray:
    counts = np.zeros(len(documents), np.int64)
    plain = LinearForm(np.ones(len(documents)), np.zeros(len(documents)))
    for start in range(0, len(searching), QUERY_BLOCK):
        block = searching[start : start + QUERY_BLOCK]
        rows = np.arange(start, start + len(block)) if own else None
        found = nearest(block, documents, plain, k=k, own=rows)
        counts += np.bincount(found.key, minlength=len(documents))
    return counts


def _variances(documents: Float32Array, questions: Float32Array) -> Float64Array:
    return np.square(Ensemble.from_vectors(questions, sample_size=0).moments(documents).deviation)


def _require_units(ensemble: Ensemble, name: str) -> None:
    if not is_linear(ensemble.similarity):
        raise DataError(
            f"a diagnosis is of cosines, and the {name} are compared by {ensemble.similarity!r}; make the "
            "ensemble with similarity='cosine'"
        )
    lengths = row_norms(ensemble.sample)
    odd = lengths[(lengths > 0) & (np.abs(lengths - 1) > _UNIT)]
    if len(odd):
        raise DataError(
            f"the {name} should be vectors of length 1, one has length {odd[0]:.4g}; scale them, or make the "
            "ensemble with similarity='cosine'"
        )
