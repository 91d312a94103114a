"""A service from its options, until it is stopped."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from surprise_rerank.connectors.server.options import TOKEN_VARIABLE, ServerOptions
from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached.settings import PipelineSettings

# (service, limits, logger=) -> an application of ASGI.
MakeApp: TypeAlias = Callable[..., Any]


logs_option = click.option(
    "--json-logs/--console-logs",
    default=None,
    help="Log lines for programs, or people.  [default: for people on a terminal, otherwise JSON]",
)


def run_service(
    settings: PipelineSettings,
    host: str,
    port: int,
    limits: dict[str, Any],
    *,
    as_json: bool | None = None,
    make_app: MakeApp | None = None,
) -> None:
    """Serve until a signal, with a line of the log for every request.

    Args:
        settings: of what is served.
        host: where to listen.
        port: of TCP; 0 takes a free one.
        limits: the fields of `ServerOptions` but for the token, which is in the environment.
        as_json: whether the log is for programs; for people on a terminal where None.
        make_app: makes what is served of the service, its limits and the log; `service_app` by default.

    Raises:
        UsageError: if nothing can listen there, or a limit is out of its range.
        SurpriseRerankError: if the model or the index cannot be opened.
    """
    _run(settings, host, port, limits, as_json=is_for_programs(as_json), make_app=make_app)


def is_for_programs(chosen: bool | None) -> bool:
    """Whether a log is JSON, unless it was chosen: where nobody reads it on a terminal."""
    return not sys.stderr.isatty() if chosen is None else chosen


def given_options(limits: dict[str, Any]) -> ServerOptions:
    """Limits, and the token of the environment.

    Raises:
        DataError: if a limit is out of its range.
    """
    return ServerOptions(token=os.environ.get(TOKEN_VARIABLE, "").strip() or None, **limits)


def run_page(settings: PipelineSettings, port: int, said: str, *, opens: bool) -> None:
    """Serve an index to a browser on this machine, until a signal.

    Args:
        settings: of the index.
        port: of TCP; 0 takes a free one.
        said: printed below the page's address.
        opens: whether to open the browser.

    Raises:
        UsageError: as `run_service`.
        SurpriseRerankError: as `run_service`.
    """

    def show(url: str) -> None:
        click.echo(f"{url}/  (Ctrl-C ends it){said}")
        if opens:  # beside the server: a browser of the console is waited for until it is closed
            threading.Thread(target=_open, args=(f"{url}/",), daemon=True).start()

    _run(settings, "127.0.0.1", port, {}, as_json=False, show=show)


def _open(url: str) -> None:
    if not webbrowser.open(url):
        click.echo("there is no browser to open it; open the address in one", err=True)


def _run(
    settings: PipelineSettings,
    host: str,
    port: int,
    limits: dict[str, Any],
    *,
    as_json: bool,
    show: Callable[[str], None] | None = None,
    make_app: MakeApp | None = None,
) -> None:
    import logging

    from surprise_rerank.connectors.server import Service, process, service_app
    from surprise_rerank.connectors.server.loading import Loading
    from surprise_rerank.connectors.server.logs import make_logger

    with process.ending_on_sigterm(), contextlib.ExitStack() as stack:
        settings.require_possible()
        try:
            options = given_options(limits)
            listening = stack.enter_context(process.listen(host, port, options.token))
        except DataError as error:
            raise click.UsageError(str(error)) from error
        logger = make_logger(
            sys.stderr, as_json=as_json, least=logging.INFO if show is None else logging.WARNING
        )
        service = Service(searches=settings.location.is_given)
        app: Any = (make_app or service_app)(service, options, logger=logger)
        if show is not None:
            from starlette.middleware.trustedhost import TrustedHostMiddleware

            # Another site whose name is made to point at this machine would be answered as the page is.
            app = TrustedHostMiddleware(app, allowed_hosts=["127.0.0.1", "localhost"])
        server = process.make_server(app, options.timeout)
        stop = functools.partial(setattr, server, "should_exit", True)
        loading = stack.enter_context(Loading(service, settings, stop, logger))
        process.run(server, listening, logger, show)
        loading.require_loaded()
