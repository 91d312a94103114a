"""Running systems over a data set's questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.retrieval.systems import AnyRunner, RunOfAnother


@dataclass(frozen=True, slots=True)
class SystemResult:
    """What one system did.

    Attributes:
        name: the system's.
        run: question id -> its ranking.
        values: measure -> mean over the judged questions.
        per_query: measure -> question id -> value.
        latencies: (n,) seconds of each question, retrieval and re-ranking, without encoding the question; NaN
            for a run of another program.
        is_run: whether it is one.
    """

    name: str
    run: Mapping[str, Ranking]
    values: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    latencies: Float64Array
    is_run: bool = False

    @property
    def milliseconds(self) -> float:
        """The median question's."""
        return 1000 * float(np.median(self.latencies))


def run_system(
    runner: AnyRunner,
    queries: Sequence[Query],
    depth: int,
    document_ids: frozenset[str],
    on_progress: Callable[[int], None],
) -> tuple[dict[str, Ranking], Float64Array]:
    """Rank every question's pool, one after the other; returns rankings by question id and seconds each."""
    run: dict[str, Ranking] = {}
    seconds = np.zeros(len(queries))
    for i, query in enumerate(queries):
        start = time.perf_counter()
        run[query.id] = runner.rank(query, depth, drop_own_id=query.id in document_ids)
        seconds[i] = time.perf_counter() - start
        on_progress(1)
    if isinstance(runner, RunOfAnother):
        seconds[:] = np.nan
    return run, seconds
