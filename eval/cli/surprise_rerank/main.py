"""The command `surprise-rerank` and its subcommands."""

from __future__ import annotations

import click

from surprise_rerank.eval.cli import exits
from surprise_rerank.eval.cli.surprise_rerank.background import background
from surprise_rerank.eval.cli.surprise_rerank.enrich import enrich
from surprise_rerank.eval.cli.surprise_rerank.ensemble import ensemble
from surprise_rerank.eval.cli.surprise_rerank.explain import explain
from surprise_rerank.eval.cli.surprise_rerank.fit import fit
from surprise_rerank.eval.cli.surprise_rerank.index import index
from surprise_rerank.eval.cli.surprise_rerank.search import search
from surprise_rerank.eval.cli.surprise_rerank.serving.demo import demo
from surprise_rerank.eval.cli.surprise_rerank.serving.serve import serve
from surprise_rerank.eval.cli.surprise_rerank.similar import similar
from surprise_rerank.eval.cli.surprise_rerank.status import status

_EXAMPLES = """\b
Examples:
  surprise-rerank demo
  surprise-rerank index letters/ --index my-index
  surprise-rerank search "why do dogs bark" --index my-index
  surprise-rerank explain "why do dogs bark" --index my-index
  surprise-rerank status --index my-index
  surprise-rerank enrich --qdrant-url http://localhost:6333 --collection papers
  surprise-rerank ensemble set --documents --index my-index
  surprise-rerank serve --index my-index --page
  surprise-rerank serve --index my-index --mcp
  surprise-rerank background set --questions other-questions.txt --index my-index
  surprise-rerank fit --questions queries.jsonl --qrels qrels/train.tsv --index my-index
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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="surprise-rerank")
@click.pass_context
def command(context: click.Context) -> None:
    """Index documents in Qdrant, and search them by scores that mean something.

    An index is a folder (--index) or a collection on a server (--qdrant-url). Results go to the standard
    output, everything else to the error stream. Bad input is one line and exit code 2, an interruption 130.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _subcommand in (
    index,
    search,
    explain,
    status,
    enrich,
    ensemble,
    background,
    fit,
    demo,
    serve,
    similar,
):
    command.add_command(_subcommand)


def main() -> None:
    """Run the command."""
    exits.run(command)
