"""First-stage retrieval from a `DocumentIndex`: by cosine, and by surprise in three places."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever, in_words
from surprise_rerank.connectors.qdrant.search.pools import Search
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    SearchOptions,
    Stage,
    dense_stage,
    dense_vector,
    formula_stage,
    surprise_stage,
)
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.qdrant.writing.statistics import behind as points_behind
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.surprise.score import probability

SurpriseMode: TypeAlias = Literal["formula", "vector"]

# The augmented vectors rank by a float32 sum, so those behind the last place may belong before it.
_MARGIN = 10


@dataclass(frozen=True, slots=True)
class DenseRetriever(ExplainingRetriever):
    """The documents nearest by cosine; exact without the approximate index, where there is one."""

    index: Searched
    exact: bool = False
    options: SearchOptions = NO_OPTIONS

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` nearest documents, with what the re-ranker needs."""
        return self.index.search(query, depth, fields, exact=self.exact, options=self.options)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        pools = self.index.pools
        return in_words(self.index, [pools.near(pools.asked(query), depth)], self.options)


@dataclass(frozen=True)
class SurpriseRetriever(ExplainingRetriever):
    """Documents by the surprise z of their cosine over the index's ensemble; both modes rank alike.

    - `formula`: Qdrant re-scores the nearest by cosine, a `pool` of them; only ids travel.
    - `vector`: Qdrant searches the augmented vectors, so that no pool misses what cosine ranks low.

    z is in float32, as Qdrant computes it; ties are ordered by id.
    """

    index: QdrantIndex
    mode: SurpriseMode = "formula"
    pool: int | None = None
    exact: bool = False
    options: SearchOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        if self.mode not in get_args(SurpriseMode):
            raise DataError(
                f"mode {self.mode!r} is not known; choose one of {', '.join(get_args(SurpriseMode))}"
            )
        if self.mode == "vector" and not self.index.manifest.options.surprise_vector:
            raise DataError(
                "the index stores no augmented vectors; rebuild it with the setting surprise_vector, or "
                "choose the mode formula"
            )
        statistics = self.index.manifest.statistics
        if statistics is None:
            raise IndexMismatchError(
                f"{self.index.where} has no ensemble, which surprise is measured against; give it one "
                "('surprise-rerank tune ensemble', or set_ensemble)"
            )
        behind = points_behind(self.index.storage, statistics)
        if behind:
            raise IndexMismatchError(
                f"{behind} documents of {self.index.where} carry moments of another ensemble than "
                f"{statistics.version} ({statistics.source or 'no source given'}); finish the pass "
                "('surprise-rerank tune ensemble', or refresh_statistics)"
            )

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` most surprising documents; scores are `surprise` (z) and its `probability`."""
        dense, skipped = dense_vector(query), self.options.offset or 0
        options = replace(self.options.exactly() if self.exact else self.options, offset=None)
        last, margin = depth + skipped, _MARGIN
        while True:
            wanted = self._wanted(last, margin)
            search = Search(lambda limit: self._stages(dense, limit), wanted, fields, options)
            found = self.index.pools.run(search, "surprise")
            ordered = _above(_ordered(found, np.asarray(found.scores["surprise"], np.float64)), options)
            names = list(dict.fromkeys(ordered.ids))
            # Qdrant cuts equals anywhere: only with all of them here is it known which come first by id.
            whole = len(names) < wanted or self._wanted(last, 4 * margin) == wanted
            if whole or not _is_tied(ordered, names[last - 1], names[-1]):
                return _documents(ordered, skipped, last)
            margin *= 4

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        dense = dense_vector(query)
        record = self.index.manifest.statistics
        assert record is not None
        source = f", {record.source}" if record.source else ""
        ensemble = f"ensemble {record.ensemble} of {record.count} members{source}"
        lines = in_words(self.index, self._stages(dense, self._wanted(depth, 0)), self.options)
        return [*lines, f"mu and sigma: of each document, {ensemble}"]

    def _wanted(self, last: int, margin: int) -> int:
        """How many documents are asked for, so that `last` of them are certain."""
        return last + margin if self.mode == "vector" else min(last + margin, max(last, self.pool or last))

    def _stages(self, dense: Float32Array, limit: int) -> list[Stage]:
        if self.mode == "formula":
            return [dense_stage(dense, _points(self.index, self.pool, limit)), formula_stage(limit)]
        wide = limit + _MARGIN
        return [surprise_stage(dense, wide), dense_stage(dense, wide), formula_stage(limit)]


def _points(index: QdrantIndex, pool: int | None, limit: int) -> int:
    """How many points a pool of documents has, about, where they are split; no fewer than asked for."""
    return max(limit, math.ceil((pool or 0) * index.pools.density))


def _ordered(found: Candidates, z: Float64Array) -> Candidates:
    """Candidates by z, ties by id, with z and its probability as their scores."""
    others = {name: own for name, own in found.scores.items() if name != "surprise"}
    scores = {"surprise": z, "probability": probability(z), **others}
    order = sorted(range(len(found)), key=lambda i: (-z[i], found.ids[i]))
    scored = replace(found, scores=scores)
    return scored if order == list(range(len(found))) else scored.take(order)


def _above(ordered: Candidates, options: SearchOptions) -> Candidates:
    """Those whose z reaches the threshold, which a formula of an early Qdrant (1.15) does not look at."""
    if options.score_threshold is None:
        return ordered
    # JSON has the shortest decimal of a float32, which is another float64.
    z = np.asarray(ordered.scores["surprise"], np.float32)
    return ordered.take(np.flatnonzero(z >= np.float32(options.score_threshold)))


def _is_tied(ordered: Candidates, name: str, other: str) -> bool:
    """Whether the best scores of two documents are equal."""
    z = ordered.scores["surprise"]
    return bool(z[ordered.ids.index(name)] == z[ordered.ids.index(other)])


def _documents(ordered: Candidates, first: int, last: int) -> Candidates:
    """The documents from one place to another, each with all its rows."""
    names = list(dict.fromkeys(ordered.ids))
    if first == 0 and len(names) <= last:
        return ordered
    kept = set(names[first:last])
    return ordered.take([i for i, name in enumerate(ordered.ids) if name in kept])
