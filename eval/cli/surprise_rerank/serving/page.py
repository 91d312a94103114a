"""`surprise-rerank page`: search an index in the browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.core.settings import option
from surprise_rerank.eval.cli.arguments.location import ModelArguments, config_field, folder_or_url
from surprise_rerank.eval.cli.arguments.search import SystemChoice, pool_field
from surprise_rerank.eval.cli.options import options_of, takes
from surprise_rerank.eval.cli.surprise_rerank.serving.running import run_page

_EXAMPLES = """\b
Examples:
  surprise-rerank page --index my-index
  surprise-rerank page --index my-index --port 8123 --no-browser
  surprise-rerank page --index http://localhost:6333/papers --config papers.toml
"""


def address_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where a page is, and whether the browser is opened."""
    port = click.option(
        "--port", type=click.IntRange(0, 65535), default=0, help="Of TCP.  [default: a free one]"
    )
    browser = click.option(
        "--browser/--no-browser", default=True, show_default=True, help="Open the browser."
    )
    return port(browser(function))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageArguments(ModelArguments):
    """What a page shows at first."""

    system: str | None = option(
        None,
        kind=SystemChoice(),
        help="What ranks at first.  [default: the best that the index stores enough for]",
    )
    pool: int = pool_field()
    config: str | None = config_field()


@click.command(epilog=_EXAMPLES)
@options_of(Location)
@takes(arguments=PageArguments)
@address_options
@click.version_option(package_name="surprise-rerank")
def page(
    *,
    arguments: PageArguments,
    folder: str | None,
    url: str | None,
    collection: str,
    port: int,
    browser: bool,
) -> None:
    """Search an index in the browser.

    The page shows cosine's order beside that of a system, with lines for what moved, the sentence of each
    document that matched best, what each scorer added, and what --min-surprise would refuse. Only this
    machine reaches it, and it asks no other. `surprise-rerank serve` has the same page for others.
    """
    from surprise_rerank.connectors.attached.settings import PipelineSettings

    place = folder_or_url(folder, url)
    if not any(place):
        raise click.UsageError(
            "which index? give --index with a folder, or a collection such as http://localhost:6333/papers"
        )
    settings = PipelineSettings(
        *place, collection, arguments.model, arguments.system, arguments.pool, config=arguments.config
    )
    run_page(settings, port, "", opens=browser)
