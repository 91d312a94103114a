"""What a system is made of: what a collection has for it; and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank._candidates import Field, Query
from surprise_rerank._pipeline import Retriever
from surprise_rerank.connectors.qdrant._hybrid import SparseRetriever
from surprise_rerank.connectors.qdrant._retrievers import DenseRetriever, ExplainingRetriever, SurpriseMode
from surprise_rerank.connectors.qdrant._search.corpus import Corpus
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.core.arrays import is_linear
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank._fusion import FusionReranker
from surprise_rerank.rerank._scorers import Reranker
from surprise_rerank.surprise._ensemble import Ensemble

# Documents over which it is measured what a usual score is: the deviation of 128 is known to 6 %, and twice
# as many rank no better.
SAMPLE_SIZE = 128


@dataclass(frozen=True, slots=True)
class BuiltSystem:
    """A system on a collection: its retriever and its re-ranker."""

    name: str  # what it is asked for by
    retriever: Retriever  # makes the pool
    reranker: Reranker | None = None  # orders it; None where the retriever's order stands
    reranking: str = ""  # what the re-ranker does, in words
    note: str = ""  # what a reader of its results must know

    @property
    def summary(self) -> str:
        """Its name, and what it adds."""
        return f"{self.name} of {', '.join(self.scorers)}" if self.scorers else self.name

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the scores that it adds; none where one score ranks."""
        scorers = self.reranker.scorers if isinstance(self.reranker, FusionReranker) else ()
        return tuple(scorer.name for scorer in scorers)

    @property
    def needs(self) -> frozenset[Field]:
        """The fields of candidates that the re-ranker reads."""
        return frozenset() if self.reranker is None else self.reranker.needs

    def steps(self, query: Query, depth: int) -> list[str]:
        """Return the steps of a search for a query, a line each."""
        lines = self.retriever.steps(query, depth) if isinstance(self.retriever, ExplainingRetriever) else []
        return [*lines, *([self.reranking] if self.reranking else [])]


@dataclass(frozen=True, slots=True)
class Sample:
    """What stands for the corpus: so many documents, and their vectors."""

    size: int
    ensemble: Ensemble


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemInputs:
    """What a system of a collection is made of."""

    corpus: Corpus  # that is searched
    options: SearchOptions = NO_OPTIONS  # filter and search parameters
    mode: SurpriseMode | None = None  # where surprise is computed; its usual place where None
    first_stage: Retriever | None = None  # where candidates come from, in place of the system's own search
    ensemble: Ensemble | None = None  # what surprise is measured against, in place of the collection's own
    of_texts: bool = False  # whether the system is to rank given texts, so that vectors are compared here

    @property
    def dense(self) -> Retriever:
        """The nearest by dense vectors, or the given candidates."""
        return self.first_stage or DenseRetriever(self.corpus, options=self.options)

    @property
    def words(self) -> SparseRetriever | None:
        """The documents' words, where they can be asked."""
        return None if self.corpus.words is None else SparseRetriever(self.corpus, self.options)

    @property
    def compares_here(self) -> bool:
        """Whether token vectors are compared here; else Qdrant computes MaxSim."""
        return self.of_texts or self.corpus.layout.compares_tokens_here

    @property
    def lacks(self) -> str:
        """The parts that a sum of scorers has to leave out, and their remedy; empty where it has all."""
        corpus = self.corpus
        absent = ["words"] * (corpus.words is None) + ["token vectors"] * (not corpus.has_tokens)
        return f"without {' and '.join(absent)}: {'; '.join(map(corpus.remedy, absent))}" if absent else ""

    def sample(self) -> Sample:
        """Documents, or passages, that stand for the corpus."""
        corpus = self.corpus
        documents = corpus.sample(SAMPLE_SIZE, frozenset({"dense"}))
        vectors, similarity = documents.require_dense(), corpus.layout.similarity
        # Moments of a dot product need no members; those of distances are of these.
        size = 0 if is_linear(similarity) else len(vectors)
        ensemble = Ensemble.from_vectors(vectors, sample_size=size, model=corpus.model, similarity=similarity)
        return Sample(len(set(documents.ids)), ensemble)

    def token_sample(self) -> TokenBatch | None:
        """What inclusion is measured against; None where no token vectors are stored."""
        return self.corpus.token_sample(SAMPLE_SIZE)[1] if self.corpus.has_tokens else None
