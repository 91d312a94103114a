"""The command `surprise-rerank` and its subcommands."""

from __future__ import annotations

import click

from surprise_rerank.eval.cli import exits
from surprise_rerank.eval.cli.surprise_rerank.demo import demo
from surprise_rerank.eval.cli.surprise_rerank.enrich import enrich
from surprise_rerank.eval.cli.surprise_rerank.index import index
from surprise_rerank.eval.cli.surprise_rerank.search import search
from surprise_rerank.eval.cli.surprise_rerank.serve import serve
from surprise_rerank.eval.cli.surprise_rerank.similar import similar
from surprise_rerank.eval.cli.surprise_rerank.status import status
from surprise_rerank.eval.cli.surprise_rerank.tune import tune

_EXAMPLES = """\b
Examples:
  surprise-rerank demo
  surprise-rerank index letters/ --index my-index
  surprise-rerank search "why do dogs bark" --index my-index
  surprise-rerank status --index my-index
  surprise-rerank serve --index my-index --page
  surprise-rerank similar papers.jsonl --out neighbours.parquet

\b
Shell completion (bash; zsh and fish likewise):
  eval "$(_SURPRISE_RERANK_COMPLETE=bash_source surprise-rerank)"
"""


@click.group(
    "surprise-rerank",
    cls=exits.Commands,
    epilog=_EXAMPLES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(package_name="surprise-rerank")
@click.pass_context
def command(context: click.Context) -> None:
    """Index documents in Qdrant, and search them by scores that mean something.

    An index T is a folder, or a collection on a server such as http://localhost:6333/papers. Results
    go to the standard output, everything else to the error stream. Bad input is one line and exit code 2, an
    interruption 130.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _subcommand in (index, search, status, enrich, tune, similar, serve, demo):
    command.add_command(_subcommand)


def main() -> None:
    """Run the command."""
    exits.run(command)
