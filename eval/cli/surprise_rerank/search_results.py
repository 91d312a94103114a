"""Results of a search: encode, retrieve, re-rank, with the time that each takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from surprise_rerank.candidates import Hit, Query, Ranking
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.qdrant.search.filters import filter_of
from surprise_rerank.connectors.qdrant.search.queries import SearchOptions
from surprise_rerank.connectors.systems.backgrounds import background_for
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.connectors.systems.inputs import BuiltSystem
from surprise_rerank.connectors.systems.register import find_system
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.opening import model_of, open_any
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

if TYPE_CHECKING:
    from qdrant_client.models import Filter


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a system found for a question: all candidates, best first, and the seconds of each step."""

    query: Query
    ranking: Ranking
    seconds: dict[str, float]
    encoder: Encoder | None
    background: QuestionBackground | None = None
    language: str = "english"


def search_once(
    system: BuiltSystem,
    encoder: Encoder | None,
    question: str,
    depth: int,
    background: QuestionBackground | None = None,
    diversity: Diversity = NO_DIVERSITY,
    min_percentile: float | None = None,
) -> SearchResult:
    """Search for one question, without an encoder by its words alone; as `Pipeline.search`, with times."""
    times = [time.perf_counter()]
    with searching() as counts:
        query = Query(question) if encoder is None else encode_queries(encoder, [question])[0]
        times.append(time.perf_counter())
        fields = fields_for(system.reranker, diversity)
        pool = retrieved(system.retriever, query, depth, fields | {"documents"})
        times.append(time.perf_counter())
        with reranking(system.reranker, pool):
            ranking = ranked(query, pool, system.reranker, background, min_percentile)
        ranking = first_of(ranking, pool, diversity)
        counts.update(outcome(ranking))
    times.append(time.perf_counter())
    seconds = dict(zip(("encoding", "retrieval", "re-ranking"), np.diff(times).tolist(), strict=True))
    return SearchResult(query, ranking.with_scores_of(pool), seconds, encoder, background)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How is searched, as `search --set` has it.

    Attributes:
        mode: where surprise is computed; here, by Qdrant's formula (its default), or by augmented vectors.
        exact: search without the approximate index.
        offset: pass over the first so many.
        threshold: only documents that score at least this, in the units of the system.
        group_by: the best documents of each value at a path such as metadata.author; --top counts groups.
        group_size: most documents of a group.
        grpc: talk to the server by gRPC instead of REST.
    """

    mode: Literal["formula", "vector"] | None = None
    exact: bool = False
    offset: int = 0
    threshold: float | None = None
    group_by: str | None = None
    group_size: int = 3
    grpc: bool = False

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise DataError(f"offset must not be negative, got {self.offset}")
        if self.group_size < 1:
            raise DataError(f"group_size must be at least 1, got {self.group_size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Questions, and which documents are shown for them; see the options of `search`."""

    questions: Iterable[str]
    is_single: bool
    system: str | None
    top: int
    pool: int
    condition: str | None
    tenant: str | None
    min_percentile: float | None
    diversity: float | None
    collapse: float | None
    model: str | None
    config: str | None
    settings: SearchSettings

    @property
    def depth(self) -> int:
        """How many candidates are retrieved and re-ranked."""
        return max(self.pool, self.top + self.settings.offset)

    def hits(self, ranking: Ranking) -> list[Hit]:
        """All hits that score enough, behind the offset."""
        least = self.settings.threshold
        hits = [hit for hit in ranking if least is None or hit.score >= least]
        if self.min_percentile is not None:
            hits = [hit for hit in hits if (hit.percentile or 0.0) >= self.min_percentile]
        return hits[self.settings.offset :]

    def search_options(self) -> SearchOptions:
        """Filter and parameters for Qdrant.

        Raises:
            DataError: if the filter is none.
        """
        condition = None if self.condition is None else _filter(self.condition)
        options = SearchOptions(filter=condition, tenant=self.tenant)
        return options.exactly() if self.settings.exact else options


def _filter(text: str) -> Filter:
    try:
        return filter_of(json.loads(text))
    except DataError as error:
        raise DataError(f"--filter: {error}") from error
    except ValueError as error:
        raise DataError(
            f"--filter is not JSON ({error}); write it like "
            """'{"must": [{"key": "metadata.year", "match": {"value": 2024}}]}'"""
        ) from error


def search_results(
    location: Location, asked: Asked, out: Output
) -> Iterator[tuple[BuiltSystem, SearchResult]]:
    """A system and its result for each question, in their order.

    Raises:
        SurpriseRerankError: if an option is wrong, the index cannot be opened, or lacks what is needed.
    """
    options, least = asked.search_options(), asked.min_percentile
    diversity = NO_DIVERSITY.changed(diversity=asked.diversity, collapse=asked.collapse)
    with open_any(location, asked.model, asked.config) as index:
        name = asked.system or index.default_system
        system = build_system(name, index, options, asked.settings.mode)
        reads_vectors = find_system(system.name).encodes or fields_for(system.reranker) & {"dense", "tokens"}
        encoder = model_of(index, asked.model) if reads_vectors else None
        background = background_for(index, system, encoder, least, show_progress=out.shows_progress)
        if asked.system is None:
            out.note(f"ranked by {system.summary} (--system chooses another)")
        for question in asked.questions:
            found = search_once(system, encoder, question, asked.depth, background, diversity, least)
            found = replace(found, language=index.language)
            for note in found.ranking.notes:
                out.note(note)
            if asked.condition is not None and not len(found.ranking):
                out.note("the filter lets no document through (metadata is at metadata.KEY)")
            yield system, found
