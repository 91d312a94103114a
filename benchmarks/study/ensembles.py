"""Surprise with the document as anchor: over which ensemble, with which variance, how much of the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.study.collection import Case, Collection, Corpus, z_over
from benchmarks.study.formula import AUTO, Scores, with_scorer
from benchmarks.study.pseudo_questions import OTHERS, SENTENCES, TITLES
from benchmarks.study.table import AUTO_ROW, Row
from benchmarks.study.tokens import default
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, z_scores

COSINE, INCLUSION = "alone: cosine", "alone: inclusion"
_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Correction:
    """Moments of every document, one for even and one for odd questions, lest a question is in its ensemble.

    Attributes:
        moments: of (n,) documents each.
    """

    moments: tuple[Moments, Moments]

    @classmethod
    def by(
        cls, corpus: Corpus, vectors: Sequence[Float32Array], of: Callable[[Float32Array], Moments]
    ) -> Correction:
        """From the members of two ensembles, which may be the same one."""
        first = of(vectors[0])
        return cls((first, first if vectors[1] is vectors[0] else of(vectors[1])))

    def scores(self, case: Case, similarity: Float64Array, rows: IntArray) -> Float64Array:
        """(n,) deviations of similarities of the documents at these positions."""
        own = self.moments[case.number % 2]
        return np.nan_to_num(z_scores(similarity, Moments(own.mean[rows], own.deviation[rows])), nan=0.0)


def members(corpus: Corpus) -> dict[str, tuple[Float32Array, Float32Array]]:
    """Ensemble -> its members for even and for odd questions; those that the data set has texts for."""
    found = {"documents": (corpus.dense, corpus.dense)}
    others = [np.asarray(corpus.extra(name), np.float32) for name in OTHERS]
    same = others[0].shape == others[1].shape and bool((others[0] == others[1]).all())
    found["other questions"] = (others[0], others[0] if same else others[1])
    for kind in (TITLES, SENTENCES):
        if kind in corpus.extras:
            vectors = np.asarray(corpus.extra(kind), np.float32)
            found[kind] = (vectors, vectors)
    return found


def moments(corpus: Corpus, mean: float, deviation: float) -> Callable[[Float32Array], Moments]:
    """Moments of all documents as anchors.

    Args:
        corpus: of the documents.
        mean: how far each mean is moved to the one that all share, from 0 to 1.
        deviation: the same for deviations.
    """

    def of(vectors: Float32Array) -> Moments:
        ensemble = Ensemble.from_vectors(vectors)
        surprise = Surprise(
            ensemble, weight=1.0, shrink_mean=mean, shrink_deviation=deviation, anchors=corpus.documents
        )
        own = surprise.moments(corpus.dense)
        return Moments(*np.broadcast_arrays(own.mean, own.deviation))

    return of


def nearest_means(corpus: Corpus, k: int, share: float) -> Callable[[Float32Array], Moments]:
    """A share of the mean cosine with the k nearest members, and one deviation for all.

    (CSLS: Conneau et al., 'Word translation without parallel data', ICLR 2018, takes half.)
    """

    def of(vectors: Float32Array) -> Moments:
        means, most = np.zeros(len(corpus.dense)), min(k, len(vectors) - 1)
        for start in range(0, len(means), _BLOCK):
            block = corpus.dense[start : start + _BLOCK] @ vectors.T
            # A document that is its own nearest member says nothing of its neighbourhood.
            best = -np.partition(-np.where(block > 1 - 1e-6, -1.0, block), most, axis=1)[:, :most]
            means[start : start + _BLOCK] = best.mean(axis=1)
        return Moments(share * means, np.ones(len(means)))

    return of


KINDS: dict[str, tuple[float, float]] = {
    "full variance": (0.0, 0.0),
    "shrunk half way": (0.5, 0.5),
    "pooled variance, whole mean": (0.0, 1.0),
    "pooled variance, half of the mean": (0.5, 1.0),
}


def corrections(corpus: Corpus) -> dict[str, Correction]:
    """Name -> correction of the cosine."""
    found = {}
    for ensemble, vectors in members(corpus).items():
        for kind, (mean, deviation) in KINDS.items():
            if kind == "shrunk half way" and ensemble in (TITLES, SENTENCES):
                continue
            found[f"{ensemble}, {kind}"] = Correction.by(corpus, vectors, moments(corpus, mean, deviation))
    for ensemble in ("documents", "other questions"):
        for k in (10, 50):
            of = nearest_means(corpus, k, 0.5)
            named = f"{ensemble}, the {k} nearest only, half of the mean"
            found[named] = Correction.by(corpus, members(corpus)[ensemble], of)
    return found


def by_document(correction: Correction) -> Scores:
    """Surprise of the cosine as it is: normalised per document."""
    return lambda case: correction.scores(case, case.cosines, case.rows)


def by_question_then(correction: Correction) -> Scores:
    """Surprise of the cosine, in deviations above its own usual value for this question."""

    def scores(case: Case) -> Float64Array:
        sample = case.corpus.sample
        usual = correction.scores(case, case.usual_cosines, sample)
        return z_over(correction.scores(case, case.cosines, case.rows), usual)

    return scores


def included(corpus: Corpus, share: float, *, full: bool) -> Scores:
    """Inclusion less a share of what other questions' inclusion in the document is.

    Args:
        corpus: with usual inclusions.
        share: of the mean.
        full: whether each document has its own deviation.
    """
    usual = [np.asarray(corpus.extra(f"inclusion of {name}"), np.float64) for name in OTHERS]

    def scores(case: Case) -> Float64Array:
        mean, deviation = usual[case.number % 2]
        weights = default(case) / max(default(case).sum(), 1e-12)
        spread = np.maximum(deviation, 1e-6) if full else np.ones(len(mean))
        sample = case.corpus.sample
        own = (case.maxima[""] @ weights - share * mean[case.rows]) / spread[case.rows]
        return z_over(own, (case.usual[""] @ weights - share * mean[sample]) / spread[sample])

    return scores


def ensemble_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `ensembles`."""
    corpus = collection.corpus
    rows = [
        AUTO_ROW,
        Row(COSINE, lambda case: case.z["cosine"], COSINE),
        Row(INCLUSION, lambda case: case.z["dynamax"], INCLUSION),
    ]
    for name, correction in corrections(corpus).items():
        changed = replace(AUTO, scorers=with_scorer("cosine", by_question_then(correction)))
        rows += [
            Row(f"alone: cosine, {name}", by_document(correction), COSINE),
            Row(f"auto: cosine, {name}", changed),
        ]
    alone = Correction.by(corpus, members(corpus)["other questions"], moments(corpus, 0.0, 0.0))
    per_document = replace(AUTO, scorers=with_scorer("cosine", by_document(alone)))
    rows.append(Row("auto: cosine, other questions, full variance, per document only", per_document))
    for name, share, full in (
        ("half of the mean", 0.5, False),
        ("whole mean", 1.0, False),
        ("full variance", 1.0, True),
    ):
        scores = included(corpus, share, full=full)
        rows += [
            Row(f"alone: inclusion, other questions, {name}", scores, INCLUSION),
            Row(
                f"auto: inclusion, other questions, {name}",
                replace(AUTO, scorers=with_scorer("dynamax", scores)),
            ),
        ]
    return rows
