"""A table of documents and questions by surprise, with thresholds for each question.

What the published program's `rank_documents` does (surprise-similarity 0.0.4). Here, too, the anchors are the
documents, and the ensemble is all texts of the call: documents, questions and cutoffs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.encoders.base import Encoder, dense_vectors
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.score import CROSSOVER_SIZE, Surprise, Weight


@dataclass(frozen=True, slots=True, eq=False)
class DocumentTable:
    """The documents that `rank_documents` kept, with their scores by each question.

    Attributes:
        documents: n texts, the most similar to the first question first.
        questions: q texts.
        scores: (n, q) from 0 to 1: Sigma at weight 1, Sigma_w of equation (4) below it, and at weight 0 the
            normalised cosine.
    """

    documents: tuple[str, ...]
    questions: tuple[str, ...]
    scores: Float64Array


def rank_documents(
    texts: Sequence[str],
    questions: Sequence[str],
    encoder: Encoder | str = DEFAULT_MODEL,
    *,
    weight: Weight = "crossover",
    crossover_size: float = CROSSOVER_SIZE,
    above: Mapping[str, float] | None = None,
    below: Mapping[str, float] | None = None,
    cutoffs: Sequence[str] | None = None,
    top_k: int | None = 100,
) -> DocumentTable:
    """Return the documents that are similar to questions, and their scores by each of them.

    Args:
        texts: of the documents; equal ones count once.
        questions: texts.
        encoder: a model's name, or an encoder.
        weight: of surprise, from 0 to 1; `crossover`: tanh(texts / crossover_size).
        crossover_size: N_cross of that rule.
        above: question -> what a document's score by it must exceed.
        below: question -> what it must stay under.
        cutoffs: a text for each question; a document must be more similar to one of them than its cutoff is.
        top_k: of each question so many of the best stay; None for all.
    """
    documents = list(dict.fromkeys(border.texts("texts", texts, least=1)))
    wanted = border.texts("questions", questions, least=1)
    border.distinct("questions", wanted)
    edges = [] if cutoffs is None else border.texts("cutoffs", cutoffs)
    if cutoffs is not None:
        border.equal("the number of cutoffs", len(edges), len(wanted), "give one for each question")
    lower, upper = _limits("above", above, wanted, -np.inf), _limits("below", below, wanted, np.inf)
    border.optional(border.count, "top_k", top_k)
    model = load_encoder(encoder) if isinstance(encoder, str) else as_encoder(encoder)
    asking = dense_vectors(model, wanted, "query")
    vectors = np.concatenate([dense_vectors(model, [*documents, *edges]), asking])
    ensemble = Ensemble.from_vectors(vectors, similarity="cosine")
    surprise = Surprise(ensemble, "gaussian", weight, crossover_size=crossover_size)
    compared = vectors[: len(documents) + len(edges)]
    everything = np.stack([_scores(surprise, compared, question) for question in asking], axis=1)
    scores = everything[: len(documents)]
    kept = ((scores > lower) & (scores < upper)).all(axis=1)
    if top_k is not None and len(documents) > top_k:
        kept &= (scores >= np.sort(scores, axis=0)[-top_k]).any(axis=1)
    if edges:
        kept &= (scores > np.diag(everything[len(documents) :])).any(axis=1)
    rows = np.flatnonzero(kept)
    rows = rows[np.argsort(-scores[rows, 0], kind="stable")]
    return DocumentTable(tuple(documents[row] for row in rows), tuple(wanted), scores[rows])


def _limits(
    name: str, thresholds: Mapping[str, float] | None, questions: list[str], otherwise: float
) -> Float64Array:
    """(q,) thresholds of q questions; `otherwise` for those that have none."""
    numbers = border.mapping(name, {} if thresholds is None else thresholds, border.number)
    for question in numbers:
        border.choice(f"a question of {name}", question, questions)
    return np.array([numbers.get(question, otherwise) for question in questions])


def _scores(surprise: Surprise, anchors: Float32Array, question: Float32Array) -> Float64Array:
    """(n,) scores from 0 to 1 of a question by n anchors; the cosine where nothing is surprising."""
    scores = surprise.scores(anchors.astype(np.float64) @ question.astype(np.float64), anchors)
    is_mixed = (scores.weight < 1) | ~scores.defined
    return np.where(is_mixed, scores.score, scores.probability)
