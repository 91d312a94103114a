"""The explanation of a ranking as a report, which the terminal and a page draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from surprise_rerank.candidates import Hit, verdict_json
from surprise_rerank.connectors.highlights import excerpts
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.documents import without_title
from surprise_rerank.eval.cli.output.console import hit_json, shortened, shown_surprise
from surprise_rerank.eval.reports.report import Column, Mark, Plot, Report, Series, Table
from surprise_rerank.explanation import RankingExplanation, ScoreDistribution, ScorerShare, span
from surprise_rerank.similarities.token_matches import TokenMatch
from surprise_rerank.surprise.score import probability

_BARS = 10  # candidates whose scores are drawn
_COMPARED = 4  # documents whose tokens are side by side
_HEADING = 90  # characters of a text in place of a title
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_FEEDBACK = (
    "words, vectors: what being like the best of a first ranking adds, by their words and by their vectors."
)
_WORDS_COMPARED, _WORDS = 2, 5  # of the tokens that were merged into one vector


def explanation_values(
    system: str,
    steps: Sequence[str],
    seconds: Mapping[str, float],
    hits: Sequence[Hit],
    explanation: RankingExplanation,
) -> dict[str, Any]:
    """An explanation as JSON values.

    Args:
        system: that ranked.
        steps: what it did, in words.
        seconds: step -> how long it took.
        hits: the shown candidates.
        explanation: of their ranking.
    """
    values, ranking = explanation.to_json(), explanation.ranking
    candidates = [
        {**hit_json(hit, own["rank"]), **own} for hit, own in zip(hits, values["candidates"], strict=True)
    ]
    return {
        "query": explanation.question,
        "system": system,
        "seconds": sum(seconds.values()),
        "times": dict(seconds),
        "steps": list(steps),
        "pool": len(ranking),
        "verdict": verdict_json(ranking.verdict),
        "notes": list(ranking.notes),
        **values,
        "candidates": candidates,
    }


def explanation_report(
    values: Mapping[str, Any],
    hits: Sequence[Hit],
    explanation: RankingExplanation,
    language: str = "english",
) -> Report:
    """An explanation with everything in it, for the terminal and for a page.

    Args:
        values: what `--json` prints; a page has all of it.
        hits: the shown candidates, as many as the explanation shows.
        explanation: of their ranking.
        language: of the documents, by which the question's words are found in them.
    """
    tables = [_candidates(hits, explanation, language)]
    if explanation.shares:
        tables.append(_scorers(explanation))
    if any(explanation.matches.values()):
        tables += [_best_matches(explanation), _tokens(explanation)]
    tables.append(_steps(values))
    plots = [_contributions(hits, explanation)] if explanation.shown and explanation.shares else []
    plots += [_histogram(own, explanation.places(own)) for own in explanation.distributions]
    totals = explanation.totals
    if totals is not None and len(totals.values):
        plots.append(_histogram(totals, explanation.total_places()))
    return Report(
        title=f"Why these documents: {explanation.question}",
        tables=tuple(tables),
        plots=tuple(plots),
        notes=tuple(values["notes"]),
        facts=values,
        verdict=" ".join(_verdict(hits, explanation)),
    )


def _verdict(hits: Sequence[Hit], explanation: RankingExplanation) -> Iterator[str]:
    """Whether there is an answer, what comes first, and what the re-ranking changed, in sentences."""
    verdict = explanation.ranking.verdict
    if verdict is not None:
        yield f"{verdict.status.capitalize()}: {verdict.reason.rstrip('.')}."
    if not hits:
        yield "No document is shown."
        return
    top = explanation.shown[0]
    places = [
        f"{ordinal(place)} by {name}" if place else f"not found by {name}"
        for name, ranks in _before(explanation).items()
        for place in (ranks[top],)
    ]
    before = f", {' and '.join(places)} before" if places else ""
    yield f"{ordinal(top + 1).capitalize()} is {shortened(_heading(hits[0]), _HEADING)!r}{before}."


def ordinal(number: int) -> str:
    """A place in words, or with its ending.

    >>> [ordinal(n) for n in (1, 2, 3, 11, 21, 112)]
    ['first', 'second', 'third', '11th', '21st', '112th']
    """
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _before(explanation: RankingExplanation) -> dict[str, list[int | None]]:
    return {name: explanation.before(name) for name in explanation.first_stage}


def _heading(hit: Hit) -> str:
    """The title; else the beginning of the text, or the id."""
    title = hit.title
    return title or shortened(hit.text, _HEADING) or hit.id


def _steps(values: Mapping[str, Any]) -> Table:
    times = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in values["times"].items())
    return Table(
        "steps",
        "What was done",
        (Column("step"), Column("what")),
        tuple(enumerate(values["steps"], start=1)),
        notes=(f"{times}; {values['pool']} candidates",),
    )


def _candidates(hits: Sequence[Hit], explanation: RankingExplanation, language: str) -> Table:
    before = _before(explanation)
    judged = explanation.ranking.surprise is not None
    starts = (hit.passage.start if hit.passage else 0 for hit in hits)
    bodies = [without_title(hit.text, hit.title, start) for hit, start in zip(hits, starts, strict=True)]
    found = excerpts(explanation.question, bodies, language)
    columns = (
        Column("rank"),
        *(Column(f"by {name}") for name in before),
        *([Column("surprise")] if judged else []),
        Column("score"),
        *(Column(name) for name in ("id", "title", "best sentence")),
    )
    rows = [
        (
            row + 1,
            *(places[row] for places in before.values()),
            *([None if hit.surprise is None else shown_surprise(hit.surprise)] if judged else []),
            hit.score,
            hit.id,
            shortened(hit.title),
            excerpt.text,
        )
        for row, hit, excerpt in zip(explanation.shown, hits, found, strict=True)
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


def _scorers(explanation: RankingExplanation) -> Table:
    """A row for each candidate: the similarities of every scorer, and what they gave to the score."""
    names, cells = [], []
    for share in explanation.shares:
        for name, values in _columns(share):
            names.append(name)
            cells.append(values[list(explanation.shown)].tolist())
    ids = explanation.ranking.ids
    rows = [(row + 1, *(own[i] for own in cells), ids[row]) for i, row in enumerate(explanation.shown)]
    weights = ", ".join(f"{share.name} {share.weight:.4g}" for share in explanation.shares)
    notes = ["z: how many deviations a similarity lies above the mean of the sample in the histograms."]
    if any(name.endswith(" gave") for name in names):
        notes.append(f"gave: what was added to the score, weight times z. Weights: {weights}.")
    if {"words", "vectors"} & set(names):
        notes.append(_FEEDBACK)
    return Table(
        "scorers",
        "Similarities by each scorer, and what they gave to the score",
        tuple(Column(name) for name in ("rank", *names, "id")),
        tuple(rows),
        notes=tuple(notes),
    )


def _columns(share: ScorerShare) -> list[tuple[str, Float64Array]]:
    """Headings and values of one scorer, for all candidates; what is equal to another column is left out."""
    name, z = share.name, share.z
    if share.moments.mean.ndim:  # each document has its own
        moments = (("mean", share.moments.mean), ("deviation", share.moments.deviation))
        own = (*moments, (f"{name} z", z), ("Phi", probability(z)), (f"{name} gave", share.contribution))
        return [("similarity", share.raw), *own]
    found = [(name, share.raw)]
    others = [(f"{name} z", z), *([(f"{name} gave", share.contribution)] if share.weight else [])]
    for heading, values in others:
        if not any(np.allclose(values, own, equal_nan=True) for _, own in found):
            found.append((heading, values))
    return found


def _best_matches(explanation: RankingExplanation) -> Table:
    """The question's tokens below each other; beside them, what matched in the best documents."""
    rows = [row for row in explanation.shown if row in explanation.matches][:_COMPARED]
    cells = [
        (
            matches[0].token,
            *("" if m.match is None else _in_short(m) for m in matches),
        )
        for matches in zip(*(explanation.matches[row] for row in rows), strict=True)
    ]
    columns = (Column("token"), *(Column(f"{row + 1} {explanation.ranking.ids[row]}") for row in rows))
    return Table(
        "best-matches",
        "The nearest token in each of the best documents",
        columns,
        tuple(cells),
        notes=(
            "Behind a token: its similarity to the question's token, and its share of the DynaMax score.",
            *_of_merged(explanation),
        ),
    )


def _in_short(match: TokenMatch) -> str:
    return f"{match.matched(_WORDS_COMPARED)} {match.similarity:.2f} {match.share:.0%}"


def _of_merged(explanation: RankingExplanation) -> list[str]:
    found = (match for matches in explanation.matches.values() for match in matches)
    if all(len(match.members) < 2 for match in found):
        return []
    return ["Words with a dot between them were merged into one vector."]


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
            match.matched(_WORDS),
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
        notes=(
            "Of each token of the question the nearest one in the document's best passage.",
            *_of_merged(explanation),
        ),
        detail=True,
    )


def _contributions(hits: Sequence[Hit], explanation: RankingExplanation) -> Plot:
    rows = list(explanation.shown)[:_BARS]
    labels = tuple(f"{row + 1}. {_heading(hit)}" for row, hit in zip(rows, hits, strict=False))
    series = tuple(
        Series(share.name, labels, tuple(float(share.contribution[row]) for row in rows))
        for share in explanation.shares
        if share.weight
    )
    first = {own.name: own.y[0] for own in series}
    most = max(first, key=first.__getitem__, default="")
    finding = ""
    if len(first) > 1:
        total = sum(first.values())
        finding = f"Of the score of rank {rows[0] + 1}, {total:.2f}, {most} gave most: {first[most]:.2f}."
    title, label = "What each scorer gave to the score", "given to the score"
    return Plot("bars", title, "candidate", label, series, finding=finding)


def _histogram(distribution: ScoreDistribution, places: Sequence[tuple[int, float]]) -> Plot:
    histogram = distribution.histogram()
    sample = Series(distribution.of, tuple(histogram.borders.tolist()), tuple(histogram.counts.tolist()))
    curves: tuple[Series, ...] = ()
    moments = "surprise is the share of the questions left of the largest T from the rank on"
    if distribution.moments is not None:
        mean, deviation = float(distribution.moments.mean), float(distribution.moments.deviation)
        moments = f"mean {mean:.4f}, deviation {deviation:.4f}"
        width = float(histogram.borders[1] - histogram.borders[0])
        x, y = distribution.curve(*span(distribution), width)
        curves = (Series("Gaussian", tuple(x.tolist()), tuple(y.tolist())),) if distribution.has_curve else ()
    finding = ""
    if places and len(distribution.values):
        rank, place = places[0]
        share = float((distribution.values < place).mean())
        finding = f"Rank {rank} lies above {100 * share:.0f} % of {distribution.of}."
    whose, what = "", "the candidates"
    if distribution.anchor is not None:
        whose, what = f" of {distribution.anchor}", "the candidate"
    return Plot(
        kind="histogram",
        title=f"{distribution.scorer}{whose}: {what} among {distribution.of}",
        x_label=distribution.scorer,
        y_label="how many",
        series=(sample,),
        note=f"Marks are the ranks of candidates; {moments}.",
        curves=curves,
        marks=tuple(Mark(str(rank), place) for rank, place in places),
        finding=finding,
    )
