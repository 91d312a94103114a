"""`surprise-rerank search`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import click
from click.core import ParameterSource

from surprise_rerank.eval.cli.arguments.location import server_option, takes_index
from surprise_rerank.eval.cli.arguments.search import SearchArguments
from surprise_rerank.eval.cli.options import takes
from surprise_rerank.eval.cli.output.console import Output, shown_surprise

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.eval.cli.surprise_rerank.found import Found, FoundHit

Group: TypeAlias = "tuple[str | int, list[FoundHit]]"

_DOUBTFUL = "what is shown hardly answers this; --min-surprise leaves it out"

# What `serve` is started with, by the names of the options.
_OF_INDEX = frozenset(
    {"folder", "url", "collection", "grpc", "system", "mode", "pool", "condition", "exact", "model"}
)

_SEARCH_EXAMPLES = """\b
Examples:
  surprise-rerank search "why do dogs bark" --index my-index
  surprise-rerank search "why do dogs bark" --index my-index --system cosine
  surprise-rerank search wings --index my-index --top 3 \\
      --filter '{"must": [{"key": "metadata.year", "range": {"gte": 1960}}]}'
  surprise-rerank search wings --index my-index --group-by metadata.author
  surprise-rerank search --questions questions.txt --index my-index --json
  surprise-rerank search --qdrant-url http://localhost:6333 -- "-1 as an index"
  surprise-rerank search wings --server http://localhost:8000
"""


@click.command(epilog=_SEARCH_EXAMPLES)
@takes(arguments=SearchArguments)
@click.option(
    "--group-by",
    metavar="PATH",
    help="The best of each group of documents with the same value at a path such as metadata.author; "
    "--top counts groups.",
)
@click.option(
    "--group-size",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Most documents of a group.",
)
@click.option("--scores", is_flag=True, help="The system's own scores, too, beside the surprise.")
@server_option
@takes_index
def search(
    *,
    location: Location,
    out: Output,
    arguments: SearchArguments,
    group_by: str | None,
    group_size: int,
    scores: bool,
    server: str | None,
) -> None:
    """Find the best documents for a QUESTION.

    Without --system, documents are ranked by `auto` where the index holds packed token vectors: candidates by
    cosine and BM25 (where it is stored), re-scored by both and by DynaMax on one scale, with feedback.

    A line before them says whether they answer the question, and why. Documents have their surprise, the
    share of other questions whose best document has less, or a score where the index has no background.

    With --server nothing is loaded here: a running `surprise-rerank serve` answers, by its own system and
    pool. Its token is in SURPRISE_RERANK_TOKEN.
    """
    from surprise_rerank.eval.cli.arguments.filters import check_group_path, grouped
    from surprise_rerank.eval.cli.surprise_rerank.found import found_by_server, found_here

    keys = None if group_by is None else check_group_path(group_by)
    if server is not None:
        _refuse_with_server()
        most = arguments.top + arguments.offset
        results = found_by_server(server, arguments, out, most if keys is None else arguments.pool)
        more = ""
    else:
        results = found_here(location, arguments, out)
        more = "; a larger --pool looks for more"
    for found in results:
        if keys is None:
            _print_hits(out, arguments, found, scores)
            continue
        groups = grouped(found.hits, keys, arguments.top, group_size)
        if len(groups) < arguments.top:
            out.note(f"{len(groups)} groups among {found.pool} candidates{more}")
        _print_groups(out, arguments, found, groups, scores)


def _refuse_with_server() -> None:
    """Refuse options that a server decides.

    Raises:
        UsageError: if some are on the command line; names them.
    """
    context = click.get_current_context()
    given = [
        own.opts[0]
        for own in context.command.params
        if own.name in _OF_INDEX and context.get_parameter_source(own.name) == ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            f"{' and '.join(given)} cannot be used with --server: the server was started with its own; leave "
            "them out, or search an index with --index"
        )


def _head(found: Found) -> dict[str, object]:
    return {
        "query": found.question,
        "system": found.system,
        "seconds": found.seconds,
        "verdict": found.verdict,
    }


def _hits_json(hits: Sequence[FoundHit], offset: int = 0) -> list[dict[str, object]]:
    return [hit.to_json(rank) for rank, hit in enumerate(hits, start=offset + 1)]


def _print_hits(out: Output, arguments: SearchArguments, found: Found, scores: bool) -> None:
    hits = found.hits[: arguments.top]
    if out.as_json:
        out.json({**_head(found), "hits": _hits_json(hits, arguments.offset)})
        return
    columns = _columns(hits, arguments, scores)
    rows = [_row(hit, rank, columns) for rank, hit in enumerate(hits, start=arguments.offset + 1)]
    _print_rows(out, arguments, found, columns, rows)


def _print_groups(
    out: Output, arguments: SearchArguments, found: Found, groups: Sequence[Group], scores: bool
) -> None:
    if out.as_json:
        own = [{"value": value, "hits": _hits_json(hits)} for value, hits in groups]
        out.json({**_head(found), "groups": own})
        return
    columns = _columns(found.hits, arguments, scores)
    rows = [
        (str(value), *_row(hit, rank, columns))
        for value, hits in groups
        for rank, hit in enumerate(hits, start=1)
    ]
    _print_rows(out, arguments, found, ("group", *columns), rows)


def _columns(hits: Sequence[FoundHit], arguments: SearchArguments, scores: bool) -> tuple[str, ...]:
    is_judged = any(hit.surprise is not None for hit in hits)
    shown = {"#surprise": is_judged, "#score": scores or not is_judged, "id": True}
    shown["duplicates"] = arguments.collapse is not None
    return ("#rank", *(name for name, is_shown in shown.items() if is_shown), "title", "text")


def _row(hit: FoundHit, rank: int, columns: Sequence[str]) -> tuple[str, ...]:
    cells = {
        "#rank": str(rank),
        "#surprise": "" if hit.surprise is None else f"{shown_surprise(hit.surprise):.4f}",
        "#score": f"{hit.score:.4f}",
        "id": hit.id,
        "duplicates": " ".join(hit.duplicates),
        "title": hit.title,
        "text": _body(hit),
    }
    return tuple(cells[name] for name in columns)


def _body(hit: FoundHit) -> str:
    """The text that a table shows, without the title, which has a column of its own."""
    text = hit.text or ""
    return text.removeprefix(hit.title).lstrip() if hit.title else text


def _print_rows(
    out: Output,
    arguments: SearchArguments,
    found: Found,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> None:
    verdict = in_words(found)
    if out.is_terminal:
        if not arguments.is_single:
            out.heading(found.question)
        if verdict:
            out.line(verdict)
        out.table(columns, rows, wide="text")
        return
    if verdict:  # beside the lines, which are for programs
        out.note(verdict if arguments.is_single else f"{found.question}: {verdict}")
    if arguments.is_single:
        out.table(columns, rows, wide="text")
    else:
        out.table(("question", *columns), [(found.question, *row) for row in rows], wide="text")


def in_words(found: Found) -> str:
    """The verdict, and what to do; empty where there is none."""
    if found.verdict is None:
        return ""
    status, chance = found.verdict["status"], found.verdict["chance_of_relevance"]
    said = f"{status}: {found.verdict['reason']}"
    if chance is not None and status == "answered":  # the reason of a weak one has it
        said += f"; the chance of an answer among the first ten is {100 * chance:.0f} %"
    if status == "weak":
        return f"{said}. Ask in other words, or look further down"
    if status == "off-topic" and found.pool:
        refused = "nothing is shown; a lower --min-surprise shows more" if not found.hits else _DOUBTFUL
        return f"{said}. Ask about what the documents hold ({refused})"
    return said
