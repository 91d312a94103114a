"""The neighbours of a part of a corpus, as every worker computes them, and as an Arrow table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surprise_rerank.connectors.similar.corpus import EXTRA, EncodedCorpus
from surprise_rerank.connectors.similar.outputs import ROW_COLUMNS
from surprise_rerank.connectors.similar.scorers import ExactScorer, Rescored, Scorer
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.connectors.similar.workers import ScoringTask
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors, whole_file
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.neighbours import Neighbours
from surprise_rerank.surprise.score import probability

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar.dynamax import DynaMaxMoments


def table_of(
    found: Neighbours,
    rows: IntArray,
    queries: EncodedCorpus,
    keys: EncodedCorpus,
    settings: SimilaritySettings,
) -> Any:
    """Neighbours as an Arrow table: document, neighbour, rank, surprise, probability, similarities, and rows.

    Args:
        found: the neighbours.
        rows: (m,) the rows of the documents whose neighbours they are.
        queries: their corpus.
        keys: the neighbours' corpus.
        settings: what was computed.

    Returns:
        A `pyarrow.Table`.
    """
    pyarrow = import_extra("pyarrow", EXTRA)
    documents = queries.ids(rows).take(pyarrow.array(found.query))
    columns = {
        "document": documents,
        "neighbour": keys.ids(found.key),
        "rank": pyarrow.array(found.ranks.astype(np.int32)),
        "surprise": pyarrow.array(found.z),
        "probability": pyarrow.array(probability(found.z)),
        **({"cosine": pyarrow.array(found.cosine)} if isinstance(found, Rescored) else {}),
        "cosine" if settings.similarity == "cosine" else "dynamax": pyarrow.array(found.similarity),
        **dict(zip(ROW_COLUMNS, map(pyarrow.array, (rows[found.query], found.key)), strict=True)),
    }
    return pyarrow.table(columns)


class PartScorer:
    """Computes parts of a result and writes them; workers have one each, or share it between threads.

    Args:
        task: what is computed of what.
    """

    def __init__(self, task: ScoringTask) -> None:
        self._task = task
        self._queries, self._keys = EncodedCorpus.open(task.queries), EncodedCorpus.open(task.keys)
        self._scorer = scorer_of(task, self._queries, self._keys)

    def __call__(self, number: int) -> int:
        """Write a part, unless it is there; returns how many documents it is about.

        Raises:
            StoreError: if the disk is full, or cannot be read or written.
        """
        parquet = import_extra("pyarrow.parquet", EXTRA)
        rows = self._task.rows(number, len(self._queries))
        path = self._task.path(number)
        with disk_errors(str(path)):
            if not path.exists():
                found = self._scorer.neighbours(rows)
                table = table_of(found, rows, self._queries, self._keys, self._task.settings)
                with whole_file(path) as file:
                    parquet.write_table(table, file)
        return len(rows)

    def close(self) -> None:
        """Close connections and files, when no part is being computed."""
        self._scorer.close()


def moments_of(task: ScoringTask) -> DynaMaxMoments:
    """The moments of DynaMax that a task needs, block by block."""
    from surprise_rerank.connectors.similar.dynamax import DynaMaxMoments  # with torch

    return DynaMaxMoments(EncodedCorpus.open(task.keys), task.settings.ensemble_sample, task.device)


def scorer_of(task: ScoringTask, queries: EncodedCorpus, keys: EncodedCorpus) -> Scorer:
    """What computes the neighbours that the settings ask for."""
    if task.settings.similarity != "cosine":
        from surprise_rerank.connectors.similar.dynamax import DynaMaxScorer, RescoringScorer  # with torch

        if task.settings.similarity == "dynamax":
            return DynaMaxScorer(queries, keys, task.settings, task.device)
        wanted = replace(task.settings, similarity="cosine", k=task.settings.pool, above=None)
        candidates = scorer_of(replace(task, settings=wanted), queries, keys)
        return RescoringScorer(candidates, queries, keys, task.settings, task.device)
    ensemble = Ensemble.load(task.ensemble)
    if task.settings.mode == "index":
        from surprise_rerank.connectors.similar.index.scorer import IndexScorer

        assert task.index is not None
        return IndexScorer(queries, keys, ensemble, task.settings, task.index)
    return ExactScorer(queries, keys, ensemble, task.settings, task.device)
