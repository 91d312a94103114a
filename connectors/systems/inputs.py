"""What a system is made of: what an index, or a collection that somebody else made, has for it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from surprise_rerank.candidates import Candidates, Field
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.retrievers.dense import (
    DenseRetriever,
    SurpriseMode,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.hybrid import LexicalIndex
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.qdrant.search.inclusion import TokenSample
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.systems.built import SAMPLE_SIZE, BuiltSystem
from surprise_rerank.connectors.systems.register import all_systems
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.rerankers import Reranker, SurpriseReranker
from surprise_rerank.surprise.ensemble import Ensemble

_FEWEST = 32  # documents of the sample, where each has many passages


@dataclass(frozen=True, slots=True)
class Sample:
    """What stands for the corpus: so many documents, and the vectors and terms of the first of them."""

    size: int
    corpus: Ensemble
    words: TermSpace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemInputs:
    """What a system of an index is made of; other collections have a subclass, and `inputs_of` finds it.

    Attributes:
        index: that is searched.
        options: filter and search parameters.
        mode: where surprise is computed; its usual place where None.
        first_stage: where candidates come from, in place of the system's own search.
        ensemble: what surprise is measured against, in place of the one that the documents carry.
        of_texts: whether the system is to rank given texts, so that token vectors are compared here.
    """

    index: QdrantIndex
    options: SearchOptions = NO_OPTIONS
    mode: SurpriseMode | None = None
    first_stage: Retriever | None = None
    ensemble: Ensemble | None = None
    of_texts: bool = False

    @property
    def default(self) -> str:
        """The best system that there is enough for; `auto` needs token vectors or words."""
        options = self.index.manifest.options
        return "auto" if options.tokens or options.bm25 is not None else "cosine"

    @property
    def possible(self) -> list[str]:
        """The systems that there is enough for, the default first."""
        lacks = {"lucene", "judgements"}
        lacks |= {"ensemble"} if self.index.manifest.statistics is None else set()
        lacks |= {"sparse"} if self.words is None else set()
        lacks |= set() if self.has_tokens else {"tokens"}
        able = [name for name, system in all_systems().items() if not system.needs & lacks]
        return list(dict.fromkeys((self.default, *able)))

    @property
    def dense(self) -> Retriever:
        """The nearest by dense vectors, or the given candidates."""
        return self.first_stage or DenseRetriever(self.index, options=self.options)

    @property
    def words(self) -> LexicalIndex | None:
        """The documents' words, where they are stored."""
        if self.index.manifest.options.bm25 is None:
            return None
        return SparseRetriever(self.index, self.options)

    @property
    def has_tokens(self) -> bool:
        """Whether token vectors are stored."""
        return self.index.manifest.options.tokens

    @property
    def compares_here(self) -> bool:
        """Whether token vectors are compared here; else Qdrant computes MaxSim."""
        return self.of_texts

    @property
    def gives_cosines(self) -> bool:
        """Whether what Qdrant compares by is the cosine that is measured here."""
        return True

    @property
    def lacks(self) -> str:
        """What is left out of a sum of scorers, and why; empty where nothing is."""
        parts = [] if self.words is not None else ["without words: the index stores no sparse vectors"]
        parts += [] if self.has_tokens else ["without tokens: the index stores no token vectors"]
        return "; ".join(parts)

    def sample(self, *, terms: bool = False) -> Sample:
        """Documents, or points where these are passages, that stand for the corpus; with words if asked."""
        fields: frozenset[Field] = frozenset({"dense", "terms"} if terms else {"dense"})
        ids = self.index.sample_ids(SAMPLE_SIZE)
        found = sampled(self.index, ids, fields)
        corpus = Ensemble.from_vectors(found.require_dense(), sample_size=0, model=self.index.model)
        return Sample(len(ids), corpus, None if found.terms is None else TermSpace(found.terms))

    def token_sample(self) -> TokenSample | None:
        """What inclusion is measured against; None where no token vectors are stored."""
        return TokenSample(self.index.token_sample(SAMPLE_SIZE)[1]) if self.has_tokens else None

    def surprise(self) -> BuiltSystem:
        """Cosine's pool by z over the ensemble, inside Qdrant from the moments that documents carry."""
        retriever = SurpriseRetriever(self.index, self.mode or "formula", options=self.options)
        return BuiltSystem("surprise", retriever)

    def surprise_of_texts(self) -> Reranker:
        """What orders given texts by surprise."""
        statistics = self.index.statistics()
        assert statistics is not None  # the system was built
        record = statistics.record
        return SurpriseReranker(
            statistics.ensemble,
            weight=1.0,
            shrink_mean=record.shrink_mean,
            shrink_deviation=record.shrink_deviation,
            anchors=self.index.ensemble() if record.shrink_mean or record.shrink_deviation else None,
        )

    def lacking(self, what: str, setting: str) -> DataError:
        """The error for what is not stored, and the setting of an index that stores it."""
        return DataError(
            f"{self.index.where} stores no {what}; choose another system, or make the index again with "
            f"'surprise-rerank index --rebuild --set {setting}=yes'"
        )


def sampled(index: Searched, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
    """The first of a sample's documents: all of them would be read for every start.

    Documents of many passages count as many times, so fewer of them are read.
    """
    most = max(_FEWEST, round(SAMPLE_SIZE / index.pools.density))
    return index.fetch(ids[:most], fields)


@functools.singledispatch
def inputs_of(
    index: Searched, options: SearchOptions = NO_OPTIONS, mode: SurpriseMode | None = None
) -> SystemInputs:
    """What systems of a collection are made of; the kinds of collections register theirs."""
    raise TypeError(f"no systems are known for a {type(index).__name__}")


@inputs_of.register
def _(
    index: QdrantIndex, options: SearchOptions = NO_OPTIONS, mode: SurpriseMode | None = None
) -> SystemInputs:
    return SystemInputs(index=index, options=options, mode=mode)
