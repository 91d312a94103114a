"""What a file says of a server: its table `[server]`, with the settings of what ranks and of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from surprise_rerank.connectors.attached.settings import PipelineSettings, read_toml
from surprise_rerank.connectors.server.options import ServerOptions, said_of
from surprise_rerank.errors import DataError, refuse_unknown

# What is an option of the command, or has no form in a file; the token is in the environment.
_NOT_HERE = {"index", "url", "collection", "encoder", "config", "token"}
_RANKS = [own.name for own in fields(PipelineSettings) if own.name not in _NOT_HERE]


def read_config(
    file: str | None, target: str | None, token: str | None
) -> tuple[PipelineSettings, ServerOptions]:
    """What is served, and by which rules: of a file, an index or a collection, and the callers' token.

    Other parts of the file are those of a collection that somebody else made.
    """
    said = {} if file is None else read_toml(file)
    own, where = said.pop("server", {}), f"{file}: [server]"
    if not isinstance(own, Mapping):
        raise DataError(f"{file}: server = {own!r}; expected a table [server]")
    known = [name for name in ServerOptions.model_fields if name not in _NOT_HERE]
    refuse_unknown(own, [*_RANKS, *known], where)
    ranks: dict[str, Any] = {name: value for name, value in own.items() if name in _RANKS}
    ranks |= {"index": target, "config": file if said else None}
    rules = {name: value for name, value in own.items() if name in known}
    try:
        settings = TypeAdapter(PipelineSettings).validate_python(ranks)
        return settings, ServerOptions(token=token, **rules)
    except ValidationError as error:
        raise DataError(f"{where}: {said_of(error.errors(), _RANKS)}") from None
    except DataError as error:
        raise DataError(f"{where}: {error}" if own else str(error)) from error
