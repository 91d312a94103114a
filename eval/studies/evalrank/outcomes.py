"""The ranks of a model's pairs under a measure: their table, the hits of every depth, and their plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.eval.reports.report import Column, Plot, Report, Series, Table
from surprise_rerank.eval.studies.evalrank.data import RankingTask
from surprise_rerank.eval.studies.evalrank.ranks import Measure, ranks
from surprise_rerank.eval.studies.settings import RankSettings

HITS_AT = tuple(range(1, 16))
PUBLISHED_NOTE = (
    "As published: the last bits of cosine and l2 decide, so that the second item of one pair in four, or in "
    "two, counts against itself, and words without a vector, which are equal, do not stand before each other."
)


@dataclass(frozen=True, slots=True, eq=False)
class RankOutcome:
    """The (n,) ranks of one model's pairs under one measure, from 1, and the share of pairs that it knows."""

    model: str
    measure: str
    ranks: Float64Array
    known: float = 1.0

    @property
    def mean_reciprocal(self) -> float:
        """MRR, the mean of 1 / rank."""
        return float((1.0 / self.ranks).mean())

    def hits(self, k: int) -> float:
        """Hits@k, the share of pairs whose rank is at most k."""
        return float((self.ranks <= k).mean())


def ranked(
    model: str,
    name: str,
    measure: Measure,
    pairs: IntArray,
    counts: IntArray,
    terminal: Terminal,
    share_known: float,
) -> RankOutcome:
    """The ranks of pairs under a measure of this name; other arguments as of `ranks` and `RankOutcome`."""
    with terminal.bar(f"{model}: {name}", len(pairs), "pairs") as advance:
        return RankOutcome(model, name, ranks(measure, pairs, counts, advance), share_known)


def rank_report(
    items: str,
    task: RankingTask,
    outcomes: Sequence[RankOutcome],
    notes: Sequence[str],
    settings: RankSettings,
    more: Sequence[Table] = (),
) -> Report:
    """The report of EvalRank: MR, MRR and hits of every model and measure, and Hits@k over k."""
    columns = (
        *(Column("model"), Column("similarity"), Column("MR", 1, "min"), Column("MRR", 4, "max")),
        *(Column("Hits@1", 4, "max"), Column("Hits@3", 4, "max"), Column("known %", 1)),
    )
    rows = tuple(
        (
            *(o.model, o.measure, float(o.ranks.mean()), o.mean_reciprocal),
            *(o.hits(1), o.hits(3), 100 * o.known),
        )
        for o in outcomes
    )
    title = f"EvalRank, {items}: {len(task.pairs)} pairs among {len(task.background)} {items}"
    notes = (
        *notes,
        "MR: mean rank of the second item; MRR: mean of 1 / rank; Hits@k: share of pairs of rank k or "
        "better; known: pairs of which the model has both vectors",
    )
    table = Table(f"evalrank-{items}", title, columns, rows, keys=2, notes=notes)
    plots = tuple(
        _hits(model, [outcome for outcome in outcomes if outcome.model == model])
        for model in dict.fromkeys(outcome.model for outcome in outcomes)
    )
    facts = {
        "settings": {
            "post_process": settings.post_process,
            "as_published": settings.as_published,
            "pairs": len(task.pairs),
            "background": len(task.background),
        },
        "hits": {f"{o.model} / {o.measure}": list(map(o.hits, HITS_AT)) for o in outcomes},
    }
    return Report(f"EvalRank of {items}", (table, *more), plots, facts=facts)


def _hits(model: str, outcomes: Sequence[RankOutcome]) -> Plot:
    x = tuple(map(float, HITS_AT))
    best = max(outcomes, key=lambda outcome: outcome.mean_reciprocal)
    series = tuple(Series(o.measure, x, tuple(map(o.hits, HITS_AT))) for o in outcomes)
    finding = f"The largest MRR has {best.measure}, {best.mean_reciprocal:.4f}."
    return Plot("line", f"Hits@k of {model}", "k", "Hits@k", series, finding=finding)
