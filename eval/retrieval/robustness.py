"""Hubs and lengths: which documents everybody finds, how long found ones are, quality by length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from surprise_rerank.candidates import Ranking
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.comparison import (
    DIFFERENCE_COLUMNS,
    difference_cells,
    differences,
    with_holm,
)
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.results import Difference, SystemResult
from surprise_rerank.eval.retrieval.settings import RetrievalSettings, Test

TOP = 10
THIRDS = ("short", "middle", "long")

# In parentheses, lest a system have the name.
_CHANCE, _RELEVANT, _CORPUS = "(chance)", "(relevant)", "(corpus)"
_SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Hubness:
    """How unequally a corpus is found.

    Attributes:
        skewness: of the counts over all documents; NaN where all are equal.
        largest: the largest count.
        document: whose it is, the first by id among equals; empty where nothing is found.
        never: share of the documents that are not found at all.
    """

    skewness: float
    largest: int
    document: str
    never: float


@dataclass(frozen=True, slots=True)
class Thirds:
    """Questions by the length of what answers them.

    Attributes:
        borders: in words; short is up to the first, middle up to the second, long above it.
        questions: ids of the questions of each third, in the judgements' order.
        left_out: how many questions have no relevant document in the corpus.
    """

    borders: tuple[float, float]
    questions: tuple[tuple[str, ...], ...]
    left_out: int


def document_lengths(documents: Iterable[Document]) -> dict[str, int]:
    """Document id -> number of words, as white space parts title and text.

    >>> document_lengths([Document("a", "purrs all day", title="A cat"), Document("b", "")])
    {'a': 5, 'b': 0}
    """
    return {document.id: len(document.content.split()) for document in documents}


def corpus_lengths(settings: RetrievalSettings) -> dict[str, int]:
    """`document_lengths` of the corpus that these settings evaluate; reads it.

    Raises:
        SurpriseRerankError: as `load_dataset`.
    """
    dataset = load_dataset(settings.dataset, settings.split)
    if settings.limit is not None:
        dataset = dataset.limited(settings.limit)
    return document_lengths(dataset.documents)


def top(run: Mapping[str, Ranking], questions: Iterable[str], k: int = TOP) -> list[tuple[str, ...]]:
    """The ids of the first k documents of each question; none for one that the run lacks.

    Args:
        run: question id -> ranking.
        questions: ids.
        k: how many documents.
    """
    return [run[question].ids[:k] if question in run else () for question in questions]


def relevant(qrels: Mapping[str, Mapping[str, int]]) -> list[tuple[str, ...]]:
    """The ids of each question's relevant documents: those with a relevance above 0.

    Args:
        qrels: question id -> document id -> relevance.
    """
    return [tuple(name for name, grade in judged.items() if grade > 0) for judged in qrels.values()]


def occurrences(found: Iterable[Collection[str]], documents: Iterable[str]) -> dict[str, int]:
    """How often each document of a corpus is found: N_k(x) = |{q : x is among the first k of q}|.

    >>> occurrences([("a", "b"), ("a", "elsewhere")], "abc")
    {'a': 2, 'b': 1, 'c': 0}

    Args:
        found: the ids of each question's first k documents, each once.
        documents: ids of the whole corpus; what is found elsewhere is not counted.
    """
    counts = Counter(name for ids in found for name in ids)
    return {name: counts[name] for name in documents}


def hubness(counts: Mapping[str, int]) -> Hubness:
    """How unequal counts are, by the skewness of k-occurrences (Radovanovic et al., JMLR 11, 2010).

    S = E[(N_k - mu)^3] / sigma^3 with mean and (population) deviation over all documents of the corpus, those
    of count 0 among them. 0 is symmetric; the more a few documents are everybody's neighbours, the larger.

    Args:
        counts: document id -> how often it is found.

    Raises:
        DataError: if there is no document.
    """
    if not counts:
        raise DataError("hubness of no documents; give the counts of a corpus that has some")
    # Sorted, so that rounding does not depend on the corpus' order.
    values = np.sort(np.fromiter(counts.values(), dtype=np.float64))
    largest = int(values[-1])
    document = min(name for name, count in counts.items() if count == largest) if largest else ""
    skewness = float(stats.skew(values)) if np.ptp(values) else float("nan")
    return Hubness(skewness, largest, document, float(np.mean(values == 0)))


def chance(questions: int, documents: int, k: int = TOP) -> tuple[float, float]:
    """Skewness of the counts and share of documents never found, where questions draw k documents each.

    A count is then binomial with Q questions and p = k / n: its skewness is (1 - 2p) / sqrt(Q p (1 - p)), and
    (1 - p)^Q of the documents are never found. Few questions over many documents are skewed by chance alone.

    Args:
        questions: Q, how many there are.
        documents: n, how many the corpus has.
        k: how many documents each question finds.
    """
    drawn = stats.binom(questions, min(k, documents) / documents)
    skewness = float(drawn.stats(moments="s")) if k < documents else float("nan")
    return skewness, float(drawn.pmf(0))


def length_quantiles(
    found: Iterable[Iterable[str]], lengths: Mapping[str, int]
) -> tuple[float, float, float]:
    """A tenth, the median and nine tenths of the lengths of found documents; NaN where none is in the corpus.

    Args:
        found: the ids of each question's documents; one that several questions find counts for each.
        lengths: document id -> words, of the corpus.
    """
    words = [lengths[name] for ids in found for name in ids if name in lengths]
    low, median, high = np.quantile(words, _SHARES).tolist() if words else [float("nan")] * 3
    return low, median, high


def thirds(qrels: Mapping[str, Mapping[str, int]], lengths: Mapping[str, int]) -> Thirds:
    """Divide questions into thirds by the mean length of their relevant documents in the corpus.

    The borders are the lengths at a third and two thirds of the questions in order of length; questions of
    equal length stay together, so that thirds can differ in size.

    Args:
        qrels: question id -> document id -> relevance; above 0 is relevant.
        lengths: document id -> words, of the corpus.

    Raises:
        DataError: if fewer than 3 questions have a relevant document in the corpus, or too many have the same
            length for three parts.
    """
    means: dict[str, float] = {}
    for question, ids in zip(qrels, relevant(qrels), strict=True):
        words = [lengths[name] for name in ids if name in lengths]
        if words:
            means[question] = sum(words) / len(words)
    if len(means) < len(THIRDS):
        raise DataError(
            f"questions are not divided by length: {len(means)} have a relevant document in the corpus, "
            "thirds need 3 or more"
        )
    values = np.fromiter(means.values(), dtype=np.float64)
    borders = np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf")
    # A length on a border belongs to the part below it.
    places = dict(zip(means, np.searchsorted(borders, values), strict=True))
    parts = tuple(tuple(name for name, place in places.items() if place == i) for i in range(len(THIRDS)))
    if not all(parts):
        raise DataError(
            f"questions are not divided by length: the relevant documents of {len(means)} questions have "
            f"{len(set(means.values()))} different mean lengths, and too many have the same for three parts"
        )
    return Thirds((float(borders[0]), float(borders[1])), parts, len(qrels) - len(means))


def means_by_third(values: Mapping[str, float], divided: Thirds) -> tuple[float, float, float]:
    """The mean of a measure over the questions of each third.

    Args:
        values: question id -> value.
        divided: by `thirds`, of the same questions.
    """
    short, middle, long = (
        float(np.mean([values[question] for question in part])) for part in divided.questions
    )
    return short, middle, long


def robustness_tables(
    evaluation: Evaluation,
    lengths: Mapping[str, int],
    baseline: str = "cosine",
    test: Test = "randomization",
) -> tuple[Table, ...]:
    """Tables of hubs, of lengths with the first measure by thirds, and of the differences in each third.

    Args:
        evaluation: of at least one system.
        lengths: document id -> words, of its whole corpus.
        baseline: the system that the others are compared with; nothing is compared where it is missing.
        test: the paired test of differences; Holm's correction is over systems and thirds.
    """
    tables = [_hubs(evaluation, lengths)]
    try:
        divided = thirds(evaluation.qrels, lengths)
    except DataError as error:
        return (*tables, _lengths(evaluation, lengths, None, str(error)))
    tables.append(_lengths(evaluation, lengths, divided, _borders(divided)))
    beside = [differences(_part(evaluation, part), baseline, test) for part in divided.questions]
    if any(beside):
        tables.append(_differences(evaluation, baseline, test, with_holm(beside)))
    return tuple(tables)


def with_robustness(
    report: Report,
    evaluations: Sequence[Evaluation],
    lengths: Mapping[str, Mapping[str, int]],
    baseline: str = "cosine",
    test: Test = "randomization",
) -> Report:
    """A report with `robustness_tables` of each data set below its tables, before the details.

    Args:
        report: of the evaluations.
        evaluations: of one or several data sets.
        lengths: an evaluation's name -> document id -> words.
        baseline: see `robustness_tables`.
        test: see `robustness_tables`.
    """
    made = [
        table
        for evaluation in evaluations
        for table in robustness_tables(evaluation, lengths[evaluation.name], baseline, test)
    ]
    # Stable: shown tables keep their order, and so do details.
    tables = sorted([*report.tables, *made], key=lambda table: table.detail)
    facts = {e.name: _facts(e, lengths[e.name]) for e in evaluations}
    return replace(report, tables=tuple(tables), facts={**report.facts, "robustness": facts})


def _hubs(evaluation: Evaluation, lengths: Mapping[str, int]) -> Table:
    columns = (
        Column("system"),
        Column(f"skewness of N@{TOP}", digits=2),
        Column(f"largest N@{TOP}"),
        Column("of document"),
        Column("never found", digits=3),
    )
    questions = len(evaluation.qrels)
    rows: list[tuple[Cell, ...]] = []
    notes = [
        f"N@{TOP}: for how many of {questions} questions a document is among the first {TOP}; skewness and "
        f"never found (a share) over all {len(lengths)} documents (Radovanovic et al., JMLR 2010)",
        f"{_RELEVANT}: for how many it is relevant; {_CHANCE}: {TOP} documents drawn for each question",
    ]
    for result in evaluation.results:
        found = top(result.run, evaluation.qrels)
        rows.append((result.name, *_hub_cells(hubness(occurrences(found, lengths)))))
        elsewhere = sum(name not in lengths for ids in found for name in ids)
        if elsewhere:
            notes.append(f"{result.name}: {elsewhere} found documents are not in the corpus, and not counted")
    skewness, never = chance(questions, len(lengths))
    judged = hubness(occurrences(relevant(evaluation.qrels), lengths))
    rows += [(_RELEVANT, *_hub_cells(judged)), (_CHANCE, skewness, None, None, never)]
    return Table(
        f"hubs of {evaluation.name}", f"Hubs, {evaluation.name}", columns, tuple(rows), notes=tuple(notes)
    )


def _hub_cells(found: Hubness) -> tuple[Cell, ...]:
    return found.skewness, found.largest, found.document, found.never


def _lengths(evaluation: Evaluation, lengths: Mapping[str, int], divided: Thirds | None, note: str) -> Table:
    measure = evaluation.measures[0]
    columns = (
        Column("system"),
        Column("words: a tenth", digits=0),
        Column("median", digits=0),
        Column("nine tenths", digits=0),
        *(Column(f"{measure}, {name}", best="max") for name in THIRDS),
    )
    blank: tuple[Cell, ...] = (None,) * len(THIRDS)
    rows: list[tuple[Cell, ...]] = []
    for result in evaluation.results:
        words = length_quantiles(top(result.run, evaluation.qrels), lengths)
        values = blank if divided is None else means_by_third(result.per_query[measure], divided)
        rows.append((result.name, *words, *values))
    rows.append((_RELEVANT, *length_quantiles(relevant(evaluation.qrels), lengths), *blank))
    rows.append((_CORPUS, *length_quantiles([lengths], lengths), *blank))
    what = (
        f"words: lengths of the first {TOP} documents of every question, of its relevant ones, and of the "
        "corpus; title and text, parted at white space"
    )
    title = f"Lengths, {evaluation.name}"
    return Table(f"lengths of {evaluation.name}", title, columns, tuple(rows), notes=(what, note))


def _borders(divided: Thirds) -> str:
    first, second = (f"{border:g}" for border in divided.borders)
    short, middle, long = (len(part) for part in divided.questions)
    note = (
        f"questions by the mean length of their relevant documents: {short} short (up to {first} words), "
        f"{middle} middle (up to {second}), {long} long"
    )
    if divided.left_out:
        note += f"; {divided.left_out} without a relevant document in the corpus are left out"
    return note


def _part(evaluation: Evaluation, questions: Sequence[str]) -> Evaluation:
    """The evaluation's values of some questions in its first measure."""
    measure = evaluation.measures[0]

    def part(result: SystemResult) -> SystemResult:
        values = result.per_query[measure]
        return replace(result, per_query={measure: {question: values[question] for question in questions}})

    return replace(evaluation, results=tuple(map(part, evaluation.results)))


def _differences(
    evaluation: Evaluation, baseline: str, test: Test, beside: Sequence[Sequence[Difference]]
) -> Table:
    return Table(
        f"differences by length of {evaluation.name}",
        f"{evaluation.measures[0]} beside {baseline} by length, {evaluation.name}",
        (Column("system"), Column("third"), *DIFFERENCE_COLUMNS),
        tuple(_difference_rows(beside)),
        keys=2,
        notes=(f"paired {test} test in each third; Holm's correction is for the comparisons of this table",),
        detail=True,
    )


def _difference_rows(beside: Sequence[Sequence[Difference]]) -> Iterator[tuple[Cell, ...]]:
    for of_system in zip(*beside, strict=True):
        for third, found in zip(THIRDS, of_system, strict=True):
            yield (found.system, third, *difference_cells(found))


def _facts(evaluation: Evaluation, lengths: Mapping[str, int]) -> Mapping[str, Any]:
    try:
        divided = thirds(evaluation.qrels, lengths)
    except DataError as error:
        return {"k": TOP, "not_divided": str(error)}
    sizes = dict(zip(THIRDS, map(len, divided.questions), strict=True))
    return {"k": TOP, "borders": list(divided.borders), "questions": sizes, "left_out": divided.left_out}
