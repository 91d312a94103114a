"""The vectors of a collection as data: which are compared, and how, whoever made the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from qdrant_client import models

from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS, stored_tokens
from surprise_rerank.connectors.qdrant._schema import BM25, DENSE, ID, TOKEN_VECTORS, Record
from surprise_rerank.core.arrays import Float32Array, Float64Array, VectorSimilarity, unit_rows
from surprise_rerank.core.tokens import TokenBatch

SIMILARITIES: Mapping[models.Distance, VectorSimilarity] = {
    models.Distance.COSINE: "dot",
    models.Distance.DOT: "dot",
    models.Distance.EUCLID: "euclidean",
    models.Distance.MANHATTAN: "manhattan",
}


@dataclass(frozen=True, slots=True)
class VectorLayout:
    """The vectors of a collection that are compared: which they are, and how.

    Of a collection without dense vectors `dense` is the multivector, whose MaxSim finds documents then.
    """

    dense: str  # name of the dense vector; empty for the one without a name
    size: int  # its dimension
    distance: models.Distance  # how Qdrant compares it
    tokens: str | None = None  # name of the multivector of tokens
    token_size: int = 0  # the dimension of the tokens
    token_cosines: bool = False  # whether Qdrant compares tokens by the cosine: MaxSim is inclusion then
    # Payload keys of the tokens' numbers and shapes; none where multivectors are all that there is.
    token_fields: tuple[str, ...] = ()
    pooling: float = 1.0  # tokens that are merged into one vector, on average
    has_dense: bool = True  # whether there is one dense vector of each document
    sparse: str | None = None  # name of the sparse vector of words
    idf: bool = False  # whether Qdrant multiplies its values with the IDF
    unit: bool = True  # whether dense vectors have length 1

    @classmethod
    def of(cls, manifest: Manifest) -> VectorLayout:
        """Return the layout of an index of ours."""
        options = manifest.options
        return cls(
            DENSE,
            manifest.dimension,
            models.Distance.DOT,
            TOKEN_VECTORS if options.tokens else None,
            manifest.token_dimension,
            token_cosines=True,
            token_fields=TOKEN_FIELDS,
            pooling=options.pooling,
            sparse=None if options.bm25 is None else BM25,
        )

    @property
    def compares_tokens_here(self) -> bool:
        """Whether token vectors must be fetched, as Qdrant's MaxSim of them is not inclusion."""
        return self.has_dense and not self.token_cosines

    @property
    def using(self) -> str | None:
        """The dense vector in a request."""
        return self.dense or None

    @property
    def similarity(self) -> VectorSimilarity:
        """How documents are compared with questions here.

        |x - y|^2 = 2 - 2 <x, y> for unit vectors, so that their Euclidean distance orders as the cosine does;
        the sum of |x_i - y_i| does not.
        """
        similarity = SIMILARITIES[self.distance]
        return "dot" if self.unit and similarity != "manhattan" else similarity

    @property
    def score(self) -> str:
        """What the scores of Qdrant's search are called."""
        if not self.has_dense:
            return "MaxSim"
        name = SIMILARITIES[self.distance]
        return name if name != "dot" else ("cosine" if self.unit else "dot")

    def nearness(self, records: Sequence[Record]) -> Float64Array:
        """(n,) Qdrant's scores of points, as higher for nearer: a distance x becomes 1 / (1 + x)."""
        scores = np.array([record.score for record in records], np.float32)
        if SIMILARITIES[self.distance] != "dot":
            scores = np.asarray(1.0 / (1.0 + scores), np.float32)
        return scores.astype(np.float64)

    def dense_of(self, page: Sequence[Record]) -> tuple[Float32Array, list[int]]:
        """Dense vectors of points, as they are compared, and the rows of the points that have one."""
        rows = [i for i, record in enumerate(page) if record.vectors.get(self.dense) is not None]
        vectors = np.array([page[i].vectors[self.dense] for i in rows], np.float32)
        vectors = vectors.reshape(len(rows), self.size)
        # Qdrant scales those that it compares by the cosine.
        return (unit_rows(vectors) if self.distance == models.Distance.COSINE else vectors), rows

    def tokens_of(self, page: Sequence[Record]) -> TokenBatch:
        """The token vectors of points; a DataError names one whose vectors are damaged."""
        size = self.token_size
        matrices = [record.vectors.get(self.tokens or "", ()) for record in page]
        if self.token_fields:
            payloads = [record.payload for record in page]
            names = [
                f"of document {p[ID]!r}" if ID in p else f"of point {r.id}"
                for p, r in zip(payloads, page, strict=True)
            ]
            return stored_tokens(matrices, payloads, size, names)
        rows = [np.array([] if m is None else m, np.float32).reshape(-1, size) for m in matrices]
        return TokenBatch.from_arrays(rows, size)

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for `status`."""
        named = repr(self.dense) if self.dense else "the one without a name"
        lengths = "" if self.unit else ", not of length 1"
        dense = f"{named}, {self.size} dimensions, {self.distance.value}{lengths}"
        tokens = (
            "none" if self.tokens is None else f"multivector {self.tokens!r}, {self.token_size} dimensions"
        )
        idf = ", with Qdrant's IDF" if self.idf else ""
        return [
            ("dense vector", dense if self.has_dense else "none: documents are found by MaxSim"),
            ("token vectors", tokens),
            ("sparse vector", "none" if self.sparse is None else f"{self.sparse!r}{idf}"),
        ]
