"""Retrievers that tell what they do in words, and take filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self, cast

from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.search.queries import SearchOptions, Stage
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Pipeline


class ExplainingRetriever(ABC):
    """A retriever from an index that tells what it does, in words; a dataclass, mostly with `options`."""

    __slots__ = ()
    index: Searched

    @abstractmethod
    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The pool, best first by the first of its scores."""

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]] | None:
        """Reads what is shown, by id; see `Searched.documents`."""
        return self.index.documents

    @abstractmethod
    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""

    def among(self, condition: models.Filter) -> Self:
        """The same over the documents that a filter lets through, beside its own filter."""
        own = cast(Any, self)
        return cast(Self, replace(own, options=own.options.among(condition)))


def filterable(pipeline: Pipeline) -> ExplainingRetriever:
    """A pipeline's retriever, which takes filters.

    Raises:
        DataError: if it is none from an index or an attached collection.
    """
    if isinstance(pipeline.retriever, ExplainingRetriever):
        return pipeline.retriever
    raise DataError(
        f"filters go to a retriever of an index, not to a {type(pipeline.retriever).__name__}; leave them out"
    )


def in_words(index: Searched, stages: Sequence[Stage], options: SearchOptions) -> list[str]:
    """The stages in words."""
    first = f"all {len(index)} documents"
    if options.filter is not None:
        first += " that the filter lets through"
    if options.tenant is not None:
        first += f" of tenant {options.tenant!r}"
    sources = [first, *(f"the {stage.limit} best of these" for stage in stages[:-1])]
    return [
        f"{index.engine}: {stage.name} over {source}" for stage, source in zip(stages, sources, strict=True)
    ]
