"""Augmented vectors in a collection of a Qdrant server or cluster."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from qdrant_client import QdrantClient, models

from surprise_rerank.connectors.qdrant.engines import retries
from surprise_rerank.connectors.qdrant.engines.client import Connection
from surprise_rerank.connectors.qdrant.schema import SURPRISE
from surprise_rerank.connectors.similar.index.place import Advance, Hits, IndexPlace, hits_of
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.errors import DataError, StoreError, did_you_mean

T = TypeVar("T")

_REQUEST_BYTES = 8 * 2**20  # a quarter of what a server takes
_NUMBER_BYTES = 22  # of a float32 as JSON, its comma included
# Arguments of `QdrantClient.create_collection` that are no settings.
_OURS = frozenset({"self", "collection_name", "vectors_config", "sparse_vectors_config", "kwargs"})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two looks at a collection that is indexed


class ServerCollection:
    """A collection of its own.

    Args:
        place: of the server.
        name: of the collection.
        size: dimension of the vectors.

    Raises:
        StoreError: if the server cannot be reached, or refuses the key.
    """

    def __init__(self, place: IndexPlace, name: str, size: int) -> None:
        self._connection = Connection(
            place.url or "", place.api_key, place.prefer_grpc, place.grpc_port, place.timeout
        )
        self.where = f"{self._connection.where}, collection {name!r}"
        self._place, self._name, self._size = place, name, size
        self._client = self._connection.open()

    def create(self) -> None:
        """See `Collection`.

        Raises:
            DataError: if there is no such setting of a collection.
        """
        if self._call(lambda: self._client.collection_exists(self._name)):
            return
        vectors = {SURPRISE: models.VectorParams(size=self._size, distance=models.Distance.DOT)}
        settings = _checked(self._place.settings)
        # Another worker may have made it meanwhile, or an attempt whose answer was lost.
        with contextlib.suppress(retries.CollectionExists):
            self._call(lambda: self._client.create_collection(self._name, vectors, **settings))

    def count(self) -> int:
        """See `Collection`."""
        return self._call(lambda: self._client.count(self._name, exact=True)).count

    def stored(self, first: int, last: int) -> int:
        """See `Collection`."""
        records, _ = self._call(
            lambda: self._client.scroll(
                self._name, offset=first, limit=last - first, with_payload=False, with_vectors=False
            )
        )
        return sum(int(record.id) < last for record in records)

    def upsert(self, first: int, vectors: Float32Array) -> None:
        """See `Collection`."""
        step = max(1, _REQUEST_BYTES // (self._size * _NUMBER_BYTES))
        for start in range(0, len(vectors), step):
            self._send(first + start, vectors[start : start + step])

    def finish(self, advance: Advance) -> None:
        """See `Collection`."""
        wait_until_indexed(
            lambda: self._call(lambda: self._client.get_collection(self._name)),
            self._resume,
            self.where,
            advance,
            patience=self._place.patience,
        )

    def search(self, queries: Float32Array, limit: int, ef: int, least: float | None) -> list[Hits]:
        """See `Collection`."""
        params = models.SearchParams(hnsw_ef=ef)
        requests = [
            models.QueryRequest(
                query=query, using=SURPRISE, limit=limit, score_threshold=least, params=params
            )
            for query in queries.tolist()
        ]
        answers = self._call(lambda: self._client.query_batch_points(self._name, requests))
        return [hits_of(answer.points) for answer in answers]

    def drop(self) -> None:
        """See `Collection`."""
        self._call(lambda: self._client.delete_collection(self._name))
        self.close()

    def close(self) -> None:
        """See `Collection`."""
        self._client.close()

    def _send(self, first: int, vectors: Float32Array) -> None:
        """Store rows in one request; in halves where the server takes less."""
        batch = models.Batch(
            ids=list(range(first, first + len(vectors))), vectors={SURPRISE: vectors.tolist()}
        )
        try:
            self._call(lambda: self._client.upsert(self._name, batch, wait=True))
        except retries.TooLarge:
            half = len(vectors) // 2
            if not half:
                raise
            self._send(first, vectors[:half])
            self._send(first + half, vectors[half:])

    def _resume(self) -> None:
        """Have a server that was started anew go on with its graphs: any change of settings does."""
        self._call(
            lambda: self._client.update_collection(
                self._name, optimizers_config=models.OptimizersConfigDiff()
            )
        )

    def _call(self, request: Callable[[], T]) -> T:
        """Send a request; again while its fault may pass, as all of them are idempotent."""
        return retries.call(request, self.where, self._connection.retries)


def wait_until_indexed(
    look: Callable[[], models.CollectionInfo],
    resume: Callable[[], None],
    where: str,
    advance: Advance,
    *,
    patience: float,
    pause: float = _FIRST_PAUSE,
) -> None:
    """Wait until a server has built its graphs.

    Args:
        look: at the collection.
        resume: has the server go on, where it waits for a request to.
        where: the place, for messages.
        advance: told of vectors that are indexed.
        patience: seconds without a change until this gives up.
        pause: seconds between the first two looks.

    Raises:
        StoreError: if the server cannot build them, or nothing changes for so long.
    """
    indexed, changed, was_green = 0, time.monotonic(), False
    while True:
        info = look()
        now = info.indexed_vectors_count or 0
        if now > indexed:
            advance(now - indexed)
            indexed, changed = now, time.monotonic()
        match info.status:
            case models.CollectionStatus.RED:
                raise StoreError(
                    f"{where}: the server cannot index it: {_reason(info)}; see the server's log"
                )
            case models.CollectionStatus.GREY:
                resume()
        # A server notices what it has to index a moment after it was written.
        is_green = info.status == models.CollectionStatus.GREEN
        if is_green and was_green:
            return
        was_green = is_green
        if time.monotonic() - changed > patience:
            raise StoreError(
                f"{where}: no more than {indexed:,} of {info.points_count or 0:,} vectors are indexed, and "
                f"none was added for {patience:.0f} s; see the server's log, then run again: it goes on"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    known = set(inspect.signature(QdrantClient.create_collection).parameters) - _OURS
    for name in settings:
        if name not in known:
            raise DataError(
                f"{name!r} is no setting of a collection; {did_you_mean(name, known)}choose from "
                f"{', '.join(sorted(known))}"
            )
    return settings


def _reason(info: models.CollectionInfo) -> str:
    status = info.optimizer_status
    error = status.error if isinstance(status, models.OptimizersStatusOneOf1) else "it gives no reason"
    return " ".join(error.split())[:200]
