"""Measures of rankings, by ir_measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ir_measures

from surprise_rerank.candidates import Ranking
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.eval.retrieval.settings import DEFAULTS


def parse_measures(names: Sequence[str]) -> dict[str, ir_measures.measures.Measure]:
    """Measures in ir_measures' syntax: nDCG@10, R@100, RR, Success@1, AP(rel=2)@20, ..."""
    measures = {}
    for name in names:
        try:
            measure = ir_measures.parse_measure(name)
            # trec_eval ends the process for a cutoff of 0.
            if not 0 < float(measure.params.get("cutoff", 1)) < 2**31:
                raise ValueError(f"cutoff {measure.params['cutoff']}")
            supported = ir_measures.DefaultPipeline.supports(measure)  # type: ignore[no-untyped-call]
        except (NameError, ValueError, TypeError, SyntaxError, AssertionError) as error:
            usual = ", ".join(DEFAULTS.measures)
            raise SurpriseRerankError(
                f"unknown measure {name!r}; write it as ir_measures does: {usual}, AP@100"
            ) from error
        if not supported:
            raise SurpriseRerankError(f"the measure {name!r} is not supported by what is installed")
        # Tried on one question, because a provider can still refuse what it says that it supports.
        _calculate([measure], {"1": {"1": 1}}, [ir_measures.ScoredDoc("1", "1", 1.0)])
        measures[str(measure)] = measure
    return measures


def try_measures(measures: Mapping[str, ir_measures.measures.Measure], query: str) -> None:
    """Take the measures of one question, because some take only numbers for its id."""
    _calculate(list(measures.values()), {query: {"1": 1}}, [ir_measures.ScoredDoc(query, "1", 1.0)])


def measure_run(
    run: Mapping[str, Ranking],
    dataset: RetrievalDataset,
    measures: Mapping[str, ir_measures.measures.Measure],
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Means over all judged questions, and the values of each; an unanswered question counts 0.

    Rank, not score, is what is measured: trec_eval breaks ties of scores by document id, descending, which
    would make the figure depend on how documents are named. Negative relevances (TREC's mark for spam, say)
    count as 0, judged and not relevant: pytrec_eval can end the process on them.
    """
    names = {measure: name for name, measure in measures.items()}
    qrels = {
        query: {document: max(relevance, 0) for document, relevance in judged.items()}
        for query, judged in dataset.qrels.items()
    }
    by_rank = (
        ir_measures.ScoredDoc(question, document, float(len(ranking) - rank))
        for question, ranking in run.items()
        for rank, document in enumerate(ranking.ids)
    )
    result = _calculate(list(measures.values()), qrels, by_rank)
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
