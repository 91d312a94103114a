"""Who may do what: tokens, each with rights and perhaps a tenant, in the environment or in a file."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from surprise_rerank._errors import DataError
from surprise_rerank.connectors.attached._opening import read_toml
from surprise_rerank.connectors.qdrant._schema import ALL
from surprise_rerank.connectors.server._answers import RefusedError
from surprise_rerank.connectors.server._options import ServerOptions, said_of
from surprise_rerank.connectors.server._process import TOKEN_VARIABLE

if TYPE_CHECKING:
    from surprise_rerank.connectors.server._logs import EventLog

# `search` asks and re-ranks, `write` changes documents; `admin` sees metrics and what is of all tenants.
Right: TypeAlias = Literal["search", "write", "admin"]
_ALL_RIGHTS = frozenset(get_args(Right))
# Shorter ones can be guessed.
_SHORTEST = 16
# Seconds after which is looked whether the file was changed.
_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a token: a name for the log, the rights, and the tenant whose documents it reaches."""

    name: str = ""
    rights: frozenset[str] = _ALL_RIGHTS
    tenant: str | None = None

    def require(self, right: Right, what: str = "this") -> None:
        """Refuse the request if the token does not allow it."""
        if self is ANYBODY and right == "write":
            said = f"documents are changed by who has a token; start the server with {TOKEN_VARIABLE} set"
            raise RefusedError(403, said)
        if right not in self.rights:
            raise RefusedError(403, f"the token has no right to {right}, which {what} needs")

    def within(self, tenant: str | None) -> Owner:
        """Return the same for one tenant's documents, where the server has those alone; refuse another's."""
        if self.tenant not in (None, tenant) and tenant is not None:
            raise RefusedError(403, "the token is for the documents of another tenant than this server")
        return self if tenant is None else replace(self, tenant=tenant)

    def tenant_for(self, wanted: str | None) -> str | None:
        """Return the tenant of a request that names one, or none; refuse it if it is another's."""
        if self.tenant is not None and wanted not in (None, self.tenant):
            raise RefusedError(403, "the documents are of another tenant than the token; leave `tenant` out")
        if wanted == ALL:
            self.require("admin", f"tenant={ALL!r}")
        return wanted if self.tenant is None else self.tenant


# Without tokens whoever reaches the server may ask, and nobody may change.
ANYBODY = Owner(rights=_ALL_RIGHTS - {"write"})


class _Entry(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tokens: list[str] = Field(min_length=1)
    rights: list[Right] = Field(min_length=1)
    tenant: str | None = None


class Tokens:
    """The valid tokens; a file of them is read again when it changes, and kept if it becomes unreadable.

    Raises:
        DataError: if the file cannot be read or understood, or others may read it.
    """

    def __init__(self, options: ServerOptions, logger: EventLog) -> None:
        self._options, self._logger = options, logger
        self._state: tuple[int, ...] = ()
        self._looked = 0.0
        self._owners = self._read()

    def owner(self, header: str) -> Owner | None:
        """Return whose a header `Authorization` is; None of a missing or wrong token."""
        self._look_again()
        if not self._owners:
            return ANYBODY
        scheme, _, token = header.partition(" ")
        digest = _digest(token.strip().encode("latin-1")) if scheme.lower() == "bearer" else b""
        # All are compared, each in constant time: how long it takes tells nothing of them.
        same = [owner for kept, owner in self._owners.items() if hmac.compare_digest(kept, digest)]
        return same[0] if same else None

    def _look_again(self) -> None:
        if self._options.tokens is None or time.monotonic() - self._looked < _PATIENCE:
            return
        self._looked = time.monotonic()
        if _state_of(Path(self._options.tokens)) == self._state:
            return
        try:
            self._owners = self._read()
            self._logger.say("tokens", read=len(self._owners))
        except DataError as error:
            self._logger.say("tokens", logging.ERROR, kept=len(self._owners), said=str(error))

    def _read(self) -> dict[bytes, Owner]:
        """Digest -> whose token has it. Digests have one length, as `compare_digest` wants."""
        owners = {_digest(token.encode()): Owner() for token in (self._options.token or "").split()}
        if self._options.tokens is None:
            return owners
        path = Path(self._options.tokens)
        self._state = _state_of(path)
        for name, entry in _entries(path).items():
            for token in entry.tokens:
                if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
                    raise DataError(
                        f"{path}: a token of [{name}] is none: it takes {_SHORTEST} letters, digits and "
                        "signs without spaces at the least, such as of 'openssl rand -hex 24'"
                    )
                if (digest := _digest(token.encode())) in owners:
                    raise DataError(f"{path}: a token of [{name}] is somebody else's, too; make another one")
                owners[digest] = Owner(name, frozenset(entry.rights), entry.tenant)
        return owners


def _entries(path: Path) -> Mapping[str, _Entry]:
    _require_private(path)
    try:
        entries = TypeAdapter(dict[str, _Entry]).validate_python(read_toml(path))
    except ValidationError as error:
        names = tuple(_Entry.model_fields)
        raise DataError(f"{path}: {said_of(error.errors(include_input=False), names)}") from None
    if not entries:
        raise DataError(f"{path} has no tokens; give it a table such as [me] with tokens and rights")
    return entries


def _require_private(path: Path) -> None:
    """Refuse a file that others may read; of root's, as Kubernetes mounts them, the group may."""
    if sys.platform == "win32":
        return
    try:
        about = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    is_mounted = about.st_uid == 0 and os.geteuid() != 0
    if stat.S_IMODE(about.st_mode) & (0o037 if is_mounted else 0o077):
        raise DataError(f"{path} has tokens in it, and others may read it; run 'chmod 600 {path}'")


def _state_of(path: Path) -> tuple[int, ...]:
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_ino, about.st_size, about.st_mtime_ns


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
