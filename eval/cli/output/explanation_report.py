"""How an answer comes about, as a report: tables and plots for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surprise_rerank.candidates import Hit
from surprise_rerank.diagnosis.explanation import RankingExplanation, ScoreDistribution, span
from surprise_rerank.eval.cli.output.streams import shortened
from surprise_rerank.eval.reports.report import Cell, Column, Mark, Plot, Report, Series, Table

_BARS = 10  # candidates whose scores are drawn


def explanation_report(
    told: Mapping[str, Any], hits: Sequence[Hit], explanation: RankingExplanation
) -> Report:
    """An explanation with everything in it.

    Args:
        told: what `--json` prints; its times, steps and notes are shown, and all of it can be unfolded.
        hits: the shown candidates, as many as the explanation shows.
        explanation: of their ranking.
    """
    times = ", ".join(f"{name} {1000 * span:.1f} ms" for name, span in told["times"].items())
    tables = [_candidates(hits, explanation), _shares(explanation)]
    if explanation.matches:
        tables.append(_tokens(explanation))
    plots = [_contributions(explanation)] if explanation.shown else []
    plots += [_histogram(own, explanation.places(own)) for own in explanation.distributions]
    totals = explanation.totals
    if totals is not None and len(totals.values):
        plots.append(_histogram(totals, explanation.total_places()))
    return Report(
        title=f"Why these documents: {explanation.question}",
        tables=tuple(tables),
        plots=tuple(plots),
        notes=(*told["steps"], f"{times}; {told['pool']} candidates", *told["notes"]),
        facts=told,
    )


def _candidates(hits: Sequence[Hit], explanation: RankingExplanation) -> Table:
    before = {name: explanation.before(name) for name in explanation.first_stage}
    judged = explanation.ranking.surprise is not None
    columns = (
        Column("rank"),
        *(Column(f"by {name}") for name in before),
        Column("score"),
        *([Column("surprise")] if judged else []),
        *(Column(name) for name in ("id", "text")),
    )
    rows = [
        (
            row + 1,
            *(places[row] for places in before.values()),
            hit.score,
            *([hit.surprise] if judged else []),
            hit.id,
            shortened(_text(hit)),
        )
        for row, hit in zip(explanation.shown, hits, strict=True)
    ]
    notes = ["score: what the system ranks by."]
    if before:
        notes.insert(0, "by ...: the place among all candidates by that scorer alone, before the re-ranking.")
    if judged and explanation.background is not None:
        notes.append(
            f"surprise: the share of {explanation.background.count} background questions whose best "
            "candidate has less for it."
        )
    return Table("candidates", "Candidates, before and after", columns, tuple(rows), notes=tuple(notes))


def _text(hit: Hit) -> str:
    """The passage with the title before it, which the first one of a document begins with."""
    title, text = hit.document.title if hit.document else "", hit.text or ""
    return text if text.startswith(title) else f"{title}: {text}"


def _shares(explanation: RankingExplanation) -> Table:
    columns = (
        *(Column(name) for name in ("rank", "id", "scorer")),
        *(Column(name) for name in ("similarity", "mean", "deviation")),
        *(Column("z", 2), Column("Phi"), Column("weight", 2), Column("gave")),
    )
    names = ("raw", "mean", "deviation", "z", "probability", "weight", "contribution")
    rows: list[tuple[Cell, ...]] = []
    for row in explanation.shown:
        for share in explanation.shares:
            own = share.to_json(row)
            rows.append((row + 1, explanation.ranking.ids[row], share.name, *(own[name] for name in names)))
    return Table(
        "scorers",
        "What each scorer said, and what that gave to the score",
        columns,
        tuple(rows),
        keys=3,
        notes=(
            "Mean and deviation are those of the similarities that the plots show; z is how many deviations "
            "the candidate's lies above the mean, Phi the share of a Gaussian below it.",
            "gave: what this adds to the score; weight times z in a fusion.",
            "Weight 0: a scorer that only made the candidates' pool.",
        ),
        detail=True,
    )


def _tokens(explanation: RankingExplanation) -> Table:
    columns = (
        *(Column(name) for name in ("rank", "id", "of the question", "of the document")),
        Column("similarity"),
        Column("gave"),
        Column("% of the score", 1),
    )
    rows = tuple(
        (
            row + 1,
            explanation.ranking.ids[row],
            match.token,
            match.match or "",
            match.similarity,
            match.contribution,
            100 * match.share,
        )
        for row in explanation.shown
        for match in explanation.matches.get(row, ())
    )
    return Table(
        "tokens",
        "Which token matched which",
        columns,
        rows,
        keys=3,
        notes=("Of each token of the question the nearest one in the document's best passage.",),
        detail=True,
    )


def _contributions(explanation: RankingExplanation) -> Plot:
    rows = list(explanation.shown)[:_BARS]
    labels = tuple(f"{row + 1} {explanation.ranking.ids[row]}" for row in rows)
    series = tuple(
        Series(share.name, labels, tuple(float(share.contribution[row]) for row in rows))
        for share in explanation.shares
        if share.weight
    )
    return Plot("bars", "What each scorer gave to the score", "candidate", "given to the score", series)


def _histogram(distribution: ScoreDistribution, places: Sequence[tuple[int, float]]) -> Plot:
    histogram = distribution.histogram()
    sample = Series(distribution.of, tuple(histogram.borders.tolist()), tuple(histogram.counts.tolist()))
    curves: tuple[Series, ...] = ()
    moments = "what lies left of the largest T from a rank on, of all, is the rank's surprise"
    if distribution.moments is not None:
        mean, deviation = float(distribution.moments.mean), float(distribution.moments.deviation)
        moments = f"mean {mean:.4f}, deviation {deviation:.4f}"
        width = float(histogram.borders[1] - histogram.borders[0])
        x, y = distribution.curve(*span(distribution), width)
        curves = (Series("Gaussian", tuple(x.tolist()), tuple(y.tolist())),) if distribution.has_curve else ()
    whose, what = "", "the candidates"
    if distribution.anchor is not None:
        whose, what = f" of {distribution.anchor}", "the candidate"
    return Plot(
        kind="histogram",
        title=f"{distribution.scorer}{whose}: {what} among {distribution.of}",
        x_label=distribution.scorer,
        y_label="how many",
        series=(sample,),
        note=f"Upright lines are candidates, with their ranks; {moments}.",
        curves=curves,
        marks=tuple(Mark(str(rank), place) for rank, place in places),
    )
