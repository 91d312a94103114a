"""Qdrant's REST API over qdrant-client's local mode: a request's path and body in, the answer's out.

It knows what qdrant-client sends. Searches are exact; payload indexes are remembered and not used.
"""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from qdrant_client import QdrantClient, models
from qdrant_refusals import refusal

MIB = 2**20

_IDS = re.compile(rb'"(has_id|ids|points)":\[((?:"[^"]*"|[\d,])*)\]')
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
_NO_ID = "is not a valid point ID, valid values are either an unsigned integer or a UUID"
_NO_CONDITION = (
    'Expected some form of condition, which can be a field condition (like {"key": ..., "match": ... }), or '
    "some other mentioned in the documentation: "
    "https://qdrant.tech/documentation/concepts/filtering/#filtering-conditions"
)


class LocalApi:
    """The API over one local client, which is `store`; one request at a time, whichever thread it comes in.

    Args:
        folder: where the local mode stores; in memory without one.
        limit: bytes of the largest body accepted.
    """

    def __init__(self, folder: Path | None, limit: int) -> None:
        self.store = (
            QdrantClient(path=str(folder), force_disable_check_same_thread=True)
            if folder
            else QdrantClient(":memory:")
        )
        self.limit = limit
        self.lock = threading.Lock()
        self.indexes: dict[str, dict[str, models.PayloadFieldSchema]] = {}
        self.spread: dict[str, dict[str, int]] = {}
        self.crashes: list[Exception] = []

    def drop(self, name: str) -> None:
        """Delete a collection, also one named by an alias."""
        with self.lock:
            aliases = {a.alias_name: a.collection_name for a in self.store.get_aliases().aliases}
            self.store.delete_collection(aliases.get(name, name))

    def answer(self, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a request."""
        if len(body) > self.limit:
            # Qdrant answers actix's JsonPayloadError with 400; a 413 comes from a proxy before it.
            return error_answer(
                400,
                f"Payload error: JSON payload ({len(body)} bytes) is larger than allowed "
                f"(limit: {self.limit} bytes).",
            )
        for route_method, pattern, act in _ROUTES:
            match = pattern.fullmatch(path)
            if match and route_method == method:
                parts = {name: unquote(value) for name, value in match.groupdict().items()}
                return self._carry_out(act, _Request(self, parts, parse_qs(query), body))
        return 404, b""

    def _carry_out(self, act: Callable[[_Request], Any], request: _Request) -> tuple[int, bytes]:
        begin = time.perf_counter()
        if (reason := _wrong_id(request.body)) is not None:
            return error_answer(400, f"Format error in JSON body: {reason}")
        try:
            with self.lock:
                result = act(request)
        except ValidationError as error:
            reason = error.errors(include_input=False)[0]["msg"]
            return error_answer(400, f"Format error in JSON body: {reason}")
        except (KeyError, ValueError) as error:
            told = refusal(error)
            return error_answer(told.status, told.by_rest)
        except Exception as error:  # noqa: BLE001 (local mode's, on what it does not check)
            self.crashes.append(error)
            return error_answer(500, f"Service internal error: {error!r}")
        if isinstance(result, bytes):
            return 200, result
        return 200, to_json({"result": result, "status": "ok", "time": time.perf_counter() - begin})


def _wrong_id(body: bytes) -> str | None:
    """What a server says of ids that are neither numbers nor UUIDs, which local mode takes."""
    for key, ids in _IDS.findall(body):
        for own in re.findall(r'"([^"]*)"', ids.decode()):
            if not _UUID.fullmatch(own):
                return _NO_CONDITION if key == b"has_id" else f"value {own} {_NO_ID}"
    return None


def error_answer(code: int, reason: str) -> tuple[int, bytes]:
    """Status and body of an error as Qdrant tells it."""
    return code, to_json({"status": {"error": reason}, "time": 0.0})


@dataclass(frozen=True)
class _Request:
    """A request taken apart: the names in its path, the parameters behind it, and the body."""

    api: LocalApi
    parts: Mapping[str, str]
    parameters: Mapping[str, list[str]]
    body: bytes

    @property
    def store(self) -> QdrantClient:
        return self.api.store

    @property
    def collection(self) -> str:
        return self.parts["collection"]

    def read(self, form: Any) -> Any:
        return _adapter(form).validate_json(self.body)

    def updated(self, _: object = None) -> dict[str, Any]:
        done = self.parameters.get("wait") == ["true"]
        return {"operation_id": 0, "status": "completed" if done else "acknowledged"}


@functools.cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


_ROUTES: list[tuple[str, re.Pattern[str], Callable[[_Request], Any]]] = []


def _route(method: str, path: str) -> Callable[[Callable[[_Request], Any]], Callable[[_Request], Any]]:
    pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))

    def register(act: Callable[[_Request], Any]) -> Callable[[_Request], Any]:
        _ROUTES.append((method, pattern, act))
        return act

    return register


@_route("GET", "/")
def _version(r: _Request) -> bytes:
    return to_json({"title": "qdrant - vector search engine", "version": version("qdrant-client")})


@_route("GET", "/readyz")
def _ready(r: _Request) -> bytes:
    return b"all shards are ready"


@_route("GET", "/(healthz|livez)")
def _health(r: _Request) -> bytes:
    return b"healthz check passed"


@_route("GET", "/collections")
def _collections(r: _Request) -> Any:
    return r.store.get_collections()


@_route("GET", "/collections/{collection}/exists")
def _exists(r: _Request) -> Any:
    return {"exists": r.store.collection_exists(r.collection)}


@_route("GET", "/collections/{collection}")
def _info(r: _Request) -> Any:
    info = r.store.get_collection(r.collection)
    for name, value in r.api.spread.get(_real_name(r), {}).items():
        setattr(info.config.params, name, value)
    info.payload_schema = {
        name: models.PayloadIndexInfo(
            data_type=getattr(schema, "type", schema),
            params=schema if hasattr(schema, "type") else None,
            points=info.points_count or 0,
        )
        for name, schema in r.api.indexes.get(_real_name(r), {}).items()
    }
    return info


@_route("GET", "/collections/{collection}/cluster")
def _shards(r: _Request) -> Any:
    return one_shard(r.store.count(r.collection).count)


@_route("GET", "/cluster")
def _cluster(r: _Request) -> Any:
    return {"status": "disabled"}


def one_shard(points: int) -> models.CollectionClusterInfo:
    """What a server that is no cluster says of every collection."""
    own = models.LocalShardInfo(shard_id=0, points_count=points, state=models.ReplicaState.ACTIVE)
    return models.CollectionClusterInfo(
        peer_id=7, shard_count=1, local_shards=[own], remote_shards=[], shard_transfers=[]
    )


@_route("PUT", "/collections/{collection}")
def _create(r: _Request) -> Any:
    form = r.read(models.CreateCollection)
    done = r.store.create_collection(
        r.collection,
        vectors_config=form.vectors,
        sparse_vectors_config=form.sparse_vectors,
        metadata=form.metadata,
    )
    r.api.indexes.pop(r.collection, None)
    names = ("shard_number", "replication_factor", "write_consistency_factor")
    r.api.spread[r.collection] = {name: own for name in names if (own := getattr(form, name))}
    return done


@_route("PATCH", "/collections/{collection}")
def _update(r: _Request) -> Any:
    form = r.read(models.UpdateCollection)
    r.store.update_collection(
        r.collection,
        vectors_config=form.vectors,
        sparse_vectors_config=form.sparse_vectors,
        metadata=form.metadata,
    )
    return True


@_route("DELETE", "/collections/{collection}")
def _delete_collection(r: _Request) -> Any:
    return r.store.delete_collection(r.collection)


@_route("POST", "/collections/aliases")
def _change_aliases(r: _Request) -> Any:
    return r.store.update_collection_aliases(r.read(models.ChangeAliasesOperation).actions)


@_route("GET", "/aliases")
def _aliases(r: _Request) -> Any:
    return r.store.get_aliases()


@_route("PUT", "/collections/{collection}/index")
def _create_index(r: _Request) -> Any:
    form = r.read(models.CreateFieldIndex)
    r.store.count(r.collection)  # 404 where there is none
    r.api.indexes.setdefault(_real_name(r), {})[form.field_name] = form.field_schema
    return r.updated()


def _real_name(r: _Request) -> str:
    aliases = {a.alias_name: a.collection_name for a in r.store.get_aliases().aliases}
    return aliases.get(r.collection, r.collection)


@_route("PUT", "/collections/{collection}/points")
def _upsert(r: _Request) -> Any:
    form = r.read(models.PointInsertOperations)
    points = form.batch if isinstance(form, models.PointsBatch) else form.points
    return r.updated(
        r.store.upsert(r.collection, points, update_filter=form.update_filter, update_mode=form.update_mode)
    )


@_route("POST", "/collections/{collection}/points")
def _retrieve(r: _Request) -> Any:
    form = r.read(models.PointRequest)
    return r.store.retrieve(
        r.collection, form.ids, or_else(form.with_payload, True), form.with_vector or False
    )


@_route("POST", "/collections/{collection}/points/delete")
def _delete(r: _Request) -> Any:
    return r.updated(r.store.delete(r.collection, r.read(models.PointsSelector)))


@_route("POST", "/collections/{collection}/points/scroll")
def _scroll(r: _Request) -> Any:
    form = r.read(models.ScrollRequest)
    points, following = r.store.scroll(
        r.collection,
        scroll_filter=form.filter,
        limit=or_else(form.limit, 10),
        order_by=form.order_by,
        offset=form.offset,
        with_payload=or_else(form.with_payload, True),
        with_vectors=form.with_vector or False,
    )
    return {"points": points, "next_page_offset": following}


@_route("POST", "/collections/{collection}/points/count")
def _count(r: _Request) -> Any:
    return r.store.count(r.collection, r.read(models.CountRequest).filter)


@_route("POST", "/collections/{collection}/points/query")
def _query(r: _Request) -> Any:
    return _search(r, r.read(models.QueryRequest))


@_route("POST", "/collections/{collection}/points/query/batch")
def _query_batch(r: _Request) -> Any:
    return [_search(r, form) for form in r.read(models.QueryRequestBatch).searches]


def _search(r: _Request, form: Any) -> Any:
    return r.store.query_points(r.collection, offset=form.offset, **_search_arguments(form))


def _search_arguments(form: Any) -> dict[str, Any]:
    return {
        "query": form.query,
        "using": form.using,
        "prefetch": form.prefetch,
        "query_filter": form.filter,
        "limit": or_else(form.limit, 10),
        "with_payload": or_else(form.with_payload, False),
        "with_vectors": form.with_vector or False,
        "score_threshold": form.score_threshold,
        "lookup_from": form.lookup_from,
    }


@_route("POST", "/collections/{collection}/points/payload")
def _set_payload(r: _Request) -> Any:
    form = r.read(models.SetPayload)
    return r.updated(r.store.set_payload(r.collection, form.payload, _selector(form), form.key))


@_route("PUT", "/collections/{collection}/points/payload")
def _overwrite_payload(r: _Request) -> Any:
    form = r.read(models.SetPayload)
    return r.updated(r.store.overwrite_payload(r.collection, form.payload, _selector(form)))


@_route("PUT", "/collections/{collection}/points/vectors")
def _update_vectors(r: _Request) -> Any:
    form = r.read(models.UpdateVectors)
    return r.updated(r.store.update_vectors(r.collection, form.points, update_filter=form.update_filter))


@_route("POST", "/collections/{collection}/points/batch")
def _batch_update(r: _Request) -> Any:
    operations = r.read(models.UpdateOperations).operations
    r.store.batch_update_points(r.collection, operations)
    return [r.updated() for _ in operations]


def _selector(form: Any) -> Any:
    return form.points if form.filter is None else models.FilterSelector(filter=form.filter)


def or_else(value: Any, default: Any) -> Any:
    return default if value is None else value
