"""The recall of a job: its neighbours against those of the exact mode, on a sample of documents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from surprise_rerank.connectors.similar.dynamax import sample_rows
from surprise_rerank.connectors.similar.outputs import ROW_COLUMNS, part_batches
from surprise_rerank.connectors.similar.scoring import scorer_of
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.neighbours import QUERY_BLOCK

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar.job import SimilarityJob

_NORMAL = 1.959963984540054  # 97.5 % of a normal distribution lie below
_UNSEEN = 3.0  # a probability of 3 / n gives no event in n trials in 5 % of all cases


@dataclass(frozen=True, slots=True)
class SampleCheck:
    """The share of exact neighbours that a job has found.

    Attributes:
        size: documents of the sample.
        documents: of the corpus.
        k: neighbours of each; all above the threshold where None.
        above: the smallest surprise z.
        pairs: how many there are exactly.
        found: how many of them the job has.
        recall: found / pairs; 1 where there are none. With k alone it is the mean over documents.
        low: end of a 95 % interval of the recall in the whole corpus.
        high: its other end.
    """

    size: int
    documents: int
    k: int | None
    above: float | None
    pairs: int
    found: int
    recall: float
    low: float
    high: float

    def __str__(self) -> str:
        """One line for people."""
        name = "recall" if self.k is None else f"recall@{self.k}"
        above = "" if self.above is None else f" above {self.above:g}"
        return (
            f"{name}{above} {self.recall:.4f} (95 % interval {self.low:.4f} to {self.high:.4f}): "
            f"{self.found:,} of {self.pairs:,} pairs of {self.size:,} of {self.documents:,} documents"
        )


def sample_check(job: SimilarityJob, size: int = 1000) -> SampleCheck:
    """Compare a job's result with the exact one on a sample, chosen by a hash of the documents' ids.

    Parts that are missing are computed.

    Args:
        job: prepared.
        size: documents of the sample; all are taken where there are no more.

    Raises:
        DataError: if the size is not positive, or the job not prepared.
        StoreError: if the disk is full, or cannot be used.
    """
    if size < 1:
        raise DataError(f"a sample needs at least one document, got {size}")
    task, corpus = job.task, job.documents
    rows = np.sort(sample_rows(corpus, size))
    parts = set((rows // task.settings.part_rows).tolist())
    exact = replace(task, settings=replace(task.settings, mode="exact"), index=None)
    scorer = scorer_of(exact, corpus, job.neighbours)
    wanted, found = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    kept = _kept_pairs(job, rows, parts)
    for start in range(0, len(rows), QUERY_BLOCK):
        block = rows[start : start + QUERY_BLOCK]
        true = scorer.neighbours(block)
        places = start + true.query
        wanted += np.bincount(places, minlength=len(rows))
        hit = [pair in kept for pair in zip(rows[places].tolist(), true.key.tolist(), strict=True)]
        found += np.bincount(places[np.array(hit, np.bool_)], minlength=len(rows))
    recall, low, high = interval(found, wanted, len(corpus))
    return SampleCheck(
        size=len(rows),
        documents=len(corpus),
        k=task.settings.k,
        above=task.settings.above,
        pairs=int(wanted.sum()),
        found=int(found.sum()),
        recall=recall,
        low=low,
        high=high,
    )


def interval(found: IntArray, wanted: IntArray, documents: int) -> tuple[float, float, float]:
    """The share of pairs that were found, and its 95 % interval by the documents of a sample.

    The share is a ratio of two means over documents; its deviation is that of the residuals
    found - share * wanted, over the root of their number. Where no document misses one, or every document
    the same share of them, a normal interval would have no width: then at most three documents in n are of
    another kind.

    Args:
        found: (n,) pairs of each document that were found.
        wanted: (n,) pairs of each document.
        documents: of the corpus; a sample of all of them leaves nothing open.

    Returns:
        The share, and the ends of the interval.
    """
    n, total = len(found), int(wanted.sum())
    if not total:
        return 1.0, 1.0, 1.0
    share = float(found.sum()) / total
    if n >= documents:
        return share, share, share
    residuals = found - share * wanted
    if np.allclose(residuals, 0):
        half = _UNSEEN / n
    else:
        deviation = np.sqrt((residuals**2).sum() / max(n - 1, 1) / n) / (total / n)
        half = float(_NORMAL * deviation * np.sqrt(1 - n / documents))
    return share, max(share - half, 0.0), min(share + half, 1.0)


def _kept_pairs(job: SimilarityJob, rows: IntArray, parts: set[int]) -> set[tuple[int, int]]:
    """The pairs of rows that the job has found for some documents."""
    kept: set[tuple[int, int]] = set()
    for number, path in enumerate(job.parts()):
        if number not in parts:
            continue
        for batch in part_batches(path, ROW_COLUMNS):
            documents, neighbours = (column.to_numpy() for column in batch.columns)
            mine = np.isin(documents, rows)
            kept.update(zip(documents[mine].tolist(), neighbours[mine].tolist(), strict=True))
    return kept
