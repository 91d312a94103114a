"""The API key or token that a server asks for."""

from __future__ import annotations

import functools
import ipaddress
import logging
from urllib.parse import urlsplit

from surprise_rerank.connectors.qdrant.location import Location

_log = logging.getLogger(__name__)


def key_header(location: Location, url: str) -> dict[str, str] | None:
    """The header with the key for one of the location's addresses; None where there is none.

    qdrant-client would print two lines for a key without TLS, one of them of source code, for this machine's
    own server, too. A log line is written instead, once for each address that is not of this machine.
    """
    if location.key is None:
        return None
    address = urlsplit(url)
    if address.scheme == "http" and not _is_here(address.hostname or ""):
        _warn(f"http://{address.netloc.rpartition('@')[2]}")
    return {"api-key": location.key}


def _is_here(host: str) -> bool:
    """Whether what is sent to a host stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@functools.cache
def _warn(address: str) -> None:
    _log.warning("the API key travels to %s without TLS, readable on the way; use https", address)
