"""The requests that are sent to Qdrant: first stages, and surprise and MaxSim inside the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._candidates import Inclusion, Query
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._manifest import Quantization
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_COUNT, query_vectors
from surprise_rerank.connectors.qdrant._schema import (
    MU,
    SIGMA,
    SURPRISE,
    TOKEN_VECTORS,
    Record,
    given_point_id,
)
from surprise_rerank.connectors.qdrant._search.filters import require_tests
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities._dynamax import DynaMax
from surprise_rerank.surprise.linear_form import augmented_query


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What Qdrant offers for a search, passed through unchanged.

    A filter has a document's metadata at `metadata.KEY`. The offset says how many of the best are skipped,
    the threshold is of what the search ranks by. Parameters are `hnsw_ef`, `exact`, quantisation.
    """

    filter: models.Filter | None = None
    offset: int | None = None
    score_threshold: float | None = None
    params: models.SearchParams | None = None

    def __post_init__(self) -> None:
        if self.filter is not None:
            advice = "make one with qdrant_client.models.Filter(...)"
            require_tests(border.instance("filter", self.filter, models.Filter, advice))
        border.optional(border.count, "offset", self.offset, 0)
        border.optional(border.number, "score_threshold", self.score_threshold)
        border.optional(border.instance, "params", self.params, models.SearchParams)

    def among(self, condition: models.Filter | None) -> SearchOptions:
        """Return the options with another filter that points must pass, too."""
        if condition is None:
            return self
        alone = replace(self, filter=condition)  # which checks it
        if self.filter is None:
            return alone
        return replace(self, filter=models.Filter(must=[self.filter, condition]))

    def exactly(self) -> SearchOptions:
        """Return the options of a search without the approximate index."""
        params = self.params or models.SearchParams()
        return replace(self, params=params.model_copy(update={"exact": True}))


NO_OPTIONS = SearchOptions()

# More candidates than asked for are rescored with the originals; one bit has less information than eight.
_OVERSAMPLING: Mapping[Quantization, float] = {"int8": 1.5, "binary": 4.0}


def rescored(options: SearchOptions, quantization: Quantization | None) -> SearchOptions:
    """Return options by which results of quantised vectors are rescored, unless the caller sets how."""
    params = options.params or models.SearchParams()
    if quantization is None or params.quantization is not None:
        return options
    rescoring = models.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING[quantization])
    return replace(options, params=params.model_copy(update={"quantization": rescoring}))


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a query: what ranks, over all points or over what the stage before found.

    The query is a vector, a sparse vector, token vectors, or a formula, which uses no vector. The name is for
    `explain`. So many points are passed to the next stage, if there is one.
    """

    query: Any
    using: str | None
    name: str
    limit: int
    params: models.SearchParams | None = None


def surprise_stage(query: Float32Array, limit: int) -> Stage:
    """The augmented vectors' dot product, which is the surprise z but for float32's rounding."""
    return Stage(nearest(augmented_query(query)), SURPRISE, "surprise by augmented vectors", limit)


def sparse_stage(query: SparseVector, using: str, limit: int, kind: str = "BM25") -> Stage:
    """BM25, or another kind of words, of sparse vectors."""
    vector = models.SparseVector(indices=query.indices.tolist(), values=query.values.tolist())
    return Stage(models.NearestQuery(nearest=vector), using, f"{kind} of sparse vectors", limit)


def maxsim_stage(query_vectors: Float32Array, using: str, limit: int) -> Stage:
    """MaxSim of token vectors."""
    return Stage(nearest(query_vectors), using, "MaxSim of token vectors", limit)


def formula_stage(limit: int) -> Stage:
    """Z = (score - mu) / sigma of the stage before, from the moments in each document's payload.

    Qdrant computes it in float64 and rounds to float32; a document without moments keeps its score.
    """
    difference = models.SumExpression(sum=["$score", models.NegExpression(neg=MU)])
    divided = models.DivParams(left=difference, right=SIGMA, by_zero_default=0.0)
    query = models.FormulaQuery(formula=models.DivExpression(div=divided), defaults={MU: 0.0, SIGMA: 1.0})
    return Stage(query, None, f"formula ($score - {MU}) / {SIGMA}", limit)


def nearest(vector: Float32Array) -> models.NearestQuery:
    """A query by a vector, or by the vectors of tokens."""
    # Without pydantic's look at every number, which takes as long as a small collection's search.
    return models.NearestQuery.model_construct(nearest=vector.tolist())


def request(
    stages: Sequence[Stage],
    limit: int,
    fields: Sequence[str],
    vectors: Sequence[str],
    options: SearchOptions = NO_OPTIONS,
) -> models.QueryRequest:
    """One request of several stages in their order, each over what the one before it found.

    The filter and the search parameters apply to the first stage, the threshold and the offset to the last.
    Later stages have parameters of their own.
    """
    first, last = stages[0], stages[-1]
    inner: models.Prefetch | None = None
    for stage in stages[:-1]:
        inner = models.Prefetch(
            query=stage.query,
            using=stage.using,
            limit=stage.limit,
            prefetch=inner,
            filter=options.filter if stage is first else None,
            params=options.params if stage is first else stage.params,
        )
    is_single = inner is None
    return models.QueryRequest(
        query=last.query,
        using=last.using,
        prefetch=inner,
        limit=limit,
        offset=options.offset,
        score_threshold=options.score_threshold,
        filter=options.filter if is_single else None,
        params=options.params if is_single else last.params,
        with_payload=list(fields) or False,
        with_vector=list(vectors) or False,
    )


def having_ids(points: Sequence[str]) -> models.Filter:
    """A filter for points by their ids."""
    condition = models.HasIdCondition(has_id=[given_point_id(point) for point in points])
    return models.Filter(must=[condition])


def by_id(points: Sequence[str], fields: Sequence[str], vectors: Sequence[str] = ()) -> models.QueryRequest:
    """A request for points by id, in any order; unknown ids are left out."""
    return models.QueryRequest(
        filter=having_ids(points),
        limit=max(len(points), 1),
        with_payload=list(fields),
        with_vector=list(vectors) or False,
    )


@dataclass(frozen=True, slots=True, eq=False)
class InclusionQuestion:
    """A question whose inclusion is asked for: its (m, d) tokens, and what is usual.

        sum_j max_y <x_j, y> / m,   unit tokens

    That is the (s,) inclusion in the texts of a uniform sample of the corpus, and the (s,) numbers of their
    tokens. The sample is empty where only the order counts.
    """

    tokens: Float32Array
    usual: Float64Array
    usual_lengths: IntArray

    @classmethod
    def of(cls, query: Query, sample: TokenBatch) -> InclusionQuestion | None:
        """Return the request's part for a question; None where it has no token vectors."""
        if query.tokens is None:
            return None
        return cls(query.tokens, DynaMax().pool(query.tokens, sample), sample.token_counts)

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
        self, records: Sequence[Record], points: Sequence[str], count: str | None = TOKEN_COUNT
    ) -> Inclusion:
        """Of n points, NaN for one that was not found; `count` is the key of its number of tokens, if any."""
        scores = {record.id: record.score / max(len(self.tokens), 1) for record in records}
        counts = {record.id: record.payload[count] for record in records} if count else {}
        values = np.array([scores.get(point, np.nan) for point in points], np.float64)
        lengths = np.array([counts.get(point, 0) for point in points], np.int64)
        return Inclusion(values, lengths, self.usual, self.usual_lengths if count else 0 * self.usual_lengths)
