"""The ranks of pairs under models and measures: their table, the hits of every depth, and their plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.eval.reports.report import Column, Plot, Report, Series, Table
from surprise_rerank.eval.studies.evalrank.data import RankingTask
from surprise_rerank.eval.studies.evalrank.ranks import Measure, ranks
from surprise_rerank.eval.studies.sentence_models import POST_PROCESSED, WHITENED
from surprise_rerank.eval.studies.settings import RankSettings

HITS_AT = tuple(range(1, 16))
_PUBLISHED = (
    "As published: the last bits of cosine and l2 decide, so that the second item of one pair in four, or in "
    "two, counts against itself, and words without a vector, which are equal, do not stand before each other."
)
_COLUMNS = (
    *(Column("model"), Column("similarity"), Column("MR", 1, "min"), Column("MRR", 4, "max")),
    *(Column("Hits@1", 4, "max"), Column("Hits@3", 4, "max"), Column("known %", 1)),
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


@dataclass(eq=False)
class RankStudy:
    """EvalRank of words or sentences: outcomes and notes, until they are a report."""

    items: str
    task: RankingTask
    settings: RankSettings
    terminal: Terminal
    outcomes: list[RankOutcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.settings.as_published:
            self.notes.append(_PUBLISHED)

    @property
    def variants(self) -> tuple[str, ...]:
        """What is measured of a model's vectors: as they are, and what the settings ask for."""
        processed, whitened = POST_PROCESSED * self.settings.post_process, WHITENED * self.settings.whiten
        return tuple(dict.fromkeys(("", processed, whitened)))

    def rank(
        self, model: str, name: str, measure: Measure, pairs: IntArray, counts: IntArray, covered: float
    ) -> None:
        """Add the ranks of pairs under a measure of this name; arguments as of `ranks` and `RankOutcome`."""
        with self.terminal.bar(f"{model}: {name}", len(pairs), "pairs") as advance:
            self.outcomes.append(RankOutcome(model, name, ranks(measure, pairs, counts, advance), covered))

    def report(self, more: Sequence[Table] = ()) -> Report:
        """MR, MRR and hits of every model and measure, and Hits@k over k."""
        rows = tuple(
            (
                *(o.model, o.measure, float(o.ranks.mean()), o.mean_reciprocal),
                *(o.hits(1), o.hits(3), 100 * o.known),
            )
            for o in self.outcomes
        )
        sizes = f"{len(self.task.pairs)} pairs among {len(self.task.background)} {self.items}"
        notes = (
            *self.notes,
            "MR: mean rank of the second item; MRR: mean of 1 / rank; Hits@k: share of pairs of rank k or "
            "better; known: pairs of which the model has both vectors",
        )
        title = f"EvalRank, {self.items}: {sizes}"
        table = Table(f"evalrank-{self.items}", title, _COLUMNS, rows, keys=2, notes=notes)
        facts = {
            "settings": {
                "post_process": self.settings.post_process,
                "as_published": self.settings.as_published,
                "pairs": len(self.task.pairs),
                "background": len(self.task.background),
            },
            "hits": {f"{o.model} / {o.measure}": list(map(o.hits, HITS_AT)) for o in self.outcomes},
        }
        plots = tuple(map(self._hits, dict.fromkeys(outcome.model for outcome in self.outcomes)))
        return Report(f"EvalRank of {self.items}", (table, *more), plots, facts=facts)

    def _hits(self, model: str) -> Plot:
        x, outcomes = tuple(map(float, HITS_AT)), [o for o in self.outcomes if o.model == model]
        best = max(outcomes, key=lambda outcome: outcome.mean_reciprocal)
        series = tuple(Series(o.measure, x, tuple(map(o.hits, HITS_AT))) for o in outcomes)
        finding = f"The largest MRR has {best.measure}, {best.mean_reciprocal:.4f}."
        return Plot("line", f"Hits@k of {model}", "k", "Hits@k", series, finding=finding)
