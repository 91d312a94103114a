"""Computing in a bounded number of threads, for as long as somebody waits for it."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from surprise_rerank.connectors.server.answers import CLIENT_GONE, Receive, RefusedError
from surprise_rerank.connectors.server.questions import Question, Questions
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.threads import using_threads
from surprise_rerank.encoders.base import (
    Encoded,
    Encoder,
    Kind,
    Progress,
    require_token_encoder,
    token_dimension,
)

T = TypeVar("T")


class AbandonedError(Exception):
    """Work that nobody waits for any more."""


class Workers:
    """Threads that compute; more work than there are threads waits its turn.

    Work that begins while others run multiplies by its share of torch's threads: k pools that are scored at
    once by all cores each would wait for each other after every product.

    Args:
        threads: how many.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._running = 0
        self._lock = threading.Lock()
        self._pool = self._made()

    async def run(self, receive: Receive, work: Callable[[threading.Event], T]) -> T:
        """What `work(stop)` returns or raises, computed in a thread.

        When the client hangs up, or the caller is cancelled, work that still waits is dropped, and `stop` is
        set for work that has begun.

        Args:
            receive: of the connection, whose next message can only be that it was closed.
            work: what to compute; it should end soon when `stop` is set.

        Raises:
            RefusedError: if the client hangs up.
        """
        stop = threading.Event()
        # With what belongs to the request: the span that its own are children of.
        run = contextvars.copy_context().run
        result = asyncio.get_running_loop().run_in_executor(self._pool, run, self._shared, work, stop)
        gone = asyncio.ensure_future(_closed(receive))
        try:
            await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise RefusedError(CLIENT_GONE, "the client hung up")
            return result.result()
        finally:
            stop.set()
            result.cancel()  # after which asyncio does not log an error that nobody takes, either
            gone.cancel()

    def _shared(self, work: Callable[[threading.Event], T], stop: threading.Event) -> T:
        with self._lock:
            self._running += 1
            running = self._running
        try:
            with using_threads(_share(running)):
                return work(stop)
        finally:
            with self._lock:
                self._running -= 1

    def close(self) -> None:
        """Wait for what has begun; the threads end."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._made()  # an application may be started again; threads come with the first work

    def _made(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="surprise-rerank-serve")


class RequestEncoder:
    """An encoder for one request: it counts tokens, and stops between batches when nobody waits any more.

    Args:
        question: of the request, whose encoder this is.
        questions: among which it is; they are encoded together.
        stop: set when the request is over.

    Attributes:
        tokens: that were encoded so far.
    """

    def __init__(self, question: Question, questions: Questions, stop: threading.Event) -> None:
        self._encoder: Encoder = question.encoder
        self._question = question
        self._questions = questions
        self._stop = stop
        self.tokens = 0

    @property
    def name(self) -> str:
        """The encoder's."""
        return self._encoder.name

    @property
    def dimension(self) -> int:
        """The encoder's."""
        return self._encoder.dimension

    @property
    def token_dimension(self) -> int | None:
        """The encoder's; None where it has no token vectors."""
        return token_dimension(self._encoder)

    @property
    def fingerprint(self) -> str:
        """The encoder's."""
        return self._encoder.fingerprint

    @property
    def window(self) -> int | None:
        """The encoder's."""
        return self._encoder.window

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """The encoder's vectors.

        Raises:
            AbandonedError: if the request is over.
        """

        def advanced(count: int) -> None:
            if on_progress is not None:
                on_progress(count)
            self._require_caller()

        self._require_caller()
        if kind == "query" and list(texts) == [self._question.text]:
            encoded = self._questions.encoded(self._question)
            advanced(1)
        else:
            encoded = self._encoder.encode(texts, kind, advanced)
        counts = map(len, self.token_spans(texts, kind)) if encoded.tokens is None else encoded.tokens.lengths
        self.tokens += int(sum(counts))
        return encoded

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The encoder's."""
        return require_token_encoder(self._encoder).words(texts, kind)

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """The encoder's."""
        return self._encoder.token_spans(texts, kind)

    def _require_caller(self) -> None:
        if self._stop.is_set():
            raise AbandonedError


def _share(running: int) -> int | None:
    """Threads for one of so many works at once; None, as many as there are, where it is alone."""
    torch = sys.modules.get("torch")  # what does not need it is served without
    return None if running == 1 or torch is None else max(1, torch.get_num_threads() // running)


async def _closed(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
