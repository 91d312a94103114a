"""A system at work: what it is made of, and what was made."""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.candidates import Field, Query
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.auto import SCORERS, AutoReranker
from surprise_rerank.rerank.rerankers import FusionReranker, Reranker

# Documents over which it is measured what a usual score is: the deviation of 128 is known to 6 %, and twice
# as many rank no better (docs/results.md).
SAMPLE_SIZE = 128


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
        own = self.reranker
        if isinstance(own, AutoReranker):
            there = {"bm25": own.words, "cosine": own.corpus, "dynamax": own.sample}
            more = (scorer.name for scorer in own.more)
            return (*(name for name in SCORERS if there[name] is not None), *more)
        return tuple(scorer.name for scorer in own.scorers) if isinstance(own, FusionReranker) else ()

    @property
    def needs(self) -> frozenset[Field]:
        """What is fetched with the pool."""
        return frozenset() if self.reranker is None else self.reranker.needs

    def steps(self, query: Query, depth: int) -> list[str]:
        """What is done for a query, a line each."""
        own = self.retriever.steps(query, depth) if isinstance(self.retriever, ExplainingRetriever) else []
        return [*own, *([self.reranking] if self.reranking else [])]
