"""Answering a question: encode, retrieve, re-rank, with the time that each takes; and answers as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surprise_rerank.candidates import Candidates, Hit, Query, Ranking
from surprise_rerank.connectors.systems import System
from surprise_rerank.encoders import Encoder, encode_queries


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system says to a question.

    Attributes:
        query: the question, encoded.
        ranking: all candidates, best first.
        seconds: step -> how long it took: encoding, retrieval, re-ranking.
    """

    query: Query
    ranking: Ranking
    seconds: dict[str, float]

    @property
    def total(self) -> float:
        """Seconds in all."""
        return sum(self.seconds.values())


def answer(system: System, encoder: Encoder, question: str, depth: int) -> Answer:
    """Answer a question.

    Args:
        system: that answers.
        encoder: of the index's model.
        question: in words.
        depth: size of the candidate pool.
    """
    times = [time.perf_counter()]
    (query,) = encode_queries(encoder, [question])
    times.append(time.perf_counter())
    pool = system.retriever.retrieve(query, depth, system.needs)
    times.append(time.perf_counter())
    ranking = _retrieved(pool) if system.reranker is None else system.reranker.rerank(query, pool)
    times.append(time.perf_counter())
    spans = np.diff(times).tolist()
    return Answer(query, _with_pool_scores(ranking, pool), dict(zip(_STEPS, spans, strict=True)))


_STEPS = ("encoding", "retrieval", "re-ranking")


def hit_json(hit: Hit, rank: int) -> dict[str, Any]:
    """A hit as JSON values; its text is the best passage, where the index has passages."""
    passage, document = hit.passage, hit.document
    return {
        "rank": rank,
        "id": hit.id,
        "score": hit.score,
        "parts": dict(hit.parts),
        "title": document.title if document else "",
        "text": hit.text,
        "passage": None
        if passage is None
        else {"number": passage.number, "start": passage.start, "end": passage.end},
        "metadata": dict(document.metadata) if document else {},
    }


def _retrieved(pool: Candidates) -> Ranking:
    """The pool by the retriever's own scores."""
    return Ranking.order(pool, next(iter(pool.scores.values())), pool.scores)


def _with_pool_scores(ranking: Ranking, pool: Candidates) -> Ranking:
    """A ranking whose parts hold the retriever's scores, too, where a re-ranker has none of that name."""
    rows = {key: row for row, key in enumerate(_keys(pool.ids, pool.passages))}
    order = [rows[key] for key in _keys(ranking.ids, ranking.passages)]
    scores = {name: np.asarray(own, np.float64)[order] for name, own in pool.scores.items()}
    return Ranking(
        ids=ranking.ids,
        scores=ranking.scores,
        parts={**scores, **ranking.parts},
        documents=ranking.documents,
        notes=ranking.notes,
        passages=ranking.passages,
    )


def _keys(ids: Sequence[str], passages: Sequence[Any] | None) -> list[tuple[str, int]]:
    return [(name, passages[i].number if passages is not None else 0) for i, name in enumerate(ids)]
