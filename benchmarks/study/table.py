"""Variants beside each other: nDCG@10, the difference to the default, and whether that could be chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.study.collection import DEPTH, Collection, Lexical
from benchmarks.study.formula import AUTO, Scores
from surprise_rerank.candidates import Ranking
from surprise_rerank.connectors.systems.built import AUTO_SAMPLE_SIZE
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.eval.retrieval.measures import measure_run, parse_measures
from surprise_rerank.eval.stats.significance import paired_randomization

MEASURE = "nDCG@10"
# p is known to .0005 then; a table of many rows should not take minutes.
_RESAMPLES = 1999
_SHOWN = 10
DEFAULT = "auto"


@dataclass(frozen=True, slots=True)
class Row:
    """A variant.

    Attributes:
        name: that tells what is done, or what is done otherwise.
        scores: (n,) scores of a case's candidates.
        against: the row that it is compared with.
        depth: of its pools.
        lexical: which BM25 finds and scores.
        sample: how many documents stand for the corpus.
    """

    name: str
    scores: Scores
    against: str = DEFAULT
    depth: int = DEPTH
    lexical: Lexical = "bm25"
    sample: int = AUTO_SAMPLE_SIZE


AUTO_ROW = Row(DEFAULT, AUTO)


class Evaluator:
    """Measures variants over a collection.

    Attributes:
        collection: that it measures over.
    """

    def __init__(self, collection: Collection) -> None:
        self.collection = collection

    def values(self, row: Row) -> Float64Array:
        """(q,) nDCG@10 of each question."""
        cases = self.collection.pools(row.depth, row.lexical, row.sample)
        run = {case.query.id: Ranking.order(case.candidates, row.scores(case)).top(_SHOWN) for case in cases}
        _, per_query = measure_run(run, self.collection.dataset, parse_measures([MEASURE]))
        return np.array([per_query[MEASURE].get(name, 0.0) for name in self.collection.dataset.queries])

    def table(self, subject: str, rows: Sequence[Row], advance: Callable[[int], None]) -> Table:
        """The table of a subject.

        Args:
            subject: its name.
            rows: variants; what they are compared with among them.
            advance: called with the number of finished rows.

        Raises:
            DataError: if two rows have one name, or one is compared with what is not there.
        """
        names = [row.name for row in rows]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        missing = next((row.against for row in rows if row.against not in names), None)
        if twice is not None or missing is not None:
            raise DataError(f"the subject {subject!r} has row {twice!r} twice, or lacks {missing!r}")
        found = {}
        for row in rows:
            found[row.name] = self.values(row)
            advance(1)
        cells: list[tuple[Cell, ...]] = [_cells(row, found) for row in rows]
        columns = (
            Column("variant"),
            Column(MEASURE, 4),
            Column("against"),
            Column("difference", 4),
            Column("p", 4),
        )
        notes = ("p: paired randomisation test over the questions, of each row by itself",)
        return Table(subject, f"{subject}: {self.collection.title}", columns, tuple(cells), notes=notes)


def _cells(row: Row, found: dict[str, Float64Array]) -> tuple[Cell, ...]:
    own, other = found[row.name], found[row.against]
    if row.name == row.against:
        return (row.name, float(own.mean()), "", None, None)
    p = paired_randomization(other, own, resamples=_RESAMPLES)
    return (row.name, float(own.mean()), row.against, float((own - other).mean()), p)
