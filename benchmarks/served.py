"""Servers that benchmarks ask: `surprise-rerank serve`, and a Qdrant server at rest."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
from qdrant_client import QdrantClient, models

COMMAND = "from surprise_rerank.eval.cli.entry import surprise_rerank; surprise_rerank()"
# They would have the command serve an index, or ask for a token.
_OTHERS = ("SURPRISE_RERANK_INDEX", "QDRANT_URL", "SURPRISE_RERANK_TOKEN")


def free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def is_ready(url: str) -> bool:
    """Whether a server takes requests."""
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/ready").status_code == 200
    return False


@contextmanager
def serving(*options: object, token: str = "") -> Iterator[str]:
    """The address of `surprise-rerank serve` with these options, once it is ready."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    environment |= {"SURPRISE_RERANK_TOKEN": token} if token else {}
    arguments = ["-P", "-c", COMMAND, "serve", "--port", str(port), *map(str, options)]
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would stop it
        server = subprocess.Popen([sys.executable, *arguments], stderr=log, env=environment)
        try:
            while not is_ready(f"http://127.0.0.1:{port}"):
                if server.poll() is not None:
                    log.seek(0)
                    raise SystemExit(log.read().decode()[-1000:])
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(120)


def settle(client: QdrantClient, collection: str) -> None:
    """Wait until a Qdrant server's optimizers rest."""
    quiet = 0
    while quiet < 3:
        time.sleep(1)
        status = client.get_collection(collection).status
        quiet = quiet + 1 if status == models.CollectionStatus.GREEN else 0


def drop(client: QdrantClient, collection: str) -> None:
    """Delete all versions of an index."""
    for listed in client.get_collections().collections:
        if listed.name.startswith(f"{collection}@"):
            client.delete_collection(listed.name)
