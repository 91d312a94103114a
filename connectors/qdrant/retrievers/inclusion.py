"""Inclusion of a question's tokens, computed by Qdrant from multivectors: only ids and scores travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Inclusion, Query
from surprise_rerank.connectors.qdrant.engines.steps import Steps, points
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.multivectors import query_vectors, similarities
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever, ReadingRetriever
from surprise_rerank.connectors.qdrant.schema import ID, TOKEN_COUNT, WITH_VECTORS, Record, point_id
from surprise_rerank.connectors.qdrant.search.pools import among
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
        lengths = token_lengths(records)
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

    def asking(
        self, query: Query, points: Sequence[str], documents: Sequence[str] = ()
    ) -> Steps[FoundInclusion | None]:
        """Of these points, and of all points of these documents; None where the question has no tokens.

        Args:
            query: encoded.
            points: ids of points.
            documents: ids of documents, whose points need not be known yet.
        """
        if query.tokens is None:
            return None
        # In one request: the question's vectors are most of what is sent.
        found = yield from self.asked(query).of([*points, *self.sample], documents)
        there = np.array([point in found for point in self.sample], bool)
        usual = np.array([found[point] for point in self.sample if point in found], np.float64)
        return FoundInclusion(found, usual, self.lengths[there])

    def usual(self, query: Query) -> Float64Array:
        """(s,) of the sample."""
        return np.array(list(self.index.pools.ask(self.asked(query).of(self.sample)).values()), np.float64)


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

    def of(self, points: Sequence[str], documents: Sequence[str] = ()) -> Steps[dict[str, float]]:
        """Point -> inclusion in it, of those that are there."""
        storage = self.index.manifest.options.token_vectors
        assert storage is not None
        total = float(len(self.tokens) if self.weights is None else self.weights.sum())
        if not points and not documents:
            return {}
        wanted = models.Filter(should=[models.HasIdCondition(has_id=list(dict.fromkeys(points)))])
        if documents:
            wanted = models.Filter(should=[wanted, among(documents)])
        vectors = query_vectors(self.tokens, storage, self.weights)

        def asked(limit: int) -> models.QueryRequest:
            stage = maxsim_stage(vectors, limit)
            return request([stage], limit, (), (), SearchOptions(wanted, params=stage.params))

        if documents:
            records = yield from self.index.pools.every(asked, len(points) + len(documents))
        else:
            (records,) = yield [asked(len(points))]
        scores = np.array([record.score for record in records], np.float64)
        maxsim = similarities(scores, self.tokens, storage, self.weights)
        means = maxsim / total if total > 0 else np.zeros(len(records))
        return {record.id: score for record, score in zip(records, means.tolist(), strict=True)}


@dataclass(frozen=True, slots=True, eq=False)
class FoundInclusion:
    """What Qdrant found.

    Attributes:
        scores: point -> inclusion in it.
        usual: (s,) of the sample.
        usual_lengths: (s,) numbers of tokens of the sample; all 0 where they are not known.
    """

    scores: Mapping[str, float]
    usual: Float64Array
    usual_lengths: IntArray

    def of(self, points: Sequence[str], lengths: Sequence[int]) -> Inclusion:
        """Of candidates.

        Args:
            points: n ids; NaN is the score of one that was not found.
            lengths: n numbers of tokens. A point that does not say, from before they were stored, has a usual
                one.
        """
        own, known = np.array(lengths, np.int64), self.usual_lengths
        if known.any():
            own[own == 0] = round(float(np.expm1(np.log1p(known).mean())))
        scores = np.array([self.scores.get(point, np.nan) for point in points], np.float64)
        return Inclusion(scores, own, self.usual, known)


@dataclass(frozen=True, slots=True)
class InclusionScored(ReadingRetriever):
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

    def retrieving(
        self, query: Query, depth: int, fields: frozenset[Field] = frozenset()
    ) -> Steps[Candidates]:
        """As the other retriever does."""
        own, pool = self.retriever, None
        if isinstance(own, ExplainingRetriever):
            pool = yield from own.retrieving(query, depth, fields)
        else:
            pool = own.retrieve(query, depth, fields)
        numbers = [0] * len(pool) if pool.passages is None else [own.number for own in pool.passages]
        candidates = [point_id(name, number) for name, number in zip(pool.ids, numbers, strict=True)]
        found = yield from self.inclusion.asking(query, candidates)
        if found is None:
            return pool
        lengths = [0] * len(pool)
        if found.usual_lengths.any():  # where only the order counts, there is no sample, and none is needed
            (records,) = yield [points(candidates, (TOKEN_COUNT,))]
            stored = {record.id: record for record in records}
            lengths = token_lengths([stored.get(point) for point in candidates]).tolist()
        return replace(pool, inclusion=found.of(candidates, lengths))

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
    """(n,) numbers of tokens; 0 where a point does not say."""
    return np.array([0 if r is None else r.payload.get(TOKEN_COUNT, 0) for r in records], np.int64)
