"""What every scorer gives the candidates of a question, and the statistics of a question that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sklearn.metrics import roc_auc_score

from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.connectors.progress import Advance
from surprise_rerank.core.arrays import BoolArray, Float64Array
from surprise_rerank.eval.studies.off_topic.question_contrast import QUESTION_CONTRAST, question_contrast
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.fusion import min_max, weighted_sum
from surprise_rerank.rerank.scorers import Scorer
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import z_scores
from surprise_rerank.thresholds.background import QuestionBackground

# All scorers together, as `background.py` adds them.
FUSION = "fusion"
# The background of all sources.
ALL = ""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with what its candidates score.

    Attributes:
        text: in words.
        scores: scorer -> (n,) scores of its candidates.
        contrasts: source -> (n,) the surprise of the cosine over the background questions of all other
            sources; under `ALL` of every source.
        relevant: (n,) whether a candidate is relevant; nothing is, for a question of another corpus.
        z_documents: the best cosine in deviations above the question's mean over all documents.
        min_max: the best sum of scores that are moved to [0, 1] within the pool.
    """

    text: str
    scores: Mapping[str, Float64Array]
    contrasts: Mapping[str, Float64Array]
    relevant: BoolArray
    z_documents: float
    min_max: float

    def best(self, scorer: str) -> float:
        """The best candidate's score; minus infinity without candidates."""
        own = self.contrasts[ALL] if scorer == QUESTION_CONTRAST else self.scores[scorer]
        return float(np.max(own, initial=-np.inf))


# A question's candidates with the raw scores that a background looks at; their order has no meaning.
View: TypeAlias = Callable[[AskedQuestion], Ranking]
Questions: TypeAlias = Sequence[AskedQuestion]
# (n,) numbers of n questions, larger for those that have an answer.
Statistic: TypeAlias = Callable[[Questions], Float64Array]


def alone(scorer: str) -> View:
    """One scorer's scores, and nothing else."""
    return lambda question: _ranking({scorer: question.scores[scorer]})


def as_system(scorer: str, without: str = ALL) -> View:
    """What thresholds look at: the scores of one scorer, or of all, with the contrast for the cosine.

    Args:
        scorer: which; or `FUSION`.
        without: a source whose questions are left out of the contrast.
    """

    def view(question: AskedQuestion) -> Ranking:
        own = question.scores if scorer == FUSION else {scorer: question.scores[scorer]}
        others = {name: scores for name, scores in own.items() if name != "cosine"}
        return _ranking({**others, QUESTION_CONTRAST: question.contrasts[without]})

    return view


@dataclass(frozen=True, slots=True)
class Bench:
    """What questions are put to.

    Attributes:
        retriever: makes the pools.
        scorers: score them.
        corpus: the ensemble of all documents.
        questions: source -> the ensemble of the background questions of all other sources; under `ALL` of
            every source.
        depth: size of the pools.
    """

    retriever: Retriever
    scorers: Sequence[Scorer]
    corpus: Ensemble
    questions: Mapping[str, Ensemble]
    depth: int

    def ask(
        self,
        queries: Sequence[Query],
        on_progress: Advance,
        *,
        source: str = ALL,
        is_background: bool = False,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
    ) -> list[AskedQuestion]:
        """What the candidates of questions score.

        Args:
            queries: with their vectors.
            on_progress: called with 1 for every question.
            source: that they come from; `ALL` for questions of the corpus.
            is_background: whether they are compared with others of their own background.
            qrels: question id -> document id -> relevance.
        """
        if is_background:
            compared = {name: True for name in self.questions if name != source}
        else:
            compared = {name: False for name in (ALL, source) if name in self.questions}
        found = []
        for query in queries:
            found.append(self._asked(query, (qrels or {}).get(query.id, {}), compared))
            on_progress(1)
        return found

    def _asked(self, query: Query, judged: Mapping[str, int], compared: Mapping[str, bool]) -> AskedQuestion:
        pool = self.retriever.retrieve(query, self.depth, frozenset({"dense", "tokens"}))
        scores = {s.name: np.asarray(s.scores(query, pool), np.float64) for s in self.scorers}
        relevant = np.array([judged.get(name, 0) > 0 for name in pool.ids], dtype=bool)
        contrasts = {
            name: question_contrast(query, pool, self.questions[name], is_member=is_member)
            for name, is_member in compared.items()
        }
        if not len(pool):
            return AskedQuestion(query.text, scores, contrasts, relevant, -np.inf, 0.0)
        # A question of no known word is as near to all documents.
        moments = self.corpus.moments(query.require_dense()[None, :])
        z = np.nan_to_num(z_scores(scores["cosine"], moments), nan=0.0)
        fused = weighted_sum({name: min_max(values) for name, values in scores.items()}, {})
        return AskedQuestion(query.text, scores, contrasts, relevant, float(z.max()), float(fused.max()))


def background_of(asked: Iterable[AskedQuestion], view: View) -> QuestionBackground:
    """The background of these questions."""
    return QuestionBackground.of((own.text, view(own)) for own in asked)


def totals(asked: Questions, background: QuestionBackground, view: View) -> Float64Array:
    """(n,) T of each question's best candidate; minus infinity without candidates."""
    own = [background.totals_of(view(question), question.text) for question in asked]
    return np.array([values.max(initial=-np.inf) for values in own])


def best_is_relevant(asked: Questions, background: QuestionBackground, view: View) -> BoolArray:
    """(n,) whether the candidate of the largest T is relevant."""

    def is_relevant(question: AskedQuestion) -> bool:
        if not len(question.relevant):
            return False
        values = background.totals_of(view(question), question.text)
        return bool(question.relevant[np.argmax(values)])

    return np.array([is_relevant(question) for question in asked])


def statistics(scorers: Sequence[str], background: QuestionBackground) -> dict[str, Statistic]:
    """Statistics by their names; those of `scorers` are their best raw scores."""

    def best(scorer: str) -> Statistic:
        return lambda questions: np.array([q.best(scorer) for q in questions])

    return {
        **{name: best(name) for name in sorted(scorers, key=("cosine", "dynamax", "bm25").index)},
        "min-max": lambda questions: np.array([q.min_max for q in questions]),
        "z over documents": lambda questions: np.array([q.z_documents for q in questions]),
        "z over questions": best(QUESTION_CONTRAST),
        FUSION: lambda questions: totals(questions, background, as_system(FUSION)),
    }


def auroc(statistic: Statistic, on_topic: Questions, off_topic: Questions) -> float:
    """The probability that a question of the corpus has more than one that is not; ties count half."""
    values = np.concatenate([statistic(on_topic), statistic(off_topic)])
    finite = values[np.isfinite(values)]
    lowest = finite.min() - 1.0 if len(finite) else 0.0
    labels = np.repeat([1, 0], [len(on_topic), len(off_topic)])
    return float(roc_auc_score(labels, np.where(np.isfinite(values), values, lowest)))


def passed(questions: Questions, background: QuestionBackground, view: View, alpha: float) -> float:
    """The share in % of questions whose best candidate's surprise is at least 1 - alpha."""
    surprise = background.surprise(totals(questions, background, view))
    return 100 * float((surprise >= 1 - alpha - 1e-9).mean())


def _ranking(raw: Mapping[str, Float64Array]) -> Ranking:
    count = len(next(iter(raw.values())))
    return Ranking(tuple(map(str, range(count))), np.zeros(count), raw=raw)
