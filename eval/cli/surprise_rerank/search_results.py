"""Results of a search: encode, retrieve, re-rank, with the time that each takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.systems.backgrounds import background_for
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.connectors.systems.built import BuiltSystem
from surprise_rerank.connectors.systems.inputs import inputs_of
from surprise_rerank.connectors.systems.register import find_system
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.eval.cli.arguments.location import model_of, open_any
from surprise_rerank.eval.cli.arguments.search import SearchArguments
from surprise_rerank.eval.cli.output.console import Output
from surprise_rerank.pipeline import (
    fields_for,
    first_of,
    outcome,
    ranked,
    reranking,
    retrieved,
    searching,
)
from surprise_rerank.rerank.diversity import NO_DIVERSITY, Diversity
from surprise_rerank.thresholds.background import QuestionBackground


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a system found for a question.

    Attributes:
        query: the question, encoded.
        ranking: all candidates, best first.
        seconds: step -> how long it took: encoding, retrieval, re-ranking.
        encoder: that encoded the question; None where only its words were read.
        background: that the documents' surprise was measured against; None where there is none.
        language: of the documents' words.
    """

    query: Query
    ranking: Ranking
    seconds: dict[str, float]
    encoder: Encoder | None
    background: QuestionBackground | None = None
    language: str = "english"

    @property
    def total(self) -> float:
        """Seconds in all."""
        return sum(self.seconds.values())


def search_once(
    system: BuiltSystem,
    encoder: Encoder | None,
    question: str,
    depth: int,
    background: QuestionBackground | None = None,
    diversity: Diversity = NO_DIVERSITY,
    min_surprise: float | None = None,
) -> SearchResult:
    """Search for one question.

    Args:
        system: that ranks.
        encoder: of the index's model; None for a system that reads words alone.
        question: in words.
        depth: size of the candidate pool.
        background: other questions' best candidates, for the surprise of every document.
        diversity: of what is shown.
        min_surprise: what is off-topic below it.
    """
    times = [time.perf_counter()]
    with searching() as counts:
        query = Query(question) if encoder is None else encode_queries(encoder, [question])[0]
        times.append(time.perf_counter())
        fields = fields_for(system.reranker, diversity)
        pool = retrieved(system.retriever, query, depth, fields | {"documents"})
        times.append(time.perf_counter())
        with reranking(system.reranker, pool):
            ranking = ranked(query, pool, system.reranker, background, min_surprise)
        ranking = first_of(ranking, pool, diversity)
        counts.update(outcome(ranking))
    times.append(time.perf_counter())
    steps = ("encoding", "retrieval", "re-ranking")
    seconds = dict(zip(steps, np.diff(times).tolist(), strict=True))
    return SearchResult(query, ranking.with_scores_of(pool), seconds, encoder, background)


def search_results(
    location: Location, arguments: SearchArguments, out: Output, config: str | None = None
) -> Iterator[tuple[BuiltSystem, SearchResult]]:
    """A system and its result for each question, in their order.

    Raises:
        SurpriseRerankError: if an option is wrong, the index cannot be opened, or lacks what is needed.
    """
    questions, options = arguments.questions(), arguments.search_options()
    diversity = NO_DIVERSITY.changed(**arguments.variety)
    with open_any(location, arguments.model, config) as index:
        name = arguments.system or inputs_of(index).default
        system = build_system(name, index, options, arguments.mode)
        reads_vectors = find_system(system.name).encodes or fields_for(system.reranker) & {"dense", "tokens"}
        encoder = model_of(index, arguments.model) if reads_vectors else None
        background = background_for(
            index, system, encoder, arguments.min_surprise, show_progress=out.shows_progress
        )
        depth = max(arguments.pool, arguments.top + arguments.offset)
        if arguments.system is None:
            out.note(f"ranked by {system.summary} (--system chooses another)")
        for question in questions:
            result = search_once(
                system, encoder, question, depth, background, diversity, arguments.min_surprise
            )
            result = replace(result, language=index.language)
            ranking = result.ranking
            for note in ranking.notes:
                out.note(note)
            if arguments.condition is not None and not len(ranking):
                out.note("the filter lets no document through (metadata is at metadata.KEY)")
            yield system, result
