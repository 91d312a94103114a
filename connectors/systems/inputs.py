"""What a system is made of: what an index, or a collection that somebody else made, has for it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from surprise_rerank.candidates import Candidates, Field
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.retrievers.dense import (
    DenseRetriever,
    MaxSimRetriever,
    SurpriseMode,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.hybrid import LexicalIndex
from surprise_rerank.connectors.qdrant.retrievers.inclusion import QdrantInclusion
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.systems.built import BuiltSystem, Mode, TokenMode
from surprise_rerank.connectors.systems.register import all_systems
from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.rerankers import Reranker, SurpriseReranker
from surprise_rerank.surprise.ensemble import Ensemble

_FEWEST = 32  # documents of the sample, where each has many passages


@dataclass(frozen=True, slots=True)
class Sample:
    """What stands for the corpus.

    Attributes:
        size: how many documents that are.
        corpus: the ensemble of the first ones: all would be read for every start.
        tokens: their token vectors, of some passages only where documents have many; None where none are
            compared here.
        words: the terms of the same as of `corpus`; None where there are none.
    """

    size: int
    corpus: Ensemble
    tokens: TokenBatch | None
    words: TermSpace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemInputs:
    """What a system of an index is made of; other collections have a subclass, and `inputs_of` finds it.

    Attributes:
        index: that is searched.
        options: filter and search parameters.
        mode: where scores are computed; the system's usual place where None.
        first_stage: where candidates come from, in place of the system's own search.
        ensemble: what surprise is measured against, in place of the one that the documents carry.
    """

    index: QdrantIndex
    options: SearchOptions = NO_OPTIONS
    mode: Mode | None = None
    first_stage: Retriever | None = None
    ensemble: Ensemble | None = None

    @property
    def default(self) -> str:
        """The best system that there is enough for; `auto` needs token vectors or words."""
        options = self.index.manifest.options
        return "auto" if options.stores_tokens or options.bm25 is not None else "cosine"

    @property
    def default_of_texts(self) -> str:
        """The same for given texts, without `auto` where only Qdrant can compare the sample's tokens."""
        options = self.index.manifest.options
        return "dynamax" if options.stores_tokens and not options.packed_tokens else self.default

    @property
    def possible(self) -> list[str]:
        """The systems that there is enough for, the default first."""
        options = self.index.manifest.options
        stored = {
            "ensemble": self.index.manifest.statistics is not None,
            "multivectors": options.token_vectors is not None,
            "sparse": options.bm25 is not None,
            "tokens": options.stores_tokens,
        }
        there = {need for need, is_there in stored.items() if is_there}
        able = [name for name, system in all_systems().items() if system.needs <= there]
        return list(dict.fromkeys((self.default, *able)))

    @property
    def dense(self) -> Retriever:
        """The nearest by dense vectors, or the given candidates."""
        return self.first_stage or DenseRetriever(self.index, options=self.options)

    @property
    def words(self) -> LexicalIndex | None:
        """The documents' words, where they can be asked: questions become terms in Edge's code."""
        if self.index.manifest.options.bm25 is None or not is_installed("qdrant_edge"):
            return None
        return SparseRetriever(self.index, self.options)

    @property
    def token_mode(self) -> TokenMode | None:
        """Where tokens are compared; None where none are stored, and nothing is asked for.

        Where both packed tokens and multivectors are stored it is the faster place: Qdrant's MaxSim on a
        server, whose packed tokens would travel, and here where they are at hand (docs/qdrant.md has the
        figures).

        Raises:
            DataError: if the mode that is asked for compares what is not stored.
        """
        options = self.index.manifest.options
        there: dict[TokenMode, bool] = {
            "client": options.packed_tokens,
            "maxsim": options.token_vectors is not None,
        }
        if self.mode == "maxsim" and not there["maxsim"]:
            raise self.lacking("multivectors, which the mode 'maxsim' compares", "--tokens uint8")
        if self.mode == "client" and not there["client"]:
            raise self.lacking("packed token vectors, which the mode 'client' compares", "--packed-tokens")
        if self.mode is not None:
            return "maxsim" if self.mode == "maxsim" else "client"
        able = [mode for mode, is_there in there.items() if is_there]
        return able[-1 if self.index.engine == "server" else 0] if able else None

    @property
    def lacks(self) -> str:
        """What is left out of a sum of scorers, and why; empty where nothing is."""
        there = {
            "words: the index stores no sparse vectors": self.words is not None,
            "tokens: the index stores no token vectors": self.index.manifest.options.stores_tokens,
        }
        return "; ".join(f"without {part}" for part, is_there in there.items() if not is_there)

    def sample(self, size: int, *, tokens: bool, terms: bool = False) -> Sample:
        """So many documents, or points where these are passages, that stand for the corpus.

        Args:
            size: how many.
            tokens: whether to read their token vectors.
            terms: whether to read their words.
        """
        fields: frozenset[Field] = frozenset({"dense", "terms"} if terms else {"dense"})
        ids, own = self.index.sample_ids(size), self.index.token_sample(size)[1] if tokens else None
        found = sampled(self.index, ids, size, fields)
        corpus = Ensemble.from_vectors(found.require_dense(), sample_size=0, model=self.index.model)
        return Sample(len(ids), corpus, own, None if found.terms is None else TermSpace(found.terms))

    def inclusion(self, size: int, *, weighs: bool) -> QdrantInclusion:
        """Inclusion of tokens by Qdrant's MaxSim, over so many sampled points; see `QdrantInclusion.of`."""
        return QdrantInclusion.of(self.index, size, weighs=weighs)

    def surprise(self) -> BuiltSystem:
        """Cosine's pool by z over the ensemble, inside Qdrant from the moments that documents carry."""
        manifest = self.index.manifest
        if manifest.statistics is None:
            raise DataError(
                f"{self.index.where} has no ensemble, which surprise is measured against; give it one with "
                "'surprise-rerank ensemble set'"
            )
        if self.mode == "vector" and not manifest.options.surprise_vector:
            raise self.lacking("augmented vectors, which the mode 'vector' searches", "--surprise-vector")
        mode = cast(SurpriseMode, self.mode or "formula")
        return BuiltSystem("surprise", SurpriseRetriever(self.index, mode, options=self.options))

    def surprise_of_texts(self) -> Reranker:
        """What orders given texts by surprise."""
        statistics = self.index.statistics()
        if statistics is None:
            raise DataError(
                f"{self.index.where} has no ensemble, which surprise is measured against; set one with "
                "set_ensemble"
            )
        record = statistics.record
        return SurpriseReranker(
            statistics.ensemble,
            weight=1.0,
            shrink_mean=record.shrink_mean,
            shrink_deviation=record.shrink_deviation,
            anchors=self.index.ensemble() if record.shrink_mean or record.shrink_deviation else None,
        )

    def maxsim(self) -> Retriever:
        """Cosine's pool by MaxSim of multivectors, inside Qdrant."""
        if self.index.manifest.options.token_vectors is None:
            raise self.lacking("multivectors, which maxsim compares", "--tokens float16")
        return MaxSimRetriever(self.index, options=self.options)

    def lacking(self, what: str, option: str) -> DataError:
        """The error for what is not stored, and the option of `surprise-rerank index` that stores it."""
        return DataError(
            f"{self.index.where} stores no {what}; choose another system, or make the index again with "
            f"'surprise-rerank index --rebuild {option}'"
        )


def sampled(index: QdrantIndex, ids: Sequence[str], size: int, fields: frozenset[Field]) -> Candidates:
    """The first of a sample's documents: all of them would be read for every start.

    Documents of many passages count as many times, so fewer of them are read.
    """
    most = max(_FEWEST, round(size / index.pools.density))
    return index.fetch(ids[:most], fields)


@functools.singledispatch
def inputs_of(index: Searched, options: SearchOptions = NO_OPTIONS, mode: Mode | None = None) -> SystemInputs:
    """What systems of a collection are made of; the kinds of collections register theirs.

    Args:
        index: that is searched.
        options: filter and search parameters.
        mode: where scores are computed; a system's usual place where None.
    """
    raise TypeError(f"no systems are known for a {type(index).__name__}")


@inputs_of.register
def _(index: QdrantIndex, options: SearchOptions = NO_OPTIONS, mode: Mode | None = None) -> SystemInputs:
    return SystemInputs(index=index, options=options, mode=mode)
