"""Inclusion of the question's tokens: what they weigh, which of them count, and other measures of sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np

from benchmarks.study.collection import Case, Collection, z_over
from benchmarks.study.document_tokens import FORMS
from benchmarks.study.formula import AUTO, Scores, with_scorer
from benchmarks.study.parts import crossed
from benchmarks.study.table import AUTO_ROW, Row
from surprise_rerank.core.arrays import Float64Array, row_norms
from surprise_rerank.rerank.token_weights import EXPONENT, token_weights
from surprise_rerank.similarities.dynamax import SetMeasure

ALONE = "alone: length and soft IDF"
PLAIN = "alone: all alike"
Weigh: TypeAlias = Callable[[Case], Float64Array]

# Lest a token that is the same in all documents weighs without end.
_LEAST_DEVIATION = 0.01
_DROPPED = 0.25


def soft_idf(case: Case, exponent: float = EXPONENT) -> Float64Array:
    """(m,) the inverse of in how many of the sample each token has its like, its cosine to the exponent."""
    maxima = np.clip(case.usual[""], 0.0, 1.0).astype(np.float64)
    frequency, n = (maxima**exponent).sum(axis=0), len(maxima)
    weights: Float64Array = np.log1p((n - frequency + 0.5) / (frequency + 0.5))
    return weights


def length(case: Case) -> Float64Array:
    """(m,) lengths of the token vectors."""
    return row_norms(case.query.require_tokens())


def spread(case: Case) -> Float64Array:
    """(m,) deviations of the maxima over the sample."""
    return np.asarray(case.usual[""].std(axis=0), np.float64) + _LEAST_DEVIATION


def default(case: Case) -> Float64Array:
    """(m,) what `auto` weighs tokens by."""
    return token_weights(case.query.require_tokens(), case.usual[""])


def of(a: float, b: float, c: float) -> Weigh:
    """Length to the a, spread to the -b, soft IDF to the c."""
    return lambda case: length(case) ** a * spread(case) ** -b * soft_idf(case) ** c


WEIGHTS: dict[str, Weigh] = {
    "all alike": of(0, 0, 0),
    "length": of(1, 0, 0),
    "IDF": lambda case: case.weights["idf"],
    "SIF": lambda case: case.weights["sif"],
    "length and IDF": lambda case: length(case) * case.weights["idf"],
    "length and SIF": lambda case: length(case) * case.weights["sif"],
    "soft IDF": of(0, 0, 1),
    "1 / deviation": of(0, 1, 0),
    "length / root of deviation": of(1, 0.5, 0),
    "length, soft IDF / root of deviation": of(1, 0.5, 1),
    "length and soft IDF of exponent 2": lambda case: length(case) * soft_idf(case, 2),
    "length and soft IDF of exponent 4": lambda case: length(case) * soft_idf(case, 4),
    "length and soft IDF of exponent 16": lambda case: length(case) * soft_idf(case, 16),
}


def inclusion(weigh: Weigh) -> Scores:
    """Inclusion of weighted tokens."""
    return lambda case: case.inclusion(weigh(case))


def in_auto(name: str, scores: Scores) -> Row:
    """`auto` with another score in the place of inclusion."""
    return Row(f"auto: {name}", replace(AUTO, scorers=with_scorer("dynamax", scores)))


def both(name: str, scores: Scores) -> tuple[Row, Row]:
    """A score as a ranking of its own, and in `auto`."""
    return Row(f"alone: {name}", scores, ALONE), in_auto(name, scores)


def without(drop: str) -> Weigh:
    """The default weights, but a quarter of the question's tokens counts nothing.

    Args:
        drop: `rarest`, `most frequent` or `shortest`.
    """

    def weigh(case: Case) -> Float64Array:
        key = {"rarest": -soft_idf(case), "most frequent": soft_idf(case), "shortest": length(case)}[drop]
        weights = default(case)
        weights[np.argsort(key, kind="stable")[: int(_DROPPED * len(key))]] = 0.0
        return weights

    return weigh


def powered(exponent: float) -> Scores:
    """Inclusion of memberships to a power: above 1 near matches count less."""

    def scores(case: Case) -> Float64Array:
        weights = default(case)
        return z_over(case.maxima[""] ** exponent @ weights, case.usual[""] ** exponent @ weights)

    return scores


def measured(sets: SetMeasure, *, joint: bool) -> Scores:
    """A measure of fuzzy sets, all tokens alike.

    Args:
        sets: which one.
        joint: over the tokens of question and document; over the question's where not.
    """

    def of_sums(shared: Float64Array, covered: Float64Array, lengths: Float64Array, m: int) -> Float64Array:
        """A unit token's membership in its own text is 1: sums of memberships are all that is needed."""
        query = np.full(len(shared), float(m))
        if not joint:
            return sets.quotient(shared, query, shared)
        return sets.quotient(shared + covered, query + covered, shared + lengths)

    def scores(case: Case) -> Float64Array:
        maxima, usual = case.maxima[""].astype(np.float64), case.usual[""].astype(np.float64)
        lengths, m = case.corpus.lengths.astype(np.float64), maxima.shape[1]
        own = of_sums(maxima.sum(axis=1), case.covered, lengths[case.rows], m)
        others = of_sums(usual.sum(axis=1), case.usual_covered, lengths[case.corpus.sample], m)
        return z_over(own, others)

    return scores


MEASURES: dict[str, Scores] = {
    "inclusion, joint universe": measured(SetMeasure("inclusion"), joint=True),
    "Jaccard, joint universe": measured(SetMeasure("jaccard"), joint=True),
    "Otsuka, joint universe": measured(SetMeasure("otsuka"), joint=True),
    "Dice, joint universe": measured(SetMeasure("dice"), joint=True),
    **{
        f"Tversky a = {a:g}, b = {b:g}, joint universe": measured(SetMeasure("tversky", a, b), joint=True)
        for a, b in ((1, 0.5), (1, 0.1), (1, 0.01), (0.5, 0.1), (0.1, 1))
    },
    "Otsuka, question's universe": measured(SetMeasure("otsuka"), joint=False),
}


def token_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `tokens`."""
    grid = [
        Row(f"length^{a:g} deviation^-{b:g} softIDF^{c:g}", inclusion(of(a, b, c)))
        for a, b, c in product((0, 0.5, 1, 1.5), (0, 0.5), (0, 0.5, 1, 2))
    ]
    learned = crossed(collection, grid)
    rows = [AUTO_ROW, Row(ALONE, inclusion(default), ALONE)]
    for name, weigh in WEIGHTS.items():
        rows += both(name, inclusion(weigh))
    rows += both("exponents of the three learned on the other half", learned)
    for exponent in (0.5, 2.0):
        rows += both(f"memberships to the power {exponent:g}", powered(exponent))
    for drop in ("rarest", "most frequent", "shortest"):
        rows += both(f"without the {drop} quarter of the question's", inclusion(without(drop)))
    for form in FORMS:
        rows += both(f"documents' tokens halved: {form}", halved(form))
    rows += [Row(f"alone: {name}", scores, PLAIN) for name, scores in MEASURES.items()]
    for name in ("Jaccard, joint universe", "Tversky a = 1, b = 0.01, joint universe"):
        rows.append(in_auto(name, MEASURES[name]))
    return rows


def halved(form: str) -> Scores:
    """Inclusion in documents of half as many tokens."""
    return lambda case: case.inclusion(default(case), form)
