"""`surprise-rerank serve`: re-ranking and search as a web service, as a page, and as tools for agents."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank._errors import DataError
from surprise_rerank.eval.cli.options import index_option, location_of, require_index

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached._settings import PipelineSettings
    from surprise_rerank.connectors.server import ServerOptions, Service

_EXAMPLES = """\b
Examples:
  surprise-rerank serve
  surprise-rerank serve --index my-index --page
  surprise-rerank serve --index my-index --mcp --config server.toml
  SURPRISE_RERANK_TOKEN=... surprise-rerank serve --host 0.0.0.0 --index http://qdrant:6333/papers

\b
  curl localhost:8000/v1/rerank -H 'Content-Type: application/json' \\
    -d '{"query": "why do dogs bark", "documents": ["Cats sleep.", "Dogs bark to warn."]}'
"""


@click.command(epilog=_EXAMPLES)
@index_option
@click.option(
    "--host",
    default="127.0.0.1",
    help="Where to listen. What other machines reach needs $SURPRISE_RERANK_TOKEN, or tokens in --config.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    help="Of TCP; 0 takes a free one, which the log names.",
)
@click.option("--page", is_flag=True, help="Open the page to search in, which is at /, in the browser.")
@click.option(
    "--mcp",
    type=click.Choice(["http", "stdio"]),
    is_flag=False,
    flag_value="http",
    help="Give agents tools by the Model Context Protocol, too: at /mcp, or over the standard streams alone.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML: [server] with model, system, limits and more; and the parts of a collection made by others.",
)
@click.pass_context
def serve(
    context: click.Context,
    /,
    *,
    target: str | None,
    host: str,
    port: int,
    page: bool,
    mcp: str | None,
    config: str | None,
) -> None:
    """Serve re-ranking, and search over an index: by HTTP, to a browser, and to agents.

    POST /v1/rerank and /v2/rerank are Cohere's and Jina's, POST /rerank is that of Text Embeddings Inference,
    POST /v1/search searches the index, and GET / is a page to search it in; GET /openapi.json describes the
    rest. The log holds no text. After SIGTERM running requests are finished, and the command leaves with 0.
    """
    from surprise_rerank.connectors.server import _process as process

    token = os.environ.get(process.TOKEN_VARIABLE, "").strip() or None
    if target:
        require_index(location_of(target))
    try:
        if mcp != "stdio":
            secured = token is not None or config is not None  # a file may name tokens; it is read later
            process.listen(host, port, asks_for_tokens=secured).close()  # before all else is loaded
        from surprise_rerank.connectors.server._options import read_config

        settings, options = read_config(config, target, token)
    except DataError as error:
        raise click.UsageError(str(error)) from error
    if (page or mcp) and not settings.location.is_given:
        location_of(None)  # asks which one
    if mcp != "stdio":
        run_http(settings, options, host, port, tools=mcp is not None, opens=page)
        return
    for name in ("host", "port", "page"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{name} is for HTTP, and --mcp stdio speaks over the standard streams alone"
            )
    from surprise_rerank.connectors.mcp import run_stdio

    service, stopped = _service(settings, options), threading.Event()
    with (
        process.ending_on_sigterm(),
        service.loading(settings, stopped.set),
        process.forwarded(service.logger),
    ):
        run_stdio(service, stopped)


def run_http(
    settings: PipelineSettings,
    options: ServerOptions,
    host: str,
    port: int,
    *,
    tools: bool = False,
    said: str | None = None,
    opens: bool = False,
) -> None:
    """Serve until a signal, with a line of the log for every request."""
    from surprise_rerank.connectors.server import _process as process
    from surprise_rerank.connectors.server import service_app

    def show(url: str) -> None:
        note(url)
        if said is not None or opens:
            click.echo(f"{url}/  (Ctrl-C ends it){said or ''}")
        if opens:  # beside the server: a browser of the console is waited for until it is closed
            threading.Thread(target=_open, args=(f"{url}/",), daemon=True).start()

    with process.ending_on_sigterm(), contextlib.ExitStack() as stack:
        settings.require_possible()
        try:
            listening = stack.enter_context(
                process.listen(host, port, asks_for_tokens=options.asks_for_tokens)
            )
        except DataError as error:
            raise click.UsageError(str(error)) from error
        service = _service(settings, options.model_copy(update={"hosts": (*options.hosts, host)}), said)
        inside = None
        if tools:
            from surprise_rerank.connectors.mcp import mcp_routes

            inside = mcp_routes(service)
        server = process.make_server(service_app(service, inside), options)
        takes_documents = options.asks_for_tokens and settings.location.folder is not None
        folder = Path(str(settings.location.folder)) if takes_documents else None
        note = stack.enter_context(process.noting_served(folder))
        stop = functools.partial(setattr, server, "should_exit", True)
        stack.enter_context(service.loading(settings, stop))
        process.run(server, listening, service.logger, show)


def _service(settings: PipelineSettings, options: ServerOptions, said: str | None = None) -> Service:
    """What will be served, with its log: JSON where nobody reads it on a terminal."""
    from surprise_rerank.connectors.server import Service
    from surprise_rerank.connectors.server._logs import EventLog

    as_json = options.logs == "json" if options.logs else not sys.stderr.isatty() and said is None
    least = logging.INFO if said is None else logging.WARNING
    logger = EventLog(sys.stderr, as_json=as_json, least=least)
    return Service(searches=settings.location.is_given, options=options, logger=logger)


def _open(url: str) -> None:
    if not webbrowser.open(url):
        click.echo("there is no browser to open it; open the address in one", err=True)
