"""What benchmarks of a server share: documents encoded once, a server at rest, and bytes on the wire."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import QdrantClient, models

from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoded, Kind, TokenEncoder, precision_of, token_dimension

_CHUNK = 1 << 16


class EncodedOnce:
    """An encoder that keeps the vectors of documents: several indexes of the same ones encode them once."""

    def __init__(self, encoder: TokenEncoder) -> None:
        self._encoder = encoder
        self._kept: dict[str, Encoded] = {}
        self.name, self.fingerprint, self.window = encoder.name, encoder.fingerprint, encoder.window
        self.dimension, self.token_dimension = encoder.dimension, token_dimension(encoder)
        self.precision = precision_of(encoder)
        self.words, self.token_spans = encoder.words, encoder.token_spans

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        """As the encoder does."""
        if kind != "document":
            return self._encoder.encode(texts, kind, on_progress)
        new = list(dict.fromkeys(text for text in texts if text not in self._kept))
        if new:
            made = self._encoder.encode(new, kind, on_progress)
            tokens = made.require_tokens()
            for i, text in enumerate(new):
                self._kept[text] = Encoded(made.dense[i : i + 1], tokens.take([i]))
        own = [self._kept[text] for text in texts]
        joined = TokenBatch.concatenate([one.require_tokens() for one in own])
        return Encoded(np.concatenate([one.dense for one in own]), joined)


def settle(client: QdrantClient, collection: str) -> None:
    """Wait until the server's optimizers rest."""
    quiet = 0
    while quiet < 3:
        time.sleep(1)
        status = client.get_collection(collection).status
        quiet = quiet + 1 if status == models.CollectionStatus.GREEN else 0


def drop(client: QdrantClient, collection: str) -> None:
    """Delete all versions of an index."""
    for found in client.get_collections().collections:
        if found.name.startswith(f"{collection}@"):
            client.delete_collection(found.name)


class Relay:
    """Passes the bytes of connections on to a server, in a process of its own, and counts them.

    Args:
        url: of the server.
        grpc_port: of the server.
        delay: seconds that every part of an answer is kept back, as a network would.

    Attributes:
        url: takes the place of the server's.
        grpc_port: takes the place of the server's port for gRPC.
    """

    def __init__(self, url: str, grpc_port: int, delay: float = 0.0) -> None:
        parts = urlsplit(url)
        self._host, self._ports = parts.hostname or "127.0.0.1", (parts.port or 6333, grpc_port)
        context = multiprocessing.get_context("spawn")
        self._counts = context.Array("q", 4)
        self._own = context.Array("i", 2)
        arguments = (self._host, self._ports, self._counts, self._own, delay)
        self._process = context.Process(target=_relay, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        while not all(self._own):
            time.sleep(0.05)
        self.url, self.grpc_port = f"http://127.0.0.1:{self._own[0]}", self._own[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()

    def taken(self) -> tuple[int, int]:
        """Bytes up and down since the last call, of all connections."""
        time.sleep(0.05)  # what is still on its way
        with self._counts.get_lock():
            found = self._counts[0] + self._counts[2], self._counts[1] + self._counts[3]
            self._counts[:] = [0] * 4
        return found


def _relay(host: str, ports: tuple[int, int], counts: Any, own: Any, delay: float) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: int) -> None:
        kept: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        loop, own = asyncio.get_running_loop(), delay if place % 2 else 0.0

        async def pass_on() -> None:
            # Parts travel one behind the other, as on a line; they do not wait for each other's arrival.
            while (part := await kept.get())[1]:
                await asyncio.sleep(max(0.0, part[0] - loop.time()))
                writer.write(part[1])
                await writer.drain()

        passing = asyncio.create_task(pass_on())
        with suppress(ConnectionError):
            while chunk := await reader.read(_CHUNK):
                with counts.get_lock():
                    counts[place] += len(chunk)
                kept.put_nowait((loop.time() + own, chunk))
        kept.put_nowait((0.0, b""))
        with suppress(ConnectionError):
            await passing
        writer.close()

    async def main() -> None:
        for number, port in enumerate(ports):

            async def connected(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                number: int = number,
                port: int = port,
            ) -> None:
                back, forth = await asyncio.open_connection(host, port)
                await asyncio.gather(pump(reader, forth, 2 * number), pump(back, writer, 2 * number + 1))

            server = await asyncio.start_server(connected, "127.0.0.1", 0)
            own[number] = server.sockets[0].getsockname()[1]
        await asyncio.Event().wait()

    asyncio.run(main())
