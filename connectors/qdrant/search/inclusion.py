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
from surprise_rerank.core.threads import row_products
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank.token_weights import measured_weights


@dataclass(frozen=True, slots=True, eq=False)
class TokenSample:
    """What a question's inclusion is measured against: token vectors of a uniform sample of the corpus.

        sum_j w_j max_y <x_j, y> / sum_j w_j,   unit tokens

    The sample is empty where only the order counts. Weights by it, if it `weighs`, multiply the question's
    vectors, as MaxSim is linear in each.
    """

    tokens: TokenBatch
    weighs: bool

    def asked(self, query: Query) -> AskedInclusion | None:
        """The question, as it is sent; None where it has no token vectors.

        Raises:
            DataError: if they are of another dimension.
        """
        if query.tokens is None:
            return None
        weights, maxima = measured_weights(query.tokens, self.tokens)
        if not self.weighs:
            weights = np.ones(len(query.tokens))
        total = float(weights.sum())
        usual = row_products(maxima, weights) / total if total > 0 else np.zeros(len(maxima))
        return AskedInclusion(query.tokens, weights, usual, self.tokens.token_counts)

    def step(self, engine: str) -> str:
        """What is done, in words."""
        weighted = "weighted " if self.weighs else ""
        return f"{engine}: MaxSim of {weighted}tokens over the candidates"


@dataclass(frozen=True, slots=True, eq=False)
class AskedInclusion:
    """A question whose inclusion is asked for: its (m, d) tokens, their (m,) weights, and what is usual.

    That is the (s,) inclusion in the sample's texts, and the (s,) numbers of their tokens.
    """

    tokens: Float32Array
    weights: Float64Array
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
        stage = maxsim_stage(query_vectors(self.tokens, self.weights), using, limit)
        return request([stage], limit, fields, (), SearchOptions(wanted))

    def inclusion(
        self, found: Sequence[Record], points: Sequence[str], count: str | None = TOKEN_COUNT
    ) -> Inclusion:
        """Of n points, NaN for one that was not found; `count` is the key of its number of tokens, if any."""
        total = float(self.weights.sum())
        scores = {record.id: record.score / total if total > 0 else 0.0 for record in found}
        counts = {record.id: record.payload[count] for record in found} if count else {}
        own = np.array([scores.get(point, np.nan) for point in points], np.float64)
        lengths = np.array([counts.get(point, 0) for point in points], np.int64)
        return Inclusion(own, lengths, self.usual, self.usual_lengths)
