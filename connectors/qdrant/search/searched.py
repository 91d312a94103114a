"""What is searched by questions: an index, or a collection that somebody else made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.engines.steps import Steps
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions

T = TypeVar("T")


class Searched(ABC):
    """Points that readers ask (see `engines/steps.py`), by threads that wait and by event loops."""

    @abstractmethod
    def ask(self, steps: Steps[T], options: SearchOptions = NO_OPTIONS) -> T:
        """What a reader returns.

        Args:
            steps: of the reader.
            options: of the search that it is a part of.
        """

    @abstractmethod
    async def aask(self, steps: Steps[T], options: SearchOptions = NO_OPTIONS) -> T:
        """`ask` for an event loop."""

    @abstractmethod
    def searching(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Steps[Candidates]:
        """What `search` asks, as a reader."""

    def search(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """The documents nearest to a query, as the vectors are compared.

        Args:
            query: with its dense vector.
            depth: size of the pool, in documents.
            fields: what to fetch with it: `dense`, `tokens`, `documents`.
            exact: search without the approximate index, where the engine has built one.
            options: filter, offset, threshold and parameters of Qdrant.
        """
        return self.ask(self.searching(query, depth, fields, exact=exact, options=options), options)

    async def asearch(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """`search` for an event loop."""
        steps = self.searching(query, depth, fields, exact=exact, options=options)
        return await self.aask(steps, options)
