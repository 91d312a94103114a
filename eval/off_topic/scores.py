"""What every scorer gives the candidates of a question, and the statistics of a question that follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.arrays import BoolArray, Float64Array
from surprise_rerank.background import QuestionBackground
from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.ensemble import Ensemble
from surprise_rerank.fusion import min_max, weighted_sum
from surprise_rerank.pipeline import Retriever
from surprise_rerank.question_contrast import CONTRAST, contrast
from surprise_rerank.rerank import Scorer
from surprise_rerank.surprise import z_scores

# All scorers together, as `background.py` adds them.
FUSION = "fusion"


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with what its candidates score.

    Attributes:
        text: in words.
        scores: scorer -> (n,) scores of its candidates; `contrast` is the surprise of the cosine over
            background questions.
        relevant: (n,) whether a candidate is relevant; nothing is, for a question of another corpus.
        z_documents: the best cosine in deviations above the question's mean over all documents.
        min_max: the best sum of scores that are moved to [0, 1] within the pool.
    """

    text: str
    scores: Mapping[str, Float64Array]
    relevant: BoolArray
    z_documents: float
    min_max: float

    def ranking(self, scorer: str) -> Ranking:
        """The candidates as a ranking with raw scores of one scorer, or of all; its order says nothing."""
        raw = self.scores if scorer == FUSION else {scorer: self.scores[scorer]}
        names = tuple(map(str, range(len(self.relevant))))
        return Ranking(names, np.zeros(len(names)), raw=raw)

    def best(self, scorer: str) -> float:
        """The best candidate's score; minus infinity without candidates."""
        return float(np.max(self.scores[scorer], initial=-np.inf))


@dataclass(frozen=True, slots=True)
class Bench:
    """What questions are put to.

    Attributes:
        retriever: makes the pools.
        scorers: score them.
        corpus: the ensemble of all documents.
        questions: the ensemble of background questions.
        depth: size of the pools.
    """

    retriever: Retriever
    scorers: Sequence[Scorer]
    corpus: Ensemble
    questions: Ensemble
    depth: int

    def ask(
        self,
        queries: Sequence[Query],
        qrels: Mapping[str, Mapping[str, int]],
        on_progress: Callable[[int], None],
        *,
        are_members: bool = False,
    ) -> list[AskedQuestion]:
        """The questions with their candidates' scores.

        Args:
            queries: encoded.
            qrels: question id -> document id -> relevance; empty for questions of another corpus.
            on_progress: called after every question.
            are_members: whether they are the background questions.
        """
        found = []
        for query in queries:
            found.append(self._asked(query, qrels.get(query.id, {}), are_members))
            on_progress(1)
        return found

    def _asked(self, query: Query, judged: Mapping[str, int], is_member: bool) -> AskedQuestion:
        pool = self.retriever.retrieve(query, self.depth, frozenset({"dense", "tokens"}))
        scores = {s.name: np.asarray(s.scores(query, pool), np.float64) for s in self.scorers}
        relevant = np.array([judged.get(name, 0) > 0 for name in pool.ids], dtype=bool)
        own = contrast(query, pool, self.questions, is_member=is_member)
        if not len(pool):
            return AskedQuestion(query.text, {**scores, CONTRAST: own}, relevant, -np.inf, 0.0)
        assert query.dense is not None
        # A question of no known word is as near to all documents.
        z = np.nan_to_num(z_scores(scores["cosine"], self.corpus.moments(query.dense[None, :])), nan=0.0)
        fused = weighted_sum({name: min_max(values) for name, values in scores.items()}, {})
        found = {**scores, CONTRAST: own}
        return AskedQuestion(query.text, found, relevant, float(z.max()), float(fused.max()))


def background_of(asked: Sequence[AskedQuestion], scorer: str) -> QuestionBackground:
    """The background of these questions by one scorer, or by all."""
    return QuestionBackground.of((own.text, own.ranking(scorer)) for own in asked)


def totals(asked: Sequence[AskedQuestion], background: QuestionBackground, scorer: str) -> Float64Array:
    """(n,) T of each question's best candidate; minus infinity without candidates."""
    own = [background.totals_of(question.ranking(scorer), question.text) for question in asked]
    return np.array([values.max(initial=-np.inf) for values in own])


def first_relevant(asked: Sequence[AskedQuestion], background: QuestionBackground, scorer: str) -> BoolArray:
    """(n,) whether the candidate of the largest T is relevant."""

    def is_relevant(question: AskedQuestion) -> bool:
        if not len(question.relevant):
            return False
        values = background.totals_of(question.ranking(scorer), question.text)
        return bool(question.relevant[np.argmax(values)])

    return np.array([is_relevant(question) for question in asked])
