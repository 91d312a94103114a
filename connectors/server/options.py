"""What the server allows: its token and its limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from surprise_rerank.core.settings import option
from surprise_rerank.errors import DataError

# Where the token is, of the server and of those who ask it; an option would be seen by other users.
TOKEN_VARIABLE = "SURPRISE_RERANK_TOKEN"
# Cohere's own limit. What is longer is refused while it is read, whatever the server's options are.
MOST_DOCUMENTS = 10_000


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The token and the limits of a server.

    Attributes:
        token: what callers must send as a bearer token; anybody may call where it is None.
        max_body: bytes of a request's body.
        max_documents: documents of a request, and hits of a search.
        max_characters: of a question, or of one document.
        max_requests: concurrent requests, those that wait for a worker included.
        workers: threads that compute; one for each core where None.
        max_batch: questions that are encoded together, of requests that wait for a worker; 1 encodes each
            alone.
        timeout: seconds from a request's first byte to its answer.

    Raises:
        DataError: if a limit is out of its range, or the token is empty.
    """

    token: str | None = field(default=None, repr=False)
    max_body: int = option(4 * 2**20, low=1, metavar="BYTES", help="Of a request: 413 beyond.")
    max_documents: int = option(
        1000, low=1, high=MOST_DOCUMENTS, help="Of a request: 422 beyond, or 413 at /rerank."
    )
    max_characters: int = option(
        100_000, low=1, help="Of a question or a document: 422 beyond, or 413 at /rerank."
    )
    max_requests: int = option(128, low=1, help="Concurrent requests, those that wait included: 429 beyond.")
    workers: int | None = option(None, low=1, help="Threads that compute.  [default: one for each core]")
    max_batch: int = option(
        16, low=1, help="Questions of waiting requests that are encoded together; 1 encodes each alone."
    )
    timeout: float = option(60.0, low=0, above=True, metavar="SECONDS", help="For a request: 503 beyond.")

    def __post_init__(self) -> None:
        if self.token is not None and not self.token.strip():
            raise DataError("the token is empty; give a long random one, or None to let anybody call")
        for name in ("max_body", "max_documents", "max_characters", "max_requests", "workers", "max_batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"{name} must be at least 1, got {value}")
        if self.max_documents > MOST_DOCUMENTS:
            raise DataError(f"max_documents must be at most {MOST_DOCUMENTS}, got {self.max_documents}")
        if not 0 < self.timeout < float("inf"):
            raise DataError(f"timeout must be a positive number of seconds, got {self.timeout}")

    @property
    def threads(self) -> int:
        """How many threads compute."""
        if self.workers is not None:
            return self.workers
        # Those that this process may use, where the system tells.
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
