"""From a question to a pool of candidates: by dense vectors, or by surprise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, cast, get_args

import numpy as np
from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query, Unit
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, IndexMismatchError
from surprise_rerank.connectors.qdrant._search.corpus import Corpus
from surprise_rerank.connectors.qdrant._search.finding import Search, best_candidates
from surprise_rerank.connectors.qdrant._search.queries import (
    NO_OPTIONS,
    SearchOptions,
    Stage,
    formula_stage,
    surprise_stage,
)
from surprise_rerank.connectors.qdrant._writing.statistics import behind as points_behind
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.rerank._grouping import TextsAround
from surprise_rerank.surprise.score import probability


class ExplainingRetriever(ABC):
    """A retriever from an index that tells what it does, in words; a dataclass, mostly with `options`."""

    __slots__ = ()
    corpus: Corpus

    @abstractmethod
    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The pool, best first by the first of its scores."""

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]] | None:
        """Reads what is shown, by id; see `Corpus.documents`."""
        return self.corpus.documents

    @property
    def is_empty(self) -> bool:
        """Whether there is no document at all, whatever is asked."""
        return not len(self.corpus.whole)

    def passages(self, ids: Sequence[str]) -> Candidates:
        """All passages of documents, without texts."""
        return self.corpus.fetch(list(dict.fromkeys(ids)), frozenset(), skip_missing=True)

    def texts_around(self, documents: Mapping[str, Document], count: int) -> dict[str, TextsAround]:
        """The texts of so many chunks before and after each; see `Corpus.texts_around`."""
        return self.corpus.texts_around(documents, count)

    def has_a_word_of(self, question: str) -> bool | None:
        """Whether a document has a word of the question; None where nobody counts words."""
        words = self.corpus.words
        if words is None or not words.counts:
            return None
        query = words.embed(question)
        return bool(np.isin(query.indices, words.statistics(query.indices).terms).any())

    @abstractmethod
    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""

    def among(self, condition: models.Filter | None, tenant: str | None = None) -> Self:
        """Return the retriever over the documents of a tenant that another filter lets through, too.

        Raises:
            DataError: if the index has no tenants, or something that is asked, too, has no filter.
        """
        return (self if tenant is None else self.over(self.corpus.of_tenant(tenant))).filtered(condition)

    def by_unit(self, unit: Unit) -> Self:
        """Return the retriever of documents, or of passages; a DataError if a part of it has none."""
        corpus = self.corpus.by_unit(unit)
        return self if corpus is self.corpus else self.over(corpus)

    def filtered(self, condition: models.Filter | None) -> Self:
        """Return the retriever of what a filter lets through."""
        retriever = cast(Any, self)
        return cast(Self, replace(retriever, options=retriever.options.among(condition)))

    def over(self, corpus: Corpus) -> Self:
        """Return the retriever over other documents of the same index, such as a tenant's."""
        return cast(Self, replace(cast(Any, self), corpus=corpus))


def narrowable(part: object) -> ExplainingRetriever:
    """Return a retriever, or the words that one asks, which take filters and tenants.

    Raises:
        DataError: if they take none.
    """
    if isinstance(part, ExplainingRetriever):
        return part
    raise DataError(
        f"filter, tenant and unit do not reach a {type(part).__name__}; leave them out, or search by a "
        "system of the index, whose words are Qdrant's"
    )


def in_words(corpus: Corpus, stages: Sequence[Stage], options: SearchOptions) -> list[str]:
    """The stages in words."""
    first = f"all {len(corpus)} documents"
    if options.filter is not None:
        first += " that the filter lets through"
    if corpus.tenant is not None:
        first += f" of tenant {corpus.tenant!r}"
    sources = [first, *(f"the {stage.limit} best of these" for stage in stages[:-1])]
    return [
        f"{corpus.engine}: {stage.name} over {source}" for stage, source in zip(stages, sources, strict=True)
    ]


SurpriseMode: TypeAlias = Literal["formula", "vector"]

# The augmented vectors rank by a float32 sum, so those behind the last place may belong before it.
_MARGIN = 10


@dataclass(frozen=True, slots=True)
class DenseRetriever(ExplainingRetriever):
    """The documents nearest by cosine; exact without the approximate index, where there is one."""

    corpus: Corpus
    exact: bool = False
    options: SearchOptions = NO_OPTIONS

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` nearest documents, with what the re-ranker needs."""
        return self.corpus.search(query, depth, fields, exact=self.exact, options=self.options)

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        pools = self.corpus.pools
        return in_words(self.corpus, [pools.near(pools.near_vectors(query), depth)], self.options)


@dataclass(frozen=True)
class SurpriseRetriever(ExplainingRetriever):
    """Documents by the surprise z of their cosine over the index's ensemble; both modes rank alike.

    - `formula`: Qdrant re-scores the nearest by cosine, a `pool` of them; only ids travel.
    - `vector`: Qdrant searches the augmented vectors, so that no pool misses what cosine ranks low.

    z is in float32, as Qdrant computes it; ties are ordered by id.
    """

    corpus: Corpus
    mode: SurpriseMode = "formula"
    pool: int | None = None
    exact: bool = False
    options: SearchOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        border.choice("mode", self.mode, get_args(SurpriseMode))
        storage = self.corpus.storage
        if storage is None:
            raise DataError(
                f"{self.corpus.where} is no index of surprise-rerank: its documents carry no moments, which "
                "Qdrant computes surprise from; leave mode= out"
            )
        if self.mode == "vector" and not storage.manifest.options.surprise_vector:
            raise DataError(
                "the index stores no augmented vectors; rebuild it with the setting surprise_vector, or "
                "choose the mode formula"
            )
        statistics = storage.manifest.statistics
        if statistics is None:
            raise IndexMismatchError(
                f"{self.corpus.where} has no ensemble, which Qdrant measures surprise against; give it one "
                "('surprise-rerank tune ensemble', or set_ensemble), or leave mode= out"
            )
        behind = points_behind(storage, statistics)
        if behind:
            raise IndexMismatchError(
                f"{behind} documents of {self.corpus.where} carry moments of another ensemble than "
                f"{statistics.version} ({statistics.source or 'no source given'}); finish the pass "
                "('surprise-rerank tune ensemble', or refresh_statistics)"
            )

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` most surprising documents; scores are `surprise` (z) and its `probability`."""
        dense, skipped = query.require_dense(), self.options.offset or 0
        options = replace(self.options.exactly() if self.exact else self.options, offset=None)
        last, margin = depth + skipped, _MARGIN
        while True:
            wanted = self._wanted(last, margin)
            search = Search(lambda limit: self._stages(dense, limit), wanted, fields, options)
            pool = best_candidates(self.corpus.pools, search, "surprise")
            ordered = _above(_ordered(pool, np.asarray(pool.scores["surprise"], np.float64)), options)
            names = list(dict.fromkeys(ordered.line_keys))
            # Qdrant cuts equals anywhere: only with all of them here is it known which come first by id.
            whole = len(names) < wanted or self._wanted(last, 4 * margin) == wanted
            if whole or not _is_tied(ordered, names[last - 1], names[-1]):
                return _documents(ordered, skipped, last)
            margin *= 4

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        dense = query.require_dense()
        storage = self.corpus.storage
        assert storage is not None
        record = storage.manifest.statistics
        assert record is not None
        source = f", {record.source}" if record.source else ""
        ensemble = f"ensemble {record.ensemble} of {record.count} members{source}"
        lines = in_words(self.corpus, self._stages(dense, self._wanted(depth, 0)), self.options)
        return [*lines, f"mu and sigma: of each document, {ensemble}"]

    def _wanted(self, last: int, margin: int) -> int:
        """How many documents are asked for, so that `last` of them are certain."""
        return last + margin if self.mode == "vector" else min(last + margin, max(last, self.pool or last))

    def _stages(self, dense: Float32Array, limit: int) -> list[Stage]:
        pools = self.corpus.pools
        if self.mode == "formula":
            points = max(limit, math.ceil((self.pool or 0) * pools.density))  # a pool of documents has these
            return [pools.near(dense, points), formula_stage(limit)]
        wide = limit + _MARGIN
        return [surprise_stage(dense, wide), pools.near(dense, wide), formula_stage(limit)]


def _ordered(pool: Candidates, z: Float64Array) -> Candidates:
    """Candidates by z, ties by id, with z and its probability as their scores."""
    others = {name: values for name, values in pool.scores.items() if name != "surprise"}
    scores = {"surprise": z, "probability": probability(z), **others}
    keys = pool.line_keys
    order = sorted(range(len(pool)), key=lambda i: (-z[i], keys[i]))
    scored = replace(pool, scores=scores)
    return scored if order == list(range(len(pool))) else scored.take(order)


def _above(ordered: Candidates, options: SearchOptions) -> Candidates:
    """Return the candidates whose z reaches the threshold, which a formula of Qdrant 1.15 ignores."""
    if options.score_threshold is None:
        return ordered
    # JSON has the shortest decimal of a float32, which is another float64.
    z = np.asarray(ordered.scores["surprise"], np.float32)
    return ordered.take(np.flatnonzero(z >= np.float32(options.score_threshold)))


def _is_tied(ordered: Candidates, key: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether the best scores of two lines are equal."""
    z, keys = ordered.scores["surprise"], ordered.line_keys
    return bool(z[keys.index(key)] == z[keys.index(other)])


def _documents(ordered: Candidates, first: int, last: int) -> Candidates:
    """The documents from one place to another, each with all its rows."""
    keys = ordered.line_keys
    names = list(dict.fromkeys(keys))
    if first == 0 and len(names) <= last:
        return ordered
    kept = set(names[first:last])
    return ordered.take([i for i, key in enumerate(keys) if key in kept])
