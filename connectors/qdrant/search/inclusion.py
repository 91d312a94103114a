"""Inclusion of a question's tokens, computed by Qdrant from multivectors: only ids and scores travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Inclusion, Query
from surprise_rerank.connectors.qdrant.multivectors import TOKEN_COUNT, query_vectors
from surprise_rerank.connectors.qdrant.schema import TOKEN_VECTORS, Record
from surprise_rerank.connectors.qdrant.search.queries import SearchOptions, maxsim_stage, request
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities.dynamax import DynaMax


@dataclass(frozen=True, slots=True, eq=False)
class TokenSample:
    """What a question's inclusion is measured against: token vectors of a uniform sample of the corpus.

        sum_j max_y <x_j, y> / m,   unit tokens

    The sample is empty where only the order counts.
    """

    tokens: TokenBatch

    def asked(self, query: Query) -> AskedInclusion | None:
        """The question, as it is sent; None where it has no token vectors.

        Raises:
            DataError: if they are of another dimension.
        """
        if query.tokens is None:
            return None
        return AskedInclusion(
            query.tokens, DynaMax().pool(query.tokens, self.tokens), self.tokens.token_counts
        )

    def step(self, engine: str) -> str:
        """What is done, in words."""
        return f"{engine}: MaxSim of tokens over the candidates"


@dataclass(frozen=True, slots=True, eq=False)
class AskedInclusion:
    """A question whose inclusion is asked for: its (m, d) tokens, and what is usual.

    That is the (s,) inclusion in the sample's texts, and the (s,) numbers of their tokens.
    """

    tokens: Float32Array
    usual: Float64Array
    usual_lengths: IntArray

    def among(
        self,
        wanted: models.Filter,
        limit: int,
        using: str = TOKEN_VECTORS,
        fields: Sequence[str] = (TOKEN_COUNT,),
    ) -> models.QueryRequest:
        """A request for MaxSim of at most so many points, those that a filter lets through."""
        stage = maxsim_stage(query_vectors(self.tokens), using, limit)
        return request([stage], limit, fields, (), SearchOptions(wanted))

    def inclusion(
        self, found: Sequence[Record], points: Sequence[str], count: str | None = TOKEN_COUNT
    ) -> Inclusion:
        """Of n points, NaN for one that was not found; `count` is the key of its number of tokens, if any."""
        scores = {record.id: record.score / max(len(self.tokens), 1) for record in found}
        counts = {record.id: record.payload[count] for record in found} if count else {}
        own = np.array([scores.get(point, np.nan) for point in points], np.float64)
        lengths = np.array([counts.get(point, 0) for point in points], np.int64)
        return Inclusion(own, lengths, self.usual, self.usual_lengths if count else 0 * self.usual_lengths)
