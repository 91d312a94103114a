"""Documents that come to a running server: stored, listed and removed."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, IndexMismatchError
from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors.qdrant._writing.indexing import SyncReport
from surprise_rerank.connectors.server import _ranking as ranking
from surprise_rerank.connectors.server._answers import RefusedError, refusing
from surprise_rerank.connectors.server._door import json_response, record_of, refusal
from surprise_rerank.connectors.server._owners import Owner
from surprise_rerank.connectors.server._schemas import (
    ChosenDocuments,
    DocumentsRequest,
    DocumentsResponse,
    IdsResponse,
    JobResponse,
    ListRequest,
)
from surprise_rerank.connectors.server._service import Service
from surprise_rerank.connectors.server._work import Job
from surprise_rerank.core._extras import importing

with importing("server"):
    from fastapi import APIRouter, Request, Response

_COUNTS = ("added", "updated", "unchanged")
_PART = 32  # documents of a job that are stored together, while what others send waits


def add_documents(router: APIRouter, service: Service) -> None:
    """Add the routes that list and change the documents of the server's own index."""

    @router.put("/v1/documents", response_model=DocumentsResponse, responses={202: {"model": JobResponse}})
    async def put(request: Request, body: DocumentsRequest) -> Response:
        """Store documents, or replace those of the same id; searches find them when this answers."""
        texts = [document.text for document in body.documents]
        ranking.require_allowed(service.options, "documents", texts, "documents")
        owner, index = record_of(request.scope).owner, service.required().written()
        documents = _documents(index, body, owner.tenant)
        if not body.wait:
            return _begun(service, index, documents, owner)
        return await _changed(service, request, lambda index: _stored(index, documents, owner.tenant))

    @router.get("/v1/jobs/{id}", response_model=JobResponse)
    async def job(request: Request, id: str) -> Response:  # noqa: A002 - as the path has it
        """How far the documents of a PUT with `wait: false` are stored; jobs end with the server."""
        wanted = service.jobs.of(id, record_of(request.scope).owner.name)
        if wanted is None:
            raise RefusedError(404, "there is no such job, or the server has started anew; send them again")
        return json_response(_shown(wanted))

    @router.post("/v1/documents/delete", response_model=DocumentsResponse)
    async def delete_chosen(request: Request, body: ChosenDocuments) -> Response:
        """Remove documents of ids, those that a filter lets through, or all of a tenant."""
        return await _removed(service, request, body)

    @router.post("/v1/documents/ids", response_model=IdsResponse)
    async def ids(request: Request, body: ListRequest) -> Response:
        """List the ids of documents, or of those that a filter lets through."""
        index, tenant = service.required().written(), record_of(request.scope).owner.tenant_for(body.tenant)
        condition = ranking.condition_of(body.filter, service.options.max_conditions)

        def listed() -> list[str]:
            with refusing():
                named = index.ids(filter=condition, tenant=tenant)
                return list(islice(named, body.offset, body.offset + body.limit))

        return json_response({"ids": await service.workers.run(lambda stop: listed(), request.receive)})

    # After the two above, which are not refused as if they were documents of these names.
    @router.delete("/v1/documents/{id:path}", response_model=DocumentsResponse)
    async def delete(
        request: Request,
        id: str,  # noqa: A002 - as the path has it
        tenant: str | None = None,
    ) -> Response:
        """Remove the document of an id, and of a tenant where there are some; an unknown one is no error."""
        return await _removed(service, request, ChosenDocuments(ids=[id], tenant=tenant))


def _documents(index: DocumentIndex, body: DocumentsRequest, tenant: str | None) -> list[Document]:
    """The documents of a request, which are the tenant's if the token has one; refused if an id is twice."""
    with _refusing():
        documents = [Document(**dict(document)) for document in body.documents]
        if tenant is not None:
            documents = [index.manifest.options.owned(document, tenant) for document in documents]
        keys = list(map(index.manifest.options.key_of, documents))
    if len(set(keys)) < len(keys):
        (key, _), *_ = Counter(keys).most_common(1)
        name = documents[keys.index(key)].id
        raise RefusedError(422, f"documents: the id {name!r} occurs twice; send each document once")
    return documents


def _stored(index: DocumentIndex, documents: Sequence[Document], tenant: str | None) -> SyncReport:
    return index.sync(documents, tenant=tenant, background=False)


def _begun(service: Service, index: DocumentIndex, documents: Sequence[Document], owner: Owner) -> Response:
    """The answer to documents that are stored a part after the other, when those before them are."""
    job = Job(str(uuid.uuid4()), owner.name, len(documents))

    def store() -> None:
        start, job.state = job.counts.total(), "running"
        try:
            with _refusing():
                report = _stored(index, documents[start : start + _PART], owner.tenant)
        except Exception as error:  # noqa: BLE001 - who asks for the job is told
            job.error, job.state = refusal(error, service.logger, job.id, "PUT").message, "failed"
        else:
            job.counts.update({name: getattr(report, name) for name in _COUNTS})
            if job.counts.total() >= job.total:
                job.state = "done"
        service.jobs.go_on(has_ended=job.state != "running")
        service.upkeep.ask()

    if not service.jobs.add(job, store):
        raise RefusedError(429, "too many jobs wait; send these when one is done", {"Retry-After": "10"})
    answer = json_response(_shown(job))
    answer.status_code, answer.headers["Location"] = 202, f"/v1/jobs/{job.id}"
    return answer


def _shown(job: Job) -> dict[str, Any]:
    counts = {name: job.counts[name] for name in _COUNTS}
    return {"id": job.id, "state": job.state, "total": job.total, **counts, "error": job.error}


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse the request by what the block finds wrong with documents, or with the model of the index."""
    try:
        yield
    except (DataError, IndexMismatchError) as error:
        raise RefusedError(422, str(error)) from error


async def _removed(service: Service, request: Request, body: ChosenDocuments) -> Response:
    owner = record_of(request.scope).owner
    tenant = owner.tenant_for(body.tenant)
    if body.ids is None and body.filter is None:
        owner.require("admin", "deleting all documents of a tenant")
    condition = ranking.condition_of(body.filter, service.options.max_conditions)

    def remove(index: DocumentIndex) -> SyncReport:
        return SyncReport(0, 0, 0, index.delete(body.ids, filter=condition, tenant=tenant))

    return await _changed(service, request, remove)


async def _changed(
    service: Service, request: Request, change: Callable[[DocumentIndex], SyncReport]
) -> Response:
    """The answer to a change: what became of documents, and how many there are for who sent them."""
    opened, record = service.required(), record_of(request.scope)
    index, shown = opened.written(), opened.documents_of(record.owner.tenant)
    assert shown is not None
    with _refusing():
        report = await service.writer.run(lambda stop: change(index), request.receive)
    service.upkeep.ask()
    counts = {name: getattr(report, name) for name in _COUNTS}
    held = {"deleted": report.removed, "documents": len(shown)}
    return json_response({"id": record.request_id, **counts, **held})
