"""Answering a question: encode, retrieve, re-rank, with the time that each takes; and answers as JSON."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surprise_rerank.candidates import Candidates, Hit, Query, Ranking
from surprise_rerank.connectors.systems.built import BuiltSystem
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.pipeline import fields_for, ranked
from surprise_rerank.thresholds.background import QuestionBackground


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system says to a question.

    Attributes:
        query: the question, encoded.
        ranking: all candidates, best first.
        seconds: step -> how long it took: encoding, retrieval, re-ranking.
        encoder: that encoded the question.
        background: that the documents' surprise was measured against; None where there is none.
    """

    query: Query
    ranking: Ranking
    seconds: dict[str, float]
    encoder: Encoder
    background: QuestionBackground | None = None

    @property
    def total(self) -> float:
        """Seconds in all."""
        return sum(self.seconds.values())


def answer(
    system: BuiltSystem,
    encoder: Encoder,
    question: str,
    depth: int,
    background: QuestionBackground | None = None,
) -> Answer:
    """Answer a question.

    Args:
        system: that answers.
        encoder: of the index's model.
        question: in words.
        depth: size of the candidate pool.
        background: other questions' best candidates, for the surprise of every document.
    """
    times = [time.perf_counter()]
    (query,) = encode_queries(encoder, [question])
    times.append(time.perf_counter())
    pool = system.retriever.retrieve(query, depth, fields_for(system.reranker, background) | {"documents"})
    times.append(time.perf_counter())
    ranking = ranked(query, pool, system.reranker, background)
    times.append(time.perf_counter())
    spans = np.diff(times).tolist()
    seconds = dict(zip(_STEPS, spans, strict=True))
    return Answer(query, _with_pool_scores(ranking, pool), seconds, encoder, background)


_STEPS = ("encoding", "retrieval", "re-ranking")


def hit_json(hit: Hit, rank: int) -> dict[str, Any]:
    """A hit as JSON values; its text is the best passage, where the index has passages."""
    passage, document = hit.passage, hit.document
    return {
        "rank": rank,
        "id": hit.id,
        "score": hit.score,
        "surprise": hit.surprise,
        "parts": dict(hit.parts),
        "title": document.title if document else "",
        "text": hit.text,
        "passage": None
        if passage is None
        else {"number": passage.number, "start": passage.start, "end": passage.end},
        "metadata": dict(document.metadata) if document else {},
    }


def _with_pool_scores(ranking: Ranking, pool: Candidates) -> Ranking:
    """A ranking whose parts hold the retriever's scores, too, where a re-ranker has none of that name."""
    order = ranking.rows_in(pool)
    scores = {name: np.asarray(own, np.float64)[order] for name, own in pool.scores.items()}
    return replace(ranking, parts={**scores, **ranking.parts})
