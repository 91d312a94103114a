"""`surprise-rerank search`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from surprise_rerank.eval.cli.arguments.location import (
    config_option,
    refuse_with_server,
    server_option,
    takes_index,
)
from surprise_rerank.eval.cli.arguments.search import SearchArguments
from surprise_rerank.eval.cli.options import takes
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant.location import Location

# What `serve` is started with, by the names of the options.
_OF_INDEX = frozenset({"folder", "url", "collection", "grpc", "mode", "exact", "tenant", "model", "config"})

_SEARCH_EXAMPLES = """\b
Examples:
  surprise-rerank search "why do dogs bark" --index my-index
  surprise-rerank search "why do dogs bark" --index my-index --system cosine
  surprise-rerank search wings --index my-index --top 3 \\
      --filter '{"must": [{"key": "metadata.year", "range": {"gte": 1960}}]}'
  surprise-rerank search wings --index my-index --group-by metadata.author
  surprise-rerank search --questions questions.txt --index my-index --json
  surprise-rerank search --index http://localhost:6333/papers -- "-1 as an index"
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
@config_option
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
    config: str | None,
) -> None:
    """Find the best documents for a QUESTION.

    Without --system, documents are ranked by `auto` where the index stores token vectors or words:
    candidates by cosine and BM25, re-scored by both and by DynaMax on one scale, with feedback.

    A line below them says whether they answer the question, and why. Documents have their surprise, the
    share of other questions whose best document has less, or a score where the index has no background,
    and the sentence that has most of the question's words. In a pipe there is a row for each.

    With --server nothing is loaded here: a running `surprise-rerank serve` answers, by its own system and
    pool where none is given. Its token is in SURPRISE_RERANK_TOKEN.
    """
    from surprise_rerank.eval.cli.surprise_rerank.found import found_by_server, found_here
    from surprise_rerank.eval.cli.surprise_rerank.showing import Group, Shown
    from surprise_rerank.rerank.grouping import group_path, grouped

    path = None if group_by is None else group_path(group_by)
    if server is not None:
        instead = "the server was started with its own; leave them out, or search an index with --index"
        refuse_with_server(_OF_INDEX, instead)
        most = arguments.top + arguments.offset
        depth = arguments.pool if _is_given("pool") else None
        results = found_by_server(server, arguments, out, most if path is None else arguments.pool, depth)
        more = ""
    else:
        results = found_here(location, arguments, out, config)
        more = "; a larger --pool looks for more"
    shown = Shown(out, arguments, scores=scores, group_by=group_by)
    for found in results:
        groups: list[Group] = [(None, found.hits[: arguments.top])]
        if path is not None:
            groups = [*grouped(found.hits, path, arguments.top, group_size)]
            if len(groups) < arguments.top:
                out.note(f"{len(groups)} groups among {found.pool} candidates{more}")
        shown.show(found, groups)


def _is_given(name: str) -> bool:
    """Whether an option is on the command line."""
    return click.get_current_context().get_parameter_source(name) == ParameterSource.COMMANDLINE
