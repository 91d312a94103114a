"""Weights that are learned from judged questions, and used only if they rank other questions better.

The questions are divided into folds. Weights fitted on all folds but one rank the questions of that one, so
that every question is ranked by weights that were fitted without it. Weights fitted on all questions are used
only where the mean nDCG@10 of these rankings is better than that of the present weights by more than chance
(1.645 standard errors). The gains of the folds are not independent, because the questions of one help to fit
the weights of the others: the standard error is Nadeau and Bengio's ('Inference for the generalization
error', Machine Learning, 2003). At most one in twenty useless weights then passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Query, Ranking
from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import Float64Array, FloatArray, IntArray
from surprise_rerank.rerank._fusion import FusionReranker, weighted_sum

CUTOFF = 10  # of nDCG
FOLDS = 5
# Questions with a relevant document in their pool, in each fold: with fewer, the standard error is
# unreliable.
_FEWEST_IN_FOLD = 4
# Standard errors by which held-back questions must be better; at most 5 % of useless weights are by chance.
_SURE = 1.645
_RIDGE = 0.3  # with a larger one, a few questions change less
_RANGE = (-4.0, 4.0)  # of a factor's logarithm: as good as none, and as good as alone


@dataclass(frozen=True)
class WeightFit:
    """Weights that were fitted on judged questions, and how they rank held-back ones.

    Attributes:
        weights: part's name -> its factor: the fitted ones where they were accepted, else the present ones.
        start: the present ones, for every part.
        accepted: whether held-back questions are ranked better by more than chance allows.
        questions: how many have a relevant document at all; the others are omitted.
        taught: how many of these have one in their pool.
        before: mean nDCG@10 of the questions by the present weights.
        after: the same by weights that were fitted without the question; None for too few questions.
        error: standard error of the difference, for folds that share questions; None likewise.
    """

    weights: Mapping[str, float]
    start: Mapping[str, float]
    accepted: bool
    questions: int
    taught: int
    before: float
    after: float | None = None
    error: float | None = None

    def __str__(self) -> str:
        if self.after is None or self.error is None:
            return (
                f"the weights stay as they are: {self.taught} of {self.questions} questions have a relevant "
                f"document in their pool, and {FOLDS * _FEWEST_IN_FOLD} are needed"
            )
        figures = (
            f"nDCG@{CUTOFF} {self.before:.4f} -> {self.after:.4f} on held-back questions "
            f"({self.after - self.before:+.4f}, standard error {self.error:.4f})"
        )
        if not self.accepted:
            return f"the weights stay as they are: fitted on {self.questions} questions, {figures}"
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights.items())
        return f"weights fitted on {self.questions} questions: {weights}; {figures}"


def fit_guarded(
    reranker: FusionReranker,
    judged: Iterable[tuple[Query, Candidates, Mapping[str, float]]],
) -> WeightFit:
    """Learn the weights of a re-ranker (`refine_weights`), and check them on held-back questions.

    `reranker.weighted(fit.weights)` uses the result. Judged are questions of different ids, with their pools
    and the gains of documents by id, in the pool or not; one without a gain is not relevant. Their order has
    no effect. Use training or development questions, never a test's.

    Raises:
        DataError: if no question has a relevant document, an id is a duplicate, a gain is not finite, or the
            re-ranker lacks what it needs.
    """
    lessons = _lessons(reranker, judged)
    names = lessons[0].parts
    start = {name: float(reranker.weights.get(name, 1.0)) for name in names}
    teaching = [lesson for lesson in lessons if lesson.teaches]
    before = _ndcg(lessons, start)
    present = WeightFit(start, start, False, len(lessons), len(teaching), float(before.mean()))
    if len(teaching) < FOLDS * _FEWEST_IN_FOLD:
        return present
    after = before.copy()  # weights make no difference where no relevant document is in the pool
    rows = np.flatnonzero([lesson.teaches for lesson in lessons])
    fold_of = np.random.default_rng(0).permutation(len(teaching)) % FOLDS
    for fold in range(FOLDS):
        others = [lesson for lesson, its_fold in zip(teaching, fold_of, strict=True) if its_fold != fold]
        held_back = [lesson for lesson, its_fold in zip(teaching, fold_of, strict=True) if its_fold == fold]
        after[rows[fold_of == fold]] = _ndcg(held_back, _fitted(others, start))
    gain = float((after - before).mean())
    # The variance of independent questions times 1 + k n_test / n_train, over k folds.
    shared = np.sqrt(1 + FOLDS / (FOLDS - 1))
    error = float(shared * (after - before).std(ddof=1) / np.sqrt(len(lessons)))
    checked = replace(present, after=float(after.mean()), error=error)
    if not gain > _SURE * error:
        return checked
    return replace(checked, weights=_fitted(teaching, start), accepted=True)


def refine_weights(
    pools: Sequence[Mapping[str, FloatArray]],
    gains: Sequence[FloatArray],
    weights: Mapping[str, float],
) -> dict[str, float]:
    """Weights of a sum, changed from good ones as far as judged questions support it.

    With factors w_k = v_k exp(t_k) of the given weights v, it maximises the mean over n questions of the nDCG
    with smooth ranks (Qin, Liu and Li, 'A general approximation framework for direct optimization of
    information retrieval measures', Information Retrieval, 2010)

        sum_i g_i / log2(1 + r_i) - ridge / n * |t - mean(t)|^2,
        r_i = 1 + sum_{j != i} sigmoid((s_j - s_i) / T),

    where s = sum_k w_k s_k, and T is the median deviation of s within a pool; a third of it can make the
    slope vanish. It starts from t = 0, so the result is always the same.

    Args:
        pools: of each question with a relevant document: part's name -> (n_i,) what it adds.
        gains: of each question: (n_i,) gain over the DCG of the ideal ranking.
        weights: scorer's name -> v; 1 where not given. 0 stays 0, and no weight changes its sign. The sum of
            absolute values stays, so that scores keep their size.

    Raises:
        DataError: if all weights are 0.

    >>> refine_weights([{"good": [1.0, 0.0], "bad": [0.0, 1.0]}], [[1, 0]], {})["good"] > 1
    True
    """
    from scipy import optimize

    names = tuple(pools[0])
    lessons = [
        (
            np.stack([np.asarray(pool[name], np.float64) for name in names], axis=1),
            np.asarray(gain, np.float64),
        )
        for pool, gain in zip(pools, gains, strict=True)
    ]
    initial = np.array([weights.get(name, 1.0) for name in names])
    if not initial.any():
        raise DataError(f"all weights of {', '.join(names)} are 0; give some of them a weight to begin with")
    usual = float(np.median([(parts @ initial).std() for parts, _ in lessons]))
    scale = initial / (usual or 1.0)  # without any spread all ranks are equal, whatever the scale
    judged = [(parts * scale, gain[gain > 0], np.flatnonzero(gain > 0)) for parts, gain in lessons]

    def loss(t: Float64Array) -> tuple[float, Float64Array]:
        factors, away = np.exp(t), t - t.mean()
        value, slope = _RIDGE * float(away @ away), 2 * _RIDGE * away
        for parts, gain, relevant in judged:
            ndcg, by_factors = _smooth_ndcg(parts, gain, relevant, factors)
            value -= ndcg
            slope = slope - by_factors * factors
        return value / len(judged), slope / len(judged)

    fitted = optimize.minimize(
        loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", bounds=[_RANGE] * len(names)
    )
    refined = initial * np.exp(fitted.x)
    refined *= np.abs(initial).sum() / np.abs(refined).sum()
    return {name: float(weight) for name, weight in zip(names, refined.round(6), strict=True)}


def _smooth_ndcg(
    scores: Float64Array, gains: Float64Array, relevant: IntArray, factors: Float64Array
) -> tuple[float, Float64Array]:
    """The nDCG of (n, k) scores with smooth ranks, and its (k,) slope by the factors."""
    from scipy import special

    totals = scores @ factors
    above = special.expit(totals[None, :] - totals[relevant][:, None])
    ranks = 0.5 + above.sum(axis=1)  # a document is above itself by one half
    discounts = 1 / np.log2(1 + ranks)
    by_rank = -gains * discounts**2 / ((1 + ranks) * np.log(2))
    by_score = by_rank[:, None] * above * (1 - above)
    return float(gains @ discounts), by_score.sum(axis=0) @ scores - by_score.sum(axis=1) @ scores[relevant]


@dataclass(frozen=True, slots=True, eq=False)
class _Lesson:
    """A judged question: its pool, of which only ids count, what each part adds, and the positive gains."""

    pool: Candidates
    parts: Mapping[str, Float64Array]
    gains: Mapping[str, float]

    @property
    def teaches(self) -> bool:
        """Whether weights can make a difference."""
        return any(name in self.gains for name in self.pool.ids)

    @property
    def ideal(self) -> float:
        """DCG of the best possible ranking."""
        return _dcg(sorted(self.gains.values(), reverse=True))

    def order(self, weights: Mapping[str, float]) -> Ranking:
        """The documents of the pool by the weighted sum."""
        return Ranking.order(self.pool, weighted_sum(self.parts, weights))


def _lessons(
    reranker: FusionReranker, judged: Iterable[tuple[Query, Candidates, Mapping[str, float]]]
) -> list[_Lesson]:
    """The questions that have a relevant document, in the order of their ids."""
    lessons: dict[str, _Lesson] = {}
    for query, pool, judgements in judged:
        name = query.id or query.text
        if name in lessons:
            border.refuse(
                "a question", name, "another than those before", "give each once, with all its gains"
            )
        numbers = border.mapping(f"the gains of {name!r}", judgements, border.number)
        gains = {document: gain for document, gain in numbers.items() if gain > 0}
        if gains:
            bare = Candidates(pool.ids, passages=pool.passages, best=pool.best)
            lessons[name] = _Lesson(bare, reranker.parts(query, pool), gains)
    border.some("questions with a relevant document", lessons, "give judgements above 0")
    return [lessons[name] for name in sorted(lessons)]


def _fitted(lessons: Sequence[_Lesson], start: Mapping[str, float]) -> dict[str, float]:
    pools, gains = [], []
    for lesson in lessons:
        # Of a document's passages, the best one by the present weights counts.
        ranked = lesson.order(start)
        rows = ranked.rows_in(lesson.pool)
        pools.append({name: part[rows] for name, part in lesson.parts.items()})
        gains.append(np.array([lesson.gains.get(name, 0.0) for name in ranked.ids]) / lesson.ideal)
    return refine_weights(pools, gains, start)


def _ndcg(lessons: Sequence[_Lesson], weights: Mapping[str, float]) -> Float64Array:
    """(n,) of every question's ranking, as trec_eval defines it: the gains are the judgements."""
    ranked = ((lesson, lesson.order(weights).ids) for lesson in lessons)
    return np.array(
        [_dcg([lesson.gains.get(name, 0.0) for name in ids]) / lesson.ideal for lesson, ids in ranked]
    )


def _dcg(gains: Sequence[float]) -> float:
    first = np.asarray(gains[:CUTOFF], dtype=np.float64)
    return float(first @ (1 / np.log2(np.arange(2, len(first) + 2))))
