"""Retrievers of a foreign collection that only Qdrant's own vectors or payload allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.attached.collection import AttachedCollection
from surprise_rerank.connectors.attached.enriched import MU, SIGMA
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever, in_words
from surprise_rerank.connectors.qdrant.search.pools import Search
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    Stage,
    dense_vector,
    formula_stage,
)
from surprise_rerank.rerank.scorers import dense_similarities
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import z_scores


@dataclass(frozen=True, slots=True)
class MomentsRetriever(ExplainingRetriever):
    """The nearest by dense vectors, re-scored inside Qdrant by z, from moments that `enrich` added in place.

    Of a pool with points that carry none, or others, all z are computed here, and a note says so.

    Attributes:
        index: a collection, all of whose points carry the moments of one ensemble.
        options: filter, offset, threshold (on z) and parameters of Qdrant.
    """

    index: AttachedCollection
    ensemble: Ensemble
    options: SearchOptions = NO_OPTIONS

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` best documents, with what the re-ranker needs."""
        search = Search(lambda limit: self._stages(query, limit), depth, fields, self.options)
        found = self.index.pools.run(search, "surprise")
        _, points = self.index.there(found)
        behind = self.index.enriched.behind([str(point) for point in points]) if points else 0
        if behind:
            found = self._computed(query, depth, fields)
            note = f"{behind} of {len(found)} documents carry no moments of the ensemble; run sync"
            found = replace(found, notes=(*found.notes, note))
        order = sorted(range(len(found)), key=lambda i: (-found.scores["surprise"][i], found.ids[i]))
        return found.take(np.array(order, np.int64))

    def _computed(self, query: Query, depth: int, fields: frozenset[Field]) -> Candidates:
        """The same pool, with z from the ensemble."""
        unlimited = replace(self.options, score_threshold=None)
        pool = self.index.search(query, depth, fields | {"dense"}, options=unlimited)
        moments = self.ensemble.moments(pool.require_dense())
        similar = dense_similarities(query, pool, self.ensemble.similarity)
        pool = replace(pool, scores={"surprise": z_scores(similar, moments)})
        least = self.options.score_threshold
        kept = np.flatnonzero(pool.scores["surprise"] >= (-np.inf if least is None else least))
        return pool.take(kept)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        return in_words(self.index, self._stages(query, depth + (self.options.offset or 0)), self.options)

    def _stages(self, query: Query, limit: int) -> Sequence[Stage]:
        return [self.index.pools.near(dense_vector(query), limit), formula_stage(limit, MU, SIGMA)]
