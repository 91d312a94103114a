"""Documents that come to a running server: stored, listed and removed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from surprise_rerank.connectors.document_index import DocumentIndex
from surprise_rerank.connectors.qdrant.writing.indexing import SyncReport
from surprise_rerank.connectors.server import ranking
from surprise_rerank.connectors.server.answers import RefusedError, refusing
from surprise_rerank.connectors.server.door import json_response, record_of
from surprise_rerank.connectors.server.schemas import (
    ChosenDocuments,
    DocumentsRequest,
    DocumentsResponse,
    IdsResponse,
    ListRequest,
)
from surprise_rerank.connectors.server.service import Service
from surprise_rerank.core.extras import pip_line
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, IndexMismatchError, MissingExtraError

try:
    from fastapi import APIRouter, Request, Response
except ImportError as error:
    raise MissingExtraError(f"the server's packages are not installed: run {pip_line('server')}") from error


def add_documents(router: APIRouter, service: Service) -> None:
    """Add the routes that list and change the documents of the server's own index."""

    @router.put("/v1/documents", response_model=DocumentsResponse)
    async def put(request: Request, asked: DocumentsRequest) -> Response:
        """Store documents, or replace those of the same id; searches find them when this answers."""
        texts = [own.text for own in asked.documents]
        ranking.require_allowed(service.options, "documents", texts, "documents")
        return await _changed(service, request, _storing(asked, record_of(request.scope).owner.tenant))

    @router.delete("/v1/documents/{id:path}", response_model=DocumentsResponse)
    async def delete(
        request: Request,
        id: str,  # noqa: A002 - as the path has it
        tenant: str | None = None,
    ) -> Response:
        """Remove the document of an id, and of a tenant where there are some; an unknown one is no error."""
        return await _removed(service, request, ChosenDocuments(ids=[id], tenant=tenant))

    @router.post("/v1/documents/delete", response_model=DocumentsResponse)
    async def delete_chosen(request: Request, asked: ChosenDocuments) -> Response:
        """Remove documents of ids, those that a filter lets through, or all of a tenant."""
        return await _removed(service, request, asked)

    @router.post("/v1/documents/ids", response_model=IdsResponse)
    async def ids(request: Request, asked: ListRequest) -> Response:
        """List the ids of documents, or of those that a filter lets through."""
        index, tenant = service.required().written(), record_of(request.scope).owner.tenant_for(asked.tenant)
        condition = ranking.condition_of(asked.filter, service.options.max_conditions)

        def listed() -> list[str]:
            with refusing():
                named = index.ids(filter=condition, tenant=tenant)
                return list(islice(named, asked.offset, asked.offset + asked.limit))

        return json_response({"ids": await service.workers.run(lambda stop: listed(), request.receive)})


def _storing(asked: DocumentsRequest, tenant: str | None) -> Callable[[DocumentIndex], SyncReport]:
    """What stores documents, which are the tenant's if the token has one."""

    def store(index: DocumentIndex) -> SyncReport:
        documents = [Document(**document.model_dump()) for document in asked.documents]
        if tenant is not None:
            documents = [index.manifest.options.owned(document, tenant) for document in documents]
        return index.sync(documents, tenant=tenant, background=False)

    return store


async def _removed(service: Service, request: Request, asked: ChosenDocuments) -> Response:
    owner = record_of(request.scope).owner
    tenant = owner.tenant_for(asked.tenant)
    if asked.ids is None and asked.filter is None:
        owner.require("admin", "deleting all documents of a tenant")
    condition = ranking.condition_of(asked.filter, service.options.max_conditions)

    def remove(index: DocumentIndex) -> SyncReport:
        return SyncReport(0, 0, 0, index.delete(asked.ids, filter=condition, tenant=tenant))

    return await _changed(service, request, remove)


async def _changed(
    service: Service, request: Request, change: Callable[[DocumentIndex], SyncReport]
) -> Response:
    """The answer to a change: what became of documents, and how many there are for who sent them."""
    opened, record = service.required(), record_of(request.scope)
    index, shown = opened.written(), opened.documents_of(record.owner.tenant)
    assert shown is not None
    try:
        report = await service.workers.run(lambda stop: change(index), request.receive)
    except (DataError, IndexMismatchError) as error:
        raise RefusedError(422, str(error)) from error
    service.upkeep.ask()
    counts = {name: getattr(report, name) for name in ("added", "updated", "unchanged")}
    held = {"deleted": report.removed, "documents": len(shown)}
    return json_response({"id": record.request_id, **counts, **held})
