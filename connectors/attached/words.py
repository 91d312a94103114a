"""The sparse vectors of a foreign collection as the words of a fusion: BM25, miniCOIL or SPLADE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.attached.collection import AttachedCollection, SparseEmbed
from surprise_rerank.connectors.attached.enriched import WORDS
from surprise_rerank.connectors.attached.payloads import point_id
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever, in_words
from surprise_rerank.connectors.qdrant.schema import Record, to_terms
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions, Stage, request
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.connectors.readers.fields import shown
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.errors import DataError, ModelError, SurpriseRerankError

# The documents whose words are taken as they occur together; see `SparseRetriever`.
_BEST = 100
# Of a text's terms, how many its stored vector must have, to be of the same function.
_SAME = 0.9
_COMPARED = 8  # texts
_START = 60  # characters of what was given, in a message
_FILTERED = 4  # times as many are asked for, where a filter is on another collection


@dataclass(frozen=True, slots=True)
class SparseWords(ExplainingRetriever):
    """Documents by their sparse vectors; a `LexicalIndex`, for `HybridRetriever`.

    Attributes:
        index: the collection whose documents these are.
        points: the collection that has the vectors: itself, or the one beside it.
        vector: name of the sparse vector.
        idf: whether Qdrant multiplies with the IDF.
        embed: a question's sparse vector.
        statistics: of all terms.
        options: filter on the collection's payload, offset, threshold and parameters of Qdrant.
    """

    index: AttachedCollection
    points: ClientEngine
    vector: str
    idf: bool
    embed: SparseEmbed
    statistics: Callable[[], TermStatistics]
    options: SearchOptions = NO_OPTIONS

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The `depth` best documents; those that share no word with the query are not among them."""
        ids, scores = self.search(query.text, depth)
        pool = self.index.fetch(ids, fields, skip_missing=True)
        known = dict(zip(ids, scores.tolist(), strict=True))
        if self.points is not self.index.points or self.vector == WORDS:
            pool = replace(pool, notes=(*pool.notes, *self.index.notes_of_words(pool)))
        return replace(pool, scores={"bm25": np.array([known[name] for name in pool.ids], np.float64)})

    def steps(self, query: Query, depth: int) -> list[str]:
        """What `retrieve` does, in words."""
        return in_words(self.index, [self._stage(self.embed(query.text), depth)], self.options)

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """Ids and scores of the best documents."""
        sparse = self.embed(query)
        if not len(sparse.indices):
            return (), np.zeros(0)
        found = list(self._best(sparse, depth))
        names = self.index.names_of([record.id for record in found])
        there = [record for record in found if record.id in names]
        return tuple(names[r.id] for r in there), np.array([r.score for r in there], np.float64)

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """(n,) exact scores of these documents; 0 where no word matches."""
        sparse = self.embed(query)
        names = list(dict.fromkeys(ids))
        if not names or not len(sparse.indices):
            return np.zeros(len(ids))
        points = {
            str(point): name for name, point in self.index.points_of(names).items() if point is not None
        }
        among = models.HasIdCondition(has_id=[point_id(point) for point in points])
        asked = request(
            [self._stage(sparse, len(names))],
            len(names),
            (),
            (),
            SearchOptions(filter=models.Filter(must=[among])),
        )
        best = {points[record.id]: record.score for record in self.points.query(asked)}
        return np.array([best.get(name, 0.0) for name in ids], np.float64)

    def moments(self, query: str) -> Moments:
        """Mean and deviation of the query's scores over all documents; see `TermStatistics.moments`."""
        sparse = self.embed(query)
        if not len(sparse.indices):
            return Moments.of(np.zeros(0))
        asked = request([self._stage(sparse, _BEST)], _BEST, (), (self.vector,))
        found = self.points.query(asked)
        scores = np.array([record.score for record in found], np.float64)
        return self.statistics().moments(sparse, to_terms(found, self.vector), scores, idf=self.idf)

    def _stage(self, sparse: SparseVector, limit: int) -> Stage:
        vector = models.SparseVector(indices=sparse.indices.tolist(), values=sparse.values.tolist())
        return Stage(models.NearestQuery(nearest=vector), self.vector, "words by sparse vectors", limit)

    def _best(self, sparse: SparseVector, depth: int) -> Iterator[Record]:
        """The best points that the filter lets through."""
        own = self.options
        if self.points is self.index.points or own.filter is None:
            stage = self._stage(sparse, depth + (own.offset or 0))
            yield from self.points.query(request([stage], depth, (), (), own))
            return
        limit, skipped = _FILTERED * depth, own.offset or 0
        unfiltered = replace(own, filter=None, offset=None)
        while True:
            found = self.points.query(request([self._stage(sparse, limit)], limit, (), (), unfiltered))
            allowed = self.index.among([record.id for record in found], own.filter)
            kept = [record for record in found if record.id in allowed]
            if len(kept) >= depth + skipped or len(found) < limit:
                yield from kept[skipped : skipped + depth]
                return
            limit *= _FILTERED


def sparse_embed(given: Any) -> SparseEmbed:
    """A function from a question to its sparse vector, of what the user has.

    Args:
        given: settings of Qdrant's BM25; or an object of LangChain (`embed_query`), Haystack (`run`),
            fastembed (`query_embed`) or sentence-transformers (`encode_query`), or a function, that gives
            indices and values.

    Raises:
        DataError: if it is none of these. The function raises it, if what is given gives no sparse vector,
            and ModelError, if it fails.
    """
    if isinstance(given, Bm25):
        return given.query
    ask, who = _asked(given), getattr(given, "__name__", type(given).__name__)

    def embed(text: str) -> SparseVector:
        try:
            found = ask(text)
        except SurpriseRerankError:
            raise
        except Exception as error:  # of a function that anybody may have written
            raise ModelError(
                f"the sparse model {who} failed for {text[:30]!r}: {type(error).__name__}: {error}"
            ) from error
        return _sparse(found, who)

    return embed


def _asked(given: Any) -> Callable[[str], Any]:
    """What gives a question's sparse vector, as its package has them."""
    for name, many in (("embed_query", False), ("query_embed", True), ("encode_query", True)):
        method = getattr(given, name, None)
        if callable(method):
            if many:
                return lambda text: _first(method([text]))
            return cast(Callable[[str], Any], method)
    if hasattr(given, "run"):
        return lambda text: given.run(text=text)["sparse_embedding"]
    if callable(given):
        return cast(Callable[[str], Any], given)
    raise DataError(
        f"sparse= must be a function from a question to indices and values, a sparse model of "
        f"LangChain, Haystack or fastembed, or Bm25(); got {type(given).__name__}"
    )


def is_bm25(texts: Sequence[str], vectors: TermBatch, settings: Bm25) -> bool:
    """Whether stored sparse vectors are Qdrant's BM25 in a language: its terms of each text are there."""
    if not is_installed("qdrant_edge"):
        return False
    shares = []
    for i, text in enumerate(texts[:_COMPARED]):
        terms = settings.query(text).indices
        if len(terms):
            shares.append(float(np.isin(terms, vectors[i][0]).mean()))
    return bool(shares) and min(shares) >= _SAME


def _first(found: Any) -> Any:
    return found[0] if hasattr(found, "__getitem__") else next(iter(found))


def _sparse(found: Any, who: str) -> SparseVector:
    """Indices ascending, and their values; zeros are no terms."""
    if hasattr(found, "coalesce"):  # a row of a sparse tensor of torch
        entries = found.coalesce()
        indices, values = entries.indices()[-1].cpu().numpy(), entries.values().cpu().numpy()
    elif isinstance(found, dict) and {"indices", "values"} <= found.keys():
        indices, values = found["indices"], found["values"]
    elif isinstance(found, tuple) and len(found) == 2:
        indices, values = found
    elif hasattr(found, "indices") and hasattr(found, "values"):
        indices, values = found.indices, found.values
    else:
        keys = f" with the keys {shown(found)}" if isinstance(found, dict) else ""
        raise DataError(
            f"the sparse model {who} gave a {type(found).__name__}{keys} for a question; a sparse vector has "
            "indices and values"
        )
    try:
        terms, weights = np.asarray(indices).reshape(-1), np.asarray(values, np.float32).reshape(-1)
        whole = bool(np.all((terms >= 0) & (terms < 2**32) & (terms % 1 == 0)))
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: of torch
        raise DataError(
            f"the sparse model {who} gave indices {_start(indices)} and values {_start(values)}; expected "
            "numbers"
        ) from error
    if not whole or len(np.unique(terms)) < len(terms):
        raise DataError(
            f"the sparse model {who} gave the indices {_start(terms.tolist())}; expected whole numbers from "
            "0 to 2^32 - 1, each once"
        )
    if len(terms) != len(weights) or not np.isfinite(weights).all():
        raise DataError(
            f"the sparse model {who} gave {len(terms)} indices and {len(weights)} values; both must be as "
            "many, and the values finite"
        )
    order = np.argsort(terms, kind="stable")
    order = order[weights[order] != 0]
    return SparseVector(terms[order].astype(np.uint32), weights[order])


def _start(found: Any) -> str:
    text = str(found)
    return text if len(text) <= _START else f"{text[:_START]} ..."
