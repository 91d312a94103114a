"""A server that speaks Qdrant's gRPC API over qdrant-client's local mode, and misbehaves when it is told to.

    with QdrantGrpc() as server:
        client = QdrantClient(url=server.url, grpc_port=server.port, prefer_grpc=True)
        server.fault("Upsert", Abort(grpc.StatusCode.UNAVAILABLE), times=2)

Messages are converted by the client's own `conversions`. It answers what an index of ours sends; searches are
exact, payload indexes are remembered and not used. A store shared with a `QdrantRest` is that one's `api`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from qdrant_client import QdrantClient, models
from qdrant_client import grpc as messages
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc, grpc_field_type_to_payload_schema
from qdrant_client.grpc import collections_service_pb2, points_service_pb2, qdrant_pb2
from qdrant_refusals import refusal
from qdrant_routes import MIB, LocalApi, or_else

_SERVICES: tuple[ServiceDescriptor, ...] = (
    qdrant_pb2.DESCRIPTOR.services_by_name["Qdrant"],
    collections_service_pb2.DESCRIPTOR.services_by_name["Collections"],
    points_service_pb2.DESCRIPTOR.services_by_name["Points"],
)
_OPEN_TO_ALL = "/qdrant.Qdrant/HealthCheck"


@dataclass(frozen=True)
class Abort:
    """Answers with this code; with `applied`, after the request was carried out."""

    code: grpc.StatusCode
    details: str = "no reason"
    applied: bool = False
    retry_after: int | None = None


@dataclass(frozen=True)
class NoAnswer:
    """Carries the request out and keeps still until the client has given up."""


Fault: TypeAlias = Abort | NoAnswer


class QdrantGrpc:
    """The server; a context manager. `store` is the local client behind it, for looks from the other side.

    Methods go by the last part of their path in `fault` and `count`, the service before it where two share
    one: `Upsert`, but `Collections/Delete` and `Points/Delete`.

    Args:
        api_key: asked for in the metadata `api-key`, where given.
        limit: bytes of the largest message accepted, as a proxy has it; Qdrant has none.
        api: what answers; a fresh one in memory by default.
    """

    def __init__(self, *, api_key: str | None = None, limit: int = -1, api: LocalApi | None = None) -> None:
        self.api_key = api_key
        self._own = api is None
        self.api = api or LocalApi(None, 32 * MIB)
        self.port = 0
        self._limit = limit
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._faults: list[tuple[str, Fault]] = []
        self._server: grpc.Server | None = None

    def __enter__(self) -> QdrantGrpc:
        options = [("grpc.max_receive_message_length", self._limit), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(max_workers=8), options=options)
        for service in _SERVICES:
            self._server.add_generic_rpc_handlers((self._handlers(service),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None
        if self._own:
            self.store.close()

    @property
    def store(self) -> QdrantClient:
        return self.api.store

    @property
    def url(self) -> str:
        """For the client, which asks for one. A REST request that is sent there fails."""
        return f"http://127.0.0.1:{self.port}"

    def fault(self, method: str, fault: Fault, *, times: int = 1) -> None:
        """Misbehave at the next `times` calls of a method."""
        with self._lock:
            self._faults.extend([(method, fault)] * times)

    def heal(self) -> None:
        """Forget the faults that are still to come."""
        with self._lock:
            self._faults.clear()

    def forget(self) -> None:
        """Forget the faults, and the calls that came."""
        with self._lock:
            self._faults.clear()
            self._counts.clear()

    def count(self, method: str) -> int:
        """How many such calls have come, those that met a fault included."""
        with self._lock:
            return sum(n for path, n in self._counts.items() if _is_called(path, method))

    def _handlers(self, service: ServiceDescriptor) -> grpc.GenericRpcHandler:
        handlers = {
            method.name: grpc.unary_unary_rpc_method_handler(
                self._handler(f"/{service.full_name}/{method.name}", act),
                request_deserializer=GetMessageClass(method.input_type).FromString,
                response_serializer=GetMessageClass(method.output_type).SerializeToString,
            )
            for method in service.methods
            if (act := _METHODS.get(f"{service.name}/{method.name}"))
        }
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _handler(self, path: str, act: _Act) -> Callable[[Any, grpc.ServicerContext], Any]:
        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            fault = self._take_fault(path)
            self._check_key(path, context)
            if isinstance(fault, Abort) and not fault.applied:
                _abort(context, fault)
            answer = self._carried_out(act, request, context)
            if isinstance(fault, Abort):
                _abort(context, fault)
            if isinstance(fault, NoAnswer):
                gone = threading.Event()
                if context.add_callback(gone.set):
                    gone.wait()
            return answer

        return handle

    def _take_fault(self, path: str) -> Fault | None:
        with self._lock:
            self._counts[path] += 1
            for n, (method, fault) in enumerate(self._faults):
                if _is_called(path, method):
                    del self._faults[n]
                    return fault
        return None

    def _check_key(self, path: str, context: grpc.ServicerContext) -> None:
        if self.api_key is None or path == _OPEN_TO_ALL:
            return
        key = dict(context.invocation_metadata()).get("api-key")
        if key != self.api_key:
            reason = (
                "Invalid API key or JWT"
                if key
                else "Must provide an API key or an Authorization bearer token"
            )
            context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)

    def _carried_out(self, act: _Act, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            with self.api.lock:
                return act(self.api, request)
        except (KeyError, ValueError) as error:
            said = refusal(error)
            told = said.code, said.by_grpc
        except Exception as error:  # noqa: BLE001 (local mode's, on what it does not check)
            self.api.crashes.append(error)
            told = grpc.StatusCode.INTERNAL, f"Service internal error: {error!r}"
        return context.abort(*told)  # which raises


def _is_called(path: str, method: str) -> bool:
    return path.endswith(f".{method}" if "/" in method else f"/{method}")


def _abort(context: grpc.ServicerContext, fault: Abort) -> None:
    if fault.retry_after is not None:
        context.set_trailing_metadata((("retry-after", str(fault.retry_after)),))
    context.abort(fault.code, fault.details)


_Act: TypeAlias = Callable[[LocalApi, Any], Any]
_METHODS: dict[str, _Act] = {}


def _method(name: str) -> Callable[[_Act], _Act]:
    def register(act: _Act) -> _Act:
        _METHODS[name] = act
        return act

    return register


def _if_set(message: Any, field: str, convert: Callable[[Any], Any]) -> Any:
    return convert(getattr(message, field)) if message.HasField(field) else None


def _real_name(api: LocalApi, name: str) -> str:
    aliases = {a.alias_name: a.collection_name for a in api.store.get_aliases().aliases}
    return aliases.get(name, name)


@_method("Qdrant/HealthCheck")
def _health(api: LocalApi, r: Any) -> Any:
    return messages.HealthCheckReply(title="qdrant - vector search engine", version=version("qdrant-client"))


@_method("Collections/List")
def _collections(api: LocalApi, r: Any) -> Any:
    found = api.store.get_collections().collections
    return messages.ListCollectionsResponse(
        collections=[RestToGrpc.convert_collection_description(c) for c in found]
    )


@_method("Collections/CollectionExists")
def _exists(api: LocalApi, r: Any) -> Any:
    exists = api.store.collection_exists(r.collection_name)
    return messages.CollectionExistsResponse(result=messages.CollectionExists(exists=exists))


@_method("Collections/Get")
def _info(api: LocalApi, r: Any) -> Any:
    info = api.store.get_collection(r.collection_name)
    info.payload_schema = {
        name: models.PayloadIndexInfo(data_type=schema, points=info.points_count or 0)
        for name, schema in api.indexes.get(_real_name(api, r.collection_name), {}).items()
    }
    return messages.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(info))


@_method("Collections/Create")
def _create(api: LocalApi, r: Any) -> Any:
    done = api.store.create_collection(
        r.collection_name,
        vectors_config=_if_set(r, "vectors_config", GrpcToRest.convert_vectors_config),
        sparse_vectors_config=_if_set(r, "sparse_vectors_config", GrpcToRest.convert_sparse_vector_config),
        metadata=GrpcToRest.convert_payload(r.metadata),
    )
    api.indexes.pop(r.collection_name, None)
    return messages.CollectionOperationResponse(result=done)


@_method("Collections/Update")
def _update(api: LocalApi, r: Any) -> Any:
    done = api.store.update_collection(r.collection_name, metadata=GrpcToRest.convert_payload(r.metadata))
    return messages.CollectionOperationResponse(result=done)


@_method("Collections/Delete")
def _delete_collection(api: LocalApi, r: Any) -> Any:
    return messages.CollectionOperationResponse(result=api.store.delete_collection(r.collection_name))


@_method("Collections/UpdateAliases")
def _change_aliases(api: LocalApi, r: Any) -> Any:
    actions = [GrpcToRest.convert_alias_operations(action) for action in r.actions]
    return messages.CollectionOperationResponse(result=api.store.update_collection_aliases(actions))


@_method("Collections/ListAliases")
def _aliases(api: LocalApi, r: Any) -> Any:
    found = api.store.get_aliases().aliases
    return messages.ListAliasesResponse(aliases=[RestToGrpc.convert_alias_description(a) for a in found])


@_method("Points/CreateFieldIndex")
def _create_index(api: LocalApi, r: Any) -> Any:
    api.store.count(r.collection_name)  # NOT_FOUND where there is none
    schema = GrpcToRest.convert_payload_schema_type(grpc_field_type_to_payload_schema(r.field_type))
    api.indexes.setdefault(_real_name(api, r.collection_name), {})[r.field_name] = schema
    return _updated(r)


@_method("Points/Upsert")
def _upsert(api: LocalApi, r: Any) -> Any:
    api.store.upsert(r.collection_name, [GrpcToRest.convert_point_struct(p) for p in r.points])
    return _updated(r)


@_method("Points/Delete")
def _delete(api: LocalApi, r: Any) -> Any:
    api.store.delete(r.collection_name, GrpcToRest.convert_points_selector(r.points))
    return _updated(r)


@_method("Points/UpdateVectors")
def _update_vectors(api: LocalApi, r: Any) -> Any:
    api.store.update_vectors(r.collection_name, [GrpcToRest.convert_point_vectors(p) for p in r.points])
    return _updated(r)


@_method("Points/UpdateBatch")
def _batch_update(api: LocalApi, r: Any) -> Any:
    operations = [GrpcToRest.convert_points_update_operation(o) for o in r.operations]
    api.store.batch_update_points(r.collection_name, operations)
    return messages.UpdateBatchResponse(result=[_updated(r).result for _ in operations])


def _updated(r: Any) -> Any:
    status = models.UpdateStatus.COMPLETED if r.wait else models.UpdateStatus.ACKNOWLEDGED
    result = models.UpdateResult(operation_id=0, status=status)
    return messages.PointsOperationResponse(result=RestToGrpc.convert_update_result(result))


@_method("Points/Get")
def _retrieve(api: LocalApi, r: Any) -> Any:
    ids = [GrpcToRest.convert_point_id(name) for name in r.ids]
    found = api.store.retrieve(r.collection_name, ids, **_with(r, with_payload=True))
    return messages.GetResponse(result=[_record(record) for record in found])


def _record(record: models.Record) -> Any:
    # `convert_record` takes no record without a payload.
    return RestToGrpc.convert_record(record.model_copy(update={"payload": record.payload or {}}))


@_method("Points/Scroll")
def _scroll(api: LocalApi, r: Any) -> Any:
    found, following = api.store.scroll(
        r.collection_name,
        scroll_filter=_if_set(r, "filter", GrpcToRest.convert_filter),
        limit=or_else(_if_set(r, "limit", int), 10),
        offset=_if_set(r, "offset", GrpcToRest.convert_point_id),
        **_with(r, with_payload=True),
    )
    return messages.ScrollResponse(
        result=[_record(record) for record in found],
        next_page_offset=None if following is None else RestToGrpc.convert_extended_point_id(following),
    )


@_method("Points/Count")
def _count(api: LocalApi, r: Any) -> Any:
    counted = api.store.count(r.collection_name, _if_set(r, "filter", GrpcToRest.convert_filter))
    return messages.CountResponse(result=RestToGrpc.convert_count_result(counted))


@_method("Points/Query")
def _query(api: LocalApi, r: Any) -> Any:
    found = api.store.query_points(r.collection_name, offset=_if_set(r, "offset", int), **_search(r))
    return messages.QueryResponse(result=[RestToGrpc.convert_scored_point(p) for p in found.points])


@_method("Points/QueryBatch")
def _query_batch(api: LocalApi, r: Any) -> Any:
    return messages.QueryBatchResponse(
        result=[messages.BatchResult(result=_query(api, own).result) for own in r.query_points]
    )


def _search(r: Any) -> dict[str, Any]:
    return {
        "query": _if_set(r, "query", GrpcToRest.convert_query),
        "using": _if_set(r, "using", str),
        "prefetch": [GrpcToRest.convert_prefetch_query(p) for p in r.prefetch],
        "query_filter": _if_set(r, "filter", GrpcToRest.convert_filter),
        "limit": or_else(_if_set(r, "limit", int), 10),
        "score_threshold": _if_set(r, "score_threshold", float),
        **_with(r, with_payload=False),
    }


def _with(r: Any, *, with_payload: bool) -> dict[str, Any]:
    payload = _if_set(r, "with_payload", GrpcToRest.convert_with_payload_selector)
    return {
        "with_payload": with_payload if payload is None else payload,
        "with_vectors": _if_set(r, "with_vectors", GrpcToRest.convert_with_vectors_selector) or False,
    }


@_method("Collections/CollectionClusterInfo")
def _shards(api: LocalApi, r: Any) -> Any:
    own = messages.LocalShardInfo(
        shard_id=0, points_count=api.store.count(r.collection_name).count, state=messages.ReplicaState.Active
    )
    return messages.CollectionClusterInfoResponse(peer_id=7, shard_count=1, local_shards=[own])
