"""The re-ranker that orders a pool by a similarity of bags of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import Bag, BagSimilarity, Texts, word_lists


@dataclass(frozen=True, slots=True)
class SimilarityReranker:
    """Orders documents by a similarity of their tokens to the query's.

    Attributes:
        similarity: of two bags of tokens.
        encoder: of the documents; needed where the similarity reads words.
        name: what its part is called in a ranking.

    Raises:
        DataError: if the similarity reads words and there is no encoder.
    """

    similarity: BagSimilarity
    encoder: Encoder | None = None
    name: str = "similarity"

    def __post_init__(self) -> None:
        if self.encoder is None and self.similarity.inputs & {"words", "query words"}:
            raise DataError(f"the similarity {self.name!r} reads words; give the encoder of the documents")

    @property
    def needs(self) -> frozenset[Field]:
        """Token vectors, and documents for their words, as the similarity reads them."""
        fields: set[Field] = set()
        if "vectors" in self.similarity.inputs:
            fields.add("tokens")
        if "words" in self.similarity.inputs:
            fields.add("documents")
        return frozenset(fields)

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by similarity.

        Raises:
            DataError: if vectors or documents are missing, of another dimension, or do not belong together.
        """
        scores = self.similarity.pool(self._bag(query), self._texts(candidates))
        return Ranking.order(candidates, scores, {self.name: scores})

    def _bag(self, query: Query) -> Bag:
        reads = self.similarity.inputs
        words = None
        if self.encoder is not None and reads & {"words", "query words"}:
            (words,) = word_lists(self.encoder, [query.text], "query")
        if "vectors" not in reads:
            return Bag(words=words)
        own = query.require_tokens()
        if words is not None and len(words) != len(own):
            raise DataError(
                f"the query has {len(own)} token vectors and its text has {len(words)} words; "
                "encode it with the re-ranker's encoder"
            )
        return Bag(own, words)

    def _texts(self, candidates: Candidates) -> Texts:
        reads = self.similarity.inputs
        tokens = None
        if "vectors" in reads:
            # Each word has a vector of its own, and every similarity counts tokens, not merged vectors.
            tokens = candidates.require_tokens().expanded()
        if self.encoder is None or "words" not in reads:
            return Texts(tokens)
        if candidates.passages is not None:
            raise DataError(
                "the candidates are passages, whose words are not known apart from their documents'; use an "
                "index without passages, or a similarity that reads no words"
            )
        if candidates.documents is None:
            raise DataError(
                "the candidates have no documents; have the retriever fetch the field 'documents'"
            )
        words = word_lists(self.encoder, [document.content for document in candidates.documents])
        if tokens is not None:
            _require_aligned(candidates.ids, tokens, words)
        return Texts(tokens, words)


def _require_aligned(ids: Sequence[str], tokens: TokenBatch, words: Sequence[Sequence[str]]) -> None:
    for name, stored, here in zip(ids, tokens.lengths, map(len, words), strict=True):
        if stored != here:
            raise DataError(
                f"the document {name!r} has {stored} stored token vectors and its text has {here} words; "
                "give the encoder that it was indexed with, or index it again"
            )
