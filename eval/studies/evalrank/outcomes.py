"""The ranks of a model's pairs under a measure, with the time that they took and a bar while they take it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.eval.studies.evalrank.items import Items
from surprise_rerank.eval.studies.evalrank.measures import DenseMeasure, dense_measure
from surprise_rerank.eval.studies.evalrank.ranks import Measure, Ranks, ranks

PUBLISHED_NOTE = (
    "As published: the last bits of cosine and l2 decide, so that the second item of one pair in four, or in "
    "two, counts against itself."
)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
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
) -> tuple[Measure, Outcome]:
    """A measure, and the ranks under it.

    Args:
        model: its name.
        name: of the measure.
        build: makes the measure.
        pairs: (n, 2) items, first and second.
        counts: (m,) how often each item stands in the background.
        terminal: for progress.
    """
    start = time.perf_counter()
    measure = build()
    with terminal.bar(f"{model}: {name}", len(pairs), "pairs") as advance:
        found = ranks(measure, pairs, counts, advance)
    return measure, Outcome(model, name, found, time.perf_counter() - start)


def dense(name: DenseMeasure, items: Items, terminal: Terminal, *, as_published: bool = False) -> Measure:
    """A measure of vectors by name, with a bar where all items are compared with all."""
    if name != "csls":
        return dense_measure(name, items, as_published=as_published)
    with terminal.bar("neighbours of items", len(items.unit), "items") as advance:
        return dense_measure(name, items, advance)
