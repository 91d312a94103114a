"""A system at work: what it is made of, and what was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from surprise_rerank.candidates import Field, Query
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever
from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.auto import SCORERS, AutoReranker
from surprise_rerank.rerank.rerankers import FusionReranker, Reranker

# Where scores are computed: surprise as `SurpriseRetriever` has it, tokens here or by Qdrant's MaxSim.
TokenMode: TypeAlias = Literal["client", "maxsim"]
Mode: TypeAlias = SurpriseMode | TokenMode

# Documents over which fusion measures what a usual score is: the deviation of 256 is known to 4 %.
SAMPLE_SIZE = 256
# The same for `auto`: half as many rank as well (docs/defaults.md), and queries are answered sooner.
AUTO_SAMPLE_SIZE = 128


@dataclass(frozen=True, slots=True)
class BuiltSystem:
    """A system at work.

    Attributes:
        name: what it is asked for by.
        retriever: makes the pool.
        reranker: orders it; None where the retriever's order stands.
        reranking: what the re-ranker does, in words.
        note: what a reader of its results must know.
    """

    name: str
    retriever: Retriever
    reranker: Reranker | None = None
    reranking: str = ""
    note: str = ""

    @property
    def summary(self) -> str:
        """Its name, and what it adds."""
        return f"{self.name} of {', '.join(self.scorers)}" if self.scorers else self.name

    @property
    def scorers(self) -> tuple[str, ...]:
        """What it adds, by name; nothing, where one score ranks."""
        if isinstance(self.reranker, AutoReranker):
            own = self.reranker
            there = {
                "bm25": own.words is not None,
                "cosine": own.corpus is not None,
                "dynamax": own.sample is not None or own.stored_inclusion,
            }
            more = (scorer.name for scorer in own.more)
            return (*(name for name in SCORERS if there[name]), *more)
        if isinstance(self.reranker, FusionReranker):
            return tuple(scorer.name for scorer in self.reranker.scorers)
        return ()

    @property
    def sample_size(self) -> int:
        """How many points stand for the corpus."""
        return AUTO_SAMPLE_SIZE if isinstance(self.reranker, AutoReranker) else SAMPLE_SIZE

    @property
    def needs(self) -> frozenset[Field]:
        """What is fetched with the pool."""
        return frozenset() if self.reranker is None else self.reranker.needs

    def steps(self, query: Query, depth: int) -> list[str]:
        """What is done for a query, a line each."""
        own = self.retriever.steps(query, depth) if isinstance(self.retriever, ExplainingRetriever) else []
        return [*own, *([self.reranking] if self.reranking else [])]
