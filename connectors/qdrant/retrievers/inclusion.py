"""Inclusion of a question's tokens, computed by Qdrant from multivectors: only ids and scores travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Inclusion, Query
from surprise_rerank.connectors.qdrant.engines.steps import Steps, together
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.multivectors import query_vectors, similarities
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever
from surprise_rerank.connectors.qdrant.schema import ID, TOKEN_COUNT, WITH_VECTORS, Record, point_id
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions, maxsim_stage, request
from surprise_rerank.connectors.qdrant.storage.tokens import stored_tokens
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.token_weights import measured_weights


@dataclass(frozen=True, slots=True, eq=False)
class QdrantInclusion:
    """What Qdrant is asked for inclusion: MaxSim of candidates, and of a sample of the corpus, by ids.

        sum_j w_j max_y <x_j, y> / sum_j w_j,   unit tokens

    which is what `weighted_inclusion` computes of the merged tokens, but for the storage's rounding, and that
    it counts no negative cosine. Weights multiply the question's vectors: MaxSim is linear in each.

    Attributes:
        index: that stores multivectors.
        sample: ids of the points that stand for the corpus, those of the smallest ones.
        lengths: (s,) their numbers of tokens; 0 for all in an index that does not have them.
        tokens: the sample's, which a question's tokens are weighted by; None where all count alike.
    """

    index: QdrantIndex
    sample: tuple[str, ...]
    lengths: IntArray
    tokens: TokenBatch | None

    @classmethod
    def of(cls, index: QdrantIndex, size: int, *, weighs: bool) -> QdrantInclusion:
        """With a sample of so many points; none where only the order counts.

        Raises:
            DataError: if tokens are to be weighted, and those of the sample are damaged.
        """
        records = index.storage.engine.smallest(size, (ID, TOKEN_COUNT), WITH_VECTORS) if size else []
        lengths = _lengths(records)
        tokens = stored_tokens(index.storage, records) if weighs else None
        known = lengths if lengths.all() else np.zeros_like(lengths)
        return cls(index, tuple(record.id for record in records), known, tokens)

    def asked(self, query: Query) -> AskedInclusion:
        """The question, as it is sent.

        Raises:
            DataError: if it has no token vectors, or of another dimension.
        """
        tokens = query.require_tokens()
        weights = None if self.tokens is None else measured_weights(tokens, self.tokens)[0]
        return AskedInclusion(self.index, tokens, weights)

    def step(self) -> str:
        """What is done, in words."""
        storage = self.index.manifest.options.token_vectors
        weighted = "" if self.tokens is None else " of weighted tokens"
        sample = f", and over {len(self.sample)} sampled points" if self.sample else ""
        return f"{self.index.engine}: MaxSim{weighted} ({storage}) over the candidates{sample}"

    def pool(
        self, query: Query, points: Sequence[str], lengths: Sequence[int] | None = None
    ) -> Steps[Inclusion | None]:
        """Of these points, in their order; None where the question has no token vectors.

        Args:
            query: encoded.
            points: ids of n points.
            lengths: n numbers of tokens, where they are known; they are asked for else.
        """
        if query.tokens is None:
            return None
        asked = self.asked(query)
        fields = (TOKEN_COUNT,) if lengths is None and self.lengths.any() else ()
        (usual, _), (scores, found) = yield from together(asked.of(self.sample), asked.of(points, fields))
        own = _lengths(found) if lengths is None else np.array(lengths, np.int64)
        if self.lengths.any():  # a document from before lengths were stored has a usual one
            own[own == 0] = round(float(np.expm1(np.log1p(self.lengths).mean())))
        there = ~np.isnan(usual)
        return Inclusion(scores, own, usual[there], self.lengths[there])


@dataclass(frozen=True, slots=True, eq=False)
class AskedInclusion:
    """A question whose inclusion is asked for.

    Attributes:
        index: that is asked.
        tokens: (m, d) the question's.
        weights: (m,) of these; None where all count alike.
    """

    index: QdrantIndex
    tokens: Float32Array
    weights: Float64Array | None

    def of(
        self, points: Sequence[str], fields: Sequence[str] = ()
    ) -> Steps[tuple[Float64Array, list[Record | None]]]:
        """(n,) inclusion in each of these points, NaN where one is not there; and what was found of them."""
        storage = self.index.manifest.options.token_vectors
        assert storage is not None
        total = float(len(self.tokens) if self.weights is None else self.weights.sum())
        if not points or not total > 0:
            return np.zeros(len(points)), [None] * len(points)
        stage = maxsim_stage(query_vectors(self.tokens, storage, self.weights), len(points))
        among = models.Filter(must=[models.HasIdCondition(has_id=list(points))])
        options = SearchOptions(among, params=stage.params)
        (answer,) = yield [request([stage], len(points), fields, (), options)]
        found = {record.id: record for record in answer}
        own = [found.get(point) for point in points]
        scores = np.array([np.nan if record is None else record.score for record in own], np.float64)
        return similarities(scores, self.tokens, storage, self.weights) / total, own


@dataclass(frozen=True, slots=True)
class InclusionScored(ExplainingRetriever):
    """Candidates of another retriever of the same index, with inclusion of the question's tokens.

    Attributes:
        retriever: finds the candidates.
        inclusion: what is asked for it.
    """

    retriever: Retriever
    inclusion: QdrantInclusion

    @property
    def index(self) -> QdrantIndex:  # type: ignore[override]
        """Where the documents are."""
        return self.inclusion.index

    @property
    def options(self) -> SearchOptions:  # type: ignore[override]
        """Of the other retriever."""
        own = self.retriever
        return own.options if isinstance(own, ExplainingRetriever) else NO_OPTIONS

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        pool = self.retriever.retrieve(query, depth, fields)
        numbers = [0] * len(pool) if pool.passages is None else [own.number for own in pool.passages]
        points = [point_id(name, number) for name, number in zip(pool.ids, numbers, strict=True)]
        found = self.index.pools.ask(self.inclusion.pool(query, points), self.options)
        return replace(pool, inclusion=found)

    def among(self, condition: models.Filter) -> InclusionScored:
        """The same over the documents that a filter lets through.

        Raises:
            DataError: if the other retriever has no filter.
        """
        if not isinstance(self.retriever, ExplainingRetriever):
            raise DataError(
                f"a filter does not reach a {type(self.retriever).__name__}; leave it out, or search by a "
                "system of the index"
            )
        return replace(self, retriever=self.retriever.among(condition))

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        own = self.retriever
        before = own.steps(query, depth) if isinstance(own, ExplainingRetriever) else []
        return [*before, self.inclusion.step()]


def _lengths(records: Sequence[Record | None]) -> IntArray:
    """(n,) numbers of tokens; 0 where a point does not say."""
    return np.array([0 if r is None else r.payload.get(TOKEN_COUNT, 0) for r in records], np.int64)
