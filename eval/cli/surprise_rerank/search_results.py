"""Results of a search: what each question gets from a pipeline on an index or a foreign collection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from surprise_rerank.answers import Answer, SearchSettings
from surprise_rerank.connectors.attached.opening import open_collection
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.connectors.systems.inputs import BuiltSystem
from surprise_rerank.connectors.systems.register import find_system
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.eval.cli.inputs import read_filter
from surprise_rerank.eval.cli.output.console import Output


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a system gave for a question, and what explains it."""

    system: BuiltSystem
    answer: Answer
    encoder: Encoder | None
    language: str = "english"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSettings:
    """How is searched, as `search --set` has it.

    Attributes:
        mode: where surprise is computed; here, by Qdrant's formula (its default), or by augmented vectors.
        exact: search without the approximate index.
        offset: pass over the first so many.
        keep_refused: show what --min-percentile refuses, too.
        group_by: the best documents of each value at a path such as metadata.author, or the best passages
            of each `document` with --passages; --top counts groups.
        group_size: most documents of a group.
        max_per_document: most passages of one document, with --passages.
        context: neighbours on each side that belong to a passage's text.
        grpc: talk to the server by gRPC instead of REST.
    """

    mode: Literal["formula", "vector"] | None = None
    exact: bool = False
    offset: int = 0
    keep_refused: bool = False
    group_by: str | None = None
    group_size: int = 3
    max_per_document: int | None = None
    context: int = 0
    grpc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCommand:
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
    passages: bool
    model: str | None
    config: str | None
    settings: SetSettings

    @property
    def shown(self) -> int | None:
        """How many lines are shown; None where there are groups of what the whole pool has."""
        return None if self.settings.group_by is not None else self.top

    def search_settings(self) -> SearchSettings:
        """The options as every interface has them; a DataError if the filter is none."""
        return {
            "filter": None if self.condition is None else read_filter("--filter", self.condition),
            "tenant": self.tenant,
            "min_percentile": self.min_percentile,
            "depth": self.pool,
            "diversity": self.diversity,
            "collapse": self.collapse,
            "offset": self.settings.offset,
            "keep_refused": self.settings.keep_refused,
            "unit": "passage" if self.passages else "document",
            "max_per_document": self.settings.max_per_document,
            "context": self.settings.context,
        }


def search_results(location: Location, command: SearchCommand, out: Output) -> Iterator[SearchResult]:
    """The result of each question, in their order.

    Raises:
        SurpriseRerankError: if an option is wrong, the index cannot be opened, or lacks what is needed.
    """
    settings = command.search_settings()
    encodes = command.system is None or find_system(command.system).encodes
    with open_collection(location, model=command.model, config=command.config, encodes=encodes) as index:
        name = command.system or index.default_system
        encoder = index.encoder if encodes else None
        options = NO_OPTIONS.exactly() if command.settings.exact else NO_OPTIONS
        system = build_system(name, index, options, command.settings.mode)
        pipeline = index.pipeline_of(system, **settings)
        system = replace(system, retriever=pipeline.retriever)  # with the filter, for the steps
        if command.system is None:
            out.note(f"ranked by {system.summary} (--system chooses another)")
        for question in command.questions:
            answer = pipeline.answer(question, command.shown)
            for note in answer.shown.notes:
                out.note(note)
            if command.condition is not None and not len(answer.ranking):
                out.note("the filter lets no document through (metadata is at metadata.KEY)")
            yield SearchResult(system, answer, encoder, index.language)
