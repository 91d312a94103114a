"""qdrant-client: a server or a cluster, or the client's own local mode in memory."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import orjson
from pydantic import ValidationError
from qdrant_client import QdrantClient, grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, StoreError, did_you_mean
from surprise_rerank.connectors.qdrant._engines import retries
from surprise_rerank.connectors.qdrant._engines.nodes import TURBO_NUMBERS, Nodes, by_rest, server_version
from surprise_rerank.connectors.qdrant._engines.placement import Placement, node_addresses, placement
from surprise_rerank.connectors.qdrant._engines.retries import CollectionExists
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._location import EngineKind, RetryPolicy
from surprise_rerank.connectors.qdrant._manifest import Manifest, Quantization, VectorForm
from surprise_rerank.connectors.qdrant._multivectors import CODED_FROM
from surprise_rerank.connectors.qdrant._schema import (
    BM25,
    UNNAMED,
    Payload,
    PayloadFields,
    Point,
    PointId,
    Record,
    StoredVector,
    pages,
    to_record,
)

S = TypeVar("S")
T = TypeVar("T")

# Changes in one request; each is a small operation of its own.
_OPERATIONS = 500
_QUANTIZED: Mapping[Quantization | None, models.QuantizationConfig] = {
    "int8": models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8)),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig()),
}
REQUEST_BYTES = 8 * 2**20  # a quarter of what a server takes
# Arguments of `QdrantClient.create_collection` that are not the user's.
_OURS = frozenset({"self", "collection_name", "vectors_config", "sparse_vectors_config", "kwargs"})


class ClientEngine:
    """A collection behind `QdrantClient`s.

    Args:
        nodes: where requests go to; several engines may share them.
        collection: its name; see `create`.
        moved: asked when the collection is gone: the name of the one that took its place, if one did.
        advice: what to do when it is gone.
    """

    def __init__(
        self,
        nodes: Nodes,
        collection: str,
        moved: Callable[[], str | None] = lambda: None,
        advice: str = "index again",
    ) -> None:
        self.kind: EngineKind = nodes.kind
        self.where = f"{nodes.place}, collection {collection!r}"
        self.nodes = nodes
        self.collection = collection
        self._moved, self._advice = moved, advice

    def exists(self) -> bool:
        """Whether there is such a collection."""
        return self._call(lambda client: client.collection_exists(self.collection), reads=True)

    def create(self, manifest: Manifest, settings: Mapping[str, Any]) -> bool:
        """Make the collection, with its payload indexes; returns whether it was not there.

        Args:
            manifest: what it will hold, and remember.
            settings: see `create_of`.
        """
        is_new = self.create_of(
            manifest.vectors,
            settings,
            sparse_vectors_config=None
            if manifest.options.bm25 is None
            else {
                BM25: models.SparseVectorParams(
                    index=models.SparseIndexParams(on_disk=True) if manifest.options.on_disk else None
                )
            },
            on_disk_payload=True,
            metadata=manifest.to_json(),
        )
        # Local mode has no payload indexes, and warns of the request.
        indexes = manifest.options.all_payload_indexes if self.kind == "server" else {}
        for path, kind in indexes.items():
            schema: models.PayloadFieldSchema = models.PayloadSchemaType(kind)
            if path == manifest.options.tenant_path:
                schema = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            self._index_payload(path, schema)
        return is_new

    def index_keywords(self, *paths: str) -> None:
        """Index fields of payloads, as a whole; local mode has no such indexes, and warns of the request."""
        for path in paths if self.kind == "server" else ():
            self._index_payload(path, models.PayloadSchemaType.KEYWORD)

    def token_numbers(self, d: int) -> models.Datatype:
        """The numbers of token vectors of d components: the smallest that the server has, and are as good."""
        version = server_version(self.nodes) if self.kind == "server" else None
        is_new = version is not None and version >= TURBO_NUMBERS
        return models.Datatype.TURBO4 if is_new and d >= CODED_FROM else models.Datatype.FLOAT16

    def _params(self, form: VectorForm) -> models.VectorParams:
        if form.is_tokens:
            return models.VectorParams(
                size=form.size,
                distance=models.Distance.DOT,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
                datatype=self.token_numbers(form.size),
                hnsw_config=models.HnswConfigDiff(m=0),
                on_disk=True,
            )
        return models.VectorParams(
            size=form.size,
            distance=models.Distance.DOT,
            on_disk=form.on_disk or None,
            quantization_config=_QUANTIZED.get(form.quantization),
        )

    def create_of(
        self, vectors: Mapping[str, VectorForm], settings: Mapping[str, Any], **defaults: Any
    ) -> bool:
        """Make the collection, unless it exists; returns whether this has certainly made it.

        The settings are a user's, more for `QdrantClient.create_collection`, such as `shard_number`; where
        there are none, the defaults count.

        Raises:
            DataError: if there is no such setting of a collection, or none with such a value.
        """
        names = set(inspect.signature(QdrantClient.create_collection).parameters) - _OURS
        for name in set(settings) - names:
            raise DataError(
                f"{name!r} is no setting of a collection; {did_you_mean(name, names)}choose from "
                f"{', '.join(sorted(names))}"
            )
        arguments = {**defaults, **settings}
        config = {name: self._params(form) for name, form in vectors.items()}
        # With user-defined sharding Qdrant 1.18 changes points by id only in a shard that is named, and a
        # search without one breaks the connection; so `sharding_method` is of no use here.
        # An attempt whose answer was lost may have made it, or another process.
        with contextlib.suppress(CollectionExists):
            try:
                self._call(lambda to: by_rest(to).create_collection(self.collection, config, **arguments))
            except ValidationError as error:  # of the request; nothing was sent
                wrong = error.errors()[0]
                name = ".".join(map(str, wrong["loc"]))
                border.refuse(
                    f"collection_settings: {name}", wrong["input"], "as Qdrant has it", wrong["msg"]
                )
            return True
        return False

    def info(self) -> models.CollectionInfo:
        """How the collection is made."""
        return self._call(lambda client: client.get_collection(self.collection), reads=True)

    def spread(self) -> dict[str, Any]:
        """Settings that give another collection as many shards and copies on a cluster as this one has."""
        if self.kind != "server":
            return {}
        params = self.info().config.params
        names = ("shard_number", "replication_factor", "write_consistency_factor")
        return {name: value for name in names if (value := getattr(params, name)) is not None}

    def placement(self) -> Placement | None:
        """How the collection is spread over the nodes of a server; None in local mode.

        Raises:
            NoAccess: if the key or token may not see that.
        """
        if self.kind != "server":
            return None
        params = self.info().config.params
        addresses: dict[int, str] = {}
        away = frozenset[str]()
        with contextlib.suppress(StoreError):  # they are for keys to everything, and by REST only
            once = RetryPolicy(attempts=1)
            addresses, away = self.nodes.call(node_addresses, self.nodes.place, reads=True, policy=once)
        return self._read(lambda client, name: placement(client, name, params, addresses, away))

    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata that the collection was made with."""
        return self.info().config.metadata or {}

    def set_metadata(self, values: Mapping[str, Any]) -> None:
        """Store these metadata, and wait until every node has them."""
        wanted = json.loads(json.dumps(dict(values)))  # as it comes back
        self._call(lambda client: client.update_collection(self.collection, metadata=wanted))

        def is_seen(client: QdrantClient) -> bool:
            metadata = client.get_collection(self.collection).config.metadata or {}
            return all(metadata.get(name) == value for name, value in wanted.items())

        self.nodes.wait_for_all(is_seen)

    def changing(self) -> contextlib.AbstractContextManager[None]:
        """Wait as long for reads as for writes inside the block, which is a change."""
        return self.nodes.changing()

    def claim(self) -> None:
        """Before a change: nothing, as a server orders the changes of its clients."""

    is_grown = False  # a server optimises by itself

    def finish(self) -> None:
        """After many writes: nothing."""

    def leave_to_others(self) -> None:
        """Build no approximate index from now on: never done here."""

    def count(self, condition: models.Filter | None = None) -> int:
        """Number of stored points, or of those that a filter lets through."""
        return self._read(lambda client, name: client.count(name, count_filter=condition, exact=True)).count

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id; waits until they are applied."""
        batch = [
            models.PointStruct(id=p.id, vector=_vectors(p.vectors), payload=p.payload or None) for p in points
        ]
        self._call(lambda client: client.upsert(self.collection, batch, wait=True))

    def delete(self, point_ids: Sequence[PointId]) -> None:
        """Remove points; waits until they are gone."""

        def send(client: QdrantClient, part: list[PointId]) -> None:
            client.delete(self.collection, models.PointIdsList(points=list(part)), wait=True)

        self._in_parts(point_ids, 10 * _OPERATIONS, send)

    def purge(self) -> None:
        """Nothing: a server rewrites its segments and truncates its log by itself; memory has no files."""

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points."""

        def send(client: QdrantClient, part: list[models.UpdateOperation]) -> None:
            client.batch_update_points(self.collection, part, wait=True)

        operations: list[models.UpdateOperation] = [
            models.SetPayloadOperation(set_payload=models.SetPayload(payload=payload, points=[name]))
            for name, payload in changes
        ]
        self._in_parts(operations, _OPERATIONS, send)

    def set_vectors(self, changes: Sequence[tuple[PointId, Mapping[str, StoredVector]]]) -> None:
        """Set some vectors of points."""

        def send(client: QdrantClient, part: list[models.PointVectors]) -> None:
            client.update_vectors(self.collection, part, wait=True)

        points = [models.PointVectors(id=name, vector=_vectors(vectors)) for name, vectors in changes]
        widest = max((Point("", vectors, {}).size for _, vectors in changes), default=1)
        self._in_parts(points, max(1, min(_OPERATIONS, REQUEST_BYTES // widest)), send)

    def drop(self) -> None:
        """Delete the collection, if it exists."""
        if self.exists():
            self._call(lambda client: client.delete_collection(self.collection))

    def query_batch(self, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        """The points that each of several queries finds, best first, in one request."""
        if self.kind == "server":
            return self._read(lambda client, name: query_batch(client, name, requests), patient=False)
        # Local mode is always exact, and warns of the parameters.
        plain = [request.model_copy(update={"params": None}) for request in requests]
        responses = self._read(lambda client, name: client.query_batch_points(name, plain), patient=False)
        return [[to_record(p, p.score) for p in response.points] for response in responses]

    def retrieve(
        self, point_ids: Sequence[PointId], fields: PayloadFields, vectors: Sequence[str] = ()
    ) -> list[Record]:
        """Points by id."""
        if not point_ids:
            return []
        points = self._read(
            lambda client, name: client.retrieve(
                name,
                ids=list(point_ids),
                with_payload=payload_selector(fields),
                with_vectors=_chosen(vectors),
            )
        )
        return [to_record(r) for r in points]

    def scroll(
        self,
        fields: PayloadFields,
        vectors: Sequence[str] = (),
        *,
        batch: int = 1000,
        condition: models.Filter | None = None,
    ) -> Iterator[list[Record]]:
        """All points, in batches."""

        def page(offset: Any) -> tuple[Sequence[Any], Any]:
            return self._read(
                lambda client, name: client.scroll(
                    name,
                    scroll_filter=condition,
                    limit=batch,
                    offset=offset,
                    with_payload=payload_selector(fields),
                    with_vectors=_chosen(vectors),
                ),
                patient=True,  # many points in a page: a slow one is not sent again
            )

        return pages(page)

    def smallest(
        self, limit: int, fields: Sequence[str], condition: models.Filter | None = None
    ) -> list[Record]:
        """The points of the smallest ids: the first of a scroll, but in local mode, which does not sort."""
        if self.kind == "server":
            return next(self.scroll(fields, batch=limit, condition=condition))
        ids = sorted(record.id for batch in self.scroll((), condition=condition) for record in batch)
        return sorted(self.retrieve(ids[:limit], fields), key=lambda record: record.id)

    def close(self) -> None:
        """Close connections."""
        self.nodes.close()

    def _index_payload(self, path: str, schema: models.PayloadFieldSchema) -> None:
        self._call(lambda client: client.create_payload_index(self.collection, path, schema, wait=True))

    def _in_parts(
        self, items: Sequence[S], size: int, send: Callable[[QdrantClient, list[S]], object]
    ) -> None:
        """Send changes, so many in a request."""
        for start in range(0, len(items), size):
            part = list(items[start : start + size])
            self._call(lambda client, part=part: send(client, part))  # type: ignore[misc]

    def _call(
        self, request: Callable[[QdrantClient], T], *, reads: bool = False, patient: bool | None = None
    ) -> T:
        """Send a request; again while its fault may pass, as all of them are idempotent."""
        return self.nodes.call(request, self.where, reads=reads, patient=patient)

    def _read(self, request: Callable[[QdrantClient, str], T], *, patient: bool | None = None) -> T:
        """Send a request that reads; where the collection was replaced, to the one in its place."""

        def sent() -> T:
            return self._call(lambda client: request(client, self.collection), reads=True, patient=patient)

        try:
            return sent()
        except retries.CollectionGone as error:
            name = self._moved()
            if name is None or name == self.collection:
                gone = f"{self.where}: the collection does not exist any more; {self._advice}"
                raise retries.CollectionGone(gone) from error
            self.collection = name
            return sent()


def payload_selector(fields: PayloadFields) -> Any:
    """What a request to Qdrant has for it."""
    return True if fields is None else list(fields) or False


def _chosen(vectors: Sequence[str]) -> Any:
    """One without a name cannot be asked for beside others."""
    return True if UNNAMED in vectors else list(vectors) or False


def _vectors(vectors: Mapping[str, StoredVector]) -> Any:
    return {
        name: models.SparseVector(indices=v.indices.tolist(), values=v.values.tolist())
        if isinstance(v, SparseVector)
        else v.tolist()
        for name, v in vectors.items()
    }


_SECONDS = 5  # until a request by gRPC counts as failed, as qdrant-client has it where nobody says


class _Sparse(NamedTuple):
    """A sparse vector as it came; `to_terms` makes arrays of all of them at once."""

    indices: Sequence[int]
    values: Sequence[float]


def query_batch(
    client: QdrantClient, collection: str, requests: Sequence[models.QueryRequest]
) -> list[list[Record]]:
    """The points that each of several queries finds, best first; errors are the client's own."""
    # Without its models: it copies every number of a request, in case a text is to be encoded, and makes a
    # model of every point of an answer. A question of `auto` takes 3 ms here, and 48 there.
    if client.init_options["prefer_grpc"]:
        queries = [RestToGrpc.convert_query_request(request, collection) for request in requests]
        sent = grpc.QueryBatchPoints(collection_name=collection, query_points=queries)
        seconds = float(client.init_options["timeout"] or _SECONDS)
        results = client.grpc_points.QueryBatch(sent, timeout=seconds).result
        return [[_from_grpc(point) for point in result.result] for result in results]
    answer = client.http.client.request(
        type_=dict,
        method="POST",
        url="/collections/{collection_name}/points/query/batch",
        path_params={"collection_name": collection},
        headers={"Content-Type": "application/json"},
        content=_body(requests),
    )
    assert answer.get("result") is not None, "Query batch returned None"
    return [[_from_json(point) for point in result["points"]] for result in answer["result"]]


def _body(requests: Sequence[models.QueryRequest]) -> bytes:
    """The JSON of a batch, vectors in the shortest digits of float32: of 17 tokens 91 kB, and not 151."""
    batch = models.QueryRequestBatch.model_construct(searches=list(requests))
    values = batch.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    for search in values["searches"]:
        _shorten(search)
    try:
        return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a number of a filter that has more than 64 bits, which a server refuses in its words
        return batch.model_dump_json(by_alias=True, exclude_unset=True, exclude_none=True).encode()


def _shorten(search: dict[str, Any]) -> None:
    """Put arrays of float32 in place of the lists of a query's vectors, and of those that it is fed by."""
    query, before = search.get("query"), search.get("prefetch") or ()
    if isinstance(query, dict) and isinstance(query.get("nearest"), list):
        query["nearest"] = np.array(query["nearest"], np.float32)
    for stage in [before] if isinstance(before, dict) else before:
        _shorten(stage)


def _from_json(point: Mapping[str, Any]) -> Record:
    sent = point.get("vector") or {}
    named = sent if isinstance(sent, dict) else {UNNAMED: sent}
    vectors = {
        name: _Sparse(v["indices"], v["values"]) if isinstance(v, dict) else v for name, v in named.items()
    }
    score = float(np.float32(point["score"]))  # which it is, in the shortest digits
    return Record(str(point["id"]), point.get("payload") or {}, vectors, score)


def _from_grpc(point: Any) -> Record:
    vectors: dict[str, Any] = {}
    if point.HasField("vectors"):
        sent = point.vectors
        named = sent.vectors.vectors.items() if sent.HasField("vectors") else [(UNNAMED, sent.vector)]
        vectors = {name: _vector(vector) for name, vector in named}
    payload = GrpcToRest.convert_payload(point.payload) if point.payload else {}
    return Record(str(point.id.uuid or point.id.num), payload, vectors, float(point.score))


def _vector(vector: Any) -> Any:
    match vector.WhichOneof("vector"):
        case "dense":
            return np.array(vector.dense.data, np.float32)
        case "sparse":
            return _Sparse(vector.sparse.indices, vector.sparse.values)
    return GrpcToRest.convert_vector_output(vector)
