"""Running systems over a data set's questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.arrays import Float64Array
from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.eval.retrieval.systems import Runner
from surprise_rerank.eval.significance import paired_randomization

BASELINE = "cosine"


@dataclass(frozen=True, slots=True)
class SystemResult:
    """What one system did.

    Attributes:
        name: the system's.
        run: question id -> its ranking.
        values: measure -> mean over the judged questions.
        per_query: measure -> question id -> value.
        latencies: (n,) seconds of each question, retrieval and re-ranking, without encoding the question.
        p_value: of the first measure's difference to cosine; None for cosine itself or without it.
        note: what the reader must know.
    """

    name: str
    run: Mapping[str, Ranking]
    values: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    latencies: Float64Array
    p_value: float | None = None
    note: str = ""


def run_system(
    runner: Runner,
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
    return run, seconds


def compare(baseline: SystemResult, other: SystemResult, measure: str) -> float:
    """The paired-randomisation p-value of the difference in one measure."""
    first, second = baseline.per_query[measure], other.per_query[measure]
    questions = sorted(first)
    return paired_randomization([first[q] for q in questions], [second[q] for q in questions])
