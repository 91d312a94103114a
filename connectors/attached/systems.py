"""The systems of a foreign collection: what it has decides what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from surprise_rerank.candidates import Field
from surprise_rerank.connectors.attached.collection import AttachedCollection
from surprise_rerank.connectors.attached.enriched import WORDS
from surprise_rerank.connectors.attached.retrievers import MomentsRetriever, MultivectorRetriever
from surprise_rerank.connectors.attached.words import SparseEmbed, SparseWords
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.retrievers.dense import DenseRetriever
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.connectors.systems.built import AUTO_SAMPLE_SIZE, SAMPLE_SIZE, BuiltSystem
from surprise_rerank.connectors.systems.register import find_system
from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.core.vectors import is_linear
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.auto import AutoReranker
from surprise_rerank.rerank.fusion import BM25_WEIGHT
from surprise_rerank.rerank.rerankers import DynaMaxReranker, FusionReranker, SurpriseReranker
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.surprise.ensemble import Ensemble


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedInputs:
    """What a system of a foreign collection is made of.

    Attributes:
        collection: that is searched.
        sparse: a question's sparse vector, for the collection's own ones; None where it is not known.
        options: filter and search parameters.
    """

    collection: AttachedCollection
    sparse: SparseEmbed | None = None
    options: SearchOptions = NO_OPTIONS

    @property
    def words(self) -> SparseWords | None:
        """The words of documents: those that were added, or the collection's own sparse vectors."""
        own, added = self.collection, self.collection.enriched.words
        if added is not None and is_installed("qdrant_edge"):
            points, idf = own.enriched.points, not own.enriched.weighs_words
            embed = added.query if idf else self._weighted
            return SparseWords(own, points, WORDS, idf, embed, own.added_terms, self.options)
        if self.sparse is None or own.vectors.sparse is None:
            return None
        name, idf = own.vectors.sparse, own.vectors.idf
        return SparseWords(own, own.points, name, idf, self.sparse, self._own_terms, self.options)

    @property
    def dense(self) -> Retriever:
        """The nearest by dense vectors."""
        return DenseRetriever(self.collection, options=self.options)

    @property
    def hybrid(self) -> Retriever:
        """Candidates by dense vectors and, where there are any, by words."""
        words = self.words
        if words is None:
            return self.dense
        return HybridRetriever(self.collection, words, options=self.options)

    @property
    def lacks(self) -> str:
        """What there is not, in words."""
        own = self.collection
        absent = [
            *([] if own.has_tokens else ["token vectors"]),
            *([] if self.words is not None else ["words"]),
        ]
        if not absent:
            return ""
        why = "the collection has none"
        if own.enriched.record is not None and not own.enriched.record.complete:
            why = "enriching is not finished"
        elif own.enriched.has_tokens and not own.has_tokens:
            why = f"{own.tokens_of_another}"
        return f"without {' and '.join(absent)}: {why}"

    def _own_terms(self) -> TermStatistics:
        terms = self.collection.statistics().terms
        assert terms is not None  # the layout has a sparse vector
        return terms

    def _weighted(self, text: str) -> SparseVector:
        """A question's words with their weights over those that were added."""
        own = self.collection
        assert own.enriched.words is not None
        return own.added_terms().weighted(own.enriched.words.query(text))


def default_system(inputs: AttachedInputs) -> str:
    """The best system that a collection has enough for."""
    return "auto" if is_linear(inputs.collection.vectors.similarity) else "fusion"


def build_system(name: str, inputs: AttachedInputs) -> BuiltSystem:
    """A system on a foreign collection.

    Raises:
        DataError: if there is no such system, it is made for an index only, or the collection lacks what it
            needs.
    """
    find_system(name)
    make = _BUILDERS.get(name)
    if make is None:
        raise DataError(
            f"the system {name!r} is made for an index of surprise-rerank; an attached collection has "
            f"{', '.join(_BUILDERS)}"
        )
    return make(inputs)


def _cosine(inputs: AttachedInputs) -> BuiltSystem:
    return BuiltSystem("cosine", inputs.dense)


def _surprise(inputs: AttachedInputs) -> BuiltSystem:
    own = inputs.collection
    record = own.enriched.record
    ensemble = own.ensemble()
    if record is not None and own.enriched.has_moments and record.ensemble == ensemble.identity:
        return BuiltSystem("surprise", MomentsRetriever(own, ensemble, inputs.options))
    members = f"client: z over an ensemble of {ensemble.count} members"
    return BuiltSystem("surprise", inputs.dense, SurpriseReranker(ensemble, weight=1.0), members)


def _bm25(inputs: AttachedInputs) -> BuiltSystem:
    words = inputs.words
    if words is None:
        raise _without(inputs, "words, which bm25 reads", "enrich(words=True), or sparse= for the question's")
    return BuiltSystem("bm25", words)


def _maxsim(inputs: AttachedInputs) -> BuiltSystem:
    if inputs.collection.vectors.tokens is None:
        raise _without(inputs, "multivectors, which maxsim compares", "the system dynamax, after enrich")
    return BuiltSystem("maxsim", MultivectorRetriever(inputs.collection, inputs.options))


def _dynamax(inputs: AttachedInputs) -> BuiltSystem:
    own = inputs.collection
    if own.enriched.has_tokens and not own.has_tokens:
        raise DataError(f"{own.where}: {own.tokens_of_another}")
    if not own.has_tokens:
        raise _without(inputs, "token vectors, which dynamax compares", "enrich(tokens=True)")
    reranking = "client: dynamax of the token vectors of all of these"
    return BuiltSystem("dynamax", inputs.dense, DynaMaxReranker(), reranking)


def _fusion(inputs: AttachedInputs) -> BuiltSystem:
    corpus, tokens, _ = _sampled(inputs, SAMPLE_SIZE)
    scorers: list[Scorer] = [CosineScorer(corpus)]
    weights: Mapping[str, float] = {}
    if inputs.words is not None:
        scorers.insert(0, RetrievedScorer("bm25"))
        weights = {"bm25": BM25_WEIGHT}
    if tokens is not None:
        scorers.append(DynaMaxScorer(tokens))
    terms = " + ".join(scorer.name for scorer in scorers)
    reranking = f"client: {terms}, each in deviations above its mean over {corpus.count} sampled documents"
    reranker = FusionReranker(scorers, "surprise", weights)
    return BuiltSystem("fusion", inputs.hybrid, reranker, reranking, inputs.lacks)


def _auto(inputs: AttachedInputs) -> BuiltSystem:
    own = inputs.collection.vectors
    if not is_linear(own.similarity):
        raise DataError(
            f"{inputs.collection.where} compares its vectors by {own.distance.value}, which orders them "
            "otherwise than the cosine or dot product that auto reads: choose fusion, surprise or cosine"
        )
    corpus, tokens, words = _sampled(inputs, AUTO_SAMPLE_SIZE)
    reranking = (
        f"client: what there is of bm25, cosine and dynamax, in deviations above the mean over "
        f"{corpus.count} sampled documents, with feedback"
    )
    return BuiltSystem("auto", inputs.hybrid, AutoReranker(corpus, tokens, words), reranking, inputs.lacks)


def _sampled(inputs: AttachedInputs, size: int) -> tuple[Ensemble, TokenBatch | None, TermSpace | None]:
    """What stands for the collection: an ensemble, token vectors and terms of a sample, where it has them."""
    own, words = inputs.collection, inputs.words
    fields: set[Field] = {"dense"}
    if own.has_tokens:
        fields.add("tokens")
    if words is not None and (
        words.idf or words.vector == WORDS
    ):  # learned sparse vectors are weighted already
        fields.add("terms")
    found = own.sample(size, frozenset(fields))
    corpus = Ensemble.from_vectors(found.require_dense(), model=own.model, similarity=own.vectors.similarity)
    return corpus, found.tokens, None if found.terms is None else TermSpace(found.terms)


def _without(inputs: AttachedInputs, what: str, remedy: str) -> DataError:
    return DataError(f"{inputs.collection.where} has no {what}; choose another system, or {remedy}")


_BUILDERS: Mapping[str, Callable[[AttachedInputs], BuiltSystem]] = {
    "auto": _auto,
    "cosine": _cosine,
    "surprise": _surprise,
    "maxsim": _maxsim,
    "bm25": _bm25,
    "dynamax": _dynamax,
    "fusion": _fusion,
}
