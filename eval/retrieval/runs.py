"""Runs: TREC files of other programs and of ours, systems over a data set's questions, and their measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ir_measures
import numpy as np
from threadpoolctl import threadpool_limits

from surprise_rerank._candidates import Query, Ranking
from surprise_rerank._documents import Document, Passage, encodable
from surprise_rerank._errors import DataError, SurpriseRerankError
from surprise_rerank._pipeline import ranked
from surprise_rerank._places import Place
from surprise_rerank.connectors.systems._inputs import BuiltSystem
from surprise_rerank.core._files import disk_errors
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.line_files import number, read_rows
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.eval.retrieval.settings import DEFAULTS, Judged
from surprise_rerank.rerank._grouping import merged_neighbours

_COLUMNS = ("question", "Q0", "document", "rank", "score", "tag")


@dataclass(frozen=True, slots=True)
class Run:
    """A run file's name without its suffix, and its rankings by question id; as a system it is as it is."""

    name: str
    rankings: Mapping[str, Ranking]

    def named(self, queries: Iterable[str], documents: Iterable[str]) -> Run:
        """The run with the ids of a data set, in which white space is not percent-encoded."""
        of_queries = {_token(name): name for name in queries}
        of_documents = {_token(name): name for name in documents}
        rankings = {
            of_queries.get(query, query): Ranking(
                tuple(of_documents.get(name, name) for name in ranking.ids), ranking.scores, ranking.parts
            )
            for query, ranking in self.rankings.items()
        }
        return Run(self.name, rankings)

    def ranking(self, query: str, *, omit: str = "") -> Ranking:
        """The ranking of a question by its id; empty, where the run lacks the question."""
        ranking = self.rankings.get(query, Ranking((), np.zeros(0)))
        if omit not in ranking.ids:
            return ranking
        kept = [i for i, name in enumerate(ranking.ids) if name != omit]
        return Ranking(tuple(ranking.ids[i] for i in kept), ranking.scores[kept])


def read_run(path: Path) -> Run:
    """Read a run file: question, Q0, document, rank, score, tag, with white space between.

    The order is trec_eval's: by score as float32, descending, and ties by document id, descending; the rank
    that the file gives counts for nothing.
    """
    by_question: dict[str, dict[str, np.float32]] = {}

    def add(line: str) -> bool:
        query, _, document, _, score, _ = line.split()
        scores = by_question.setdefault(query, {})
        if document in scores:
            raise ValueError(f"the document {document!r} comes twice for the question {query!r}")
        scores[document] = np.float32(number(score))
        return True

    if not any(list(read_rows(path, add, " ".join(_COLUMNS), blank=False))):
        raise DataError(f"{path} holds no ranking; expected lines of {' '.join(_COLUMNS)}")
    rankings = {}
    for query, scores in by_question.items():
        ordered = sorted(scores.items(), key=lambda scored: (scored[1], scored[0]), reverse=True)
        values = np.array([score for _, score in ordered], dtype=np.float64)
        rankings[query] = Ranking(tuple(name for name, _ in ordered), values, {"run": values})
    return Run(path.stem, rankings)


def split_run(run: str) -> tuple[str, str]:
    """What an entry of `runs` names: a name, which may be empty, and a file.

    >>> split_run("theirs=runs/theirs.trec"), split_run("runs/k1=0.9.trec")
    (('theirs', 'runs/theirs.trec'), ('', 'runs/k1=0.9.trec'))
    """
    name, separator, file = run.partition("=")
    return (name, file) if separator and "/" not in name and not Path(run).is_file() else ("", run)


def run_path(name: str, dataset: str) -> Path:
    """Where a run lies; `{dataset}` in its name stands for the data set's short name."""
    return Path(name.replace("{dataset}", dataset)).expanduser()


def write_run(path: Path, run: Mapping[str, Ranking], tag: str) -> None:
    """A TREC run file: question, Q0, document, rank, score, tag.

    Scores that are equal in float32 are set apart by its smallest step: trec_eval reads float32, sorts by
    score, and would put ties into another order than the rank. White space in ids is percent-encoded.
    """
    lines: list[str] = []
    for query, ranking in run.items():
        last = np.float32(np.inf)
        for rank, (document, score) in enumerate(zip(ranking.ids, ranking.scores, strict=True), start=1):
            last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
            lines.append(f"{_token(query)} Q0 {_token(document)} {rank} {last} {_token(tag)}\n")
    with disk_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(encodable("".join(lines)), encoding="utf-8")


def _token(name: str) -> str:
    return "".join(quote(c) if c.isspace() else c for c in name)


@dataclass(frozen=True, slots=True)
class SystemResult:
    """What a system did, by questions' ids; (n,) seconds of each without encoding, NaN of a run file."""

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
    """A system minus the baseline in one measure: mean, 95 % BCa interval, p, and p by Holm's correction."""

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
    system: BuiltSystem | Run,
    queries: Sequence[Query],
    depth: int,
    answers_itself: frozenset[str],
    on_progress: Callable[[int], None],
) -> tuple[dict[str, Ranking], Float64Array]:
    """Rank every question's pool without the document that it is itself: rankings, and (n,) seconds."""
    run: dict[str, Ranking] = {}
    seconds = np.zeros(len(queries))
    # A question's products are short, and numpy's threads wait for each other in a loop: on two cores with a
    # load of nine `surprise` took 56 ms a question with two threads, and 4 with one.
    with threadpool_limits(1, user_api="blas"):
        for i, query in enumerate(queries):
            start = time.perf_counter()
            omitted = query.id if query.id in answers_itself else ""
            if isinstance(system, Run):
                run[query.id] = system.ranking(query.id, omit=omitted)
            else:
                pool = system.retriever.retrieve(query, depth + bool(omitted), system.needs)
                pool = pool.without(omitted) if omitted else pool
                nothing = Ranking((), np.zeros(0))  # of a run of candidates that lacks the question
                run[query.id] = ranked(query, pool, system.reranker).top(depth) if len(pool) else nothing
            seconds[i] = time.perf_counter() - start
            on_progress(1)
    if isinstance(system, Run):
        seconds[:] = np.nan
    return run, seconds


def judged_ranking(
    ranking: Ranking, gains: Mapping[str, int], documents: Mapping[str, Document], judged: Judged
) -> Ranking:
    """A ranking of passages whose ids are those of judgements: `handbook.pdf#12`.

    Where pages are judged, neighbours that overlap are one, as a search shows them. A passage on several
    pages stands for the most relevant of them, by the gains of the question, that no better passage stands
    for; one that adds no page takes up its rank, and is not relevant.
    """
    if ranking.passages is None:  # of no candidate
        return ranking
    lines = merged_neighbours(ranking) if judged == "pages" else ranking
    assert lines.passages is not None
    ids: dict[str, None] = {}
    for name, passage in zip(lines.ids, lines.passages, strict=True):
        parts = [passage.number] if judged == "passages" else _pages(documents[name], passage)
        new = [part_id for part in parts if (part_id := f"{name}#{part}") not in ids]
        ids[max(new, key=lambda part_id: gains.get(part_id, 0), default=f"{name}#{passage.number}~")] = None
    return Ranking(tuple(ids), lines.scores, notes=lines.notes)


def _pages(document: Document, passage: Passage) -> list[int]:
    """The pages, or slides, that a passage is on; none where nobody knows."""
    place = document.place(passage.start, passage.end) or Place()
    first = place.page or place.slide
    return [] if first is None else list(range(first, (place.last_page or place.last_slide or first) + 1))


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
