"""`surprise-rerank serve`: re-ranking and search as a web service."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import WHERE, Command
from surprise_rerank.eval.cli.arguments.searching import SystemChoice

if TYPE_CHECKING:
    from surprise_rerank.connectors.systems.loading import PipelineSettings

TOKEN_VARIABLE = "SURPRISE_RERANK_TOKEN"

_EXAMPLES = f"""\b
Examples:
  surprise-rerank serve
  surprise-rerank serve --index my-index --min-surprise .95
  {TOKEN_VARIABLE}=... surprise-rerank serve --host 0.0.0.0 --qdrant-url http://qdrant:6333

\b
  curl localhost:8000/v1/rerank -H 'Content-Type: application/json' \\
    -d '{{"query": "why do dogs bark", "documents": ["Cats sleep.", "Dogs bark to warn."]}}'
"""

_WHAT = (
    *WHERE,
    click.option("--model", metavar="NAME", help="Of texts.  [default: the index's, or all-MiniLM-L6-v2]"),
    click.option(
        "--system",
        type=SystemChoice(),
        help="What ranks.  [default: the best that the index stores enough for; dynamax without one]",
    ),
    click.option(
        "--pool",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="How many candidates a search re-ranks.",
    ),
    click.option(
        "--min-surprise",
        type=click.FloatRange(0, 1),
        help="Leave out what is less surprising, in /v1/rerank, /v2/rerank and /v1/search.",
    ),
)

_HOW = (
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help=f"Where to listen. What other machines reach needs ${TOKEN_VARIABLE}.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8000,
        show_default=True,
        help="Of TCP; 0 takes a free one, which the log tells.",
    ),
    click.option(
        "--max-body",
        type=click.IntRange(min=1),
        default=4 * 2**20,
        show_default=True,
        metavar="BYTES",
        help="Of a request: 413 beyond.",
    ),
    click.option(
        "--max-documents",
        type=click.IntRange(1, 10_000),
        default=1000,
        show_default=True,
        help="Of a request: 422 beyond, or 413 at /rerank.",
    ),
    click.option(
        "--max-characters",
        type=click.IntRange(min=1),
        default=100_000,
        show_default=True,
        help="Of a question or a document: 422 beyond, or 413 at /rerank.",
    ),
    click.option(
        "--max-requests",
        type=click.IntRange(min=1),
        default=128,
        show_default=True,
        help="In the house at once, those that wait included: 429 beyond.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Threads that compute.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="For a request: 503 beyond.",
    ),
    click.option(
        "--json-logs/--console-logs",
        default=True,
        show_default=True,
        help="Log lines for programs, or people.",
    ),
)


@dataclass(frozen=True, slots=True)
class Served:
    """What is served.

    Attributes:
        folder: of an index; None without one, or on a server.
        url: of a Qdrant server.
        collection: on the server.
        model: of texts.
        system: what ranks.
        pool: size of a search's candidate pool.
        min_surprise: leave out what is less surprising.
    """

    folder: str | None
    url: str | None
    collection: str
    model: str | None
    system: str | None
    pool: int
    min_surprise: float | None

    def settings(self, context: click.Context) -> PipelineSettings:
        """As settings of pipelines; an option that is given beats a variable of the environment.

        Raises:
            DataError: if both a folder and a server are named in one way.
        """
        from surprise_rerank.connectors.systems.loading import PipelineSettings

        index, url = self.folder or None, self.url or None
        if index and url:
            given = [
                context.get_parameter_source(name) == ParameterSource.COMMANDLINE
                for name in ("folder", "url")
            ]
            if given[0] != given[1]:
                index, url = (index, None) if given[0] else (None, url)
        return PipelineSettings(
            index, url, self.collection, self.model, self.system, self.pool, self.min_surprise
        )


def _takes(function: Command) -> Command:
    @functools.wraps(function)
    def command(**values: Any) -> Any:
        served = Served(**{name: values.pop(name) for name in Served.__dataclass_fields__})
        return function(served=served, **values)

    return functools.reduce(lambda inner, option: option(inner), reversed(_WHAT + _HOW), command)


@click.command(epilog=_EXAMPLES)
@_takes
@click.version_option(package_name="surprise-rerank")
@click.pass_context
def serve(
    context: click.Context, /, *, served: Served, host: str, port: int, json_logs: bool, **limits: Any
) -> None:
    """Serve re-ranking, and search over an index, by HTTP.

    POST /v1/rerank and /v2/rerank are Cohere's and Jina's, POST /rerank is that of Text Embeddings Inference,
    POST /v1/search asks the index. GET /ready, /metrics, /info and /openapi.json tell the rest. The log goes
    to the error stream and holds no text. SIGTERM: what runs is finished, then it leaves with 0.
    """
    from surprise_rerank.connectors.server import ServerOptions, Service, process, service_app
    from surprise_rerank.connectors.server.loading import Loading
    from surprise_rerank.connectors.server.logs import make_logger

    with process.ending_on_sigterm(), contextlib.ExitStack() as stack:
        try:
            options = ServerOptions(token=os.environ.get(TOKEN_VARIABLE, "").strip() or None, **limits)
            settings = served.settings(context)
            listening = stack.enter_context(process.listen(host, port, options.token))
        except DataError as error:
            raise click.UsageError(str(error)) from error
        logger = make_logger(sys.stderr, as_json=json_logs)
        service = Service(searches=settings.is_stored)
        server = process.make_server(service_app(service, options, logger=logger), options.timeout)
        loading = stack.enter_context(Loading(service, settings, server, logger))
        process.run(server, listening, logger)
        loading.require_loaded()
