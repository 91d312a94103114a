"""What a server answers to a question, as records, without qdrant-client's models in between.

qdrant-client copies every number of a request, in case a text is to be encoded, and makes a model of every
point of an answer: 48 ms for a question of `auto` with 100 candidates of each kind, which take 3 here.
Connections, headers and errors are the client's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from qdrant_client import QdrantClient, grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from surprise_rerank.connectors.qdrant.engines.base import UNNAMED
from surprise_rerank.connectors.qdrant.schema import Record

_SECONDS = 5  # until a request by gRPC counts as failed, as qdrant-client has it where nobody says


class _Sparse(NamedTuple):
    """A sparse vector as it came; `to_terms` makes arrays of all of them at once."""

    indices: Sequence[int]
    values: Sequence[float]


def query_batch(
    client: QdrantClient, collection: str, requests: Sequence[models.QueryRequest]
) -> list[list[Record]]:
    """The points that each of several queries finds, best first, in one request to a server.

    Raises:
        Exception: as the client's own methods.
    """
    if client.init_options["prefer_grpc"]:
        asked = [RestToGrpc.convert_query_request(request, collection) for request in requests]
        sent = grpc.QueryBatchPoints(collection_name=collection, query_points=asked)
        seconds = float(client.init_options["timeout"] or _SECONDS)
        found = client.grpc_points.QueryBatch(sent, timeout=seconds).result
        return [[_from_grpc(point) for point in own.result] for own in found]
    batch = models.QueryRequestBatch.model_construct(searches=list(requests))
    answer = client.http.client.request(
        type_=dict,
        method="POST",
        url="/collections/{collection_name}/points/query/batch",
        path_params={"collection_name": collection},
        headers={"Content-Type": "application/json"},
        content=batch.model_dump_json(by_alias=True, exclude_unset=True, exclude_none=True),
    )
    assert answer.get("result") is not None, "Query batch returned None"
    return [[_from_json(point) for point in own["points"]] for own in answer["result"]]


def _from_json(point: Mapping[str, Any]) -> Record:
    own = point.get("vector") or {}
    named = own if isinstance(own, dict) else {UNNAMED: own}
    vectors = {
        name: _Sparse(v["indices"], v["values"]) if isinstance(v, dict) else v for name, v in named.items()
    }
    return Record(str(point["id"]), point.get("payload") or {}, vectors, float(point["score"]))


def _from_grpc(point: Any) -> Record:
    vectors: dict[str, Any] = {}
    if point.HasField("vectors"):
        own = point.vectors
        named = own.vectors.vectors.items() if own.HasField("vectors") else [(UNNAMED, own.vector)]
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
