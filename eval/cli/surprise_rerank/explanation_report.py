"""The explanation of a ranking as a report, which the terminal and a page draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from surprise_rerank._candidates import Hit, verdict_json
from surprise_rerank._explanation import RankingExplanation, ScoreDistribution, ScorerShare, span
from surprise_rerank.connectors.qdrant._highlights import excerpts
from surprise_rerank.connectors.systems._explaining import explain_ranking
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.cli.console import body, counted, shortened, shown_percentile
from surprise_rerank.eval.cli.surprise_rerank.search_results import SearchCommand, SearchResult
from surprise_rerank.eval.reports.report import Cell, Column, Mark, Plot, Report, Series, Table
from surprise_rerank.surprise.score import probability

_BARS = 10  # candidates whose scores are drawn
_COMPARED = 4  # documents whose tokens are side by side
_HEADING = 90  # characters of a text in place of a title
_WORDS = 2  # of the tokens that were merged into one vector
# Scorer -> its name for readers, and what it looks at.
NAMES = {
    "bm25": ("BM25", "the question's words in the document, rare ones counting more"),
    "cosine": ("cosine", "how near the meaning of the document as a whole is to the question's"),
    "dynamax": ("DynaMax", "how near each token of the question has one in the document"),
    "feedback": ("feedback", "how near it is to what the best documents of a first ranking have in common"),
}


def explain(result: SearchResult, command: SearchCommand) -> tuple[dict[str, Any], Report]:
    """The shown part of a ranking, explained: as JSON values, and for the terminal and a page."""
    answer, offset = result.answer, command.settings.offset
    hits = list(answer.shown)
    # What is shown first, in its order, and then the others of the pool.
    places = {name: place for place, name in enumerate(answer.ranking.line_ids)}
    first = [places[name] for name in answer.shown.line_ids]
    others = [place for place in places.values() if place not in set(first)]
    ordered = answer.ranking.take([*others[:offset], *first, *others[offset:]]).with_scores_of(answer.pool)
    shown_rows = range(offset, offset + len(hits))
    explanation = explain_ranking(
        result.system, result.encoder, answer.query, answer.pool, ordered, shown_rows, answer.background
    )
    ranking, explained = explanation.ranking, explanation.to_json()
    candidates = [{**hit.to_json(), **more} for hit, more in zip(hits, explained["candidates"], strict=True)]
    values = {
        "query": explanation.question,
        "system": result.system.name,
        "seconds": sum(answer.seconds.values()),
        "times": answer.seconds,
        "steps": list(result.system.steps(answer.query, command.pool)),
        "pool": len(ranking),
        "verdict": verdict_json(ranking.verdict),
        "notes": list(ranking.notes),
        **explained,
        "candidates": candidates,
    }
    return values, _report(values, hits, explanation, result.language)


def _report(
    values: Mapping[str, Any], hits: Sequence[Hit], explanation: RankingExplanation, language: str
) -> Report:
    tables = [_candidates(hits, explanation, language)]
    if explanation.shares:
        tables.append(_scorers(explanation))
    if any(explanation.matches.values()):
        tables.append(_best_matches(explanation))
    times = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in values["times"].items())
    steps, columns = tuple(enumerate(values["steps"], start=1)), (Column("step"), Column("what"))
    pool = f"{times}; {counted(values['pool'], 'candidate')}"
    tables.append(Table("steps", "What was done", columns, steps, notes=(pool,)))
    plots = [_contributions(hits, explanation)] if explanation.shown and explanation.shares else []
    plots += [_histogram(each, explanation.places(each)) for each in explanation.distributions]
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
        f"{place} by {_name(name)} alone" if place else f"not found by {_name(name)} alone"
        for name in explanation.first_stage
        for place in (explanation.before(name)[top],)
    ]
    alone = f" ({', '.join(places)})" if places else ""
    yield f"Rank {top + 1} is {shortened(_heading(hits[0]), _HEADING)!r}{alone}."


def _name(scorer: str) -> str:
    return NAMES.get(scorer, (scorer, ""))[0]


def _heading(hit: Hit) -> str:
    """The title; else the beginning of the text, or the id."""
    return hit.title or shortened(hit.text, _HEADING) or hit.id


def _candidates(hits: Sequence[Hit], explanation: RankingExplanation, language: str) -> Table:
    before = {name: explanation.before(name) for name in explanation.first_stage}
    judged = explanation.ranking.percentile is not None
    texts = excerpts(explanation.question, [*map(body, hits)], language)
    values: dict[str, list[Cell]] = {"rank": [row + 1 for row in explanation.shown]}
    values |= {f"by {_name(name)}": [of[row] for row in explanation.shown] for name, of in before.items()}
    if judged:
        percentiles = [hit.percentile for hit in hits]
        values["percentile"] = [None if p is None else shown_percentile(p) for p in percentiles]
    values |= {"score": [hit.score for hit in hits], "id": [hit.id for hit in hits]}
    values["title"] = [shortened(hit.title) for hit in hits]
    if any(hit.place for hit in hits):
        values["place"] = [str(hit.place or "") for hit in hits]
    values["best sentence"] = [excerpt.text for excerpt in texts]
    notes = ["score: what the system ranks by."]
    if before:
        notes.insert(0, "by ...: the place among all candidates by that scorer alone, before the re-ranking.")
    if judged and explanation.background is not None:
        notes.append(
            f"percentile: the share of {explanation.background.count} background questions whose best "
            "candidate has less for it."
        )
    columns, rows = tuple(map(Column, values)), tuple(zip(*values.values(), strict=True))
    return Table("candidates", "Candidates, before and after", columns, rows, notes=tuple(notes))


def _scorers(explanation: RankingExplanation) -> Table:
    """A row for each candidate: the similarities of every scorer, and what they gave to the score."""
    columns = [column for share in explanation.shares for column in _columns(share)]
    rows: list[tuple[Cell, ...]] = [
        (row + 1, *(float(values[row]) for _, values in columns), explanation.ranking.ids[row])
        for row in explanation.shown
    ]
    names = [share.name for share in explanation.shares]
    notes = [f"{_name(name)}: {NAMES[name][1]}." for name in names if name in NAMES]
    if any(heading.endswith(" gave") for heading, _ in columns):
        weights = ", ".join(f"{_name(share.name)} {share.weight:.4g}" for share in explanation.shares)
        notes.append(
            "gave: what was added to the score: the weight times the deviations that a similarity lies above "
            f"the mean of other documents. Weights: {weights}."
        )
    headings = ("rank", *(heading for heading, _ in columns), "id")
    return Table(
        "scorers",
        "Similarities by each scorer, and what they gave to the score",
        tuple(map(Column, headings)),
        tuple(rows),
        notes=tuple(notes),
    )


def _columns(share: ScorerShare) -> list[tuple[str, Float64Array]]:
    """Headings and values of one scorer, for all candidates; what is added as it is has one column."""
    name = _name(share.name)
    if share.moments.mean.ndim:  # each document has its own
        moments = [("mean", share.moments.mean), ("deviation", share.moments.deviation)]
        return [
            ("similarity", share.raw),
            *moments,
            ("Phi", probability(share.z)),
            (f"{name} gave", share.contribution),
        ]
    if not share.weight or np.allclose(share.contribution, share.raw, equal_nan=True):
        return [(name, share.raw)]
    return [(name, share.raw), (f"{name} gave", share.contribution)]


def _best_matches(explanation: RankingExplanation) -> Table:
    """The question's tokens below each other; beside them, what matched in the best documents."""
    rows = [row for row in explanation.shown if row in explanation.matches][:_COMPARED]
    cells: list[tuple[Cell, ...]] = []
    for matches in zip(*(explanation.matches[row] for row in rows), strict=True):
        texts = [
            "" if m.match is None else f"{m.matched(_WORDS)} {m.similarity:.2f} {m.share:.0%}"
            for m in matches
        ]
        cells.append((matches[0].token, *texts))
    merged = any(len(match.members) > 1 for row in rows for match in explanation.matches[row])
    return Table(
        "best-matches",
        "The nearest token in each of the best documents",
        (Column("token"), *(Column(f"{row + 1} {explanation.ranking.ids[row]}") for row in rows)),
        tuple(cells),
        notes=(
            "Behind a token: its similarity to the question's token, and its share of the DynaMax score.",
            *(["Words with a dot between them were merged into one vector."] if merged else []),
        ),
    )


def _contributions(hits: Sequence[Hit], explanation: RankingExplanation) -> Plot:
    rows = list(explanation.shown)[:_BARS]
    labels = tuple(f"{row + 1}. {_heading(hit)}" for row, hit in zip(rows, hits, strict=False))
    series = tuple(
        Series(_name(share.name), labels, tuple(float(share.contribution[row]) for row in rows))
        for share in explanation.shares
        if share.weight
    )
    first = {line.name: line.y[0] for line in series}
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
    moments = "percentile is the share of the questions left of the largest T from the rank on"
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
        title=f"{_name(distribution.scorer)}{whose}: {what} among {distribution.of}",
        x_label=_name(distribution.scorer),
        y_label="how many",
        series=(sample,),
        note=f"Marks are the ranks of candidates; {moments}.",
        curves=curves,
        marks=tuple(Mark(str(rank), place) for rank, place in places),
        finding=finding,
    )
