"""Computing in a bounded number of threads, for as long as somebody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from surprise_rerank.core._computing import using_threads
from surprise_rerank.encoders.base import Encoded, Encoder, Kind, Progress, token_dimension

T = TypeVar("T")

_MOST_WAITING, _REMEMBERED = 16, 1000  # jobs: their documents are in memory until they are stored


class AbandonedError(Exception):
    """Work that nobody waits for any more."""


class Workers:
    """Threads that compute; more work than there are threads waits its turn.

    Work that begins while others run multiplies by its share of torch's threads: pools that are scored at
    once by all cores each would wait for each other after every product.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._running = 0
        self._lock = threading.Lock()
        self._pool = self._new_threads()

    async def run(
        self, work: Callable[[threading.Event], T], receive: Callable[[], Awaitable[Any]] | None = None
    ) -> T:
        """What `work(stop)` returns or raises, computed in a thread.

        When the client hangs up (an AbandonedError; `receive` is the connection's), or the caller is
        cancelled, work that still waits is dropped, and `stop` is set for work that has begun.
        """
        stop = threading.Event()
        # With what belongs to the request: the span that its own are children of.
        run = contextvars.copy_context().run
        result = asyncio.get_running_loop().run_in_executor(self._pool, run, self._shared, work, stop)
        gone = asyncio.ensure_future(_closed(receive))
        try:
            await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise AbandonedError
            return result.result()
        finally:
            stop.set()
            result.cancel()  # after which asyncio does not log an error that nobody takes, either
            gone.cancel()

    def _shared(self, work: Callable[[threading.Event], T], stop: threading.Event) -> T:
        with self._lock:
            self._running += 1
            running = self._running
        torch = sys.modules.get("torch")  # what does not need it is served without
        share = None if running == 1 or torch is None else max(1, torch.get_num_threads() // running)
        try:
            with using_threads(share):
                return work(stop)
        finally:
            with self._lock:
                self._running -= 1

    def begin(self, work: Callable[[], object]) -> None:
        """Compute in a thread what nobody waits for; nothing once the threads end."""
        with contextlib.suppress(RuntimeError):
            self._pool.submit(self._shared, lambda stop: work(), threading.Event())

    def close(self) -> None:
        """Wait for what has begun; the threads end."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._new_threads()  # for a second start; threads come with the first work

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="surprise-rerank-serve")


async def _closed(receive: Callable[[], Awaitable[Any]] | None) -> None:
    if receive is None:
        await asyncio.Event().wait()
        return
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass(slots=True)
class Job:
    """Documents that are stored after their request was answered: how many of them are, and how it ended."""

    id: str
    owner: str  # whose token asked for it
    total: int
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    counts: Counter[str] = field(default_factory=Counter)
    error: str = ""


class Jobs:
    """Jobs of this process, the latest ones. They run one after the other, a part at a time.

    So what others send waits for one part, however many jobs there are. `begin` puts a part behind that.
    """

    def __init__(self, begin: Callable[[Callable[[], object]], object]) -> None:
        self._begin, self._lock = begin, threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._parts = deque[Callable[[], object]]()  # what stores a part of each job that has not ended

    def add(self, job: Job, store: Callable[[], object]) -> bool:
        """Remember a job, unless too many wait already, and begin it in its turn: `store` stores a part."""
        ended = [name for name, other in self._jobs.items() if other.state in ("done", "failed")]
        if len(self._jobs) - len(ended) >= _MOST_WAITING:
            return False
        for name in ended[: max(0, len(self._jobs) - _REMEMBERED)]:
            del self._jobs[name]
        self._jobs[job.id] = job
        with self._lock:
            self._parts.append(store)
            if len(self._parts) == 1:
                self._begin(store)
        return True

    def go_on(self, *, has_ended: bool) -> None:
        """After a part of a job: begin the next one, or where the job has ended the job behind it."""
        with self._lock:
            if has_ended:
                self._parts.popleft()
            if self._parts:
                self._begin(self._parts[0])

    def of(self, name: str, owner: str) -> Job | None:
        """Return the job of an id, if this owner asked for it."""
        job = self._jobs.get(name)
        return job if job is not None and job.owner == owner else None


class DelayedWork:
    """Runs work in a thread of its own once nobody has asked for it for some seconds.

    Who asks on and on gets it after ten times as long. One run at a time; `close` waits for one that has
    begun.
    """

    def __init__(self, work: Callable[[], object], seconds: float) -> None:
        self._work, self._seconds = work, seconds
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._first_wanted = math.inf  # when the work was first asked for
        self._is_closed = False

    def ask(self) -> None:
        """Ask for the work, which may have been asked for already."""
        with self._lock:
            if self._is_closed:
                return
            now = time.monotonic()
            self._first_wanted = min(self._first_wanted, now)
            if self._timer is not None:
                self._timer.cancel()
            wait = min(self._seconds, max(self._first_wanted + 10 * self._seconds - now, 0.0))
            self._timer = threading.Timer(wait, self._run)
            self._timer.daemon = True
            self._timer.start()

    def _run(self) -> None:
        with self._turn:
            with self._lock:
                if self._is_closed:
                    return
                self._first_wanted = math.inf
            self._work()

    def close(self) -> None:
        """Forget what was asked for, and wait for what has begun."""
        with self._lock:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
        with self._turn:
            pass


class RequestEncoder:
    """An encoder for one request: it counts tokens, and stops between batches when nobody waits any more.

    Everything but `encode` is the encoder's own; `tokens` were encoded so far.
    """

    def __init__(self, encoder: Encoder, stop: threading.Event) -> None:
        self._encoder = encoder
        self._stop = stop
        self.tokens = 0
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self.dimension, self.token_dimension = encoder.dimension, token_dimension(encoder)
        self.window, self.token_spans = encoder.window, encoder.token_spans
        self.words = getattr(encoder, "words", None)

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """The encoder's vectors."""

        def advanced(count: int) -> None:
            if on_progress is not None:
                on_progress(count)
            if self._stop.is_set():
                raise AbandonedError

        advanced(0)
        encoded = self._encoder.encode(texts, kind, advanced)
        tokens = encoded.tokens
        counts = map(len, self.token_spans(texts, kind)) if tokens is None else tokens.lengths
        self.tokens += int(sum(counts))
        return encoded
