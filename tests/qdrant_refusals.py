"""What a real server says where local mode raises an error, and what it says when a node of it is lost.

The texts and codes are those of Qdrant 1.18.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_AWAY = (
    "Service internal error: Tonic status error: code: 'The service is currently unavailable', message: "
    '"Failed to connect to http://127.0.0.1:6335/, error: transport error"'
)
_AWAY_TOO = (
    "Tonic status error: code: 'The service is currently unavailable', message: "
    '"tcp connect error", source: tonic::transport::Error(Transport, ConnectError(ConnectError("tcp connect '
    'error", 127.0.0.1:6335, Os { code: 111, kind: ConnectionRefused, message: "Connection refused" })))'
)
# What a node says of others that are away; REST's status is 500 for all of them.
LOST = {
    name: f"Service internal error: {reason}"
    for name, reason in {
        "read": f"1 of 1 read operations failed:\n  {_AWAY}",
        "write": f"2 out of 6 shards failed to apply operation. First error captured: {_AWAY}",
        "every shard": _AWAY_TOO,
        "replica": "Failed to apply operation to at least one `Active` replica. Consistency of this update "
        f"is not guaranteed. Please retry. Failed peer: 7, error: {_AWAY}",
        "few replicas": "The replica set for shard 2 on peer 7 does not have enough active replicas",
        "consensus": "Waiting for consensus operation commit failed. Timeout set at: 10 seconds",
    }.items()
}


@dataclass(frozen=True)
class Refusal:
    """An error as a server tells it.

    Attributes:
        status: of REST.
        reason: of a validation error, what is behind where it was found.
        where: where a validation error was found.
    """

    status: int
    reason: str
    where: str = ""

    @property
    def by_rest(self) -> str:
        return f"Validation error in {self.where}: [{self.reason}]" if self.where else self.reason


_MISSING = 404
_EXISTS = 409
_WRONG = 400
_INVALID = 422
_BODY = "JSON body"

# What local mode raises, and what the server says in its place.
_SAID = [
    (r"Collection (.+) not found", _MISSING, r"Not found: Collection `\1` doesn't exist!", ""),
    (r"Collection (.+) already exists", _EXISTS, r"Wrong input: Collection `\1` already exists!", ""),
    (
        r"Alias (.+) already exists",
        _WRONG,
        r"Wrong input: Can't create collection with name \1. Alias with the same name already exists",
        "",
    ),
    (
        r"((?:Sparse v|V)ector) (\S+) already exists (.+)",
        _WRONG,
        r"Wrong input: \1 `\2` already exists \3",
        "",
    ),
    (r"Empty update request", _WRONG, "Bad request: Empty update request", ""),
    (
        r"(?:Sparse vector|Multivector|Dense vector|Vector) (\S*) ?is not found in the collection",
        _WRONG,
        r"Wrong input: Not existing vector name error: \1",
        "",
    ),
    (
        r"shapes \(\d+,(\d+)\) and \((\d+),\) not aligned.*",
        _WRONG,
        r"Wrong input: Vector dimension error: expected dim: \1, got \2",
        "",
    ),
    (
        r"No value found for (\S+) in the payload nor the formula defaults",
        _WRONG,
        r"Wrong input: Expected number value for \1 in the payload and/or in the formula defaults. Error: No "
        "value found in a payload nor defaults",
        "",
    ),
    (r"limit value (\S+) is invalid.*", _INVALID, r"limit: value \1 invalid, must be 1 or larger", _BODY),
    (r"Indices must be unique", _INVALID, "query.indices: Validation error: must be unique [{}]", _BODY),
    (
        r"Collection name cannot contain '(.+)' char",
        _INVALID,
        r'collection_name: collection name cannot contain "\1" char',
        "path parameters",
    ),
]


def refusal(error: ValueError | KeyError) -> Refusal:
    """What the server says where local mode raises this."""
    if isinstance(error, KeyError):
        return Refusal(_MISSING, f"Not found: No point with id {error.args[0]} found")
    reason = str(error).removeprefix("Wrong input: ")
    for pattern, status, said, where in _SAID:
        if match := re.fullmatch(pattern, reason):
            return Refusal(status, match.expand(said), where)
    return Refusal(_WRONG, f"Wrong input: {reason}")
