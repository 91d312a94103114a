"""`surprise-rerank search`: the best documents for a question, and how they came about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank._documents import stripped_question
from surprise_rerank._errors import DataError
from surprise_rerank.eval.cli.console import Output
from surprise_rerank.eval.cli.options import SystemChoice, config_option, model_option, present, takes_index
from surprise_rerank.eval.cli.settings import SetValues, set_option
from surprise_rerank.eval.line_files import STANDARD_INPUT, read_questions

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant._location import Location

_HERE = "-"  # where an explanation goes that has no file
_EXAMPLES = """\b
Examples:
  surprise-rerank search "why do dogs bark" --index my-index
  surprise-rerank search "why do dogs bark" --index my-index --explain page.html
  surprise-rerank search wings --index my-index --top 3 \\
      --filter '{"must": [{"key": "metadata.year", "range": {"gte": 1960}}]}'
  surprise-rerank search wings --index my-index --set group_by=metadata.author
  surprise-rerank search - --index my-index --json < questions.txt
  surprise-rerank search --index http://localhost:6333/papers -- "-1 as an index"
"""

_share = click.FloatRange(0, 1)


def _kinds() -> tuple[type, ...]:
    from surprise_rerank.eval.cli.surprise_rerank.search_results import SetSettings

    return (SetSettings,)


@click.command(epilog=_EXAMPLES)
@click.argument("question", required=False)
@click.option(
    "--system", type=SystemChoice(), help="What ranks.  [default: the best that the index stores enough for]"
)
@click.option("--top", type=click.IntRange(1), default=10, help="How many are shown.")
@click.option(
    "--pool", type=click.IntRange(1), default=100, help="How many candidates are retrieved and re-ranked."
)
@click.option(
    "--filter",
    "condition",
    metavar="JSON",
    help="Only documents that Qdrant's filter lets through; their metadata is at metadata.KEY.",
)
@click.option(
    "--tenant",
    metavar="NAME",
    help="Only this tenant's documents, of an index with tenants; '*' for those of all.",
)
@click.option(
    "--min-percentile",
    type=_share,
    help="Only documents that are above the best ones of this share of other questions: .95 lets through one "
    "in twenty questions that have nothing to do with the documents (of a neighbouring subject, more pass).",
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
    "--passages",
    is_flag=True,
    help="Find passages, several of a document where it has them, in place of documents.",
)
@click.option(
    "--explain",
    "explained",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_HERE,
    help="Explain the ranking: here, or in a file alone (.html, a page with pictures; or .json).",
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
    explained: str | None,
    settings: SetValues,
    **options: Any,
) -> None:
    """Find the best documents for a QUESTION; `-` reads questions from the standard input, one a line.

    Without --system, documents are ranked by `auto` where the index stores token vectors or words:
    candidates by cosine and BM25, re-scored by both and by DynaMax on one scale, with feedback.

    A line below them says whether they answer the question, and why. Documents have their percentile, or a
    score where the index has no background, and their best sentence. In a pipe there is a row for each.

    With --explain: the steps and their times, the ranks before, what each scorer gave, which tokens matched.
    """
    if question is None and explained not in (None, _HERE):
        question, explained = explained, _HERE  # --explain took the question for its file
    if question is None:
        raise DataError("what is the question? give it in quotes, or - to read questions, one a line")
    is_single = question != STANDARD_INPUT
    questions = [stripped_question(question)] if is_single else read_questions(STANDARD_INPUT)
    file = None if explained in (None, _HERE) else Path(str(explained))
    if file is not None:  # before a model is loaded
        from surprise_rerank.eval.reports.writing import check_files, write_report

        if not is_single:
            raise DataError(f"--explain {file} explains one question; give one in quotes")
        check_files([file])

    from surprise_rerank.eval.cli.surprise_rerank import search_results as results

    chosen = settings.of(results.SetSettings)
    command = results.SearchCommand(questions=questions, is_single=is_single, settings=chosen, **options)
    if explained is not None and chosen.group_by is not None:
        raise click.UsageError("--explain goes without --set group_by: it explains one ranking")
    location = replace(location, prefer_grpc=chosen.grpc)
    if explained is None:
        shown = results.Shown(out, command)
        for result in results.search_results(location, command, out):
            shown.show(result)
        return

    from surprise_rerank.eval.cli.surprise_rerank.explanation_report import explain

    for result in results.search_results(location, command, out):
        values, report = explain(result, command)
        if file is None or out.as_json:
            files = () if file is None else (file,)
            present(report, files, quiet=out.quiet, values=values, as_json=out.as_json)
        else:
            write_report(report, file)
            out.result(values, [f"{file} explains the ranking"])
