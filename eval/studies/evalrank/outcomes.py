"""The ranks of a model's pairs under a measure: their tables, the hits of every depth, and their plot."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.eval.reports.report import Column, Plot, Series, Table
from surprise_rerank.eval.studies.evalrank.data import RankingTask
from surprise_rerank.eval.studies.evalrank.measures import DenseMeasure, dense_measure
from surprise_rerank.eval.studies.evalrank.ranks import HITS_AT, Items, Measure, Ranks, ranks
from surprise_rerank.eval.studies.evalrank.settings import RankSettings

PUBLISHED_NOTE = (
    "As published: the last bits of cosine and l2 decide, so that the second item of one pair in four, or in "
    "two, counts against itself."
)

_COLUMNS = (
    Column("model"),
    Column("similarity"),
    Column("MR", 1, "min"),
    Column("MRR", 4, "max"),
    Column("Hits@1", 4, "max"),
    Column("Hits@3", 4, "max"),
)


@dataclass(frozen=True, slots=True, eq=False)
class RankOutcome:
    """The ranks of one model's pairs under one measure.

    Attributes:
        model: its name.
        measure: the similarity's name.
        ranks: of the pairs.
        seconds: that they took, encoding aside.
    """

    model: str
    measure: str
    ranks: Ranks
    seconds: float


def ranked(
    model: str,
    name: str,
    build: Callable[[], Measure],
    pairs: IntArray,
    counts: IntArray,
    terminal: Terminal,
) -> tuple[Measure, RankOutcome]:
    """A measure, and the ranks under it.

    Args:
        model: its name.
        name: of the measure.
        build: makes the measure.
        pairs: (n, 2) items, first and second.
        counts: (m,) how often each item is in the background.
        terminal: for progress.
    """
    start = time.perf_counter()
    measure = build()
    with terminal.bar(f"{model}: {name}", len(pairs), "pairs") as advance:
        found = ranks(measure, pairs, counts, advance)
    return measure, RankOutcome(model, name, found, time.perf_counter() - start)


def dense(name: DenseMeasure, items: Items, terminal: Terminal, *, as_published: bool = False) -> Measure:
    """A measure of vectors by name, with a bar where all items are compared with all."""
    if name != "csls":
        return dense_measure(name, items, as_published=as_published)
    with terminal.bar("neighbours of items", len(items.unit), "items") as advance:
        return dense_measure(name, items, advance)


def ranks_table(name: str, title: str, outcomes: Sequence[RankOutcome], notes: Sequence[str]) -> Table:
    """A row for every model and measure: MR, MRR, Hits@1, Hits@3."""
    rows = tuple(
        (o.model, o.measure, o.ranks.mean, o.ranks.mean_reciprocal, o.ranks.hits(1), o.ranks.hits(3))
        for o in outcomes
    )
    return Table(name, title, _COLUMNS, rows, keys=2, notes=tuple(notes))


def hits_plots(outcomes: Sequence[RankOutcome]) -> tuple[Plot, ...]:
    """A plot for every model: Hits@k over k, a line for every measure."""
    x = tuple(map(float, HITS_AT))
    plots = []
    for model in dict.fromkeys(outcome.model for outcome in outcomes):
        chosen = [outcome for outcome in outcomes if outcome.model == model]
        best = max(chosen, key=lambda outcome: outcome.ranks.mean_reciprocal)
        series = tuple(Series(o.measure, x, tuple(o.ranks.hits(k) for k in HITS_AT)) for o in chosen)
        finding = f"The largest MRR has {best.measure}, {best.ranks.mean_reciprocal:.4f}."
        plots.append(Plot("line", f"Hits@k of {model}", "k", "Hits@k", series, finding=finding))
    return tuple(plots)


def facts(outcomes: Sequence[RankOutcome], task: RankingTask, settings: RankSettings) -> dict[str, Any]:
    """The settings; and `model / measure` -> Hits@1 to Hits@15, and the seconds that they took."""
    measured = {
        f"{o.model} / {o.measure}": {
            "hits": [o.ranks.hits(k) for k in HITS_AT],
            "seconds": round(o.seconds, 3),
        }
        for o in outcomes
    }
    shown = {
        "post_process": settings.post_process,
        "as_published": settings.as_published,
        "pairs": len(task.pairs),
        "background": len(task.background),
    }
    return {"settings": shown, "measured": measured}
