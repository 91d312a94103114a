"""The web application: its routes, and how they refuse."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.writing.indexing import SyncReport
from surprise_rerank.connectors.server import ranking
from surprise_rerank.connectors.server.answers import (
    VERDICT_HEADER,
    WORK_ROUTES,
    RefusedError,
    error_content,
    route_path,
    to_json,
)
from surprise_rerank.connectors.server.gate import Gate
from surprise_rerank.connectors.server.logs import log_failure, make_logger
from surprise_rerank.connectors.server.metrics import Metrics
from surprise_rerank.connectors.server.options import TOKEN_VARIABLE, ServerOptions
from surprise_rerank.connectors.server.page import PAGE_ROUTES, page_routes
from surprise_rerank.connectors.server.questions import Questions
from surprise_rerank.connectors.server.records import Recorder, record_of
from surprise_rerank.connectors.server.schemas import (
    DocumentsRequest,
    DocumentsResponse,
    ErrorResponse,
    Info,
    Limits,
    NewDocument,
    RerankRequest,
    RerankResponse,
    SearchRequest,
    SearchResponse,
    State,
    TeiErrorResponse,
    TeiRank,
    TeiRequest,
)
from surprise_rerank.connectors.server.service import Service
from surprise_rerank.connectors.server.work import RequestEncoder, Workers
from surprise_rerank.core.extras import pip_line
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, shown_model
from surprise_rerank.errors import (
    DataError,
    IndexMismatchError,
    MissingExtraError,
    StoreError,
    did_you_mean,
)
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.text_reranker import TextReranker

try:
    import prometheus_client  # noqa: F401 - is missed here, before anything is made
    import structlog  # noqa: F401
    import uvicorn  # noqa: F401
    from fastapi import APIRouter, Depends, FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.security import HTTPBearer
    from starlette.exceptions import HTTPException
except ImportError as error:
    raise MissingExtraError(f"the server's packages are not installed: run {pip_line('server')}") from error

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

T = TypeVar("T")

_ROUTES = frozenset({"/health", "/ready", "/info", "/metrics", "/openapi.json"})
_WORK = (400, 401, 408, 413, 415, 422, 429, 500, 503)

_ERRORS = {
    400: "The body is no JSON.",
    401: "The token is missing or wrong.",
    403: "The server has no token, and takes documents from nobody.",
    404: "The server has no index of its own.",
    408: "The body did not arrive in time.",
    413: "The body is too large, or (in the form of Text Embeddings Inference) there are too many or too "
    "long texts.",
    415: "The body is not declared as JSON.",
    422: "A field is missing, of another type, or beyond a limit.",
    429: "Too many requests are being worked on; Retry-After says when to try again.",
    500: "The server failed.",
    503: "Not ready, no answer in time, or the index cannot be read; Retry-After says when to try again.",
}


def create_app(
    reranker: TextReranker,
    pipeline: Pipeline | None = None,
    options: ServerOptions | None = None,
    *,
    system: str = "",
    logger: FilteringBoundLogger | None = None,
) -> FastAPI:
    """A web application that re-ranks texts in Cohere's, Jina's and Text Embeddings Inference's interfaces.

    Args:
        reranker: of given texts; requests share it.
        pipeline: over an index, for `/v1/search`.
        options: token and limits.
        system: what `/info` and `/v1/search` call the two; see `Service.open`.
        logger: of structlog, for a line of every request; JSON on the error stream by default.
    """
    service = Service(searches=pipeline is not None)
    service.open(reranker, pipeline, system)
    return service_app(service, options, logger=logger)


def service_app(
    service: Service, options: ServerOptions | None = None, *, logger: FilteringBoundLogger | None = None
) -> FastAPI:
    """The same for what is opened later: until then `/ready` and all work answer 503.

    Args:
        service: which `Service.open` opens.
        options: token and limits.
        logger: of structlog, for a line of every request; JSON on the error stream by default.
    """
    options = ServerOptions() if options is None else options
    logger = make_logger(sys.stderr) if logger is None else logger
    metrics = Metrics(_ROUTES | WORK_ROUTES | PAGE_ROUTES)
    questions = Questions(options.max_batch, options.threads, metrics.batches.observe)
    work = _Work(service, Workers(options.threads), questions, metrics, logger)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        work.workers.close()

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
    )
    guarded = [Depends(HTTPBearer(auto_error=False))] if options.token is not None else []
    app.include_router(_probes(service))
    app.include_router(_views(service, options, metrics), dependencies=guarded)
    app.include_router(_rerank_routes(work, options), dependencies=guarded)
    if service.searches:
        app.include_router(_search_routes(work, options), dependencies=guarded)
        app.include_router(_document_routes(work, options), dependencies=guarded)
        app.include_router(page_routes())
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(HTTPException, _http_refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(Gate, options=options, metrics=metrics)
    app.add_middleware(Recorder, metrics=metrics, logger=logger)
    return app


@dataclass(frozen=True)
class _Work:
    """Runs what requests ask for in the workers' threads."""

    service: Service
    workers: Workers
    questions: Questions
    metrics: Metrics
    logger: FilteringBoundLogger

    async def run(
        self, request: Request, encoder: Encoder, question: str, compute: Callable[[RequestEncoder], T]
    ) -> T:
        """What `compute(an encoder for this request)` returns.

        Args:
            request: which.
            encoder: of what it asks for.
            question: of the request.
            compute: the answer.

        Raises:
            RefusedError: if the client hangs up, or the index cannot be read.
        """
        try:
            with self.questions.waiting(encoder, question) as own:
                return await self.workers.run(
                    request.receive, lambda stop: compute(RequestEncoder(own, self.questions, stop))
                )
        except StoreError as error:
            said = "the index cannot be read at the moment; try again later"
            raise self.unavailable(request, error, said) from error

    def unavailable(self, request: Request, error: StoreError, said: str) -> RefusedError:
        """What a caller is told of an index that fails; the log has the error."""
        log_failure(self.logger, record_of(request.scope).request_id, error)
        return RefusedError(503, said, {"Retry-After": "5"})

    def count(
        self,
        request: Request,
        documents: int,
        verdict: Mapping[str, Any] | None,
    ) -> None:
        """Remember how many documents an answer is about, and what became of the question.

        Args:
            request: which.
            documents: in the answer.
            verdict: on the question, if any.
        """
        record_of(request.scope).documents = documents
        route = self.metrics.route(route_path(request.scope))
        self.metrics.documents.labels(route).inc(documents)
        if verdict is not None:
            self.metrics.verdicts.labels(route, verdict["status"]).inc()


def _rerank_routes(work: _Work, options: ServerOptions) -> APIRouter:
    router = APIRouter(tags=["re-ranking"])

    @router.post("/v1/rerank", response_model=RerankResponse, responses=_errors(_WORK))
    @router.post("/v2/rerank", response_model=RerankResponse, responses=_errors(_WORK))
    async def rerank(request: Request, asked: RerankRequest) -> Response:
        """Documents in order, as Cohere and Jina define it."""
        ranking.require_allowed(options, asked.query, ranking.texts_of(asked), "documents")
        ranking.require_shallow(asked.documents)
        opened = work.service.required()
        compute = functools.partial(ranking.rerank, opened, asked)
        answer = await work.run(request, opened.reranker.encoder, asked.query, compute)
        work.count(request, len(asked.documents), answer["verdict"])
        version = "2" if route_path(request.scope).startswith("/v2/") else "1"
        return _json({**_head(request, work.service), **answer, "meta": _meta(version)})

    @router.post("/rerank", response_model=list[TeiRank], responses=_errors(_WORK, TeiErrorResponse))
    async def tei_rerank(request: Request, asked: TeiRequest) -> Response:
        """Texts in order, as Text Embeddings Inference defines it; the verdict is in a header, as JSON."""
        ranking.require_allowed(options, asked.query, asked.texts, "texts", ranking.TEI_TOO_MANY)
        opened = work.service.required()
        compute = functools.partial(ranking.tei_rerank, opened, asked)
        ranks, verdict = await work.run(request, opened.reranker.encoder, asked.query, compute)
        work.count(request, len(asked.texts), verdict)
        answer = _json(ranks)
        if verdict is not None:
            answer.headers[VERDICT_HEADER] = to_json(verdict).decode("ascii")
        return answer

    return router


def _search_routes(work: _Work, options: ServerOptions) -> APIRouter:
    router = APIRouter(tags=["search"])

    @router.post("/v1/search", response_model=SearchResponse, responses=_errors(_WORK))
    async def search(request: Request, asked: SearchRequest) -> Response:
        """The best documents of the server's index for a question."""
        ranking.require_allowed(options, asked.query, [], "documents")
        for name, count in (("top_k", asked.top_k), ("depth", asked.depth or 0)):
            if count > options.max_documents:
                raise RefusedError(422, f"{name} is {count}, and at most {options.max_documents} are given")
        opened = work.service.required()
        pipeline = opened.pipeline_of()
        compute = functools.partial(ranking.search, opened, asked)
        answer = await work.run(request, pipeline.encoder, asked.query, compute)
        # Only questions that are asked in one way tell whether traffic has changed.
        work.count(request, len(answer["results"]), answer["verdict"])
        return _json({**_head(request, work.service), **answer})

    return router


def _document_routes(work: _Work, options: ServerOptions) -> APIRouter:
    router = APIRouter(tags=["documents"])

    def require_token() -> None:
        if options.token is None:
            raise RefusedError(
                403, f"documents are taken from who has a token; start the server with {TOKEN_VARIABLE} set"
            )

    async def changed(request: Request, change: Callable[[QdrantIndex], SyncReport]) -> Response:
        index = work.service.required().written()

        def compute(stop: threading.Event) -> dict[str, Any]:
            report = change(index)
            counts = {name: getattr(report, name) for name in ("added", "updated", "unchanged")}
            return {**counts, "deleted": report.removed, "documents": len(index)}

        try:
            found = await work.workers.run(request.receive, compute)
        except (DataError, IndexMismatchError) as error:
            raise RefusedError(422, str(error)) from error
        except StoreError as error:
            said = "the index cannot be changed at the moment; see that no other process has it open"
            raise work.unavailable(request, error, said) from error
        return _json({"id": record_of(request.scope).request_id, **found})

    @router.put("/v1/documents", response_model=DocumentsResponse, responses=_errors((*_WORK, 403, 404)))
    async def put(request: Request, asked: DocumentsRequest) -> Response:
        """Store documents, or replace those of the same id; searches find them when this answers."""
        require_token()
        ranking.require_allowed(options, "documents", [own.text for own in asked.documents], "documents")
        documents = [Document(**own.model_dump()) for own in asked.documents]
        return await changed(request, lambda index: index.sync(documents))

    @router.delete(
        "/v1/documents/{id:path}", response_model=DocumentsResponse, responses=_errors((*_WORK, 403, 404))
    )
    async def delete(request: Request, id: str) -> Response:  # noqa: A002 - as the path has it
        """Remove the document of an id; one that is not there is no error."""
        require_token()
        return await changed(request, lambda index: SyncReport(0, 0, 0, index.delete([id])))

    return router


def _probes(service: Service) -> APIRouter:
    router = APIRouter(tags=["state"])

    # What only asks whether there is an answer may ask for its head.
    @router.head("/health", include_in_schema=False)
    @router.get("/health", response_model=State, responses=_errors((500,)))
    async def health() -> Response:
        """Whether the server is alive."""
        return _json({"status": "alive"})

    @router.head("/ready", include_in_schema=False)
    @router.get("/ready", response_model=State, responses=_errors((500, 503)))
    async def ready() -> Response:
        """Whether the model is loaded and the index is open."""
        service.required()
        return _json({"status": "ready"})

    return router


def _views(service: Service, options: ServerOptions, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["state"])

    @router.get("/info", response_model=Info, responses=_errors((401, 500, 503)))
    def info() -> Response:  # in a thread: an index on a server is asked
        """What is served, and what the server takes."""
        opened = service.required()
        background = opened.reranker.background
        try:
            documents, examples, measured = opened.documents, opened.examples, opened.measured
        except StoreError:
            documents, examples, measured = None, [], []
        return _json(
            {
                "model_id": shown_model(opened.reranker.encoder),
                "version": _version(),
                "system": opened.system,
                "search": service.searches,
                "documents": documents,
                "systems": opened.systems,
                "measured": measured,
                "examples": examples,
                "min_surprise": None if opened.pipeline is None else opened.pipeline.min_surprise,
                "depth": None if opened.pipeline is None else opened.pipeline.depth,
                "background": None if background is None else background.count,
                "max_input_length": opened.reranker.encoder.window,
                "max_client_batch_size": options.max_documents,
                "max_concurrent_requests": options.max_requests,
                "limits": {
                    **{name: getattr(options, name) for name in Limits.model_fields},
                    "workers": options.threads,
                },
            }
        )

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **_errors((401, 500))},
    )
    async def prometheus() -> Response:
        """The metrics, for Prometheus."""
        return Response(metrics.text(), media_type=metrics.content_type)

    return router


def _head(request: Request, service: Service) -> dict[str, str]:
    model = shown_model(service.required().reranker.encoder)
    return {"id": record_of(request.scope).request_id, "model": model}


def _meta(version: str) -> dict[str, Any]:
    return {"api_version": {"version": version}, "billed_units": {"search_units": 1}}


def _json(content: Any) -> Response:
    return Response(to_json(content), media_type="application/json")


def _errors(
    statuses: Iterable[int], model: type[BaseModel] = ErrorResponse
) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": model, "description": _ERRORS[status]} for status in statuses}


def _refused(request: Request, error: Exception) -> Response:
    status, message, headers = 500, "", {}
    if isinstance(error, RefusedError):
        status, message, headers = error.status, error.message, error.headers
    content = to_json(error_content(route_path(request.scope), status, message))
    return Response(content, status, headers, "application/json")


def _http_refused(request: Request, error: Exception) -> Response:
    """What the framework refuses: paths, methods, bodies that it cannot read."""
    if not isinstance(error, HTTPException):
        return _refused(request, error)
    said = "the body is no JSON" if error.status_code == 400 else str(error.detail)
    return _refused(request, RefusedError(error.status_code, said, error.headers))


def _invalid(request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a body, by its place and kind; not what stands there."""
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    where = list(first.get("loc", ()))[1:]
    if first.get("type") == "json_invalid":
        return _refused(request, RefusedError(400, f"the body is no JSON from character {where[0]} on"))
    stores = request.method == "PUT"
    if first.get("type") == "extra_forbidden":  # of searches and stored documents, which take no other fields
        known = (
            {**DocumentsRequest.model_fields, **NewDocument.model_fields}
            if stores
            else SearchRequest.model_fields
        )
        hint = did_you_mean(str(where[-1]), known)
        return _refused(request, RefusedError(422, f"a field is not known; {hint}see /openapi.json"))
    if where[:1] == ["documents"] and len(where) > 1 and not stores:  # what follows is of the types' inside
        said = f"documents[{where[1]}] must be a string, or an object with `text`"
        return _refused(request, RefusedError(422, said))
    named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    return _refused(request, RefusedError(422, f"{named or 'the body'}: {first.get('msg', 'not valid')}"))


def _version() -> str:
    return importlib.metadata.version("surprise-rerank")
