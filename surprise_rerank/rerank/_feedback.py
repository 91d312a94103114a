"""Feedback from a pool: what its best documents have in common, as a second question of dense vectors.

Documents that answer one question resemble each other (the cluster hypothesis: van Rijsbergen, 'Information
Retrieval', 1979). So what the best documents of a first ranking have more of than the pool serves as a
second question (Rocchio, 'Relevance feedback in information retrieval', 1971; the pool is not relevant):

    f = sum_j p_j v_j - mean of v over the pool,   p_j proportional to 1 / rank_j^2.

Few vectors of the pool are read: those of the best by each scorer, whose ranks count, and of some of the
others, which stand for the rest in the mean. Scoring all candidates by f is the store's work.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from surprise_rerank._candidates import Candidates, Field, Query
from surprise_rerank.core._computing import row_products
from surprise_rerank.core.arrays import Float32Array, Float64Array, pair_similarities, prepared
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank._fusion import AS_THEY_ARE, FusionReranker, by_id
from surprise_rerank.rerank._scorers import MeasuredScores, Scorer
from surprise_rerank.surprise._ensemble import Ensemble

T = TypeVar("T", bound=Hashable)

# Of each list of candidates: the best ones that are read, and others that are.
BEST, OTHERS = 6, 6
# Of fewer documents the best are the pool, and there is nothing to tell them from.
FEWEST = 20


class FeedbackRows(NamedTuple):
    """Positions in a pool of the candidates whose vectors make the second question."""

    best: list[int]
    others: list[int]


def best_and_others(*lists: Sequence[T]) -> tuple[list[T], list[T]]:
    """Of lists of candidates, best first: the best of each, and some of the others at even distances."""
    best = list(dict.fromkeys(name for names in lists for name in names[:BEST]))
    others: list[T] = []
    for names in lists:
        left = [name for name in names if name not in best]
        places = np.linspace(0, len(left) - 1, min(OTHERS, len(left))).round().astype(int).tolist()
        others += [left[place] for place in places]
    return best, list(dict.fromkeys(others))


@dataclass(frozen=True, slots=True, eq=False)
class Feedback:
    """Makes a second question of what a first ranking puts first.

    Attributes:
        first: the sum of scorers that ranks before.
        corpus: the ensemble of documents, for the moments of the second question's similarities.
    """

    first: FusionReranker
    corpus: Ensemble

    def question(
        self, query: Query, pool: Candidates, rows: FeedbackRows, vectors: Mapping[int, Float32Array]
    ) -> Float32Array | None:
        """The (d,) second question, of length 1; None where a pool is small or shows no difference.

        Args:
            query: the first question.
            pool: n candidates with what `first` needs.
            rows: positions of those that make the question.
            vectors: position -> (d,) dense vector of each of these.
        """
        if not rows.best or len(set(pool.ids)) < FEWEST:
            return None
        total = self.first.totals(query, pool)
        if not np.ptp(total) > 0:
            return None
        best, others = (
            prepared(np.array([vectors[row] for row in part]), self.corpus.similarity).astype(np.float64)
            if part
            else np.zeros((0, self.corpus.dimension))
            for part in rows
        )
        mean = best.mean(axis=0)
        if len(others):  # each stands for as many of the rest as there are for one of them
            share = len(best) / len(pool)
            mean = share * mean + (1 - share) * others.mean(axis=0)
        question = shares(total[rows.best], [pool.ids[row] for row in rows.best]) @ best - mean
        length = float(np.linalg.norm(question))
        return (question / length).astype(np.float32) if length > 0 else None

    def moments(self, question: Float32Array) -> Moments:
        """Mean and deviation over the corpus of similarities to a second question."""
        return self.corpus.moments(question[None]).single()


@dataclass(frozen=True)
class FeedbackScorer(Scorer):
    """The similarity of a document's dense vector to what the best documents have in common.

    Where `feedback` is None, a retriever has put it into the candidates with its moments. Else the
    candidates have dense vectors, and it is computed here, in the same way.
    """

    feedback: Feedback | None = None
    name: str = "feedback"
    is_relative: ClassVar[bool] = True

    @property
    def needs(self) -> frozenset[Field]:
        """Dense vectors, where they are compared here."""
        return frozenset() if self.feedback is None else frozenset({"dense"})

    def scores(self, query: Query, candidates: Candidates) -> Float64Array:
        """(n,) similarities; all 0 where there is no second question."""
        return self.measured(query, candidates).scores

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Mean and deviation of the similarities over the corpus."""
        return self.measured(query, candidates).moments

    def measured(self, query: Query, candidates: Candidates) -> MeasuredScores:
        """Return its scores, with their mean and deviation over the corpus."""
        question = None if self.feedback is None else self._question(self.feedback, query, candidates)
        if self.feedback is None:
            scores, moments = candidates.scores.get(self.name), candidates.corpus_moments.get(self.name)
        elif question is not None:
            vectors, moments = candidates.require_dense(), self.feedback.moments(question)
            scores = row_products(prepared(vectors, self.feedback.corpus.similarity), question)
        else:
            scores, moments = None, None
        if scores is None or moments is None:  # nothing speaks for or against a candidate
            scores, moments = np.zeros(len(candidates)), AS_THEY_ARE
        return MeasuredScores(np.asarray(scores, np.float64), np.asarray(scores, np.float64), moments)

    def absence(self, query: Query, candidates: Candidates) -> str | None:
        """Silence where a retriever found no second question; None where it can score."""
        if self.feedback is None:
            return None if self.name in candidates.scores else ""
        return Scorer.absence(self, query, candidates)

    def _question(self, feedback: Feedback, query: Query, candidates: Candidates) -> Float32Array | None:
        """The second question of candidates that have vectors."""
        vectors, order = candidates.require_dense(), np.array(by_id(candidates), np.int64)
        lists = []
        if query.dense is not None:
            lists.append(pair_similarities(vectors, query.dense, feedback.corpus.similarity))
        if "bm25" in candidates.scores:
            lists.append(np.asarray(candidates.scores["bm25"], np.float64))
        ranked = [order[np.argsort(-scores[order], kind="stable")] for scores in lists]
        if len(ranked) == 2:  # what has no word of the question was not found by its words
            ranked[1] = ranked[1][lists[1][ranked[1]] > 0]
        rows = FeedbackRows(*best_and_others(*(rows.tolist() for rows in ranked)))
        return feedback.question(query, candidates, rows, dict(enumerate(vectors)))


def shares(total: Float64Array, ids: Sequence[str]) -> Float64Array:
    """(n,) how much of the feedback each candidate gives: p proportional to 1 / rank^2, with sum 1.

    Ranks bound the shares: the first document gives at most 1 / (1 + 1/4 + 1/9 + ...), .61 of a long list. A
    softmax of the scores gave everything to one document where deviations are large, and next to the same to
    all where they are small. Documents of equal scores share their mean rank. Of a document's passages only
    the best gives any. Otherwise long documents would count more.
    """
    best: dict[str, int] = {}  # document -> its row, of its passages the first of the best
    for row, name in enumerate(ids):
        if name not in best or total[row] > total[best[name]]:
            best[name] = row
    parts, rows = np.zeros(len(total)), sorted(best.values())
    if rows:
        _, place, counts = np.unique(-total[rows], return_inverse=True, return_counts=True)
        weights = (counts.cumsum() - (counts - 1) / 2)[place] ** -2.0
        parts[rows] = weights / weights.sum()
    return parts
