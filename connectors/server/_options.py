"""What the server allows: its token, its limits, and its log; and the file that says so."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, DirectoryPath, Field, TypeAdapter, ValidationError

from surprise_rerank._errors import DataError, did_you_mean, refuse_unknown
from surprise_rerank.connectors.attached._opening import read_toml
from surprise_rerank.connectors.attached._settings import PipelineSettings

# Cohere's own limit. What is longer is refused while it is read, whatever the server's options are.
MOST_DOCUMENTS = 10_000
# What is an option of the command, or has no form in a file; the token is in the environment.
_NOT_HERE = {"index", "encoder", "config", "token"}
_RANKS = [field.name for field in fields(PipelineSettings) if field.name not in _NOT_HERE]


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ServerOptions(BaseModel):
    """The token and the limits of a server; of a file, its table `[server]`.

    A DataError if a limit is out of its range, the token is empty, or there is no such option.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    # What callers must send as a bearer token; of several, with spaces between, each is valid. Without any
    # anybody may call who names this machine, or one of `hosts`: a web page whose name was pointed here
    # cannot.
    token: str | None = Field(None, repr=False, pattern=r"\S")
    tokens: str | None = None  # file of tokens with rights, see `owners`
    hosts: tuple[str, ...] = ()
    # Whose pages may ask from a browser, such as https://shop.example; `*` for those of everybody, by tokens.
    origins: tuple[str, ...] = ()
    max_body: int = Field(4 * 2**20, ge=1)  # bytes of a request
    max_documents: int = Field(1000, ge=1, le=MOST_DOCUMENTS)  # of a request, and hits of a search
    max_characters: int = Field(100_000, ge=1)  # of a question, or of one document
    max_conditions: int = Field(64, ge=0)  # of a filter: Qdrant tests each on every document in its way
    max_requests: int = Field(128, ge=1)  # at a time, those that wait for a worker included
    max_connections: int = Field(512, ge=2)  # open ones; the one that is idle for longest makes room
    max_answer: int = Field(12_000, ge=2000)  # characters of an answer to an agent
    workers: int = Field(default_factory=_cores, ge=1)  # threads that compute
    read_timeout: float = Field(20.0, gt=0, allow_inf_nan=False)  # seconds for a head, for a body, for idling
    timeout: float = Field(60.0, gt=0, allow_inf_nan=False)  # seconds from the body to the answer
    # Seconds after the last change after which stale backgrounds are measured again; never where 0.
    background_after: float = Field(10.0, ge=0, allow_inf_nan=False)
    logs: Literal["json", "console"] | None = None  # for people on a terminal, else JSON by default
    # Questions that the page offers, the last one of another topic; of the documents by default.
    tried: tuple[str, ...] = ()
    files: DirectoryPath | None = None  # the folder that was indexed, whose files citations of the page open

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise DataError(said_of(error.errors(), ServerOptions.model_fields)) from None
        if "*" in self.origins and not self.asks_for_tokens:
            raise DataError("origins = ['*'] lets every web page in; set a token, or name the pages' origins")
        if self.max_connections <= self.max_requests:  # probes would find no place
            raise DataError(
                f"max_connections={self.max_connections} must be more than max_requests={self.max_requests}"
            )

    @property
    def asks_for_tokens(self) -> bool:
        """Whether callers must have one."""
        return bool(self.token or self.tokens)


def said_of(errors: Sequence[Mapping[str, Any]], names: Iterable[str], skipped: int = 0) -> str:
    """The first thing that is wrong with values, by its place and kind; not what stands there."""
    first = errors[0]
    where = list(first["loc"])[skipped:]
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(str(where[-1]), names)
        return f"a field is not known; {hint}there are: {', '.join(names)}"
    said = first["msg"].partition(" or instance of")[0].partition(" or object to")[0]
    said = said.removeprefix("Value error, ").replace("a valid dictionary", "an object")
    named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    return f"{named or 'the body'}: {said[:1].lower()}{said[1:]}"


def read_config(
    file: str | None, target: str | None, token: str | None
) -> tuple[PipelineSettings, ServerOptions]:
    """What is served, and by which rules: of a file, an index or a collection, and the callers' token.

    Other parts of the file are those of a collection that somebody else made.
    """
    said = {} if file is None else read_toml(file)
    table, where = said.pop("server", {}), f"{file}: [server]"
    if not isinstance(table, Mapping):
        raise DataError(f"{file}: server = {table!r}; expected a table [server]")
    names = [name for name in ServerOptions.model_fields if name not in _NOT_HERE]
    refuse_unknown(table, [*_RANKS, *names], where)
    ranks: dict[str, Any] = {name: value for name, value in table.items() if name in _RANKS}
    ranks |= {"index": target, "config": file if said else None}
    rules = {name: value for name, value in table.items() if name in names}
    try:
        settings = TypeAdapter(PipelineSettings).validate_python(ranks)
        return settings, ServerOptions(token=token, **rules)
    except ValidationError as error:
        raise DataError(f"{where}: {said_of(error.errors(), _RANKS)}") from None
    except DataError as error:
        raise DataError(f"{where}: {error}" if table else str(error)) from error
