"""Running systems over a data set's questions, and measuring what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ir_measures
import numpy as np

from surprise_rerank.arrays import Float64Array
from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.datasets import RetrievalDataset
from surprise_rerank.eval.settings import DEFAULTS
from surprise_rerank.eval.significance import paired_randomization
from surprise_rerank.eval.systems import Runner

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


def parse_measures(names: Sequence[str]) -> dict[str, ir_measures.measures.Measure]:
    """Measures in ir_measures' syntax: nDCG@10, R@100, RR, Success@1, AP(rel=2)@20, ...

    Raises:
        SurpriseRerankError: if one cannot be read, has a parameter out of range, or has no provider here.
    """
    measures = {}
    for name in names:
        try:
            measure = ir_measures.parse_measure(name)
            # trec_eval ends the process for a cutoff of 0.
            if not 0 < float(measure.params.get("cutoff", 1)) < 2**31:
                raise ValueError(f"cutoff {measure.params['cutoff']}")
            supported = ir_measures.DefaultPipeline.supports(measure)  # type: ignore[no-untyped-call]
        except (NameError, ValueError, TypeError, SyntaxError, AssertionError) as error:
            known = ", ".join(DEFAULTS.measures)
            raise SurpriseRerankError(
                f"unknown measure {name!r}; write it as ir_measures does: {known}, AP@100"
            ) from error
        if not supported:
            raise SurpriseRerankError(f"the measure {name!r} is not supported by what is installed")
        # Tried on one question, because a provider can still refuse what it says that it supports.
        _calculate([measure], {"1": {"1": 1}}, [ir_measures.ScoredDoc("1", "1", 1.0)])
        measures[str(measure)] = measure
    return measures


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


def measure_run(
    run: Mapping[str, Ranking],
    dataset: RetrievalDataset,
    measures: Mapping[str, ir_measures.measures.Measure],
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Means over all judged questions, and the values of each; an unanswered question counts 0.

    Rank, not score, is what is measured: trec_eval breaks ties of scores by document id, descending, which
    would make the figure depend on how documents are named. Negative relevances (TREC's mark for spam, say)
    count as 0, judged and not relevant: pytrec_eval can end the process on them.

    Raises:
        SurpriseRerankError: if a measure cannot be taken of this data.
    """
    names = {measure: name for name, measure in measures.items()}
    qrels = {
        query: {document: max(relevance, 0) for document, relevance in judged.items()}
        for query, judged in dataset.qrels.items()
    }
    result = _calculate(list(measures.values()), qrels, _by_rank(run))
    per_query: dict[str, dict[str, float]] = {name: {} for name in measures}
    for metric in result.per_query:
        per_query[names[metric.measure]][metric.query_id] = float(metric.value)
    values = {name: float(result.aggregated[measure]) for name, measure in measures.items()}
    return values, per_query


def _calculate(
    measures: list[ir_measures.measures.Measure],
    qrels: Mapping[str, Mapping[str, int]],
    run: Iterable[ir_measures.ScoredDoc],
) -> Any:
    try:
        return ir_measures.calc(measures, qrels, run)
    except Exception as error:  # the providers' errors share no base class
        names = ", ".join(map(str, measures))
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise SurpriseRerankError(f"{names} cannot be measured ({reason}); choose other measures") from error


def _by_rank(run: Mapping[str, Ranking]) -> Iterator[ir_measures.ScoredDoc]:
    for query_id, ranking in run.items():
        for rank, document_id in enumerate(ranking.ids):
            yield ir_measures.ScoredDoc(query_id, document_id, float(len(ranking) - rank))


def compare(baseline: SystemResult, other: SystemResult, measure: str) -> float:
    """The paired-randomisation p-value of the difference in one measure."""
    first, second = baseline.per_query[measure], other.per_query[measure]
    questions = sorted(first)
    return paired_randomization([first[q] for q in questions], [second[q] for q in questions])
