"""What the server allows: its token and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from surprise_rerank.connectors.server.schemas import MOST_DOCUMENTS
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The token and the limits of a server.

    Attributes:
        token: what callers must send as a bearer token; anybody may call where it is None.
        max_body: bytes of a request's body.
        max_documents: documents of a request, and hits of a search.
        max_characters: of a question, or of one document.
        max_requests: that are in the house at once, those that wait for a worker included.
        workers: threads that compute.
        timeout: seconds from a request's first byte to its answer.

    Raises:
        DataError: if a limit is out of its range, or the token is empty.
    """

    token: str | None = field(default=None, repr=False)
    max_body: int = 4 * 2**20
    max_documents: int = 1000
    max_characters: int = 100_000
    max_requests: int = 128
    workers: int = 2
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.token is not None and not self.token.strip():
            raise DataError("the token is empty; give a long random one, or None to let anybody call")
        for name in ("max_body", "max_documents", "max_characters", "max_requests", "workers"):
            if getattr(self, name) < 1:
                raise DataError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_documents > MOST_DOCUMENTS:
            raise DataError(f"max_documents must be at most {MOST_DOCUMENTS}, got {self.max_documents}")
        if not 0 < self.timeout < float("inf"):
            raise DataError(f"timeout must be a positive number of seconds, got {self.timeout}")
