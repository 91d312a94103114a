"""Tables and plots of off-topic questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from surprise_rerank.core.arrays import BoolArray, Float64Array
from surprise_rerank.eval.reports.report import Cell, Column, Plot, Series, Table
from surprise_rerank.eval.reports.verdicts import short
from surprise_rerank.eval.stats.reliability import answered, expected_calibration_error, reliability
from surprise_rerank.eval.studies.off_topic.measures import Measured, auroc, joined, passed, statistics
from surprise_rerank.eval.studies.off_topic.scores import (
    FUSION,
    alone,
    as_system,
    background_of,
    totals,
)
from surprise_rerank.thresholds.chance import RelevanceCurve

_KEYS = (Column("corpus"), Column("model"))
# Thresholds whose answers are counted.
_LEVELS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)


def all_tables(measured: Sequence[Measured], alphas: Sequence[float]) -> Iterator[Table]:
    """All tables of the report."""
    yield _thresholds(measured, alphas)
    yield _auroc(measured)
    yield _answered(measured)
    yield _calibration(measured)
    yield _other_sources(measured, alphas)


def all_plots(measured: Sequence[Measured]) -> Iterator[Plot]:
    """All plots of the report."""
    yield Plot(
        kind="line",
        title="Reliability of the fitted probability",
        x_label="probability of the best document's relevance",
        y_label="share that is relevant",
        series=(
            Series("perfect", (0.0, 1.0), (0.0, 1.0)),
            *(_reliability_series(own) for own in measured),
        ),
        note="fitted on half of the judged questions, shown on the other half",
        finding=" ".join(map(_reliability_finding, measured)),
    )
    yield Plot(
        kind="line",
        title="Answered questions against precision",
        x_label="share of the corpus' own questions that are answered",
        y_label="share of these whose best document is relevant",
        series=tuple(_answered_series(own) for own in measured),
        note="from right to left the least surprise rises from 0 to .99",
        finding=" ".join(map(_answered_finding, measured)),
    )


def _thresholds(measured: Sequence[Measured], alphas: Sequence[float]) -> Table:
    """What passes the thresholds of each corpus' background, and those of the first corpus."""
    first = measured[0].corpus
    firsts = {own.model: own for own in reversed(measured)}
    columns = [*_KEYS, Column("scorer"), Column("questions")]
    for alpha in alphas:
        columns += [Column(f"passed at {alpha:g}", 1), Column(f"raw threshold at {alpha:g}", 1)]
    rows: list[tuple[Cell, ...]] = []
    for own in measured:
        others = joined(own.others)
        for scorer in (*own.scorers, FUSION):
            view = as_system(scorer)
            background = background_of(joined(own.background), view)
            raw = view if scorer == FUSION else alone(scorer)
            carried = background_of(joined(firsts[own.model].background), raw)
            cells: list[Cell] = [*own.names, scorer, len(others)]
            for alpha in alphas:
                cells.append(100 * passed(others, background, view, alpha))
                cells.append(100 * passed(others, carried, raw, alpha))
            rows.append(tuple(cells))
    return Table(
        name="thresholds",
        title="Off-topic questions that pass, %",
        columns=tuple(columns),
        rows=tuple(rows),
        keys=3,
        notes=(
            "passed: with the background of a pipeline by this scorer, of the same corpus and model; raw "
            f"threshold: with the best score itself (of fusion T) that lets as many through on {first}",
        ),
    )


def _auroc(measured: Sequence[Measured]) -> Table:
    names: list[str] = []
    rows: list[tuple[Cell, ...]] = []
    for own in measured:
        found = statistics(own.scorers, own.judged[0])
        names = list(found)
        for source, questions in own.others.items():
            values = [auroc(statistic, own.on_topic, questions) for statistic in found.values()]
            rows.append((*own.names, source, *values))
    means = np.array([row[3:] for row in rows], dtype=np.float64).mean(axis=0).tolist()
    return Table(
        name="auroc",
        title="Questions of the corpus told from off-topic ones, AUROC",
        columns=(
            *_KEYS,
            Column("off-topic"),
            *(Column(name, 3) for name in names),
        ),
        rows=(*rows, ("mean", "all", "all", *means)),
        keys=3,
        notes=(
            "z over documents: the best cosine among those of the question; z over questions: among those "
            "of the document to background questions; fusion: the total of BM25, the latter and dynamax",
        ),
    )


def _answered(measured: Sequence[Measured]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for own in measured:
        background, surprise, relevant = own.judged
        off = background.surprise(totals(joined(own.others), background, as_system(FUSION)))
        for line in answered(surprise, relevant, _LEVELS):
            through = 100 * float((off >= line.threshold).mean())
            rows.append(
                (
                    *own.names,
                    f"{line.threshold:g}",
                    100 * line.share,
                    100 * line.precision,
                    through,
                )
            )
    return Table(
        name="answered",
        title="Answered questions against precision, by the least surprise of fusion, %",
        columns=(
            *_KEYS,
            Column("min_surprise"),
            Column("answered", 1),
            Column("best relevant", 1),
            Column("off-topic answered", 1),
        ),
        rows=tuple(rows),
        keys=3,
        notes=("best: the document of the largest total T, which need not be the first of the ranking",),
    )


def _calibration(measured: Sequence[Measured]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for own in measured:
        probabilities, relevant, rows_of = _fitted(own)
        _, surprise, _ = own.judged
        cosines = np.clip([own.on_topic[i].best("cosine") for i in rows_of], 0.0, 1.0)
        errors = [
            expected_calibration_error(values, relevant)
            for values in (cosines, surprise[rows_of], probabilities)
        ]
        rows.append((*own.names, len(relevant), float(relevant.mean()), *errors))
    return Table(
        name="calibration",
        title="Expected calibration error of the best document's relevance",
        columns=(
            *_KEYS,
            Column("questions"),
            Column("relevant", 3),
            Column("cosine", 3, "min"),
            Column("surprise", 3, "min"),
            Column("fitted curve", 3, "min"),
        ),
        rows=tuple(rows),
        keys=2,
        notes=(
            "every number is taken as if it were the probability that the document of the largest T is "
            "relevant; the curve is fitted on the other half of the judged questions",
        ),
    )


def _other_sources(measured: Sequence[Measured], alphas: Sequence[float]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for own in measured:
        if len(own.background) < 2:
            continue
        for source, questions in own.others.items():
            view = as_system(FUSION, without=source)
            background = background_of(joined(own.background, [source]), view)
            shares = [100 * passed(questions, background, view, alpha) for alpha in alphas]
            rows.append((*own.names, source, *shares))
    return Table(
        name="other-sources",
        title="Questions of one source that pass by fusion, with a background of the other sources, %",
        columns=(
            *_KEYS,
            Column("off-topic"),
            *(Column(f"passed at {alpha:g}", 1) for alpha in alphas),
        ),
        rows=tuple(rows),
        keys=3,
        notes=("nothing is promised here: the background does not come from where the questions do",),
        detail=True,
    )


def _fitted(own: Measured) -> tuple[Float64Array, BoolArray, list[int]]:
    """Probabilities of one half of the judged questions, by a curve fitted on the other; and which half."""
    background, _, relevant = own.judged
    values = totals(own.on_topic, background, as_system(FUSION))
    finite = np.flatnonzero(np.isfinite(values))
    shown, taught = finite[::2], finite[1::2]
    if len(set(relevant[taught].tolist())) < 2:  # all are relevant, or none is: that share is all there is
        share = float(relevant[taught].mean()) if len(taught) else 0.0
        return np.full(len(shown), share), relevant[shown], shown.tolist()
    curve = RelevanceCurve.fit(values[taught], relevant[taught])
    return curve.probability(values[shown]), relevant[shown], shown.tolist()


def _reliability_series(own: Measured) -> Series:
    probabilities, relevant, _ = _fitted(own)
    bins = reliability(probabilities, relevant)
    return Series(
        ", ".join(own.names),
        tuple(part.predicted for part in bins),
        tuple(part.observed for part in bins),
    )


def _reliability_finding(own: Measured) -> str:
    bins = _reliability_series(own)
    if not bins.x:
        return ""
    gap = float(np.abs(np.asarray(bins.x, np.float64) - bins.y).max())
    return f"{bins.name}: what was said is {short(gap, 2)} away from what was seen at most."


def _answered_finding(own: Measured) -> str:
    line = _answered_series(own)
    if not line.x:
        return ""
    shares = [f"{100 * share:.0f} %" for share in np.asarray(line.x, np.float64)]
    right = [f"{100 * share:.0f} %" for share in line.y]
    return (
        f"{line.name}: where {shares[0]} of the questions are answered, {right[0]} of the answers are right; "
        f"where {shares[-1]} are, {right[-1]}."
    )


def _answered_series(own: Measured) -> Series:
    _, surprise, relevant = own.judged
    lines = [line for line in answered(surprise, relevant, np.linspace(0, 0.99, 34).tolist()) if line.share]
    return Series(
        ", ".join(own.names),
        tuple(line.share for line in lines),
        tuple(line.precision for line in lines),
    )
