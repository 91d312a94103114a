"""What EvalRank tells of models and measures: a table of ranks, the hits of every depth, and their plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surprise_rerank.eval.reports.report import Column, Plot, Series, Table
from surprise_rerank.eval.studies.evalrank.data import RankingTask
from surprise_rerank.eval.studies.evalrank.outcomes import Outcome
from surprise_rerank.eval.studies.evalrank.ranks import HITS_AT
from surprise_rerank.eval.studies.evalrank.settings import RankSettings

_COLUMNS = (
    Column("model"),
    Column("similarity"),
    Column("MR", 1, "min"),
    Column("MRR", 4, "max"),
    Column("Hits@1", 4, "max"),
    Column("Hits@3", 4, "max"),
)


def ranks_table(name: str, title: str, outcomes: Sequence[Outcome], notes: Sequence[str]) -> Table:
    """A row for every model and measure: MR, MRR, Hits@1, Hits@3."""
    rows = tuple(
        (o.model, o.measure, o.ranks.mean, o.ranks.mean_reciprocal, o.ranks.hits(1), o.ranks.hits(3))
        for o in outcomes
    )
    return Table(name, title, _COLUMNS, rows, keys=2, notes=tuple(notes))


def hits_plots(outcomes: Sequence[Outcome]) -> tuple[Plot, ...]:
    """A plot for every model: Hits@k over k, a line for every measure."""
    x = tuple(map(float, HITS_AT))
    plots = []
    for model in dict.fromkeys(outcome.model for outcome in outcomes):
        chosen = [outcome for outcome in outcomes if outcome.model == model]
        best = max(chosen, key=lambda outcome: outcome.ranks.mean_reciprocal)
        series = tuple(Series(o.measure, x, tuple(o.ranks.hits(k) for k in HITS_AT)) for o in chosen)
        note = f"The largest MRR has {best.measure}, {best.ranks.mean_reciprocal:.4f}."
        plots.append(Plot("line", f"Hits@k of {model}", "k", "Hits@k", series, note))
    return tuple(plots)


def facts(outcomes: Sequence[Outcome], task: RankingTask, settings: RankSettings) -> dict[str, Any]:
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
