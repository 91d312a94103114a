"""The web application: its routes, and how they refuse."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, StoreError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors.server import _ranking as ranking
from surprise_rerank.connectors.server._answers import TEI_ROUTE, RefusedError, to_json
from surprise_rerank.connectors.server._documents import add_documents
from surprise_rerank.connectors.server._door import (
    DEADLINE,
    RequestGate,
    json_response,
    record_of,
    route_path,
)
from surprise_rerank.connectors.server._logs import EventLog
from surprise_rerank.connectors.server._options import ServerOptions, said_of
from surprise_rerank.connectors.server._page import page_routes
from surprise_rerank.connectors.server._page.files import file_route
from surprise_rerank.connectors.server._schemas import (
    AnyRerankRequest,
    ChosenDocuments,
    DocumentsRequest,
    ErrorResponse,
    ListRequest,
    ModelsResponse,
    NewDocument,
    RerankRequest,
    RerankResponse,
    ScoreRequest,
    ScoreResponse,
    SearchRequest,
    SearchResponse,
    TeiErrorResponse,
    TeiRank,
)
from surprise_rerank.connectors.server._service import Service
from surprise_rerank.connectors.server._work import RequestEncoder
from surprise_rerank.core._extras import importing
from surprise_rerank.core._json_values import read_json
from surprise_rerank.encoders.base import Encoder, shown_model

with importing("server"):
    import prometheus_client
    import uvicorn  # noqa: F401 - is missed here, before anything is made
    from fastapi import APIRouter, Depends, FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.routing import APIRoute
    from fastapi.security import HTTPBearer
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware
    from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.applications import Starlette

T = TypeVar("T")


class _StrictRequest(Request):
    """A request whose JSON has no key twice."""

    async def json(self) -> Any:
        """The body."""
        try:
            return read_json(await self.body())
        except DataError as error:
            raise HTTPException(422, str(error)) from error


class _StrictRoute(APIRoute):
    """A route whose requests are strict."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


# The verdict in answers of Text Embeddings Inference, which are bare lists.
VERDICT_HEADER = "X-Surprise-Verdict"
_TEI_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": TeiErrorResponse, "description": "The request is refused."},
    "5XX": {"model": TeiErrorResponse, "description": "The server cannot answer."},
}
# Where a field that is not known is refused.
_BODIES: dict[str, type[BaseModel]] = {
    "/v1/search": SearchRequest,
    "/v1/documents": DocumentsRequest,
    "/v1/documents/delete": ChosenDocuments,
    "/v1/documents/ids": ListRequest,
}
_ERRORS = {status: {**errors, "model": ErrorResponse} for status, errors in _TEI_ERRORS.items()}


def create_app(
    reranker: TextReranker,
    pipeline: Pipeline | None = None,
    options: ServerOptions | None = None,
    *,
    system: str = "",
    logger: EventLog | None = None,
) -> FastAPI:
    """A web application that re-ranks texts in Cohere's, Jina's and Text Embeddings Inference's interfaces.

    With a pipeline it searches an index, too. The arguments are those of `Service` and `Service.open`.
    """
    border.instance("reranker", reranker, TextReranker)
    border.optional(border.instance, "pipeline", pipeline, Pipeline)
    border.optional(border.instance, "options", options, ServerOptions)
    service = Service(searches=pipeline is not None, options=options, logger=logger)
    service.open(reranker, pipeline, system)
    return service_app(service)


def service_app(service: Service, inside: Starlette | None = None) -> FastAPI:
    """A web application for a service that opens later: until then `/ready` and all work answer 503.

    The routes of an application `inside` are served by the same rules.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if inside is not None:
                await stack.enter_async_context(inside.router.lifespan_context(inside))
            yield
        service.end()

    app = FastAPI(
        title="surprise-rerank",
        summary="Re-ranking with scores that mean something.",
        version=_version(),
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        # FastAPI's own spans hold query strings, and its records of errors their messages.
        telemetry={"tracing": False, "logs": False},
        responses=_ERRORS,
    )
    _add_probes(app, service)
    # The door checks the token before a body is read; this tells readers of the schema.
    needs = [Depends(HTTPBearer(auto_error=False))] if service.options.asks_for_tokens else []
    guarded = APIRouter(dependencies=needs, responses=_ERRORS, route_class=_StrictRoute)
    _add_views(guarded, service)
    _add_reranking(guarded, service)
    if service.searches:
        _add_search(guarded, service)
        add_documents(guarded, service)
        app.router.routes.extend(page_routes())
        if service.options.files is not None:
            app.router.routes.append(file_route(service))
    # As routes of its own, which log and metrics know by their paths.
    app.router.routes.extend([*guarded.routes, *([] if inside is None else inside.routes)])
    app.add_exception_handler(HTTPException, _http_refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(RequestGate, service=service)
    if service.options.origins:
        # Outside: what a browser asks before it asks has no token.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.options.origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id", DEADLINE],
            expose_headers=["X-Request-Id", VERDICT_HEADER],
        )
    return app


async def _computed(service: Service, request: Request, encoder: Encoder, compute: Callable[..., T]) -> T:
    """What `compute(encoder=, note=)` of this request gives, in a worker's thread."""
    note = functools.partial(service.metrics.note, record_of(request.scope).route)
    return await service.workers.run(
        lambda stop: compute(encoder=RequestEncoder(encoder, stop), note=note), request.receive
    )


def _count(service: Service, request: Request, documents: int, verdict: Mapping[str, Any] | None) -> None:
    """Remember how many documents an answer is about, and what became of the question."""
    record = record_of(request.scope)
    record.documents = documents
    service.metrics.documents.labels(record.route).inc(documents)
    if verdict is not None:
        service.metrics.verdicts.labels(record.route, verdict["status"]).inc()


def _add_reranking(router: APIRouter, service: Service) -> None:
    @router.post("/v1/rerank", response_model=RerankResponse)
    @router.post("/v2/rerank", response_model=RerankResponse)
    async def rerank(request: Request, body: RerankRequest) -> Response:
        """Documents in order, as Cohere and Jina define it."""
        return await _reranked(service, request, body)

    @router.post("/rerank", response_model=list[TeiRank] | RerankResponse, responses=_TEI_ERRORS)
    async def tei_rerank(request: Request, body: AnyRerankRequest) -> Response:
        """Texts in order, as Text Embeddings Inference defines it; the verdict is in a header, as JSON.

        For `documents` in place of `texts` the answer is that of /v1/rerank.
        """
        if isinstance(body, RerankRequest):
            return await _reranked(service, request, body)
        ranking.require_allowed(service.options, body.query, body.texts, "texts", ranking.TEI_TOO_MANY)
        opened, tenant = service.required(), record_of(request.scope).owner.tenant
        compute = functools.partial(ranking.tei_rerank, opened, body, tenant=tenant)
        ranks, verdict = await _computed(service, request, opened.reranker.encoder, compute)
        _count(service, request, len(body.texts), verdict)
        answer = json_response(ranks)
        if verdict is not None:
            answer.headers[VERDICT_HEADER] = to_json(verdict).decode("ascii")
        return answer

    @router.post("/score", response_model=ScoreResponse)
    @router.post("/v1/score", response_model=ScoreResponse)
    async def score(request: Request, body: ScoreRequest) -> Response:
        """Similarities of pairs of texts, from 0 to 1, as vLLM defines it."""
        opened = service.required()
        try:
            texts = [text for pairs in body.pairs.values() for _, text in pairs]
        except ValueError as error:
            raise RefusedError(422, str(error)) from error
        ranking.require_allowed(service.options, max(body.pairs, key=len), texts, "text_2")
        compute = functools.partial(ranking.scores, opened, body)
        answer = await _computed(service, request, opened.reranker.encoder, compute)
        _count(service, request, len(texts), None)
        return json_response({**_head(request, service), **answer})


async def _reranked(service: Service, request: Request, body: RerankRequest) -> Response:
    """The answer of Cohere and Jina."""
    ranking.require_allowed(service.options, body.query, ranking.texts_of(body), "documents")
    opened, tenant = service.required(), record_of(request.scope).owner.tenant_for(body.tenant)
    compute = functools.partial(ranking.rerank, opened, body, tenant=tenant)
    answer = await _computed(service, request, opened.reranker.encoder, compute)
    _count(service, request, len(body.documents), answer["verdict"])
    version = {"version": "2" if route_path(request.scope).startswith("/v2/") else "1"}
    meta = {"api_version": version, "billed_units": {"search_units": 1}}
    return json_response({**_head(request, service), **answer, "meta": meta})


def _add_search(router: APIRouter, service: Service) -> None:
    @router.post("/v1/search", response_model=SearchResponse)
    async def search(request: Request, body: SearchRequest) -> Response:
        """The best documents of the server's index for a question."""
        options = service.options
        ranking.require_allowed(options, body.query, [], "documents")
        if "top_k" not in body.model_fields_set:
            body.top_k = min(body.top_k, options.max_documents)
        for name, count in (("top_k", body.top_k), ("depth", body.depth or 0)):
            if count > options.max_documents:
                raise RefusedError(422, f"{name} is {count}, and at most {options.max_documents} are given")
        opened = service.required()
        body.tenant = record_of(request.scope).owner.tenant_for(body.tenant)
        compute = functools.partial(ranking.search, opened, body, conditions=options.max_conditions)
        answer = await _computed(service, request, opened.pipeline_of().encoder, compute)
        _count(service, request, len(answer["results"]), answer["verdict"])
        return json_response({**_head(request, service), **answer})


def _add_probes(app: FastAPI, service: Service) -> None:
    async def health(request: Request) -> Response:
        return json_response({"status": "alive"})

    async def ready(request: Request) -> Response:
        await service.require_store()
        return json_response({"status": "ready"})

    # Routes of Starlette, which answer HEAD, too: some only ask whether there is an answer.
    app.router.routes.extend([Route("/health", health), Route("/ready", ready)])


def _add_views(router: APIRouter, service: Service) -> None:
    @router.get("/info", response_model=dict[str, Any])
    def info(request: Request) -> Response:  # in a thread: an index on a server is asked
        """What is served, and what the server takes; names of Text Embeddings Inference mean the same."""
        opened, options = service.required(), service.options
        background, pipeline = opened.reranker.current_background(), opened.pipeline
        try:
            shown = opened.documents_of(record_of(request.scope).owner.tenant)
            documents = None if shown is None else len(shown)
            examples, measured = opened.examples, opened.measured
        except StoreError:
            documents, examples, measured = None, [], []
        return json_response(
            {
                "model_id": shown_model(opened.reranker.encoder),
                "version": _version(),
                "system": opened.system,
                "search": service.searches,
                "documents": documents,
                "collection": opened.collection,
                "files": options.files is not None and not options.asks_for_tokens,
                "tenants": opened.has_tenants,
                "systems": opened.systems,
                "measured": measured,
                "examples": examples,
                "min_percentile": None if pipeline is None else pipeline.options.min_percentile,
                "depth": None if pipeline is None else pipeline.options.depth,
                "background": None if background is None else background.count,
                "max_input_length": opened.reranker.encoder.window,
                "max_client_batch_size": options.max_documents,
                "max_concurrent_requests": options.max_requests,
                "limits": options.model_dump(exclude={"token", "tokens", "hosts", "logs", "tried", "files"}),
            }
        )

    @router.get("/v1/models", response_model=ModelsResponse)
    async def models() -> Response:
        """The model, as OpenAI's clients list it."""
        named = shown_model(service.required().reranker.encoder)
        model = {"id": named, "object": "model", "created": 0, "owned_by": "surprise-rerank"}
        return json_response({"object": "list", "data": [model]})

    @router.get("/metrics", response_class=Response)
    def prometheus() -> Response:  # in a thread: backgrounds of an index on a server are asked for
        """The metrics, for Prometheus."""
        service.show_state(_version())
        return Response(service.metrics.text(), media_type=prometheus_client.CONTENT_TYPE_LATEST)


def _head(request: Request, service: Service) -> dict[str, str]:
    model = shown_model(service.required().reranker.encoder)
    return {"id": record_of(request.scope).request_id, "model": model}


async def _http_refused(request: Request, error: Exception) -> Response:
    """What the framework refuses: paths, methods, bodies that it cannot read."""
    assert isinstance(error, HTTPException)
    said = "the body is no JSON" if error.status_code == 400 else str(error.detail)
    raise RefusedError(error.status_code, said, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a body."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        raise RefusedError(400, f"the body is no JSON from character {first['loc'][1]} on")
    place = 1
    if route_path(request.scope) == TEI_ROUTE and len(first["loc"]) > 1:
        place = 2  # behind the form of the body
    model = _BODIES.get(route_path(request.scope), NewDocument)
    if request.method == "PUT" and len(first["loc"]) >= 3:
        model = NewDocument
    raise RefusedError(422, said_of(error.errors(), model.model_fields, place))


def _version() -> str:
    return importlib.metadata.version("surprise-rerank")
