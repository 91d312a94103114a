"""qdrant-client: a server or a cluster, or the client's own local mode in a folder or in memory."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tenacity
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.connectors.qdrant.engines import EngineKind, shown_url
from surprise_rerank.connectors.qdrant.schema import DENSE, ID, Manifest, Point, Record, point_id
from surprise_rerank.errors import StoreError

T = TypeVar("T")

_TRANSIENT_STATUS = frozenset({429, 502, 503, 504})
_ATTEMPTS = 6
_TIMEOUT_SECONDS = 60


class ClientEngine:
    """A collection behind `QdrantClient`; made by `server`, `local` or `memory`."""

    def __init__(
        self, client: QdrantClient, kind: EngineKind, where: str, collection: str, manifest: Manifest
    ) -> None:
        self.kind: EngineKind = kind
        self.where = f"{where}, collection {collection!r}"
        self._client = client
        self._collection = collection
        try:
            self._open(manifest)
        except BaseException:
            client.close()
            raise

    @classmethod
    def server(
        cls, url: str, collection: str, manifest: Manifest, *, api_key: str | None = None
    ) -> ClientEngine:
        """A server or cluster.

        Raises:
            StoreError: if it cannot be reached, or refuses the key.
        """
        place = f"the Qdrant server at {shown_url(url)}"
        try:
            client = QdrantClient(
                url=url, api_key=api_key, timeout=_TIMEOUT_SECONDS, check_compatibility=False
            )
        except ValueError as error:
            raise StoreError(f"{shown_url(url)!r} is not the url of a Qdrant server") from error
        try:
            client.get_collections()  # no retries: a wrong address should be told at once
        except (ApiException, QdrantException) as error:
            client.close()
            raise StoreError(_explain(error, place)) from error
        except ValueError as error:  # an answer that is no JSON
            client.close()
            shown = shown_url(url)
            raise StoreError(f"what answers at {shown} is not a Qdrant server; check the url") from error
        return cls(client, "server", place, collection, manifest)

    @classmethod
    def local(cls, folder: Path, collection: str, manifest: Manifest) -> ClientEngine:
        """The client's local mode in a folder: plain Python, brute force."""
        with disk_errors(str(folder)):
            try:
                client = QdrantClient(path=str(folder))
            except RuntimeError as error:
                raise StoreError(
                    f"{folder} is open in another process; close that one, or use a server"
                ) from error
            except (ValueError, LookupError, TypeError, EOFError, sqlite3.Error) as error:
                raise StoreError(f"{folder} is damaged; delete it and index again") from error
        return cls(client, "local", str(folder), collection, manifest)

    @classmethod
    def memory(cls, collection: str, manifest: Manifest) -> ClientEngine:
        """The client's local mode without a folder; gone when closed."""
        return cls(QdrantClient(":memory:"), "local", "memory", collection, manifest)

    def _open(self, manifest: Manifest) -> None:
        if self._call(lambda: self._client.collection_exists(self._collection)):
            info = self._call(lambda: self._client.get_collection(self._collection))
            Manifest.from_json(info.config.metadata or {}, self.where).check(manifest, self.where)
            return
        self._call(
            lambda: self._client.create_collection(
                self._collection,
                vectors_config={
                    DENSE: models.VectorParams(size=manifest.dimension, distance=models.Distance.DOT)
                },
                on_disk_payload=True,
                metadata=manifest.to_json(),
            )
        )

    def count(self) -> int:
        """Number of stored points."""
        return self._call(lambda: self._client.count(self._collection, exact=True)).count

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id; waits until they are applied."""
        batch = [
            models.PointStruct(id=p.id, vector={DENSE: p.dense.tolist()}, payload=p.payload) for p in points
        ]
        self._call(lambda: self._client.upsert(self._collection, batch, wait=True))

    def delete(self, point_ids: Sequence[str]) -> None:
        """Remove points; waits until they are gone."""
        selector = models.PointIdsList(points=list(point_ids))
        self._call(lambda: self._client.delete(self._collection, selector, wait=True))

    def search(
        self, vector: Sequence[float], limit: int, fields: Sequence[str], *, dense: bool, exact: bool
    ) -> list[Record]:
        """The nearest points, best first."""
        response = self._call(
            lambda: self._client.query_points(
                self._collection,
                query=list(vector),
                using=DENSE,
                limit=limit,
                with_payload=list(fields) or False,
                with_vectors=[DENSE] if dense else False,
                # Local mode is always exact, and warns of being told so.
                search_params=models.SearchParams(exact=exact) if self.kind == "server" else None,
            )
        )
        return [_record(p, p.score) for p in response.points]

    def retrieve(self, point_ids: Sequence[str], fields: Sequence[str], *, dense: bool) -> list[Record]:
        """Points by id."""
        if not point_ids:
            return []
        records = self._call(
            lambda: self._client.retrieve(
                self._collection,
                ids=list(point_ids),
                with_payload=list(fields) or False,
                with_vectors=[DENSE] if dense else False,
            )
        )
        return [_record(r) for r in records]

    def scroll(self, fields: Sequence[str], *, dense: bool, batch: int = 1000) -> Iterator[list[Record]]:
        """All points, in batches."""
        offset: Any = None
        while True:
            start = offset
            records, offset = self._call(
                lambda start=start: self._client.scroll(  # type: ignore[misc]
                    self._collection,
                    limit=batch,
                    offset=start,
                    with_payload=list(fields) or False,
                    with_vectors=[DENSE] if dense else False,
                )
            )
            yield [_record(r) for r in records]
            if offset is None:
                return

    def smallest(self, limit: int, fields: Sequence[str]) -> list[Record]:
        """The points of the smallest ids: the first of a scroll, but in local mode, which does not sort."""
        if self.kind == "server":
            return next(self.scroll(fields, dense=False, batch=limit))
        ids = {point_id(r.payload[ID]) for batch in self.scroll((ID,), dense=False) for r in batch}
        records = self.retrieve(sorted(ids)[:limit], fields, dense=False)
        return sorted(records, key=lambda record: point_id(record.payload[ID]))

    def flush(self) -> None:
        """Nothing to do: every write waited until it was applied."""

    def close(self) -> None:
        """Close connections and files."""
        self._client.close()

    def _call(self, request: Callable[[], T]) -> T:
        """Send a request, with jittered back-off while the fault may pass; all requests are idempotent."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=20),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        with self._errors(), disk_errors(self.where):
            return retrying(request)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (ApiException, QdrantException) as error:
            raise StoreError(_explain(error, self.where)) from error
        except sqlite3.Error as error:  # the files of local mode
            raise StoreError(f"cannot use {self.where}: {error}; what is stored stays") from error


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, UnexpectedResponse):
        return error.status_code in _TRANSIENT_STATUS
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse)


def _explain(error: Exception, where: str) -> str:
    """One line: what failed where, and what to do. Never the request, which holds the API key."""
    if isinstance(error, UnexpectedResponse):
        if error.status_code in (401, 403):
            return f"{where} refuses access ({error.status_code}); set QDRANT_API_KEY to a key that may write"
        reason = error.content.decode("utf-8", "replace").replace("\n", " ")[:200]
        return f"{where} answered {error.status_code} {error.reason_phrase}: {reason}"
    if isinstance(error, ResponseHandlingException):
        return f"cannot reach {where} ({error.source}); start it with 'docker compose up -d' or check the url"
    return f"{where}: {str(error)[:200]}"


def _record(point: models.ScoredPoint | models.Record, score: float = 0.0) -> Record:
    vector: Any = point.vector
    return Record(payload=point.payload or {}, dense=vector[DENSE] if vector else None, score=score)
