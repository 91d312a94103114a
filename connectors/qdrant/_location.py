"""Where an index lives, and how a server is reached."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, NoIndexError
from surprise_rerank.core._process import require_no_secret

# Edge in a folder; qdrant-client's local mode in memory; a server.
EngineKind: TypeAlias = Literal["edge", "local", "server"]
MEMORY = ":memory:"
COPY_ENDING = ".vectors"  # of a file that holds a copy of an index
_REST_PORT = 6333


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a request is sent again.

    Waits are drawn evenly from 0 to `first_wait`, twice that, and so on up to `longest_wait`: full jitter, so
    that clients which failed together do not return together. A wait that the server asks for is added. Of
    changes, and of what is read for them, no attempt begins after `time_limit`: a server that is away for a
    minute does not end a run of hours.
    """

    attempts: int | None = None  # the first one included; None where time alone decides
    first_wait: float = 0.5  # seconds
    longest_wait: float = 20.0
    time_limit: float = 300.0
    search_limit: float = 15.0  # of questions, whose users wait

    def __post_init__(self) -> None:
        seconds = dict.fromkeys(("first_wait", "longest_wait", "time_limit", "search_limit"), _seconds)
        border.fields(self, attempts=border.or_none(border.count), **seconds)

    def for_questions(self) -> RetryPolicy:
        """Return the policy with the time limit of questions."""
        return replace(self, time_limit=min(self.search_limit, self.time_limit))


def _seconds(name: str, value: object) -> float:
    return border.number(name, value, 0)


DEFAULT_RETRIES = RetryPolicy()


@dataclass(frozen=True, slots=True, repr=False)
class Location:
    """Where an index lives: a folder, the memory of this process, or a Qdrant server or cluster.

    Several urls, as a list or with commas between, are the nodes of a cluster: requests go to the first that
    is up.

    Raises:
        DataError: if a url is empty, or both a folder and a url are given.
    """

    folder: str | os.PathLike[str] | None = None  # or `:memory:`
    url: str | Sequence[str] | None = None  # such as http://localhost:6333
    collection: str = "documents"  # its name, on a server or in memory
    api_key: str | None = None  # QDRANT_API_KEY of the environment by default; it is never shown
    prefer_grpc: bool = False  # in place of REST
    grpc_port: int | None = None  # the one after each address's own by default
    timeout: float = 60.0  # seconds until a request counts as failed
    retries: RetryPolicy = DEFAULT_RETRIES

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike | None):
            border.refuse("location", self.folder, "a folder, ':memory:' or a url", "write it in quotes")
        border.text("collection", self.collection, blank=False)
        border.optional(border.text, "api_key", self.api_key)
        border.flags(prefer_grpc=self.prefer_grpc)
        border.optional(border.count, "grpc_port", self.grpc_port)
        _seconds("timeout", self.timeout)
        border.instance("retries", self.retries, RetryPolicy)
        if self.url is not None:
            urls = split_urls(self.url if isinstance(self.url, str) else border.texts("url", self.url))
            if not all(urls or [""]):
                raise DataError(
                    f"{shown_url(str(self.url))!r} names no Qdrant server; give urls such as "
                    "http://localhost:6333, with commas between them"
                )
            object.__setattr__(self, "url", ",".join(urls))
        border.not_both("give the one where the index is", folder=self.folder, url=self.url)

    @classmethod
    def at(cls, target: str | os.PathLike[str], collection: str = "documents") -> Self:
        """What one name says: a folder, `:memory:`, or a server's url with a collection.

        That is http://localhost:6333/papers; of a cluster several urls with commas between, the last with the
        collection.

        Raises:
            DataError: if a url names no collection.
        """
        border.path("location", target)
        if not isinstance(target, str) or not target.startswith(("http://", "https://")):
            return cls(target, collection=collection)
        server, _, name = target.rstrip("/").rpartition("/")
        if server.endswith("/") or not name:
            shown = shown_url(target.rstrip("/"))
            raise DataError(f"{shown!r} names no collection; give a url such as {shown}/papers")
        return cls(url=server, collection=unquote(name))

    @classmethod
    def of(cls, target: Location | str | os.PathLike[str]) -> Location:
        """Return the place that somebody names by a `Location`, or by one name; see `at`."""
        return target if isinstance(target, Location) else cls.at(target)

    def __reduce__(self) -> tuple[Any, ...]:
        key = next((split_url(url).password for url in self.urls if split_url(url).password), self.api_key)
        require_no_secret(key, "QDRANT_API_KEY", f"the index at {self}")
        values = {field.name: getattr(self, field.name) for field in fields(self)} | {"api_key": None}
        return type(self), tuple(values.values())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses, the preferred one first; none of a folder."""
        return split_urls(self.url)

    def grpc_port_of(self, url: str) -> int:
        """The port for gRPC of one of the addresses."""
        return self.grpc_port or (split_url(url).port or _REST_PORT) + 1

    def __repr__(self) -> str:  # without the key, or a password in the url
        place = None if self.folder is None else os.fspath(self.folder)
        shown = place if self.url is None else self._shown
        return f"{type(self).__name__}({shown!r}, collection={self.collection!r})"

    def __str__(self) -> str:
        """The folder, or the server's url and the collection; without a password."""
        if self.url is None:
            return "" if self.folder is None else os.fspath(self.folder)
        return f"{self._shown}, collection {self.collection!r}"

    @property
    def is_given(self) -> bool:
        """Whether there is a folder or a url."""
        return self.folder is not None or self.url is not None

    @property
    def server(self) -> str:
        """The server, or the memory, for messages."""
        if self.url is None:
            return "memory"
        return f"the Qdrant {'servers' if len(self.urls) > 1 else 'server'} at {self._shown}"

    @property
    def _shown(self) -> str:
        return ", ".join(map(shown_url, self.urls))

    @property
    def key(self) -> str | None:
        """The key that is sent to the server."""
        return self.api_key or os.environ.get("QDRANT_API_KEY")


def split_urls(url: str | Sequence[str] | None) -> tuple[str, ...]:
    """Addresses: one, several with commas between, or a list of them."""
    parts = [url] if isinstance(url, str) else list(url or ())
    return tuple(dict.fromkeys(address.strip() for part in parts for address in part.split(",")))


def split_url(url: str) -> SplitResult:
    """A server's url in its parts; one without a scheme is of http, as the client takes it."""
    return urlsplit(url if "://" in url else f"http://{url}")


def shown_url(url: str) -> str:
    """A server's url for messages and reports, without what can be a password (before an @)."""
    return re.sub(r"(//|^|[,\s'\"])[^/@,\s'\"]*@", r"\1", url)


def require_no_copy(place: Path) -> None:
    """Refuse a copy of an index in a file, by the call that makes an index of it."""
    if place.suffix == COPY_ENDING and place.is_file():
        raise NoIndexError(
            f"{place} is a copy of an index in a file; make an index of it first: surprise-rerank index "
            f"--copy-of {place} --index NAME (in Python copy_index)"
        )


def no_index(folder: Path) -> NoIndexError:
    """The error for a folder without an index."""
    return NoIndexError(f"there is no index at {folder}; make one first, or give its folder")
