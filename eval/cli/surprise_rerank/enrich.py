"""`surprise-rerank enrich`: token vectors and words for a collection that somebody else made."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from surprise_rerank.eval.cli.console import Output
from surprise_rerank.eval.cli.options import config_option, load_model, takes_index

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant._location import Location

_EXAMPLES = """\b
Examples:
  surprise-rerank enrich --index http://localhost:6333/papers --dry-run
  surprise-rerank enrich --index http://localhost:6333/papers
  surprise-rerank enrich --remove --index http://localhost:6333/papers
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--token-model",
    metavar="NAME",
    default="all-MiniLM-L6-v2",
    help="The model of the token vectors; any, whatever made the dense vectors.",
)
@click.option("--dry-run", is_flag=True, help="Print what it would cost, and write nothing.")
@click.option("--remove", is_flag=True, help="Take away what was added.")
@config_option
@takes_index
def enrich(
    *,
    location: Location,
    config: str | None,
    token_model: str,
    dry_run: bool,
    remove: bool,
    out: Output,
) -> None:
    """Add what a collection of LangChain, LlamaIndex, Haystack or your own ranks better with.

    What is added lies in a collection NAME.surprise beside it. Run it again after changes or interruptions.
    Where --config names the model of the dense vectors, a background is measured, too.
    """
    from surprise_rerank.connectors.attached._opening import CollectionConfig

    if location.url is None:
        raise click.UsageError(
            f"{location} is an index of surprise-rerank, which has all of it already; give a collection such "
            "as http://localhost:6333/papers"
        )
    parts, encoder, tokens = CollectionConfig.read(config), None, None
    if not remove:
        parts.look(location).close()  # what cannot be is refused before a model is loaded
        encoder = None if dry_run else parts.dense_encoder()
        tokens = load_model(token_model)
    with parts.look(location, encoder, tokens) as collection:
        if remove:
            removed = collection.remove_enrichment()
            out.result(
                {"removed": removed}, ["removed what was added" if removed else "nothing had been added"]
            )
            return
        report = collection.enrich(dry_run=dry_run, show_progress=not out.quiet)
        out.result(asdict(report), [str(report)])
        if encoder is None and not dry_run:
            out.note("no background was measured, as --config names no model of the dense vectors")
