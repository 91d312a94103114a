"""Neighbours that an index finds: candidates by Qdrant's float32 scores, scored again as in exact mode."""

from __future__ import annotations

import numpy as np

from surprise_rerank.connectors.qdrant.engines.base import Hits
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.index.augmented import AugmentedIndex
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.core.arrays import BoolArray, Float32Array, IntArray
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import LinearForm, augmented_query
from surprise_rerank.surprise.neighbours import KEY_BLOCK, Neighbours, exact_cosines, require_few, rounding

# Neighbours that are asked for beyond k: Qdrant cuts scores that are equal after rounding anywhere.
_MARGIN = 5
# Neighbours of a document that are asked for first where there is no k; then four times as many, and so on.
_FIRST, _GROWTH = 128, 4
# Of so many documents that are as near as the last neighbour, the index may choose.
_MOST_EQUAL = 4096
# Pairs whose vectors are in memory at a time.
_PAIRS = 8192


class IndexScorer:
    """Surprise over the cosine, of the documents that an index finds.

    Every pair that is found has the similarity, surprise and place among equals that it has in exact mode,
    bit by bit; which pairs are found is up to the index.

    Args:
        queries: the documents whose neighbours are looked for.
        keys: the documents that may be neighbours, and the ensemble; the same corpus, or another.
        ensemble: of the keys.
        settings: k, the threshold, and how hard to search.
        location: of the index, which is filled.

    Raises:
        MissingExtraError: if Qdrant Edge is needed, and not installed.
        StoreError: if the index cannot be opened.
    """

    def __init__(
        self,
        queries: EncodedCorpus,
        keys: EncodedCorpus,
        ensemble: Ensemble,
        settings: SimilaritySettings,
        location: IndexLocation,
    ) -> None:
        self._queries, self._keys, self._settings = queries, keys, settings
        self._same = queries.folder == keys.folder
        self._ensemble, self._error = ensemble, 0.0
        for first in keys.key_blocks():
            rows = np.arange(first, min(first + KEY_BLOCK, len(keys)))
            form = LinearForm.of(keys.moments_of(ensemble, rows))
            # How far a float32 score of a pair can lie from the exact one; see `NeighbourSearch`.
            self._error = max(self._error, rounding(form, keys.dimension))
        self._index = AugmentedIndex(location, keys, ensemble)

    def neighbours(self, rows: IntArray) -> Neighbours:
        """See `Scorer`.

        Raises:
            DataError: if the threshold lets through more pairs than can be held.
            StoreError: if the index cannot be searched.
        """
        k, above = self._settings.k, self._settings.above
        queries = self._queries.vectors_of(rows)
        least = None if above is None else above - self._error
        limit = _FIRST if k is None else k + self._same + _MARGIN
        found, pending = Neighbours.none(), np.arange(len(rows), dtype=np.int64)
        while len(pending):
            asked = augmented_query(queries[pending])
            hits = self._index.search(asked, limit, ef=self._settings.ef, least=least)
            if k is None:
                require_few(len(found) + sum(len(keys) for keys, _ in hits), above, len(rows))
            scored = self._scored(queries, rows, pending, hits)
            cut = self._is_cut(scored, pending, hits, limit)
            found = Neighbours.joined([found, scored.take(~np.isin(scored.query, pending[cut]))])
            pending, limit = pending[cut], _GROWTH * limit
        return found

    def close(self) -> None:
        """See `Scorer`."""
        self._index.close()

    def _scored(
        self, queries: Float32Array, rows: IntArray, pending: IntArray, hits: list[Hits]
    ) -> Neighbours:
        """What was found for the pending queries, scored exactly, without the documents themselves."""
        places = np.repeat(pending, [len(keys) for keys, _ in hits])
        found = np.concatenate([keys for keys, _ in hits])
        if self._same:
            others = rows[places] != found
            places, found = places[others], found[others]
        order = np.argsort(found, kind="stable")  # rows that lie together are read together
        similarity, z = np.empty(len(found)), np.empty(len(found))
        for start in range(0, len(found), _PAIRS):
            part = order[start : start + _PAIRS]
            vectors, each = self._keys.vectors_of(found[part]), np.arange(len(part))
            similarity[part] = exact_cosines(queries, places[part], vectors, each)
            z[part] = LinearForm.of(self._keys.moments_of(self._ensemble, found[part])).scores(
                similarity[part]
            )
        scored = Neighbours(places, found, similarity, z)
        if self._settings.above is not None:
            scored = scored.take(z >= self._settings.above)
        scored = scored.sorted()
        return scored if self._settings.k is None else scored.best(self._settings.k)

    def _is_cut(self, scored: Neighbours, pending: IntArray, hits: list[Hits], limit: int) -> BoolArray:
        """(p,) whether a neighbour of each query may be among what Qdrant has cut, by its own scores."""
        cut: BoolArray = np.array([len(keys) == limit for keys, _ in hits], np.bool_)
        k = self._settings.k
        if k is None:
            return cut
        last = np.array([scores[-1] if len(scores) else -np.inf for _, scores in hits], np.float64)
        kth = np.full(int(pending[-1]) + 1, -np.inf)
        full = scored.ranks == k
        kth[scored.query[full]] = scored.z[full]
        near: BoolArray = cut & (last + self._error >= kth[pending]) & (limit < _MOST_EQUAL)
        return near
