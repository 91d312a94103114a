"""Documents to points: split into passages, and everything stored that the index's options ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.connectors.qdrant.multivectors import document_vectors, token_payload
from surprise_rerank.connectors.qdrant.schema import (
    BM25,
    DENSE,
    PASSAGES,
    SURPRISE,
    TOKEN_VECTORS,
    Payload,
    Point,
    StoredVector,
    document_payload,
    passage_payload,
    point_id,
)
from surprise_rerank.connectors.qdrant.writing.statistics import Statistics
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.tokens import TokenBatch, pooled_tokens
from surprise_rerank.documents import Document, Passage
from surprise_rerank.encoders.base import Encoded, Encoder, token_dimension
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True)
class Piece:
    """What one point is made of: a document, or a passage of one."""

    document: Document  # the whole
    passage: Passage | None  # the stretch; None where the index has no passages
    count: int  # how many passages the document has
    text: str  # what is encoded


@dataclass(frozen=True, slots=True)
class PointMaker:
    """Makes the points of an index."""

    options: IndexOptions  # what is stored
    encoder: Encoder  # makes the vectors
    statistics: Statistics | None  # gives the moments; None where the index has none yet

    def pieces(self, documents: Sequence[Document]) -> list[list[Piece]]:
        """Each document in one piece, or in as many as it has passages."""
        if self.options.passages is None:
            return [[Piece(d, None, 1, d.content)] for d in documents]
        split = self.options.passages.split(documents, self.encoder)
        texts = self.options.passages.texts(documents, split, self.encoder)
        return [
            [Piece(d, p, len(own), text) for p, text in zip(own, shown, strict=True)]
            for d, own, shown in zip(documents, split, texts, strict=True)
        ]

    def points(self, pieces: Sequence[Piece], encoded: Encoded) -> list[Point]:
        """The points of n pieces, from their encodings.

        Raises:
            DataError: if there is not one vector of the index's dimension for every piece, or the index
                stores token vectors and they are missing or of another dimension.
        """
        if encoded.dense.shape != (len(pieces), self.encoder.dimension):
            raise DataError(
                f"{len(pieces)} texts need dense vectors of shape ({len(pieces)}, {self.encoder.dimension}), "
                f"got {encoded.dense.shape}"
            )
        vectors: list[dict[str, StoredVector]] = [{DENSE: row} for row in encoded.dense]
        payloads = [_payload(piece) for piece in pieces]
        if self.options.tokens:
            tokens = pooled_tokens(self._tokens(encoded, len(pieces)), self.options.pooling)
            for i, own in enumerate(vectors):
                own[TOKEN_VECTORS] = document_vectors(tokens, i)
                payloads[i].update(token_payload(tokens, i))
        self._add_statistics(encoded.dense, vectors, payloads)
        if self.options.bm25 is not None:
            self._add_terms(self.options.bm25, [piece.text for piece in pieces], vectors)
        return [
            Point(point_id(p.document.id, p.passage.number if p.passage else 0), own, payload)
            for p, own, payload in zip(pieces, vectors, payloads, strict=True)
        ]

    def _add_terms(self, bm25: Bm25, texts: Sequence[str], vectors: list[dict[str, StoredVector]]) -> None:
        for own, sparse in zip(vectors, bm25.documents(texts), strict=True):
            # Engines differ in whether such a text counts in the IDF; one without a vector never does.
            if len(sparse.indices):
                own[BM25] = sparse

    def _tokens(self, encoded: Encoded, count: int) -> TokenBatch:
        """The token vectors of so many texts."""
        tokens, dimension = encoded.require_tokens(), token_dimension(self.encoder)
        if (len(tokens), tokens.dimension) != (count, dimension):
            raise DataError(
                f"{count} texts need as many lists of token vectors of dimension {dimension}, got "
                f"{len(tokens)} of dimension {tokens.dimension}"
            )
        return tokens

    def _add_statistics(
        self, dense: Float32Array, vectors: list[dict[str, StoredVector]], payloads: list[Payload]
    ) -> None:
        if self.statistics is None or not len(dense):
            return
        moments = self.statistics.moments(dense)
        for payload, changes in zip(payloads, self.statistics.payloads(moments), strict=True):
            payload.update(changes)
        if self.options.surprise_vector:
            for own, vector in zip(vectors, self.statistics.augmented(dense, moments), strict=True):
                own[SURPRISE] = vector


def _payload(piece: Piece) -> Payload:
    if piece.passage is None:
        return document_payload(piece.document)
    own = passage_payload(piece.document, piece.passage)
    if piece.passage.number:
        return own
    return {**document_payload(piece.document), **own, PASSAGES: piece.count}
