"""`surprise-rerank explain`: how an answer comes about, in the terminal, as JSON, and as a page."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import Place, takes_index
from surprise_rerank.eval.cli.arguments.searching import Asked, answers, takes_questions
from surprise_rerank.eval.cli.output.streams import Output, shortened

if TYPE_CHECKING:
    from surprise_rerank.candidates import Hit
    from surprise_rerank.connectors.systems.register import System
    from surprise_rerank.diagnosis.explanation import RankingExplanation, ScoreDistribution, ScorerShare
    from surprise_rerank.eval.cli.output.answers import Answer

# Documents whose tokens stand side by side in a terminal.
_COMPARED = 4
_TITLE, _WHOLE_TITLE = 40, 160  # characters: beside many columns, and in a pipe
_WIDTH = 64  # of a histogram, in characters
_NARROWEST = 24
_BESIDE = 12  # what stands before a histogram's lines, and room behind them

_EXAMPLES = """\b
Examples:
  surprise-rerank explain "why do dogs bark" --index my-index
  surprise-rerank explain "why do dogs bark" --index my-index --html page.html
  surprise-rerank explain "why do dogs bark" --index my-index --system surprise
  surprise-rerank explain "why do dogs bark" --index my-index --top 100 --json
"""


@click.command(epilog=_EXAMPLES)
@takes_questions
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a page, too, with plots and everything else: one file that needs no other.",
)
@takes_index
def explain(*, place: Place, out: Output, asked: Asked, page: Path | None) -> None:
    """Tell how an answer comes about.

    The steps and their times; where candidates stood before, and what each scorer gave to their scores; for
    every scorer the histogram of what it says of a sample of the documents, with the model's curve and the
    candidates' places; other questions' best, where there is a background; and which tokens matched.
    """
    if page is not None:
        _check_page(page, asked)
    for system, answer in answers(place, asked, out):
        steps = system.steps(answer.query, max(asked.pool, asked.top + asked.offset))
        hits = asked.hits(answer)[: asked.top]
        explanation = _explanation(system, answer, range(asked.offset, asked.offset + len(hits)))
        if out.as_json:
            out.json(_as_json(system, answer, steps, hits, explanation))
        else:
            _print(out, asked, answer, steps, hits, explanation)
        if page is not None:
            _write_page(page, out, _as_json(system, answer, steps, hits, explanation), hits, explanation)


def _explanation(system: System, answer: Answer, shown: Sequence[int]) -> RankingExplanation:
    from surprise_rerank.connectors.systems.explaining import explain_ranking

    return explain_ranking(system, answer.encoder, answer.query, answer.ranking, shown, answer.background)


def _as_json(
    system: System, answer: Answer, steps: Sequence[str], hits: Sequence[Hit], explanation: RankingExplanation
) -> dict[str, Any]:
    from surprise_rerank.eval.cli.output.answers import hit_json

    told = explanation.to_json()
    candidates = [
        {**hit_json(hit, own["rank"]), **own} for hit, own in zip(hits, told["candidates"], strict=True)
    ]
    return {
        "query": answer.query.text,
        "system": system.name,
        "seconds": answer.total,
        "times": answer.seconds,
        "steps": list(steps),
        "pool": len(answer.ranking),
        "notes": list(answer.ranking.notes),
        **told,
        "candidates": candidates,
    }


def _print(
    out: Output,
    asked: Asked,
    answer: Answer,
    steps: Sequence[str],
    hits: Sequence[Hit],
    explanation: RankingExplanation,
) -> None:
    if not asked.is_single:
        out.heading(answer.query.text)
    for number, step in enumerate(steps, start=1):
        out.line(f"{number}. {step}")
    spans = ", ".join(f"{name} {1000 * span:.1f} ms" for name, span in answer.seconds.items())
    out.line(f"{spans}; {len(answer.ranking)} candidates")
    _print_candidates(out, answer, hits, explanation)
    _print_shares(out, explanation)
    for distribution in explanation.distributions:
        _print_histogram(out, distribution, explanation.places(distribution))
    if explanation.totals is not None and len(explanation.totals.values):
        _print_histogram(out, explanation.totals, explanation.total_places())
    _print_tokens(out, hits, explanation)


def _print_candidates(
    out: Output, answer: Answer, hits: Sequence[Hit], explanation: RankingExplanation
) -> None:
    """Score and parts, and where each candidate stood before."""
    parts, judged = list(answer.ranking.parts), answer.ranking.surprise is not None
    before = {name: explanation.before(name) for name in explanation.first_stage}
    columns = (
        *("#rank", *(f"#by {name}" for name in before), "#score", *(["#surprise"] if judged else [])),
        *(f"#{name}" for name in parts if name != "surprise" or not judged),
        *("id", "title"),
    )
    length = _TITLE if out.is_terminal else _WHOLE_TITLE
    rows = [
        (
            str(row + 1),
            *(_shown(places[row], "d") for places in before.values()),
            f"{hit.score:.4f}",
            *([_shown(hit.surprise)] if judged else []),
            *(_shown(hit.parts[name]) for name in parts if name != "surprise" or not judged),
            hit.id,
            shortened(hit.document.title if hit.document else "", length),
        )
        for row, hit in zip(explanation.shown, hits, strict=True)
    ]
    out.table(columns, rows, wide="title", head=True)


def _print_shares(out: Output, explanation: RankingExplanation) -> None:
    """What each scorer said and gave; nothing where the score is what the scorer said."""
    told = [share for share in explanation.shares if share.weight]
    if all((share.contribution == share.raw).all() for share in told):
        return
    out.line("")
    out.line("what the scorers said, and what that gave to the score")
    columns = [f"#{name}" for share in told for name, _ in _cells(share, 0)]
    rows = [
        (str(row + 1), *(cell for share in told for _, cell in _cells(share, row)))
        for row in explanation.shown
    ]
    out.table(("#rank", *columns), rows, wide="", head=True)


def _cells(share: ScorerShare, row: int) -> list[tuple[str, str]]:
    """Headings and cells of one scorer, with mean and deviation where each document has its own."""
    given = ("gave", f"{share.contribution[row]:+.4f}")
    if share.moments.mean.ndim == 0:
        return [(share.name, _shown(float(share.raw[row]))), given]
    own = share.to_json(row)
    return [
        ("similarity", _shown(own["raw"])),
        *((name, _shown(own[name])) for name in ("mean", "deviation")),
        given,
    ]


def _print_histogram(
    out: Output, distribution: ScoreDistribution, places: Sequence[tuple[int, float]]
) -> None:
    from surprise_rerank.eval.cli.output.histograms import drawn

    anchor = "" if distribution.anchor is None else f" of {distribution.anchor}"
    model = distribution.moments
    moments = "" if model is None else f": mean {model.mean:.4f}, deviation {model.deviation:.4f}"
    room = shutil.get_terminal_size().columns - _BESIDE if out.is_terminal else _WIDTH
    out.line("")
    out.line(f"{distribution.scorer}{anchor}, {distribution.of}{moments}")
    width = min(max(room, _NARROWEST), _WIDTH)
    out.drawing(drawn(distribution, places, width, sys.stdout.encoding))


def _print_tokens(out: Output, hits: Sequence[Hit], explanation: RankingExplanation) -> None:
    """The question's tokens below each other; beside them, what matched in the best documents."""
    compared = [
        (row, hit) for row, hit in zip(explanation.shown, hits, strict=True) if row in explanation.matches
    ]
    compared = compared[:_COMPARED]
    if not compared:
        return
    out.line("")
    out.line("tokens: the nearest in each document, their similarity, and their share of the score")
    columns = [f"{row + 1} {hit.id}" for row, hit in compared]
    matches = [explanation.matches[row] for row, _ in compared]
    rows = [
        (
            line[0].token,
            *("-" if m.match is None else f"{m.match} {m.similarity:.2f} {m.share:.0%}" for m in line),
        )
        for line in zip(*matches, strict=True)
    ]
    out.table(("token", *columns), rows, wide=columns[-1], head=True)


def _shown(value: float | None, form: str = ".4f") -> str:
    return "-" if value is None or math.isnan(value) else format(value, form)


def _check_page(page: Path, asked: Asked) -> None:
    """Tell before a model is loaded what is wrong with a page.

    Raises:
        DataError: if there are several questions, or the name does not end in .html.
        SurpriseRerankError: as `check_files`.
    """
    from surprise_rerank.eval.reports.writing import check_files

    if not asked.is_single:
        raise DataError("--html shows one question; give one in quotes")
    if page.suffix.lower() != ".html":
        raise DataError(f"--html {page}: the page's name must end in .html")
    check_files([page])


def _write_page(
    page: Path, out: Output, told: dict[str, Any], hits: Sequence[Hit], explanation: RankingExplanation
) -> None:
    from surprise_rerank.eval.cli.output.explanation_report import explanation_report
    from surprise_rerank.eval.reports.writing import write_report

    write_report(explanation_report(told, hits, explanation), page)
    out.note(f"{page} shows this with plots")
