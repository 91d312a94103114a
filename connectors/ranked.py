"""What ranks the documents of any collection: one that we write, or one that somebody else made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Unpack

from qdrant_client import models

from surprise_rerank.connectors.qdrant.retrievers import (
    HybridRetriever,
    LexicalIndex,
    StoredCandidates,
    SurpriseMode,
)
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.systems.backgrounds import (
    all_backgrounds,
    background_for,
    has_background,
    is_automatic,
    load_background,
    measure_background,
    store_background,
)
from surprise_rerank.connectors.systems.building import build_system, possible_systems, with_scorers
from surprise_rerank.connectors.systems.register import SYSTEMS, find_system
from surprise_rerank.core.process import PerProcess
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.rerank.diversity import NO_DIVERSITY, DiversityOptions
from surprise_rerank.text_reranker import TextReranker
from surprise_rerank.thresholds.background import QuestionBackground
from surprise_rerank.thresholds.chance import AnswerChance

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
# Seconds to wait for another thread that makes a system: making one without a background takes less.
_PATIENCE = 0.5


class Ranked(Searched):
    """A collection with its systems, and with their backgrounds of other questions."""

    def pipeline(
        self,
        system: str | None = None,
        *,
        depth: int = 100,
        min_percentile: float | None = None,
        filter: models.Filter | None = None,  # noqa: A002 - the option's name
        mode: SurpriseMode | None = None,
        scorers: Sequence[object] = (),
        weights: Mapping[str, float] = NO_WEIGHTS,
        **diversity: Unpack[DiversityOptions],
    ) -> Pipeline:
        """Search by a system: a question in, a ranking out.

        The best system that there is enough for by default. `min_percentile` leaves out documents whose
        percentile among background questions is lower. `mode` is where `surprise` is computed:
        `formula`, `vector`. `scorers` are added by `auto` and `fusion`: a `CrossEncoder`, a function
        (question, texts) -> scores, or a `Scorer`; `weights` are factors by part.

        Raises:
            DataError: if what the system or the mode needs is not there, or min_percentile has no background.
        """
        options = NO_OPTIONS if filter is None else SearchOptions(filter=filter)
        built = build_system(system or self.default_system, self, options, mode)
        background = background_for(self, built, self.encoder, min_percentile)
        own, encodes = with_scorers(built, scorers, weights), find_system(built.name).encodes
        shown = NO_DIVERSITY.changed(**diversity)
        ranks = (self.encoder, own.retriever, own.reranker)
        return Pipeline(*ranks, depth, background, min_percentile, shown, encodes)

    def text_reranker(
        self,
        system: str | None = None,
        *,
        min_percentile: float | None = None,
        scorers: Sequence[object] = (),
        weights: Mapping[str, float] = NO_WEIGHTS,
        **diversity: Unpack[DiversityOptions],
    ) -> TextReranker:
        """Re-rank texts that were retrieved elsewhere; vectors of stored ones are fetched by their ids.

        The arguments are those of `pipeline`; the system must be one that ranks texts.

        Raises:
            DataError: if the system cannot rank given texts; as `pipeline`.
        """
        name = system or self.default_system
        chosen = find_system(name)
        if not chosen.ranks_texts:
            able = ", ".join(other.name for other in SYSTEMS.values() if other.ranks_texts)
            raise DataError(f"the system {name!r} ranks inside Qdrant; given texts take one of {able}")
        built = build_system(name, self, of_texts=True)
        if chosen.text_reranker and not (chosen.fits or scorers or weights):  # knows nothing of the corpus
            background = load_background(self, name, min_percentile)
        else:
            background = background_for(self, built, self.encoder, min_percentile)
        built = with_scorers(built, scorers, weights)
        if built.reranker is None:
            raise DataError(
                f"the system {name!r} has no re-ranker, so it cannot rank given texts; choose another"
            )
        words: LexicalIndex | None = None
        if isinstance(built.retriever, HybridRetriever):
            words = built.retriever.lexical
        stored, shown = StoredCandidates(self, words), NO_DIVERSITY.changed(**diversity)
        return TextReranker(self.encoder, built.reranker, stored, background, min_percentile, diversity=shown)

    def backgrounds(self) -> dict[str, QuestionBackground]:
        """System -> its background, of those that have one; a DataError if one is damaged."""
        return all_backgrounds(self)

    def store_background(
        self,
        questions: Sequence[str] | None = None,
        system: str | None = None,
        *,
        depth: int = 100,
        origin: str = "",
        on_progress: Callable[[int], None] | None = None,
    ) -> QuestionBackground:
        """Measure what these questions' best candidates score, and keep it for `min_percentile`.

        They have nothing to do with the corpus: logged ones, or titles of another corpus; `varied_questions`
        where None. The background is of a system, or the default of `pipeline`, over pools of a depth, and in
        place of an earlier one. Readers are told the origin, and `on_progress` the number of every part.

        Raises:
            DataError: if there are too few questions, or the system lacks what it needs.
        """
        name = system or self.default_system
        return measure_background(self, name, questions, depth=depth, origin=origin, on_progress=on_progress)

    def calibrate_chance(
        self,
        questions: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, float]],
        system: str | None = None,
    ) -> AnswerChance:
        """Learn from judged questions how often the first ten documents contain an answer, and keep it.

        Questions and qrels are as for `Pipeline.fit`; the system, or the default, must have a background.

        Raises:
            DataError: if there is no background, or there are too few questions; as `Pipeline.calibrated`.
        """
        name = system or self.default_system
        made = self.pipeline(name).calibrated(questions, qrels).background
        assert made is not None
        assert made.chance is not None
        store_background(self, name, made)
        return made.chance


class RankedPipelines(Mapping[str, Pipeline]):
    """The pipelines of a collection, by the name of their system: those that it has enough for.

    The first is the one that was asked for, or the best one; `min_percentile` is of it alone. Another system
    is made when it is asked for the first time, and gets a background then if it has none, which takes
    seconds. A thread that asks for a system meanwhile gets a TimeoutError at once.
    """

    def __init__(
        self,
        index: Ranked,
        system: str | None = None,
        *,
        depth: int = 100,
        min_percentile: float | None = None,
        **diversity: Unpack[DiversityOptions],
    ) -> None:
        self.index = index
        self.first = system or index.default_system
        own = index.pipeline(self.first, depth=depth, min_percentile=min_percentile, **diversity)
        self._made, self._lock = {self.first: own}, PerProcess(threading.Lock)
        self._names = tuple(dict.fromkeys((self.first, *possible_systems(index))))

    def __getitem__(self, name: str) -> Pipeline:
        """The pipeline of a system; a KeyError without enough for it, a TimeoutError while one is made."""
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            # Whoever would wait for seconds holds a thread that others could be served by.
            lock = self._lock.get()
            if not lock.acquire(timeout=_PATIENCE):
                raise TimeoutError(name)
            try:
                if name not in self._made:
                    first = self._made[self.first]
                    own = self.index.pipeline(name, depth=first.depth)
                    self._made[name] = replace(own, diversity=first.diversity)
            finally:
                lock.release()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # the mapping's own would make the pipeline

    def summaries(self) -> dict[str, str]:
        """What each system does, in a line."""
        return {name: find_system(name).summary for name in self._names}

    def is_measured(self, name: str) -> bool:
        """Whether documents that a system finds have a percentile, or will when it is first asked for."""
        if name in self._made:
            return self._made[name].background is not None
        if has_background(self.index, name):
            return True
        return find_system(name).encodes and is_automatic() and bool(self.index.backgrounds())
