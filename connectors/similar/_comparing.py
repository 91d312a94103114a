"""The neighbours of one part of the documents: what a loop does here, and each of Ray's workers there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import models

from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors.qdrant._engines.client import payload_selector
from surprise_rerank.connectors.qdrant._schema import DENSE, SURPRISE
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.similar._corpus import Corpus
from surprise_rerank.connectors.similar._folder import EXTRA, part, read_array, write_table
from surprise_rerank.connectors.similar._settings import SimilaritySettings
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise.linear_form import LinearForm, augmented_query
from surprise_rerank.surprise.neighbours import Neighbours, nearest, scored_pairs

# Columns of parts only, by which groups are made.
ROWS = ("document_row", "neighbour_row")
MOMENTS = "moments.npy"
# Questions of a request; nodes that a search of the graph keeps; candidates for each neighbour, of which one
# collection's score is not quite this job's.
_REQUEST, _EF, _MORE = 64, 128, 4


@dataclass(frozen=True, slots=True)
class PartComparison:
    """Compares parts of a job; can be sent to another process.

    Attributes:
        folder: of the job.
        settings: what is computed.
        keys: name of the folder of the documents that may be neighbours.
        device: where products are computed.
        index: the collection that is asked, for the search by a graph.
    """

    folder: Path
    settings: SimilaritySettings
    keys: str = "documents"
    device: str = "cpu"
    index: str | None = None

    def __call__(self) -> Callable[[int], None]:
        """The function that does a part."""
        return _Comparer(self).write

    def paths(self) -> list[Path]:
        """The files of all parts, in order."""
        count = -(-len(Corpus(self.folder / "documents")) // self.settings.part_rows)
        return [part(self.folder, "pairs", number, ".parquet") for number in range(count)]


class _Comparer:
    """What a worker holds: both corpora, the moments, and an open collection where one is asked."""

    def __init__(self, task: PartComparison) -> None:
        self._task, self._settings = task, task.settings
        self._queries = Corpus(task.folder / "documents")
        self._is_one = task.keys == "documents"
        self._keys = self._queries if self._is_one else Corpus(task.folder / task.keys)
        self._surprise = LinearForm.of(Moments(*read_array(task.folder / MOMENTS)))
        n = len(self._keys)
        plain = self._settings.similarity == "cosine"
        self._form = LinearForm(np.ones(n), np.zeros(n)) if plain else self._surprise

    def write(self, number: int) -> None:
        """Compute a part, and write it."""
        path = part(self._task.folder, "pairs", number, ".parquet")
        size = self._settings.part_rows
        rows = np.arange(number * size, min((number + 1) * size, len(self._queries)))
        write_table(path, self._table(rows))

    def _table(self, rows: IntArray) -> Any:
        settings, pyarrow = self._settings, import_extra("pyarrow", EXTRA)
        is_dynamax = settings.similarity == "dynamax"
        k, above = (settings.pool, None) if is_dynamax else (settings.k, settings.above)
        neighbours = self._neighbours(rows, k, above)
        more = {}
        if is_dynamax:
            similarity = self._dynamax(rows, neighbours)
            ranked = Neighbours(neighbours.query, neighbours.key, neighbours.similarity, similarity).best(
                settings.k, settings.above
            )
            more, neighbours = {"dynamax": pyarrow.array(ranked.z)}, ranked
        documents = rows[neighbours.query]
        return pyarrow.table(
            {
                "document": self._queries.ids.take(pyarrow.array(documents)),
                "neighbour": self._keys.ids.take(pyarrow.array(neighbours.key)),
                "rank": pyarrow.array(neighbours.ranks.astype(np.int32)),
                "surprise": pyarrow.array(self._surprise.take(neighbours.key).scores(neighbours.similarity)),
                "cosine": pyarrow.array(neighbours.similarity),
                **more,
                **dict(zip(ROWS, map(pyarrow.array, (documents, neighbours.key)), strict=True)),
            }
        )

    def _neighbours(self, rows: IntArray, k: int | None, above: float | None) -> Neighbours:
        queries = self._queries.dense[rows]
        same = rows if self._is_one else None
        if self._settings.search == "exact":
            return nearest(
                queries,
                self._keys.dense,
                self._form,
                k=k,
                above=above,
                query_rows=same,
                device=self._task.device,
            )
        assert k is not None  # the settings refuse it
        query, key = self._search_index(queries, _MORE * k + 1)
        if same is not None:
            others = same[query] != key
            query, key = query[others], key[others]
        return scored_pairs(queries, self._keys.dense, self._form, query, key).best(k, above)

    def _search_index(self, queries: Float32Array, limit: int) -> tuple[IntArray, IntArray]:
        """Pairs of a query and the row of a document that the collection finds for it."""
        with closing(_opened(self._task.index)) as index:
            pools = Pools.of_index(index.corpus.storage, tenant=self._settings.tenant)
            by_surprise = index.manifest.options.surprise_vector and self._settings.similarity != "cosine"
            using = SURPRISE if by_surprise else DENSE
            vectors = augmented_query(queries) if by_surprise else queries
            # Several passages may be of one document.
            limit *= -(-index.corpus.points.count() // max(len(index), 1))
            requests = [
                models.QueryRequest(
                    query=models.NearestQuery(nearest=vector),
                    using=using,
                    limit=limit,
                    with_payload=payload_selector(pools.payload_of(frozenset())),
                    filter=pools.prepared(NO_OPTIONS).filter,
                    params=models.SearchParams(hnsw_ef=max(_EF, limit)),
                )
                for vector in vectors.tolist()
            ]
            answers = [
                records
                for start in range(0, len(requests), _REQUEST)
                for records in index.corpus.points.query_batch(requests[start : start + _REQUEST])
            ]
        pairs = {
            (query, self._row_of[name]): None
            for query, records in enumerate(answers)
            for name in pools.names(records).values()
            if name in self._row_of  # one that came since, or a copy, is none
        }
        query, key = np.array(list(pairs), np.int64).reshape(-1, 2).T
        return query, key

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._keys.ids.to_pylist())}

    def _dynamax(self, rows: IntArray, neighbours: Neighbours) -> Float64Array:
        """(p,) DynaMax of the pairs."""
        from surprise_rerank.similarities._dynamax import DynaMax

        dynamax, device = DynaMax("jaccard", "joint"), self._task.device
        tokens, similarity = self._queries.tokens_of(rows), np.empty(len(neighbours))
        starts = np.searchsorted(neighbours.query, np.arange(len(rows) + 1))
        for text in range(len(rows)):
            pairs = slice(int(starts[text]), int(starts[text + 1]))
            if pairs.start < pairs.stop:
                others = self._keys.tokens_of(neighbours.key[pairs])
                text_tokens = tokens.between(text, text + 1)
                similarity[pairs] = dynamax.pool(
                    text_tokens.directions,
                    others,
                    query_weights=text_tokens.weights.astype(np.float64),
                    device=device,
                )
        return similarity


def _opened(where: str | None) -> DocumentIndex:
    assert where is not None  # the job refuses it
    return DocumentIndex.open(where, None)
