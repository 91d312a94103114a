"""Running systems over a data set's questions, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.connectors.systems.inputs import BuiltSystem
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.retrieval.trec import ExternalRun
from surprise_rerank.pipeline import ranked


@dataclass(frozen=True, slots=True)
class SystemResult:
    """What one system did.

    Attributes:
        name: the system's.
        run: question id -> its ranking.
        values: measure -> mean over the judged questions.
        per_query: measure -> question id -> value.
        latencies: (n,) seconds of each question without encoding it; NaN for a run of another program.
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


@dataclass(frozen=True, slots=True)
class Difference:
    """A system minus the baseline, in one measure over the questions of one data set.

    `low` and `high` are the ends of the 95 % BCa interval, `p` is of the paired test, and `corrected` is p
    after Holm's correction for all differences of the report.
    """

    system: str
    mean: float
    low: float
    high: float
    p: float
    corrected: float
    wins: int
    losses: int
    ties: int


def run_system(
    system: BuiltSystem | ExternalRun,
    queries: Sequence[Query],
    depth: int,
    answers_itself: frozenset[str],
    on_progress: Callable[[int], None],
) -> tuple[dict[str, Ranking], Float64Array]:
    """Rank every question's pool, one after the other; returns rankings by question id and seconds each.

    Of the questions in `answers_itself` the document of the same id is left out.
    """
    run: dict[str, Ranking] = {}
    seconds = np.zeros(len(queries))
    # A question's products are short, and numpy's threads wait for each other in a loop: on two cores with a
    # load of nine `surprise` took 56 ms a question with two threads, and 4 with one.
    with threadpool_limits(1, user_api="blas"):
        for i, query in enumerate(queries):
            start = time.perf_counter()
            omitted = query.id if query.id in answers_itself else ""
            if isinstance(system, ExternalRun):
                run[query.id] = system.ranking(query.id, omit=omitted)
            else:
                run[query.id] = _ranking(system, query, depth, omitted)
            seconds[i] = time.perf_counter() - start
            on_progress(1)
    if isinstance(system, ExternalRun):
        seconds[:] = np.nan
    return run, seconds


def _ranking(system: BuiltSystem, query: Query, depth: int, omit: str) -> Ranking:
    pool = system.retriever.retrieve(query, depth + bool(omit), system.needs)
    if omit:
        pool = pool.without(omit)
    if not len(pool):  # a run that lacks the question
        return Ranking((), np.zeros(0))
    return ranked(query, pool, system.reranker).top(depth)
