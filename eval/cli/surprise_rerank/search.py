"""`surprise-rerank search`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

from surprise_rerank.eval.cli.arguments.location import takes_index
from surprise_rerank.eval.cli.arguments.search import SearchArguments
from surprise_rerank.eval.cli.options import takes
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.candidates import Hit
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.eval.cli.surprise_rerank.search_results import SearchResult

Group: TypeAlias = "tuple[str | int, list[Hit]]"

_SEARCH_EXAMPLES = """\b
Examples:
  surprise-rerank search "why do dogs bark" --index my-index
  surprise-rerank search "why do dogs bark" --index my-index --system cosine
  surprise-rerank search wings --index my-index --top 3 \\
      --filter '{"must": [{"key": "metadata.year", "range": {"gte": 1960}}]}'
  surprise-rerank search wings --index my-index --group-by metadata.author
  surprise-rerank search --questions questions.txt --index my-index --json
  surprise-rerank search --qdrant-url http://localhost:6333 -- "-1 as an index"
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
@takes_index
def search(
    *, location: Location, out: Output, arguments: SearchArguments, group_by: str | None, group_size: int
) -> None:
    """Find the best documents for a QUESTION.

    Without --system, documents are ranked by `auto` where the index holds packed token vectors: candidates by
    cosine and BM25 (where it is stored), re-scored by both and by DynaMax on one scale, with feedback.
    """
    from surprise_rerank.eval.cli.arguments.filters import check_group_path, grouped
    from surprise_rerank.eval.cli.surprise_rerank.search_results import search_results

    if group_by is None:
        for system, result in search_results(location, arguments, out):
            _print_hits(out, arguments, result, system.name)
        return
    keys = check_group_path(group_by)
    for system, result in search_results(location, arguments, out):
        groups = grouped(arguments.hits(result.ranking), keys, arguments.top, group_size)
        if len(groups) < arguments.top:
            count, pool = len(groups), len(result.ranking)
            out.note(f"{count} groups among {pool} candidates; a larger --pool looks for more")
        _print_groups(out, arguments, result, system.name, groups)


def _head(result: SearchResult, system: str) -> dict[str, object]:
    return {"query": result.query.text, "system": system, "seconds": result.total}


def _hits_json(hits: Sequence[Hit], offset: int = 0) -> list[dict[str, object]]:
    from surprise_rerank.eval.cli.surprise_rerank.search_results import hit_json

    return [hit_json(hit, rank) for rank, hit in enumerate(hits, start=offset + 1)]


def _print_hits(out: Output, arguments: SearchArguments, result: SearchResult, system: str) -> None:
    hits = arguments.hits(result.ranking)[: arguments.top]
    if out.as_json:
        out.json({**_head(result, system), "hits": _hits_json(hits, arguments.offset)})
        return
    rows = [_row(hit, rank) for rank, hit in enumerate(hits, start=arguments.offset + 1)]
    _print_rows(out, arguments, result, ("#rank", "#score", "id", "title", "text"), rows)


def _print_groups(
    out: Output, arguments: SearchArguments, result: SearchResult, system: str, groups: Sequence[Group]
) -> None:
    if out.as_json:
        own = [{"value": value, "hits": _hits_json(hits)} for value, hits in groups]
        out.json({**_head(result, system), "groups": own})
        return
    rows = [
        (str(value), *_row(hit, rank)) for value, hits in groups for rank, hit in enumerate(hits, start=1)
    ]
    _print_rows(out, arguments, result, ("group", "#rank", "#score", "id", "title", "text"), rows)


def _row(hit: Hit, rank: int) -> tuple[str, ...]:
    title = hit.document.title if hit.document else ""
    return str(rank), f"{hit.score:.4f}", hit.id, title, _body(hit, title)


def _body(hit: Hit, title: str) -> str:
    """The text that a table shows, without the title, which has a column of its own."""
    text = hit.text or ""
    return text.removeprefix(title).lstrip() if title else text


def _print_rows(
    out: Output,
    arguments: SearchArguments,
    result: SearchResult,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> None:
    if arguments.is_single:
        out.table(columns, rows, wide="text")
    elif out.is_terminal:
        out.heading(result.query.text)
        out.table(columns, rows, wide="text")
    else:
        out.table(("question", *columns), [(result.query.text, *row) for row in rows], wide="text")
