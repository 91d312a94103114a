"""The systems of one index as pipelines, each made when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.systems.backgrounds import (
    all_backgrounds,
    background_for,
    has_background,
    is_automatic,
)
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.connectors.systems.built import BuiltSystem
from surprise_rerank.connectors.systems.inputs import inputs_of
from surprise_rerank.connectors.systems.loading import pipeline_with
from surprise_rerank.connectors.systems.register import find_system
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.rerank.diversity import NO_DIVERSITY, Diversity

# Seconds to wait for another thread that makes a system: making one without a background takes less.
_PATIENCE = 0.5


class IndexPipelines(Mapping[str, Pipeline]):
    """Pipelines over an index, by the name of their system: those that it stores enough for.

    The first is the one that was asked for, or the best one; `min_surprise` is of it alone. Another system is
    made when it is asked for the first time, and gets a background then if it has none, which takes seconds.
    Threads that ask for a system which another one makes are told so at once.

    Raises:
        DataError: if the index lacks what the first needs, or min_surprise has no background.
    """

    def __init__(
        self,
        index: Searched,
        system: str | None = None,
        *,
        depth: int = 100,
        min_surprise: float | None = None,
        diversity: Diversity = NO_DIVERSITY,
    ) -> None:
        self.index = index
        self.first = system or inputs_of(index).default
        self._depth = depth
        self._diversity = diversity
        self._lock = threading.Lock()
        self._made = {self.first: self._make(self.first, min_surprise)}
        self._names = tuple(dict.fromkeys((self.first, *inputs_of(index).possible)))

    def __getitem__(self, name: str) -> Pipeline:
        """The pipeline of a system.

        Raises:
            KeyError: if the index does not store enough for it.
            TimeoutError: if another thread makes a system now.
            SurpriseRerankError: as `pipeline_of`.
        """
        return self._of(name)[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # the mapping's own would make the pipeline

    def built(self, name: str) -> BuiltSystem:
        """What a pipeline is made of, for explanations."""
        return self._of(name)[0]

    def summaries(self) -> dict[str, str]:
        """What each system does, in a line."""
        return {name: find_system(name).summary for name in self._names}

    def is_measured(self, name: str) -> bool:
        """Whether documents that a system finds have a surprise, or will have when it is first asked for."""
        if name in self._made:
            return self._made[name][1].background is not None
        if has_background(self.index, name):
            return True
        return find_system(name).encodes and is_automatic() and bool(all_backgrounds(self.index))

    def _of(self, name: str) -> tuple[BuiltSystem, Pipeline]:
        if name not in self:
            raise KeyError(name)
        if name not in self._made:
            # Whoever would wait for seconds holds a thread that others could be served by.
            if not self._lock.acquire(timeout=_PATIENCE):
                raise TimeoutError(name)
            try:
                if name not in self._made:
                    self._made[name] = self._make(name, None)
            finally:
                self._lock.release()
        return self._made[name]

    def _make(self, name: str, min_surprise: float | None) -> tuple[BuiltSystem, Pipeline]:
        built = build_system(name, self.index)
        background = background_for(self.index, built, self.index.encoder, min_surprise)
        shown = self._diversity
        return built, pipeline_with(self.index, built, background, self._depth, min_surprise, shown)
