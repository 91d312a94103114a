"""`surprise-rerank mcp`: an index as tools for agents."""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.server.options import TOKEN_VARIABLE, ServerOptions
from surprise_rerank.core.settings import option
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.options import options_of, takes
from surprise_rerank.eval.cli.surprise_rerank.serving.running import (
    given_options,
    is_for_programs,
    logs_option,
    run_service,
)
from surprise_rerank.eval.cli.surprise_rerank.serving.serve import ServiceArguments

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached.settings import PipelineSettings
    from surprise_rerank.connectors.server import Service

_EXAMPLES = f"""\b
Examples:
  surprise-rerank mcp --index my-index
  surprise-rerank mcp --index my-index --min-surprise .95 --max-answer 6000
  {TOKEN_VARIABLE}=... surprise-rerank mcp --http --host 0.0.0.0 --index http://qdrant:6333/papers

\b
In the settings of an agent's host:
  {{"mcpServers": {{"letters": {{"command": "surprise-rerank", "args": ["mcp", "--index", "/my-index"]}}}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentArguments(ServiceArguments):
    """What is searched, by which transport, and how long answers may be."""

    min_surprise: float | None = option(
        None, low=0, high=1, help="Leave out what is less surprising, unless a call says otherwise."
    )
    max_answer: int = option(
        12_000, low=2000, metavar="CHARACTERS", help="Of an answer; what does not fit is shortened, and said."
    )
    http: bool = option(False, help="Streamable HTTP at /mcp instead of the standard streams.")


@click.command("mcp", epilog=_EXAMPLES)
@options_of(Location)
@takes(arguments=AgentArguments)
@options_of(ServerOptions)
@logs_option
@click.version_option(package_name="surprise-rerank")
@click.pass_context
def mcp(
    context: click.Context,
    /,
    *,
    arguments: AgentArguments,
    folder: str | None,
    url: str | None,
    collection: str,
    json_logs: bool | None,
    **limits: Any,
) -> None:
    """Give agents an index to search, by the Model Context Protocol.

    Its tools search, explain and status change nothing. The standard output carries the protocol alone; the
    log goes to the error stream and holds no text. The command ends when its input is closed, or by Ctrl-C.
    """
    try:
        settings = arguments.settings(folder, url, collection)
        if not settings.location.is_given:
            raise DataError(
                "which index? give --index with a folder, or a collection such as http://localhost:6333/papers"
            )
        _require_http(context, arguments)
        options = given_options(limits)
    except DataError as error:
        raise click.UsageError(str(error)) from error
    if not arguments.http:
        _run_stdio(settings, options, arguments.max_answer, is_for_programs(json_logs))
        return
    run_service(
        settings,
        arguments.host,
        arguments.port,
        limits,
        as_json=json_logs,
        make_app=functools.partial(_app, host=arguments.host, most=arguments.max_answer),
    )


def _app(service: Service, options: ServerOptions, *, logger: Any, host: str, most: int) -> Any:
    from surprise_rerank.connectors.mcp import IndexTools, mcp_app

    return mcp_app(IndexTools(service, options, logger=logger, most=most), host)


def _run_stdio(settings: PipelineSettings, options: ServerOptions, most: int, as_json: bool) -> None:
    """Speak the protocol over the standard streams, while the index is loaded.

    Raises:
        SurpriseRerankError: if the model or the index cannot be opened.
    """
    from surprise_rerank.connectors.mcp import IndexTools, mcp_server, run_stdio, standard_streams
    from surprise_rerank.connectors.server import Service, process
    from surprise_rerank.connectors.server.loading import Loading
    from surprise_rerank.connectors.server.logs import make_logger

    logger, service, stopped = (
        make_logger(sys.stderr, as_json=as_json),
        Service(searches=True),
        threading.Event(),
    )
    server = mcp_server(IndexTools(service, options, logger=logger, most=most))
    with process.ending_on_sigterm(), standard_streams() as streams:
        with Loading(service, settings, stopped.set, logger) as loading, process.forwarded(logger):
            run_stdio(server, streams, stopped)
        loading.require_loaded()


def _require_http(context: click.Context, arguments: AgentArguments) -> None:
    """Refuse a place to listen where nothing listens.

    Raises:
        DataError: if --host or --port is given without --http.
    """
    for name in ("host", "port"):
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and not arguments.http:
            raise DataError(f"--{name} says where to listen, and the standard streams do not; add --http")
