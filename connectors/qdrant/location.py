"""Where an index lives, and how a server is reached."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

from surprise_rerank.core.settings import option
from surprise_rerank.errors import DataError

EngineKind: TypeAlias = Literal["edge", "local", "server"]
MEMORY = ":memory:"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a request is sent again.

    Waits are drawn evenly from 0 to `first_wait`, twice that, and so on up to `longest_wait`: full jitter, so
    that clients which failed together do not return together. A wait that the server asks for is added.

    Attributes:
        attempts: how often it is sent at most, the first time included.
        first_wait: seconds, the bound of the first wait.
        longest_wait: seconds, the bound of every wait that the server did not ask for.
        time_limit: seconds from the first attempt after which no other begins. If a server asks to wait for
            longer than what is left, the request fails at once.
    """

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 20.0
    time_limit: float = 300.0


DEFAULT_RETRIES = RetryPolicy()


@dataclass(frozen=True, slots=True, repr=False)
class Location:
    """Where an index lives: a folder, the memory of this process, or a Qdrant server or cluster.

    Attributes:
        folder: of the index, or `:memory:`; None on a server.
        url: of the server, such as http://localhost:6333.
        collection: name of the collection, on a server or in memory.
        api_key: for the server; the environment variable QDRANT_API_KEY by default. It is never shown.
        engine: `edge` or `local` for a new folder; Edge where it is installed by default.
        prefer_grpc: send requests by gRPC instead of REST.
        grpc_port: port of the server for gRPC.
        timeout: seconds until a request counts as failed.
        retries: how often and how long a failed request is sent again.

    Raises:
        DataError: if both a folder and a url are given.
    """

    folder: str | os.PathLike[str] | None = option(
        None,
        flag="--index",
        metavar="FOLDER",
        envvar="SURPRISE_RERANK_INDEX",
        path="any",
        help="The folder of the index.  [$SURPRISE_RERANK_INDEX]",
    )
    url: str | None = option(
        None,
        flag="--qdrant-url",
        metavar="URL",
        envvar="QDRANT_URL",
        help="A Qdrant server instead of a folder; its key from $QDRANT_API_KEY.  [$QDRANT_URL]",
    )
    collection: str = option("documents", metavar="NAME", help="The collection on the server.")
    api_key: str | None = None
    engine: EngineKind | None = None
    prefer_grpc: bool = False
    grpc_port: int = 6334
    timeout: float = 60.0
    retries: RetryPolicy = DEFAULT_RETRIES

    def __post_init__(self) -> None:
        if self.folder is not None and self.url is not None:
            raise DataError(
                f"the folder {os.fspath(self.folder)!r} and the url {shown_url(self.url)!r} are both given; "
                "give the one where the index is"
            )

    def __repr__(self) -> str:  # without the key, or a password in the url
        place = None if self.folder is None else os.fspath(self.folder)
        shown = place if self.url is None else shown_url(self.url)
        return f"{type(self).__name__}({shown!r}, collection={self.collection!r})"

    def __str__(self) -> str:
        """The folder, or the server's url and the collection; without a password."""
        if self.url is None:
            return "" if self.folder is None else os.fspath(self.folder)
        return f"{shown_url(self.url)}, collection {self.collection!r}"

    @property
    def is_given(self) -> bool:
        """Whether there is a folder or a url."""
        return self.folder is not None or self.url is not None

    @property
    def server(self) -> str:
        """The server, or the memory, for messages."""
        return "memory" if self.url is None else f"the Qdrant server at {shown_url(self.url)}"

    @property
    def key(self) -> str | None:
        """The key that is sent to the server."""
        return self.api_key or os.environ.get("QDRANT_API_KEY")

    def with_key(self) -> Self:
        """The same with the key of this environment, for processes that may have another environment."""
        return self if self.url is None else replace(self, api_key=self.key)


def shown_url(url: str) -> str:
    """A server's url for messages and reports, without what can be a password (between // and @)."""
    return re.sub(r"//[^/@]*@", "//", url)
