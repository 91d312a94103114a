"""Tables and plots of clusterings: quality, differences to the cosine, and what clusters look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.report import Cell, Column, Plot, Series, Table
from surprise_rerank.eval.reports.verdicts import best_of
from surprise_rerank.eval.stats.significance import deviation, difference_interval, holm, paired_randomization
from surprise_rerank.eval.studies.cluster.runs import Run
from surprise_rerank.eval.studies.labelled_models import COSINE

_KEYS = (Column("data"), Column("model"), Column("assignment"))
# Measures whose differences are tested: heading -> attribute of a run.
_TESTED = {"V-measure": "v_measure", "ARI": "ari"}
# Measures that are shown x 100.
_SHARES = frozenset(("v_measure", "homogeneity", "completeness", "ari", "nmi", "moved"))
# Heading -> measure, and the digits that it is shown with.
_LOOKS = {
    "homogeneity": ("homogeneity", 2),
    "completeness": ("completeness", 2),
    "largest": ("largest", 1),
    "smallest": ("smallest", 1),
    "empty": ("empty", 1),
    "mean cosine": ("mean_cosine", 4),
    "centres s": ("centre_seconds", 2),
    "assignment s": ("seconds", 3),
}
_SPREAD = "Lines: from the worst repeat to the best."
_TEST_NOTE = (
    "p: paired randomisation test over the repeats, two-sided; Holm's correction is for all comparisons of "
    "the table. It tells whether a difference holds for other seeds of k-means on these texts, not on others."
)


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """The repeats of a model on a file.

    Attributes:
        data: name of the file.
        model: name of the model.
        texts: how many were clustered.
        labels: different ones of these.
        clusters: k.
        runs: assignment -> a run for each repeat; the cosine first.
    """

    data: str
    model: str
    texts: int
    labels: int
    clusters: int
    runs: dict[str, tuple[Run, ...]]

    @property
    def names(self) -> tuple[str, str]:
        """Data and model, as tables have them."""
        return self.data, self.model

    def values(self, assignment: str, measure: str) -> Float64Array:
        """(n,) a measure of each repeat, x 100 where it is a share."""
        values = np.array([getattr(run, measure) for run in self.runs[assignment]], dtype=np.float64)
        return 100 * values if measure in _SHARES else values

    def mean(self, assignment: str, measure: str) -> float:
        """The mean over the repeats."""
        return float(self.values(assignment, measure).mean())

    def deviation(self, assignment: str, measure: str) -> float | None:
        """The standard deviation over the repeats (of a sample); None for one."""
        return deviation(self.values(assignment, measure))

    def facts(self) -> dict[str, Any]:
        """Everything that was measured, as JSON values."""
        runs = {name: [asdict(run) for run in own] for name, own in self.runs.items()}
        shown = {name: getattr(self, name) for name in ("data", "model", "texts", "labels", "clusters")}
        return {**shown, "runs": runs}


def tables(found: Sequence[Clustering]) -> tuple[Table, ...]:
    """All tables; those of more than the cosine alone have differences."""
    shown = [_quality(found), _details(found)]
    if any(len(clustering.runs) > 1 for clustering in found):
        shown.append(_differences(found))
    return tuple(shown)


def plots(found: Sequence[Clustering]) -> tuple[Plot, ...]:
    """Bars of each measure: data and model along, a bar for each assignment."""
    return tuple(_bars(found, heading, measure) for heading, measure in _TESTED.items())


def _quality(found: Sequence[Clustering]) -> Table:
    columns = (
        *_KEYS,
        Column("V-measure", 2),
        Column("V deviation", 2),
        Column("V - cosine", 2),
        Column("ARI", 2),
        Column("ARI deviation", 2),
        Column("ARI - cosine", 2),
        Column("NMI", 2),
        Column("moved %", 1),
        Column("seconds", 2),
    )
    rows = []
    for clustering in found:
        for name in clustering.runs:
            cells: list[Cell] = []
            for measure in _TESTED.values():
                gain = clustering.mean(name, measure) - clustering.mean(COSINE, measure)
                mean, spread = clustering.mean(name, measure), clustering.deviation(name, measure)
                cells += [mean, spread, None if name == COSINE else gain]
            moved = None if name == COSINE else clustering.mean(name, "moved")
            seconds = clustering.mean(name, "centre_seconds") + clustering.mean(name, "seconds")
            rows.append((*clustering.names, name, *cells, clustering.mean(name, "nmi"), moved, seconds))
    sizes = (f"{c.data} {c.texts} texts, {c.labels} labels, {c.clusters} clusters" for c in found)
    return Table(
        "cluster",
        "Clusters beside labels, x 100: means over the repeats",
        columns,
        tuple(rows),
        keys=3,
        notes=(
            f"{'; '.join(dict.fromkeys(sizes))}.",
            "NMI takes the arithmetic mean of the entropies, which makes it equal to the V-measure. moved: "
            "points in another cluster than by the cosine. seconds: of one run, its centres included.",
        ),
    )


def _details(found: Sequence[Clustering]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for clustering in found:
        for name in clustering.runs:
            means = [clustering.mean(name, measure) for measure, _ in _LOOKS.values()]
            rows.append((*clustering.names, name, *means))
    return Table(
        "cluster-details",
        "What clusters look like: means over the repeats",
        (*_KEYS, *(Column(heading, digits) for heading, (_, digits) in _LOOKS.items())),
        tuple(rows),
        keys=3,
        notes=(
            "homogeneity and completeness x 100. largest, smallest: points of the largest cluster, and of "
            "the smallest that is not empty; empty: clusters without a point; mean cosine: of points to the "
            "centres of their clusters.",
        ),
        detail=True,
    )


def _differences(found: Sequence[Clustering]) -> Table:
    columns = (
        *_KEYS,
        Column("measure"),
        Column("difference", 2),
        Column("deviation", 2),
        Column("low", 2),
        Column("high", 2),
        Column("wins"),
        Column("losses"),
        Column("ties"),
        Column("p"),
        Column("p (Holm)"),
    )
    keys, cells, p_values = [], [], []
    for clustering in found:
        for name in clustering.runs:
            for heading, measure in _TESTED.items() if name != COSINE else ():
                first, second = clustering.values(COSINE, measure), clustering.values(name, measure)
                keys.append((*clustering.names, name, heading))
                cells.append(_compared(first, second))
                p_values.append(paired_randomization(first, second))
    rows = [(*k, *c, p, h) for k, c, p, h in zip(keys, cells, p_values, holm(p_values), strict=True)]
    return Table(
        "cluster-differences",
        "Differences to the cosine on the same centres, x 100",
        columns,
        tuple(rows),
        keys=4,
        notes=(_TEST_NOTE, "low and high: 95 % BCa interval of the mean difference over the repeats."),
    )


def _compared(first: Float64Array, second: Float64Array) -> tuple[Cell, ...]:
    """Difference, its deviation and interval, wins, losses, ties."""
    gains = second - first
    spread: tuple[float | None, ...] = (None, None, None)
    if len(gains) > 1:
        spread = (deviation(gains), *difference_interval(first, second))
    wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
    return float(gains.mean()), *spread, wins, losses, len(gains) - wins - losses


def _bars(found: Sequence[Clustering], heading: str, measure: str) -> Plot:
    # All clusterings of a report have the same assignments.
    names = tuple(found[0].runs)
    if len(found) == 1:
        series = [_bar(heading, names, [(found[0], name) for name in names], measure)]
    else:
        data = tuple(", ".join(clustering.names) for clustering in found)
        series = [_bar(name, data, [(clustering, name) for clustering in found], measure) for name in names]
    told = []
    for clustering in found:
        means = {name: clustering.mean(name, measure) for name in clustering.runs}
        best = best_of(means, 1)
        told += [f"{', '.join(clustering.names)}: {best}."] if best else []
    return Plot(
        "bars",
        f"{heading} by assignment",
        "data and model",
        f"{heading} x 100",
        tuple(series),
        f"Mean {heading} of each assignment over the repeats, on the same centres. {_SPREAD}",
        finding=" ".join(told),
    )


def _bar(name: str, labels: tuple[str, ...], bars: Sequence[tuple[Clustering, str]], measure: str) -> Series:
    """Means over the repeats of each bar's clustering and assignment, and the worst and best of them."""
    values = [clustering.values(assignment, measure) for clustering, assignment in bars]
    low, high = tuple(float(own.min()) for own in values), tuple(float(own.max()) for own in values)
    return Series(name, labels, tuple(float(own.mean()) for own in values), low, high)
