"""`surprise-rerank search`: the best documents for a question, and how they came about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.documents import stripped_question
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.options import SystemChoice, config_option, model_option, takes_index
from surprise_rerank.eval.cli.output.console import Output
from surprise_rerank.eval.cli.questions import STANDARD_INPUT, read_questions
from surprise_rerank.eval.cli.settings import Given, set_option

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.eval.cli.surprise_rerank.search_results import Asked

_HERE = "-"  # where an explanation goes that has no file
_EXAMPLES = """\b
Examples:
  surprise-rerank search "why do dogs bark" --index my-index
  surprise-rerank search "why do dogs bark" --index my-index --system cosine
  surprise-rerank search "why do dogs bark" --index my-index --explain
  surprise-rerank search "why do dogs bark" --index my-index --explain page.html
  surprise-rerank search wings --index my-index --top 3 \\
      --filter '{"must": [{"key": "metadata.year", "range": {"gte": 1960}}]}'
  surprise-rerank search wings --index my-index --set group_by=metadata.author
  surprise-rerank search - --index my-index --json < questions.txt
  surprise-rerank search --index http://localhost:6333/papers -- "-1 as an index"
"""

_share = click.FloatRange(0, 1)


def _kinds() -> tuple[type, ...]:
    from surprise_rerank.eval.cli.surprise_rerank.search_results import SearchSettings

    return (SearchSettings,)


@click.command(epilog=_EXAMPLES)
@click.argument("question", required=False)
@click.option(
    "--system",
    type=SystemChoice(),
    help="What ranks.  [default: the best that the index stores enough for]",
)
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How many are shown.")
@click.option(
    "--pool",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="How many candidates are retrieved and re-ranked.",
)
@click.option(
    "--filter",
    "condition",
    metavar="JSON",
    help="Only documents that Qdrant's filter lets through; their metadata is at metadata.KEY.",
)
@click.option("--tenant", metavar="NAME", help="Only this tenant's documents, of an index with tenants.")
@click.option(
    "--min-surprise",
    type=_share,
    help="Only documents that surprise more than this share of other questions: .95 lets through one in "
    "twenty questions that have nothing to do with the documents.",
)
@click.option(
    "--diversity",
    type=_share,
    help="Different documents first: 0 orders by relevance alone, 1 by difference alone.",
)
@click.option(
    "--collapse", type=_share, help="Fold documents with this cosine to a better one into it, such as .95."
)
@click.option(
    "--explain",
    "explained",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_HERE,
    help="Explain the ranking: here, or in a file (.html, a page with pictures; .json, .md or .tex).",
)
@set_option(_kinds)
@model_option
@config_option
@takes_index
def search(
    *,
    location: Location,
    out: Output,
    question: str | None,
    system: str | None,
    top: int,
    pool: int,
    condition: str | None,
    tenant: str | None,
    min_surprise: float | None,
    diversity: float | None,
    collapse: float | None,
    explained: str | None,
    settings: Given,
    model: str | None,
    config: str | None,
) -> None:
    """Find the best documents for a QUESTION; `-` reads questions from the standard input, one a line.

    Without --system, documents are ranked by `auto` where the index stores token vectors or words:
    candidates by cosine and BM25, re-scored by both and by DynaMax on one scale, with feedback.

    A line below them says whether they answer the question, and why. Documents have their surprise, the
    share of other questions whose best document has less, or a score where the index has no background,
    and the sentence that has most of the question's words. In a pipe there is a row for each.

    With --explain: the steps and their times, the candidates' ranks before, what each scorer gave to their
    scores, histograms of its similarities to a sample of the documents, and which tokens matched.
    """
    if question is None and explained not in (None, _HERE):
        question, explained = explained, _HERE  # --explain took the question for its file
    if question is None:
        raise DataError("what is the question? give it in quotes, or - to read questions, one a line")
    is_single = question != STANDARD_INPUT
    questions = [stripped_question(question)] if is_single else read_questions(STANDARD_INPUT)
    files = () if explained in (None, _HERE) else (Path(str(explained)),)
    if files:
        _check(files, is_single=is_single)

    from surprise_rerank.eval.cli.surprise_rerank.search_results import Asked, SearchSettings

    asked = Asked(
        questions=questions,
        is_single=is_single,
        system=system,
        top=top,
        pool=pool,
        condition=condition,
        tenant=tenant,
        min_surprise=min_surprise,
        diversity=diversity,
        collapse=collapse,
        model=model,
        config=config,
        settings=settings.of(SearchSettings),
    )
    location = replace(location, prefer_grpc=asked.settings.grpc)
    if explained is None:
        _show(location, asked, out)
    elif asked.settings.group_by is not None:
        raise click.UsageError("--explain goes without --set group_by: it explains one ranking")
    else:
        _explain(location, asked, files, out)


def _check(files: tuple[Path, ...], *, is_single: bool) -> None:
    """Check the file to write before a model is loaded."""
    from surprise_rerank.eval.reports.writing import check_files

    if not is_single:
        raise DataError(f"--explain {files[0]} explains one question; give one in quotes")
    check_files(files)


def _show(location: Location, asked: Asked, out: Output) -> None:
    from surprise_rerank.eval.cli.surprise_rerank.search_results import search_results
    from surprise_rerank.eval.cli.surprise_rerank.showing import Group, Shown
    from surprise_rerank.rerank.grouping import group_path, grouped

    by = asked.settings.group_by
    path = None if by is None else group_path(by)
    shown = Shown(out, asked)
    for system, result in search_results(location, asked, out):
        hits = asked.hits(result.ranking)
        groups: list[Group] = [(None, hits[: asked.top])]
        if path is not None:
            groups = [*grouped(hits, path, asked.top, asked.settings.group_size)]
            if len(groups) < asked.top:
                many = f"{len(groups)} groups among {len(result.ranking)} candidates"
                out.note(f"{many}; a larger --pool looks for more")
        shown.show(system.name, result, groups)


def _explain(location: Location, asked: Asked, files: tuple[Path, ...], out: Output) -> None:
    from surprise_rerank.connectors.systems.explaining import explain_ranking
    from surprise_rerank.eval.cli.output.explanation_report import explanation_report, explanation_values
    from surprise_rerank.eval.cli.surprise_rerank.search_results import search_results
    from surprise_rerank.eval.reports.terminal import print_report
    from surprise_rerank.eval.reports.writing import write_report

    for system, result in search_results(location, asked, out):
        hits = asked.hits(result.ranking)[: asked.top]
        offset = asked.settings.offset
        explanation = explain_ranking(
            system,
            result.encoder,
            result.query,
            result.ranking,
            range(offset, offset + len(hits)),
            result.background,
        )
        steps = system.steps(result.query, asked.depth)
        values = explanation_values(system.name, steps, result.seconds, hits, explanation)
        report = explanation_report(values, hits, explanation, result.language)
        if out.as_json:
            out.json(values)
        else:
            print_report(report, details=False, quiet=out.quiet)
        for file in files:
            write_report(report, file)
            out.note(f"{file} shows this")
