"""Requests to a vector store: repeated while a fault may pass, else reported in one line."""

from __future__ import annotations

import json
import logging
import re
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
import httpx
import tenacity
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from surprise_rerank.connectors.qdrant.location import DEFAULT_RETRIES, RetryPolicy
from surprise_rerank.core.files import disk_errors
from surprise_rerank.core.retry_after import retry_after_seconds
from surprise_rerank.errors import StoreError

T = TypeVar("T")

_log = logging.getLogger(__name__)

_TRANSIENT_STATUS = frozenset({408, 429, 502, 503, 504})
_TRANSIENT_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
    }
)
# Of these a node is away itself, or what is before it says so.
_AWAY_STATUS = frozenset({502, 503, 504})
_AWAY_CODES = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
_INTERNAL = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
# What a node says while another one is away that holds a shard: reads, changes, and what both need.
_LOST_SHARD = re.compile(
    r"read operations? failed|shards? failed to apply operation|transport error|currently unavailable|"
    r"active replica|please retry|consensus operation|Raft consensus",
    re.IGNORECASE,
)
_NO_ACCESS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
# Qdrant's REST and gRPC, gRPC's client, and strict mode's limits of a batch and of tokens per minute.
_TOO_LARGE = re.compile(
    r"larger than (allowed|max)|has exceeded limit|length too large|upsert limit|split your request",
    re.IGNORECASE,
)
_NO_COLLECTION = re.compile(r"collection .*(doesn't exist|does not exist|not found)", re.IGNORECASE)
_COLLECTION_EXISTS = re.compile(r"collection .*already exists", re.IGNORECASE)
# Qdrant's reasons to refuse a change. It names no other right than these where somebody may read.
_WRITING = re.compile(r"write access|manage access|read-only", re.IGNORECASE)
# What strict mode refuses, and Qdrant's advice, which is about its own parameters.
_STRICT = re.compile(
    r"Bad request: (?P<what>.+?)(?:[.!]+ Help: (?P<advice>.+?)\.?|(?<= reached)!)$", re.DOTALL
)
_NO_ROOM = re.compile(r"no space left|disk space", re.IGNORECASE)
_CERTIFICATE = re.compile(r".*certificate verify failed: (?P<reason>.+?)\.? \(_ssl\.c:\d+\)$")
_NO_RESULT = re.compile(r"returned None")  # qdrant-client, of JSON that has no `result`
_BAD_RETRY_AFTER = "Retry-After header value is not a valid integer: "
_FAULTS = (ApiException, QdrantException, grpc.RpcError, ValueError, AssertionError)
_SILENT = 3.0  # seconds that a request may wait without a word
_SHOWN = 200  # characters of a message from outside


class TooLarge(StoreError):  # noqa: N818 (what is wrong with the request, rather than with the store)
    """A request that is larger than the store accepts; half of it may not be."""


class CollectionGone(StoreError):  # noqa: N818
    """A collection that was deleted after it had been opened."""


class NoAccess(StoreError):  # noqa: N818
    """A request that the key or the token does not allow."""


class CollectionExists(StoreError):  # noqa: N818
    """A collection that exists already: made by another process, or by an attempt whose answer was lost."""


def call(request: Callable[[], T], where: str, policy: RetryPolicy = DEFAULT_RETRIES) -> T:
    """Send a request, with jittered back-off while the fault may pass.

    Args:
        request: sends it; must be idempotent, because an answer may be lost after it was carried out.
        where: the place, for messages.
        policy: how often and how long.

    Raises:
        TooLarge: if the store refuses the request for its size.
        CollectionGone: if the collection does not exist.
        CollectionExists: if it was to be made, and exists.
        NoAccess: if the key or the token does not allow it.
        StoreError: if the request fails for another reason, or keeps failing.
    """
    retrying = tenacity.Retrying(**_how(where, policy))
    try:
        with disk_errors(where):
            return retrying(request)
    except _FAULTS as error:
        shown, cause = _told(error, where, retrying)
    # Outside the handler: an error raised in it would keep the original, and what that shows, as its context.
    raise shown from cause


def _how(where: str, policy: RetryPolicy) -> dict[str, Any]:
    """What tenacity is told."""
    attempts = [] if policy.attempts is None else [tenacity.stop_after_attempt(policy.attempts)]
    return {
        "retry": tenacity.retry_if_exception(_is_transient),
        "wait": _Pause(policy),
        "stop": tenacity.stop_any(*attempts, tenacity.stop_before_delay(policy.time_limit)),
        "before_sleep": _Announced(where, policy.time_limit),
        "reraise": True,
    }


def _told(
    error: Exception, where: str, retrying: tenacity.BaseRetrying
) -> tuple[Exception, Exception | None]:
    """The error to raise, and its cause; raises the same one where it is a bug."""
    shown = _store_error(error, where)
    if shown is None:
        raise error
    attempts = retrying.statistics.get("attempt_number", 1)
    said = f"{shown} (tried {attempts} times)" if attempts > 1 else str(shown)
    return type(shown)(said), None if _shows_headers(error) else error


class _Announced:
    """Says once that a request waits, where it has waited for a while."""

    def __init__(self, where: str, limit: float) -> None:
        self._where, self._limit, self._is_said = where, limit, False

    def __call__(self, retry_state: tenacity.RetryCallState) -> None:
        if self._is_said or (retry_state.seconds_since_start or 0.0) < _SILENT:
            return
        self._is_said = True
        error = retry_state.outcome.exception() if retry_state.outcome else None
        shown = _store_error(error, self._where) if isinstance(error, Exception) else None
        _log.warning(
            "%s. It is asked again for up to %.0f s; what is stored stays, and the same call goes on later",
            shown or self._where,
            self._limit,
        )


class _Pause(tenacity.wait.wait_base):
    """Waits: full jitter, and what the server asks for."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._jitter = tenacity.wait_random_exponential(policy.first_wait, max=policy.longest_wait)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return self._jitter(retry_state) + (_asked_wait(error) or 0.0)


def _asked_wait(error: BaseException | None) -> float | None:
    """Seconds that the server asks to wait for before the next attempt; None if it does not say."""
    if isinstance(error, ResourceExhaustedResponse):
        return max(0.0, float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        return retry_after_seconds(error.headers.get("Retry-After", ""))
    if _is_bad_retry_after(error):
        return retry_after_seconds(str(error).removeprefix(_BAD_RETRY_AFTER))
    return None


def _is_bad_retry_after(error: BaseException | None) -> bool:
    """A 429 whose Retry-After is a date, which qdrant-client takes for an error of its own."""
    return isinstance(error, QdrantException) and str(error).startswith(_BAD_RETRY_AFTER)


def _is_transient(error: BaseException) -> bool:
    match error:
        case UnexpectedResponse():
            known = error.status_code in _TRANSIENT_STATUS or is_lost_shard(error)
            return known and _TOO_LARGE.search(_reason(error)) is None
        case ResponseHandlingException():
            return _is_transient_transport(error.source)
        case ResourceExhaustedResponse():
            return True
        case grpc.RpcError():
            known = _code(error) in _TRANSIENT_CODES or is_lost_shard(error)
            return known and _TOO_LARGE.search(_details(error)) is None
    # An answer that is no JSON was cut off, or is the page of a proxy whose server is away; or it is
    # another service's, which the last attempt reports.
    return _is_no_json(error) or _is_bad_retry_after(error)


def is_lost_shard(error: BaseException) -> bool:
    """Whether a node answers that the node of a shard is away: an internal error that passes."""
    match error:
        case UnexpectedResponse(status_code=500):
            return bool(_LOST_SHARD.search(_reason(error)))
        case grpc.RpcError():
            return _code(error) in _INTERNAL and bool(_LOST_SHARD.search(_details(error)))
    return False


def is_timeout(error: BaseException) -> bool:
    """Whether no answer came in time."""
    match error:
        case ResponseHandlingException():
            return isinstance(error.source, httpx.TimeoutException)
        case grpc.RpcError():
            return _code(error) is grpc.StatusCode.DEADLINE_EXCEEDED
    return False


def is_away(error: BaseException) -> bool:
    """Whether a node does not answer, or is not ready to."""
    match error:
        case UnexpectedResponse():
            return error.status_code in _AWAY_STATUS
        case ResponseHandlingException():
            return _is_transient_transport(error.source)
        case grpc.RpcError():
            return _code(error) in _AWAY_CODES
    return False


def is_elsewhere(error: BaseException) -> bool:
    """Whether another node of the same cluster may answer."""
    return is_away(error) or is_lost_shard(error)


def _is_transient_transport(source: BaseException) -> bool:
    """Time-outs, lost connections, broken answers; not what another attempt would meet again."""
    if isinstance(source, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return False
    return isinstance(source, httpx.TransportError | httpx.DecodingError) and not _is_untrusted(source)


def _is_untrusted(source: BaseException | None) -> bool:
    while source is not None:
        if isinstance(source, ssl.SSLCertVerificationError):
            return True
        source = source.__cause__ or source.__context__  # httpcore names no cause
    return False


def _is_no_json(error: BaseException) -> bool:
    return isinstance(error, json.JSONDecodeError | UnicodeDecodeError)


def _shows_headers(error: BaseException) -> bool:
    """Whether the error's own message may quote the request's headers, and with them the API key."""
    return isinstance(error, ResponseHandlingException) and isinstance(error.source, httpx.LocalProtocolError)


def _store_error(error: Exception, where: str) -> StoreError | None:
    """What failed where, and what to do, in one line; never the request, which holds the API key."""
    match error:
        case UnexpectedResponse():
            return _response_error(error, where)
        case ResponseHandlingException():
            return _transport_error(error.source, where)
        case grpc.RpcError():
            return _grpc_error(error, where)
        case ValueError() | AssertionError():
            return _value_error(error, where)
    asked = _asked_wait(error)
    wait = "" if asked is None else f" and asks to wait for {asked:.0f} s"
    return StoreError(f"{where} is overloaded{wait}; try again later")


def _response_error(error: UnexpectedResponse, where: str) -> StoreError:
    status, reason = error.status_code, _reason(error)
    if status == 413 or _TOO_LARGE.search(reason):
        return _too_large(where, reason or str(status))
    if status in (401, 403):
        return _refused(where, status == 401, f"{status} {reason}".strip())
    if status == 404 and _NO_COLLECTION.search(reason):
        return _gone(where)
    if status == 409 or _COLLECTION_EXISTS.search(reason):
        return _exists(where)
    shown = f"{status} {error.reason_phrase}".strip()
    asked = _asked_wait(error)
    advice = f"; it asks to wait for {asked:.0f} s" if asked else ""
    return _answered(where, shown, reason, advice)


def _transport_error(source: Exception, where: str) -> StoreError:
    match source:
        case httpx.LocalProtocolError():
            return _unwritable(where)
        case httpx.ConnectError() if _is_untrusted(source):
            return _untrusted(where, _line(source))
        case httpx.ConnectError() if "WRONG_VERSION_NUMBER" in str(source):
            return StoreError(f"{where} does not speak TLS; begin the url with http://")
        case httpx.RemoteProtocolError() if "illegal" in str(source):
            return StoreError(f"{where} does not speak HTTP; if it speaks TLS, begin the url with https://")
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.UnsupportedProtocol():
            reason = _line(source) or type(source).__name__
            return StoreError(
                f"cannot reach {where} ({reason}); start it with 'docker compose up -d' or check the url"
            )
        case httpx.WriteTimeout() | httpx.WriteError():
            # A server that refuses a request by its length may stop to read it, and its answer is lost.
            return _too_large(where, "it stopped to read")
        case httpx.TimeoutException():
            return StoreError(f"{where} does not answer in time; give it longer, or send it less at once")
        case httpx.TransportError() | httpx.DecodingError():
            reason = _line(source) or type(source).__name__
            return StoreError(f"the connection to {where} was lost ({reason}); see whether it still runs")
    return _not_qdrant(where)  # JSON, but of another form


def _grpc_error(error: grpc.RpcError, where: str) -> StoreError:
    code, details = _code(error), _details(error)
    name = code.name if code else "UNKNOWN"
    if code in _NO_ACCESS:
        return _refused(where, code == grpc.StatusCode.UNAUTHENTICATED, f"{name} {details}".strip())
    if code == grpc.StatusCode.INTERNAL and details == "Invalid metadata":
        return _unwritable(where)
    if _TOO_LARGE.search(details):
        return _too_large(where, details)
    if code == grpc.StatusCode.NOT_FOUND and _NO_COLLECTION.search(details):
        return _gone(where)
    if code == grpc.StatusCode.ALREADY_EXISTS or _COLLECTION_EXISTS.search(details):
        return _exists(where)
    if code == grpc.StatusCode.UNAVAILABLE:
        return _unreached_by_grpc(where, details)
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return StoreError(f"{where} does not answer in time; give it longer, or send it less at once")
    return _answered(where, name, details)


def _value_error(error: ValueError | AssertionError, where: str) -> StoreError | None:
    """The error for answers that are not Qdrant's, and of collections in local mode; None for bugs."""
    if _is_no_json(error) or (isinstance(error, AssertionError) and _NO_RESULT.search(str(error))):
        return _not_qdrant(where)
    if _NO_COLLECTION.match(str(error)):
        return _gone(where)
    return _exists(where) if _COLLECTION_EXISTS.match(str(error)) else None


def _unwritable(where: str) -> StoreError:
    return StoreError(
        f"cannot send requests to {where}: a header cannot be written; "
        "see that QDRANT_API_KEY is one line of plain characters"
    )


def _refused(where: str, is_unknown: bool, reason: str) -> StoreError:
    """Of a key that the server does not know, or of one that may not do this."""
    refused = f"{where} refuses access ({reason}); set QDRANT_API_KEY to"
    if is_unknown:
        return StoreError(f"{refused} a key of this server")
    if "Global access" in reason:  # of a token for some collections
        return NoAccess(f"{refused} a key or a token that may make and change collections (access 'm')")
    may = "write" if _WRITING.search(reason) else "read this"
    return NoAccess(f"{refused} a key or a token that may {may}")


def _unreached_by_grpc(where: str, details: str) -> StoreError:
    if "CERTIFICATE_VERIF" in details:
        return _untrusted(where, "its authority is not known", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
    if "Hostname Verification" in details:
        return _untrusted(where, "it is not valid for this host")
    return StoreError(
        f"cannot reach {where} ({details}); start it with 'docker compose up -d' or check the url"
    )


def _answered(where: str, shown: str, reason: str, advice: str = "") -> StoreError:
    """The error for a reason that has no kind of its own."""
    if _NO_ROOM.search(reason):
        return StoreError(f"the disk of {where} is full ({reason}); make room there, and run it again")
    strict = _STRICT.search(reason)
    if strict is None:
        return StoreError(f"{where} answered {shown}: {reason or 'without a reason'}{advice}")
    advised = f" ({strict['advice']})" if strict["advice"] else ""
    return StoreError(
        f"{where} is in strict mode and refuses the request: {strict['what']}{advised}; "
        "change the request, or allow it in the collection's strict_mode_config"
    )


def _untrusted(where: str, reason: str, variable: str = "SSL_CERT_FILE") -> StoreError:
    found = _CERTIFICATE.fullmatch(reason)
    shown = found["reason"] if found else reason
    if "not valid for" in shown:
        return StoreError(
            f"the certificate of {where} is of another name: {shown}; use the name that it is of"
        )
    return StoreError(
        f"the certificate of {where} is not trusted: {shown}; name the file of its authority in {variable}"
    )


def _too_large(where: str, reason: str) -> TooLarge:
    return TooLarge(f"the request is too large for {where} ({reason}); send less at once")


def _gone(where: str) -> CollectionGone:
    return CollectionGone(f"{where}: the collection does not exist any more; index again")


def _exists(where: str) -> CollectionExists:
    return CollectionExists(f"{where}: the collection exists already; use it, or choose another name")


def _not_qdrant(where: str) -> StoreError:
    return StoreError(f"what answers as {where} does not answer like Qdrant; check the url")


def _reason(error: UnexpectedResponse) -> str:
    """What a Qdrant server gives as reason. Other services' pages are left out: they may echo the request."""
    try:
        return _line(json.loads(error.content)["status"]["error"])
    except (ValueError, LookupError, TypeError):
        return ""


def _code(error: grpc.RpcError) -> grpc.StatusCode | None:
    return error.code() if isinstance(error, grpc.Call) else None


def _details(error: grpc.RpcError) -> str:
    return _line(error.details() or "") if isinstance(error, grpc.Call) else ""


def _line(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN].rstrip(' ,:;')} ..."
