"""Servers for tests: applications over small encoders, and a real server in a thread."""

import contextlib
import io
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
from fastapi.testclient import TestClient

from helpers.words import WordEncoder
from surprise_rerank import TextReranker
from surprise_rerank.connectors._searchable import CollectionPipelines
from surprise_rerank.connectors.server import ServerOptions, Service
from surprise_rerank.connectors.server import _process as process
from surprise_rerank.connectors.server._logs import EventLog
from surprise_rerank.encoders.base import Encoded, Kind

JSON = {"Content-Type": "application/json"}


class Log(io.StringIO):
    """What a server writes down."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def logger(self) -> Any:
        return EventLog(self)


class SteppingEncoder(WordEncoder):
    """Encodes documents one by one, each when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Semaphore(0)
        self.begun = threading.Event()
        self.steps = 0

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        if kind == "document":
            for _ in texts:
                self.begun.set()
                assert self.may_go_on.acquire(timeout=20)
                self.steps += 1
                if on_progress is not None:
                    on_progress(1)
        return super().encode(texts, kind)


def words_reranker() -> TextReranker:
    return TextReranker(WordEncoder())


def service_of(
    index: Any,
    system: str = "dynamax",
    log: Log | None = None,
    least: float | None = None,
    tenant: str | None = None,
    **options: Any,
) -> Service:
    """An index, or a tenant's documents of it, served by one of its systems; the others can be asked for."""
    pipelines = CollectionPipelines(index, system, min_percentile=least, tenant=tenant)
    service = Service(searches=True, options=ServerOptions(**options), logger=(log or Log()).logger())
    service.open(index.text_reranker(system, tenant=tenant), pipelines[system], system, pipelines)
    return service


def client_of(app: Any, **more: Any) -> TestClient:
    """A client of an application in this process, by a name of this machine."""
    return TestClient(app, "http://localhost", **more)


@contextlib.contextmanager
def served(app: Any, options: ServerOptions | None = None) -> Iterator[str]:
    """The address of a real server, in a thread of this process."""
    with process.listen("127.0.0.1", 0, asks_for_tokens=False) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = process.make_server(app, options or ServerOptions(timeout=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            wait_until(lambda: httpx.get(f"{url}/health").status_code == 200)
            yield url
        finally:
            server.should_exit = True
            thread.join(20)
    assert not thread.is_alive()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when it holds; an error of the transport means that it does not yet."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            if condition():
                return
        time.sleep(0.02)
    raise AssertionError(f"not so within {seconds} s")
