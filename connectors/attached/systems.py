"""What systems of a foreign collection are made of: what it has, and what was added to it."""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.candidates import Field
from surprise_rerank.connectors.attached.collection import AttachedCollection
from surprise_rerank.connectors.attached.enriched import WORDS
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.systems.built import SAMPLE_SIZE, BuiltSystem
from surprise_rerank.connectors.systems.inputs import Sample, SystemInputs
from surprise_rerank.core.arrays import is_linear
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.rerankers import Reranker, SurpriseReranker
from surprise_rerank.surprise.ensemble import Ensemble

# What adds that which a system compares, where a collection has none of it.
_REMEDIES = {
    "bm25": "enrich(words=True), or sparse= for the question's",
    "tokens": "enrich(tokens=True)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedInputs(SystemInputs):
    """What a system of a foreign collection is made of; see `SystemInputs`."""

    index: AttachedCollection  # type: ignore[assignment]

    @property
    def default(self) -> str:
        """The best system that there is enough for: one scorer is enough for all."""
        if not self.index.has_dense:
            return "dynamax" if self.words is None else "fusion"
        return "auto" if is_linear(self.index.similarity) else "fusion"

    @property
    def possible(self) -> list[str]:
        """The systems that there is enough for, the default first."""
        there = {
            self.default: True,
            "fusion": True,
            "cosine": self.index.has_dense,
            "surprise": self.index.has_dense,
            "bm25": self.words is not None,
            "dynamax": self.index.has_tokens,
        }
        return [name for name, is_there in there.items() if is_there]

    @property
    def words(self) -> SparseRetriever | None:
        """The words of documents, where they can be asked."""
        return None if self.index.words is None else SparseRetriever(self.index, self.options)

    @property
    def has_tokens(self) -> bool:
        """Whether there are token vectors: the collection's own multivectors, or those that were added."""
        return self.index.has_tokens

    @property
    def compares_here(self) -> bool:
        """Also the collection's own multivectors beside dense ones, where Qdrant takes no cosines of them."""
        own = self.index
        inside = own.pools.reads_added or own.pools.vectors.token_cosines
        return self.of_texts or (own.has_dense and not inside)

    @property
    def gives_cosines(self) -> bool:
        """Not for sure: questions need not be of length 1, and vectors can be compared by distances."""
        return False

    @property
    def lacks(self) -> str:
        """What there is not, in words."""
        own = self.index
        absent = [
            *([] if own.has_tokens else ["token vectors"]),
            *([] if self.words is not None else ["words"]),
        ]
        if not absent:
            return ""
        why = "the collection has none that are read"
        if own.enriched.record is not None and not own.enriched.record.complete:
            why = "enriching is not finished"
        elif own.enriched.has_tokens and not own.has_tokens:
            why = f"{own.tokens_of_another}"
        return f"without {' and '.join(absent)}: {why}"

    def sample(self, *, terms: bool = False) -> Sample:
        """Documents that stand for the collection; see `SystemInputs.sample`."""
        own, words, fields = self.index, self.words, set[Field]({"dense"})
        # Learned sparse vectors are weighted already.
        if terms and words is not None and (words.words.idf or words.words.vector == WORDS):
            fields.add("terms")
        found = own.sample(SAMPLE_SIZE, frozenset(fields))
        corpus = Ensemble.from_vectors(
            found.require_dense(), sample_size=0, model=own.model, similarity=own.similarity
        )
        return Sample(corpus.count, corpus, None if found.terms is None else TermSpace(found.terms))

    def surprise(self) -> BuiltSystem:
        """The nearest by z over the ensemble, which is computed here."""
        reranking = f"client: z over an ensemble of {self.index.ensemble().count} members"
        return BuiltSystem("surprise", self.dense, self.surprise_of_texts(), reranking)

    def surprise_of_texts(self) -> Reranker:
        """What orders given texts by surprise."""
        return SurpriseReranker(self.index.ensemble(), weight=1.0)

    def lacking(self, what: str, setting: str) -> DataError:
        """The error for what the collection has not; of a setting of an index, what stands for it here."""
        own = self.index
        if setting == "tokens" and own.enriched.has_tokens and not own.has_tokens:
            return DataError(f"{own.where}: {own.tokens_of_another}")
        plain = what.replace("sparse vectors", "words")
        return DataError(f"{own.where} has no {plain}; choose another system, or {_REMEDIES[setting]}")
