"""Requests to a vector store: repeated while a fault may pass, else reported in one line."""

from __future__ import annotations

import json
import logging
import re
import ssl
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import grpc  # type: ignore[import-untyped]
import httpx
import tenacity
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from surprise_rerank._errors import StoreError
from surprise_rerank.connectors.qdrant._location import DEFAULT_RETRIES, RetryPolicy
from surprise_rerank.core._files import disk_errors
from surprise_rerank.core._retry_after import retry_after_seconds

T = TypeVar("T")

_log = logging.getLogger(__name__)

# gRPC's codes as the statuses of REST; others count as 400.
_STATUS = {
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ABORTED: 408,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
_TRANSIENT = frozenset({408, 429, 502, 503, 504})
_AWAY = frozenset({502, 503, 504})  # a node itself, or what is before it says so


# What a node says while another one is away that holds a shard: reads, changes, and what both need.
_LOST_SHARD = re.compile(
    r"read operations? failed|shards? failed to apply operation|transport error|currently unavailable|"
    r"active replica|please retry|consensus operation",
    re.IGNORECASE,
)
# Qdrant's REST and gRPC, gRPC's client, and strict mode's limits of a batch and of tokens per minute.
_TOO_LARGE = re.compile(
    r"larger than (allowed|max)|has exceeded limit|length too large|upsert limit|split your request",
    re.IGNORECASE,
)
_NO_COLLECTION = re.compile(r"collection .*(doesn't exist|does not exist|not found)", re.IGNORECASE)
_COLLECTION_EXISTS = re.compile(r"collection .*already exists", re.IGNORECASE)
_NO_ROOM = re.compile(r"no space left|disk space|disk (is )?full|insufficient storage", re.IGNORECASE)
# What a plan or strict mode allows of storage; not so many requests a minute, which pass.
_QUOTA = re.compile(r"quota|plan('s)? limit|insufficient (memory|resources)", re.IGNORECASE)
_LOCKED = re.compile(r"\block(ed|s)?\b|operations? (are|is) forbidden", re.IGNORECASE)
# Why 403 is not the key's fault: Qdrant says so of its strict mode, and a proxy anything of a key.
_SETTING = re.compile(r"forbidden: (?!.*(access|api.?key|token|jwt))", re.IGNORECASE)
_CERTIFICATE = re.compile(r"certificate", re.IGNORECASE)
_TLS = re.compile(r"certificate|wrong_version_number|tlsv1|ssl handshake|tsi_protocol", re.IGNORECASE)
_HERE = re.compile(r"//(localhost|127\.|\[::1\])")
FAULTS = (ApiException, QdrantException, grpc.RpcError, ValueError, AssertionError)
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


class _Answer(NamedTuple):
    """What a server answered: a status of REST, what is shown of it, and Qdrant's reason."""

    status: int
    shown: str
    reason: str


def call(request: Callable[[], T], where: str, policy: RetryPolicy = DEFAULT_RETRIES) -> T:
    """Send an idempotent request, with jittered back-off while the fault may pass; errors name `where`.

    Raises:
        TooLarge: if the store refuses the request for its size.
        CollectionGone, CollectionExists: if it is not there, or was to be made.
        NoAccess: if the key or the token does not allow it.
        StoreError: if the request fails for another reason, or keeps failing.
    """
    attempts = [] if policy.attempts is None else [tenacity.stop_after_attempt(policy.attempts)]
    jitter = tenacity.wait_random_exponential(policy.first_wait, max=policy.longest_wait)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_transient),
        wait=lambda state: jitter(state) + (_asked_wait(_error_of(state)) or 0.0),
        stop=tenacity.stop_any(*attempts, tenacity.stop_before_delay(policy.time_limit)),
        before_sleep=_announced(where, policy.time_limit),
        reraise=True,
    )
    try:
        with disk_errors(where):
            return retrying(request)
    except FAULTS as error:
        shown = _store_error(error, where)
        if shown is None:  # a bug
            raise
        times = retrying.statistics.get("attempt_number", 1)
        if times > 1:
            shown = type(shown)(f"{shown} (tried {times} times)")
        # Its own message may quote the request's headers, and with them the API key.
        source = error.source if isinstance(error, ResponseHandlingException) else None
        cause = None if isinstance(source, httpx.LocalProtocolError) else error
    # Outside the handler: an error raised in it would keep the original, and what that shows, as its context.
    raise shown from cause


def _error_of(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _announced(where: str, limit: float) -> Callable[[tenacity.RetryCallState], None]:
    """Says once that a request waits, where it has waited for a while."""
    said = False

    def announce(state: tenacity.RetryCallState) -> None:
        nonlocal said
        if said or (state.seconds_since_start or 0.0) < _SILENT:
            return
        said, error = True, _error_of(state)
        shown = _store_error(error, where) if isinstance(error, Exception) else None
        _log.warning(
            "%s. It is asked again for up to %.0f s; what is stored stays, and the same call goes on later",
            shown or where,
            limit,
        )

    return announce


def _asked_wait(error: BaseException | None) -> float | None:
    """Seconds that the server asks to wait for before the next attempt; None if it does not say."""
    if isinstance(error, ResourceExhaustedResponse):
        return max(0.0, float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        return retry_after_seconds(error.headers.get("Retry-After", ""))
    return None


def _is_transient(error: BaseException) -> bool:
    answer = _answer(error)
    if answer is not None:
        if answer.status == 503 and _TLS.search(answer.reason):  # of gRPC's client
            return False
        passes = answer.status in _TRANSIENT or is_lost_shard(error)
        return passes and not (_TOO_LARGE.search(answer.reason) or _lasts(answer.reason))
    if isinstance(error, ResponseHandlingException) and _tls_reason(error.source):
        return False
    # An answer that is no JSON was cut off, or is the page of a proxy whose server is away; or it is
    # another service's, which the last attempt reports.
    is_busy = isinstance(error, QdrantException) and not _lasts(str(error))
    return is_away(error) or _is_no_json(error) or is_busy


def is_lost_shard(error: BaseException) -> bool:
    """Whether a node answers that the node of a shard is away: an internal error that passes."""
    answer = _answer(error)
    if answer is None or answer.status != 500 or _lasts(answer.reason):
        return False
    return bool(_LOST_SHARD.search(answer.reason))


def _lasts(reason: str) -> bool:
    """Whether a server says what does not pass by itself: a full disk, a lock, a quota that is used up."""
    return any(words.search(reason) for words in (_NO_ROOM, _QUOTA, _LOCKED))


def _tls_reason(error: BaseException | None) -> str:
    """What is wrong with TLS, if that is what failed; a connection that ends in a handshake may pass."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(
            error, ssl.SSLEOFError | ssl.SSLZeroReturnError
        ):
            return _line(getattr(error, "verify_message", "") or error.reason or error)
        error = error.__cause__ or error.__context__
    return ""


def is_away(error: BaseException) -> bool:
    """Whether a node does not answer, or is not ready to: time-outs, lost connections, broken answers."""
    if isinstance(error, ResponseHandlingException):
        source = error.source
        mine = isinstance(source, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
        return isinstance(source, httpx.TransportError | httpx.DecodingError) and not mine
    answer = _answer(error)
    return answer is not None and answer.status in _AWAY


def is_forbidden(error: BaseException) -> bool:
    """Whether a server refuses the key or the token."""
    answer = _answer(error)
    return answer is not None and answer.status in (401, 403)


def _answer(error: BaseException) -> _Answer | None:
    """What a server answered; None of other errors."""
    if isinstance(error, UnexpectedResponse):
        # Other services' pages are left out: they may echo the request.
        try:
            reason = _line(json.loads(error.content)["status"]["error"])
        except (ValueError, LookupError, TypeError):
            reason = ""
        return _Answer(error.status_code or 0, f"{error.status_code} {error.reason_phrase}".strip(), reason)
    if isinstance(error, grpc.Call):
        code = error.code()
        return _Answer(_STATUS.get(code) or 400, code.name, _line(error.details() or ""))
    return _Answer(400, "UNKNOWN", "") if isinstance(error, grpc.RpcError) else None


def _is_no_json(error: BaseException) -> bool:
    return isinstance(error, json.JSONDecodeError | UnicodeDecodeError)


def _store_error(error: Exception, where: str) -> StoreError | None:
    """What failed where, and what to do, in one line; None of a bug. Never the request: it holds the key."""
    if isinstance(error, ResponseHandlingException):
        return _transport_error(error.source, where)
    answer, pause = _answer(error), _asked_wait(error)
    if answer is not None:
        if isinstance(error, grpc.RpcError):  # REST has exceptions for these
            if answer.reason == "Invalid metadata":
                return _transport_error(httpx.LocalProtocolError(""), where)
            if answer.status == 504:
                return _transport_error(httpx.ReadTimeout(""), where)
            if answer.status == 503:
                return _transport_error(httpx.ConnectError(answer.reason), where)
        return _answered(answer, where, pause)
    if isinstance(error, ValueError | AssertionError):  # of local mode, or of an answer that is not Qdrant's
        if _is_no_json(error) or (isinstance(error, AssertionError) and "returned None" in str(error)):
            return _not_qdrant(where)
        return _missing_or_there(str(error), where)
    if _QUOTA.search(str(error)):
        return _answered(_Answer(429, "429", _line(error)), where, pause)
    wait = "" if pause is None else f" and asks to wait for {pause:.0f} s"
    return StoreError(f"{where} is overloaded{wait}; try again later")


def _answered(answer: _Answer, where: str, pause: float | None) -> StoreError:
    status, reason = answer.status, answer.reason
    if status == 413 or _TOO_LARGE.search(reason):
        return _too_large(where, reason or str(status))
    if status == 507 or _NO_ROOM.search(reason):
        return StoreError(f"the disk of {where} is full ({reason}); make room there, and run it again")
    if status == 423 or _LOCKED.search(reason):
        return StoreError(f"{where} is locked ({reason or answer.shown}); have it unlocked, and run it again")
    if _QUOTA.search(reason):
        return StoreError(f"the quota of {where} is used up ({reason}); raise it, or remove something there")
    if status == 401 or (status == 403 and not _SETTING.match(reason)):
        kind = StoreError if status == 401 else NoAccess
        refusal = f"{answer.shown} {reason}".strip()
        return kind(
            f"{where} refuses access ({refusal}); set QDRANT_API_KEY to a key or a token that may do this"
        )
    if status == 403:
        return NoAccess(f"{where} forbids this ({reason}); see its settings")
    missing = _missing_or_there(reason, where) if status != 409 else _exists(where)
    if missing is not None:
        return missing
    advice = f"; it asks to wait for {pause:.0f} s" if pause else ""
    return StoreError(f"{where} answered {answer.shown}: {reason or 'without a reason'}{advice}")


def _missing_or_there(reason: str, where: str) -> StoreError | None:
    """The error of a collection that is not there, or is; None where the reason is another one."""
    if _NO_COLLECTION.search(reason):
        return CollectionGone(f"{where}: the collection does not exist any more; index again")
    return _exists(where) if _COLLECTION_EXISTS.search(reason) else None


def _transport_error(source: Exception, where: str) -> StoreError:
    reason = _line(source) or type(source).__name__
    if (problem := _tls_reason(source)) or (isinstance(source, httpx.ConnectError) and _TLS.search(reason)):
        return _not_trusted(problem or reason, where)
    match source:
        case httpx.LocalProtocolError():
            return StoreError(
                f"cannot send requests to {where}: a header cannot be written; "
                "see that QDRANT_API_KEY is one line of plain characters"
            )
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.UnsupportedProtocol():
            start = "start it with 'docker compose up -d' or " if _HERE.search(where) else ""
            return StoreError(f"cannot reach {where} ({reason}); {start}check the url")
        case httpx.WriteTimeout() | httpx.WriteError():
            # A server that refuses a request by its length may stop to read it, and its answer is lost.
            return _too_large(where, "it stopped to read")
        case httpx.TimeoutException():
            return StoreError(f"{where} does not answer in time; give it longer, or send it less at once")
        case httpx.RemoteProtocolError() if "illegal" in reason:
            return StoreError(
                f"{where} does not answer in HTTP ({reason}); give https:// if it has TLS, or check the port"
            )
        case httpx.TransportError() | httpx.DecodingError():
            return StoreError(f"the connection to {where} was lost ({reason}); see whether it still runs")
    return _not_qdrant(where)  # JSON, but of another form


def _not_trusted(problem: str, where: str) -> StoreError:
    """The error of a connection that TLS ends."""
    if _CERTIFICATE.search(problem) or "self-signed" in problem or "expired" in problem:
        return StoreError(
            f"the certificate of {where} is not trusted ({problem}); name a file with its authority in "
            "SSL_CERT_FILE, for gRPC in GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
        )
    return StoreError(
        f"{where} does not speak TLS as it should ({problem}); see whether its url begins with http:// or "
        "https://, and its port"
    )


def _too_large(where: str, reason: str) -> TooLarge:
    return TooLarge(f"the request is too large for {where} ({reason}); send less at once")


def _exists(where: str) -> CollectionExists:
    return CollectionExists(f"{where}: the collection exists already; use it, or choose another name")


def _not_qdrant(where: str) -> StoreError:
    return StoreError(f"what answers as {where} does not answer like Qdrant; check the url")


def _line(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN].rstrip(' ,:;')} ..."
