"""Inclusion of a question's tokens, computed by Qdrant from multivectors: only ids and scores travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Inclusion, Query
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.multivectors import TokenStorage, query_vectors, similarities
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever
from surprise_rerank.connectors.qdrant.schema import ID, TOKEN_COUNT, WITH_VECTORS, Record, point_id
from surprise_rerank.connectors.qdrant.search.pools import Asked, among, scores_of
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    by_id,
    maxsim_stage,
    request,
)
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
        lengths: (s,) their numbers of tokens.
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
        lengths = token_lengths(records)
        tokens = stored_tokens(index.storage, records) if weighs else None
        return cls(index, tuple(record.id for record in records), lengths, tokens)

    def asked(self, query: Query) -> AskedInclusion | None:
        """The question, as it is sent; None where it has no token vectors.

        Raises:
            DataError: if they are of another dimension.
        """
        if query.tokens is None:
            return None
        weights = None if self.tokens is None else measured_weights(query.tokens, self.tokens)[0]
        return AskedInclusion(self, query.tokens, weights)

    def usual(self, query: Query) -> Float64Array:
        """(s,) inclusion in the sample; empty where the question has no token vectors."""
        asked = self.asked(query)
        if asked is None:
            return np.zeros(0)
        return asked.found(self.index.pools.every({"sample": asked.of(())})["sample"]).usual

    def step(self) -> str:
        """What is done, in words."""
        storage = self.index.manifest.options.token_vectors
        weighted = "" if self.tokens is None else " of weighted tokens"
        sample = f", and over {len(self.sample)} sampled points" if self.sample else ""
        return f"{self.index.engine}: MaxSim{weighted} ({storage}) over the candidates{sample}"


@dataclass(frozen=True, slots=True, eq=False)
class AskedInclusion:
    """A question whose inclusion is asked for.

    Attributes:
        source: whose index is asked, and whose sample stands for the corpus.
        tokens: (m, d) the question's.
        weights: (m,) of these; None where all count alike.
    """

    source: QdrantInclusion
    tokens: Float32Array
    weights: Float64Array | None

    def of(self, points: Sequence[str], documents: Sequence[str] = ()) -> tuple[Asked, int]:
        """A request for these points, all points of these documents, and the sample, for `Pools.every`.

        In one request: the question's vectors are most of what is sent.

        Args:
            points: ids of points.
            documents: ids of documents, whose points need not be known yet.
        """
        every = dict.fromkeys([*points, *self.source.sample])
        wanted = models.Filter(should=[models.HasIdCondition(has_id=list(every))])
        if documents:
            wanted = models.Filter(should=[wanted, among(documents)])
        vectors = query_vectors(self.tokens, self._storage, self.weights)

        def asked(limit: int) -> models.QueryRequest:
            stage = maxsim_stage(vectors, limit)
            return request([stage], limit, (), (), SearchOptions(wanted, params=stage.params))

        return asked, len(every) + len(documents)

    def found(self, records: Sequence[Record]) -> FoundInclusion:
        """What Qdrant answered."""
        total = float(len(self.tokens) if self.weights is None else self.weights.sum())
        maxsim = similarities(scores_of(records), self.tokens, self._storage, self.weights)
        means = maxsim / total if total > 0 else np.zeros(len(records))
        own = {record.id: score for record, score in zip(records, means.tolist(), strict=True)}
        sample = self.source.sample
        usual = np.array([own[point] for point in sample if point in own], np.float64)
        return FoundInclusion(own, usual, self.source.lengths[np.array([p in own for p in sample], bool)])

    @property
    def _storage(self) -> TokenStorage:
        storage = self.source.index.manifest.options.token_vectors
        assert storage is not None
        return storage


@dataclass(frozen=True, slots=True, eq=False)
class FoundInclusion:
    """What Qdrant found.

    Attributes:
        scores: point -> inclusion in it.
        usual: (s,) of the sample.
        usual_lengths: (s,) numbers of tokens of the sample.
    """

    scores: Mapping[str, float]
    usual: Float64Array
    usual_lengths: IntArray

    def of(self, points: Sequence[str], lengths: IntArray) -> Inclusion:
        """Of candidates.

        Args:
            points: n ids; NaN is the score of one that was not found.
            lengths: n numbers of tokens.
        """
        scores = np.array([self.scores.get(point, np.nan) for point in points], np.float64)
        return Inclusion(scores, lengths, self.usual, self.usual_lengths)


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
        pool, asked = self.retriever.retrieve(query, depth, fields), self.inclusion.asked(query)
        if asked is None:
            return pool
        numbers = [0] * len(pool) if pool.passages is None else [own.number for own in pool.passages]
        points = [point_id(name, number) for name, number in zip(pool.ids, numbers, strict=True)]
        wanted = {"inclusion": asked.of(points)}
        if self.inclusion.sample:  # where only the order counts there is none, and lengths do not matter
            wanted["lengths"] = (lambda limit: by_id(points, (TOKEN_COUNT,))), len(points)
        answers = self.index.pools.every(wanted, self.options)
        stored = {record.id: record for record in answers.get("lengths", ())}
        lengths = token_lengths([stored.get(point) for point in points])
        return replace(pool, inclusion=asked.found(answers["inclusion"]).of(points, lengths))

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


def token_lengths(records: Sequence[Record | None]) -> IntArray:
    """(n,) numbers of tokens; 0 of a point that is gone."""
    return np.array([0 if r is None else r.payload[TOKEN_COUNT] for r in records], np.int64)
