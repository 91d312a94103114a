"""`surprise-rerank explain`: how an answer comes about, in the terminal, as JSON, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import config_option, takes_index
from surprise_rerank.eval.cli.arguments.search import SearchArguments
from surprise_rerank.eval.cli.options import report_option, takes
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.candidates import Hit
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.connectors.systems.built import BuiltSystem
    from surprise_rerank.eval.cli.surprise_rerank.search_results import SearchResult
    from surprise_rerank.explanation import RankingExplanation

_EXAMPLES = """\b
Examples:
  surprise-rerank explain "why do dogs bark" --index my-index
  surprise-rerank explain "why do dogs bark" --index my-index --report page.html
  surprise-rerank explain "why do dogs bark" --index my-index --system surprise
  surprise-rerank explain "why do dogs bark" --index my-index --top 100 --json
"""


@click.command(epilog=_EXAMPLES)
@takes(arguments=SearchArguments)
@report_option
@config_option
@takes_index
def explain(
    *,
    location: Location,
    out: Output,
    arguments: SearchArguments,
    reports: tuple[Path, ...],
    config: str | None,
) -> None:
    """Explain a ranking.

    It shows the steps and their times, the candidates' ranks before, and what each scorer gave to their
    scores. Every scorer has a histogram of its similarities to a sample of the documents, with the model's
    curve and the candidates' ranks. With a background there are other questions' best, too. Systems that read
    tokens show which tokens matched.
    """
    _check(reports, arguments)

    from surprise_rerank.connectors.systems.explaining import explain_ranking
    from surprise_rerank.eval.cli.output.explanation_report import explanation_report
    from surprise_rerank.eval.cli.surprise_rerank.search_results import search_results
    from surprise_rerank.eval.reports.terminal import print_report
    from surprise_rerank.eval.reports.writing import write_report

    for system, result in search_results(location, arguments, out, config):
        hits = arguments.hits(result.ranking)[: arguments.top]
        shown = range(arguments.offset, arguments.offset + len(hits))
        explanation = explain_ranking(
            system, result.encoder, result.query, result.ranking, shown, result.background
        )
        steps = system.steps(result.query, max(arguments.pool, arguments.top + arguments.offset))
        values = _as_json(system, result, steps, hits, explanation)
        report = explanation_report(values, hits, explanation, result.language)
        if out.as_json:
            out.json(values)
        else:
            print_report(report, details=False, quiet=out.quiet)
        for file in reports:
            write_report(report, file)
            out.note(f"{file} shows this")


def _as_json(
    system: BuiltSystem,
    result: SearchResult,
    steps: Sequence[str],
    hits: Sequence[Hit],
    explanation: RankingExplanation,
) -> dict[str, Any]:
    from surprise_rerank.candidates import verdict_json
    from surprise_rerank.eval.cli.surprise_rerank.found import FoundHit

    values = explanation.to_json()
    candidates = [
        {**FoundHit.of(hit).to_json(own["rank"]), **own}
        for hit, own in zip(hits, values["candidates"], strict=True)
    ]
    return {
        "query": result.query.text,
        "system": system.name,
        "seconds": result.total,
        "times": result.seconds,
        "steps": list(steps),
        "pool": len(result.ranking),
        "verdict": verdict_json(result.ranking.verdict),
        "notes": list(result.ranking.notes),
        **values,
        "candidates": candidates,
    }


def _check(reports: tuple[Path, ...], arguments: SearchArguments) -> None:
    """Check the files to write before a model is loaded."""
    from surprise_rerank.eval.reports.writing import check_files

    if reports and not arguments.is_single:
        raise DataError("--report shows one question; give one in quotes")
    check_files(reports)
