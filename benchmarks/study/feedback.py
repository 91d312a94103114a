"""What the pool tells about itself: feedback of several kinds, and neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.study.collection import Case, Collection, z_over
from benchmarks.study.formula import AUTO, Recipe, Share, softmax
from benchmarks.study.parts import settings_rows
from benchmarks.study.table import AUTO_ROW, Row
from surprise_rerank.core.arrays import Float64Array, IntArray, unit_rows
from surprise_rerank.rerank.auto import AUTO_DEFAULTS
from surprise_rerank.rerank.feedback import neighbour_support


def first(k: int) -> Share:
    """The k best alike, whatever they score."""

    def share(case: Case, total: Float64Array) -> Float64Array:
        best = np.argsort(-total, kind="stable")[:k]
        return np.bincount(best, minlength=len(total)) / max(len(best), 1)

    return share


def near_by_question_tokens(case: Case, share: Float64Array) -> Float64Array:
    """(n,) z of how alike candidates cover the question: cosine of their maxima above the usual ones."""
    usual = case.usual[""].astype(np.float64)
    profiles = unit_rows(case.maxima[""] - usual.mean(axis=0))
    mixture = share @ profiles
    return z_over(profiles @ mixture, unit_rows(usual - usual.mean(axis=0)) @ mixture)


def without_itself(case: Case, share: Float64Array) -> Float64Array:
    """(n,) z of the similarity to the others' mixture: no candidate vouches for itself."""
    vectors = np.asarray(case.candidates.require_dense(), np.float64)
    products = vectors @ vectors.T
    np.fill_diagonal(products, 0.0)
    others = np.asarray(case.corpus.dense[case.corpus.sample], np.float64) @ (share @ vectors)
    return z_over(products @ share / np.maximum(1 - share, 0.05), others)


def relevance_model(documents: int, terms: int) -> Callable[[Case, Float64Array], Float64Array]:
    """RM3's expansion: BM25 of the terms that weigh most in the best documents.

    (Abdul-Jaleel et al., 'UMass at TREC 2004: Novelty and HARD', TREC 2004.)

    Args:
        documents: how many of the best.
        terms: how many of their terms.
    """

    def near(case: Case, share: Float64Array) -> Float64Array:
        batch, space = case.corpus.terms, case.corpus.words
        best = np.argsort(-share, kind="stable")[:documents]
        said = space.unit(batch.take(case.rows[best]))
        vocabulary, places = np.unique(said.terms, return_inverse=True)
        weights = np.bincount(places, said.values * share[best][said.owners], minlength=len(vocabulary))
        kept = np.sort(np.argsort(-weights, kind="stable")[:terms])
        vocabulary, weights = vocabulary[kept], weights[kept]

        def score(rows: IntArray) -> Float64Array:
            own = batch.take(rows)
            known = np.isin(own.terms, vocabulary)
            there = np.searchsorted(vocabulary, own.terms[known])
            return np.bincount(own.owners[known], own.values[known] * weights[there], minlength=len(own))

        return z_over(score(case.rows), score(case.corpus.sample))

    return near


def twice(case: Case) -> Float64Array:
    """(n,) scores with the feedback of a ranking that had feedback already."""
    before = Recipe(replace(AUTO_DEFAULTS, neighbours=0))(case)
    return replace(AUTO, share=lambda case, total: softmax(case, before))(case)


def feedback_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `feedback`."""
    soft = [
        (f"softmax at temperature {t:g}", lambda case, total, t=t: softmax(case, total / t))
        for t in (0.5, 2.0, 4.0)
    ]
    hard = [(f"the {k} best alike", first(k)) for k in (1, 3, 5, 10)]
    models = [
        (f"RM3 of {k} documents and {n} terms for words", relevance_model(k, n))
        for k, n in ((3, 20), (10, 20), (10, 50))
    ]
    return [
        AUTO_ROW,
        *settings_rows("feedback", (0, 0.25, 0.5, 1.5, 2)),
        *settings_rows("words", (0, 0.25, 0.75, 1)),
        *(Row(name, Recipe(share=share)) for name, share in soft + hard),
        *(Row(name, Recipe(words=near)) for name, near in models),
        Row("RM3 besides, .25", Recipe(more=lambda case, share: 0.25 * relevance_model(10, 20)(case, share))),
        Row("the question's tokens for vectors", Recipe(vectors=near_by_question_tokens)),
        Row(
            "the question's tokens besides, .25",
            Recipe(more=lambda case, share: 0.25 * near_by_question_tokens(case, share)),
        ),
        Row("without a candidate's own vote", Recipe(vectors=without_itself)),
        Row("twice", twice),
    ]


def neighbours_by(words: float, vectors: float) -> Callable[[Case, Float64Array, int], Float64Array]:
    """Neighbours by words and vectors together.

    Args:
        words: what the similarity of words counts.
        vectors: what the cosine counts.
    """

    def support(case: Case, total: Float64Array, nearest: int) -> Float64Array:
        dense = np.asarray(case.candidates.require_dense(), np.float64)
        joint = vectors * (dense @ dense.T) + words * case.word_similarities[0]
        np.fill_diagonal(joint, -np.inf)
        near = np.argsort(-joint, axis=1, kind="stable")[:, : min(nearest, max(len(total) - 1, 0))]
        likeness = np.take_along_axis(joint, near, axis=1).clip(0.0) / (words + vectors)
        return (likeness * total[near]).sum(axis=1) / max(near.shape[1], 1)

    return support


def alike(case: Case, total: Float64Array, nearest: int) -> Float64Array:
    """(n,) the mean of the nearest, however near they are."""
    dense = np.asarray(case.candidates.require_dense(), np.float64)
    products = dense @ dense.T
    np.fill_diagonal(products, -np.inf)
    near = np.argsort(-products, axis=1, kind="stable")[:, : min(nearest, max(len(total) - 1, 0))]
    return total[near].mean(axis=1) if near.size else np.zeros(len(total))


def above_the_pool(case: Case, total: Float64Array, nearest: int) -> Float64Array:
    """(n,) what neighbours score above the pool's mean: being near to nobody is no gain."""
    return neighbour_support(
        total - total.mean(), case.candidates.require_dense(), case.candidates.ids, nearest
    )


def neighbour_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `neighbours`."""
    return [
        AUTO_ROW,
        *settings_rows("neighbours", (0, 0.1, 0.3, 0.5, 1)),
        *settings_rows("nearest", (1, 3, 10, 20)),
        Row("neighbours by words", Recipe(support=neighbours_by(1, 0))),
        Row("neighbours by words and vectors", Recipe(support=neighbours_by(1, 1))),
        Row("all neighbours alike", Recipe(support=alike)),
        Row("scores above the pool's mean", Recipe(support=above_the_pool)),
        Row("instead of feedback by vectors", Recipe(replace(AUTO_DEFAULTS, feedback=0, neighbours=0.5))),
    ]
