"""Spans for OpenTelemetry, read with its own SDK: their parents, their counts, and no text in any of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from calling import exit_code
from named_index import named_index  # noqa: F401 - a fixture
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id
from qdrant_client import QdrantClient, models
from words import WordEncoder

from surprise_rerank import Pipeline, TextReranker
from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.systems.loading import pipeline_of, text_reranker_of
from surprise_rerank.core.tracing import continuing, span
from surprise_rerank.documents import Document
from surprise_rerank.errors import StoreError
from surprise_rerank.eval.cli.surprise_rerank.main import main

QUESTION = "why do SECRETdogs bark"
TEXTS = ["SECRETcats sleep all day", "SECRETdogs bark at night", "SECRETdogs bark", "a SECRETwing gives lift"]
DOCUMENTS = [
    Document(f"SECRETid{i}", text, title="SECRETtitle", metadata={"SECRETkey": f"SECRETvalue{i}"})
    for i, text in enumerate(TEXTS)
]
SEARCH = ["CreateEmbeddings", "surprise_rerank.retrieve", "surprise_rerank.rerank", "surprise_rerank.search"]


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """What the process' provider exports. There can be one, and other tests follow."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    exporter.shutdown()  # which keeps nothing any more; the provider's own end would be told at every span


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[Callable[[], list[ReadableSpan]]]:
    """Takes what has ended since the last call; whatever a test leaves behind, no text was in it."""
    everything: list[ReadableSpan] = []

    def taken() -> list[ReadableSpan]:
        found = list(exporter.get_finished_spans())
        everything.extend(found)
        exporter.clear()
        return found

    exporter.clear()
    yield taken
    taken()
    assert everything, "the test has made no span"
    for found in everything:
        assert "SECRET" not in found.to_json()
        assert not found.events


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(DOCUMENTS)
        yield index


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [own for own in spans if own.name == name]
    return found


def attributes(own: ReadableSpan) -> dict[str, Any]:
    found = dict(own.attributes or {})
    assert found.pop("surprise_rerank.milliseconds") >= 0
    return found


def require_children(spans: Sequence[ReadableSpan], parent: ReadableSpan) -> None:
    for own in spans:
        if own is not parent:
            assert own.parent is not None
            assert own.parent.span_id == parent.context.span_id
            assert own.context.trace_id == parent.context.trace_id


def test_a_search_is_a_chain_of_encode_retrieve_and_rerank(
    index: DocumentIndex, spans: Callable[[], list[ReadableSpan]]
) -> None:
    pipeline = pipeline_of(index, "dynamax", depth=3)
    spans()
    found = pipeline.search(QUESTION, 2)
    ended = spans()
    assert [own.name for own in ended] == SEARCH
    chain = ended[-1]
    require_children(ended, chain)
    assert chain.parent is None
    assert attributes(ended[0]) == {
        "openinference.span.kind": "EMBEDDING",
        "embedding.model_name": "words",
        "surprise_rerank.texts": 1,
        "surprise_rerank.side": "query",
    }
    assert attributes(ended[1]) == {
        "openinference.span.kind": "RETRIEVER",
        "surprise_rerank.retriever": type(pipeline.retriever).__name__,
        "surprise_rerank.depth": 3,
        "surprise_rerank.candidates": 3,
    }
    assert attributes(ended[2]) == {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": "DynaMaxReranker",
        "reranker.top_k": 2,
        "surprise_rerank.candidates": 3,
    }
    assert found.verdict is not None
    assert attributes(chain) == {
        "openinference.span.kind": "CHAIN",
        "surprise_rerank.top_k": 2,
        "surprise_rerank.documents": 2,
        "surprise_rerank.verdict": found.verdict.status,
    }
    assert all(own.status.status_code is StatusCode.UNSET for own in ended)


def test_where_the_retrievers_order_stands_there_is_no_name_of_a_re_ranker(
    index: DocumentIndex, spans: Callable[[], list[ReadableSpan]]
) -> None:
    pipeline_of(index, "cosine").search(QUESTION)
    rerank = named(spans(), "surprise_rerank.rerank")
    assert "reranker.model_name" not in attributes(rerank)


def test_a_search_in_another_thread_is_a_child_of_the_callers_span(
    index: DocumentIndex, spans: Callable[[], list[ReadableSpan]]
) -> None:
    pipeline = pipeline_of(index, "cosine")
    spans()

    async def asked() -> None:
        with trace.get_tracer("application").start_as_current_span("request"):
            await asyncio.gather(pipeline.asearch(QUESTION), pipeline.asearch("SECRETcats"))

    asyncio.run(asked())
    ended = spans()
    request = named(ended, "request")
    chains = [own for own in ended if own.name == "surprise_rerank.search"]
    assert len(chains) == 2
    require_children(chains, request)
    for chain in chains:
        mine = [own for own in ended if own.parent and own.parent.span_id == chain.context.span_id]
        assert [own.name for own in mine] == SEARCH[:3]


def test_given_texts_are_encoded_and_ranked(spans: Callable[[], list[ReadableSpan]]) -> None:
    TextReranker(WordEncoder(name="/models/SECRETuser/model")).rank(QUESTION, TEXTS, top_k=2)
    ended = spans()
    assert [own.name for own in ended] == [
        "CreateEmbeddings",
        "CreateEmbeddings",
        "surprise_rerank.rerank",
        "surprise_rerank.rank_texts",
    ]
    require_children(ended, ended[-1])
    question, texts, rerank, chain = map(attributes, ended)
    assert (question["surprise_rerank.side"], question["surprise_rerank.texts"]) == ("query", 1)
    assert (texts["surprise_rerank.side"], texts["surprise_rerank.texts"]) == ("document", 4)
    assert texts["embedding.model_name"] == "model"  # of a path, the last part only
    assert (rerank["reranker.top_k"], rerank["surprise_rerank.candidates"]) == (2, 4)
    assert (chain["surprise_rerank.texts"], chain["surprise_rerank.documents"]) == (4, 2)


def test_texts_that_are_stored_are_fetched(
    index: DocumentIndex, spans: Callable[[], list[ReadableSpan]]
) -> None:
    reranker = text_reranker_of(index, "dynamax")
    spans()
    reranker.rank(QUESTION, TEXTS, ids=["SECRETid0", "SECRETid1", "SECRETnone", None])
    ended = spans()
    fetch = attributes(named(ended, "surprise_rerank.fetch"))
    assert fetch["openinference.span.kind"] == "RETRIEVER"
    assert (fetch["surprise_rerank.asked"], fetch["surprise_rerank.documents"]) == (3, 2)
    texts = [own for own in map(attributes, ended) if own.get("surprise_rerank.side") == "document"]
    assert [own["surprise_rerank.texts"] for own in texts] == [2]


def test_documents_are_counted_while_they_are_indexed(
    tmp_path: Path, spans: Callable[[], list[ReadableSpan]]
) -> None:
    with DocumentIndex.open(tmp_path / "other", WordEncoder()) as index:
        index.sync(DOCUMENTS)
    counted = [attributes(own) for own in spans() if own.name == "CreateEmbeddings"]
    assert sum(own["surprise_rerank.texts"] for own in counted) == len(DOCUMENTS)
    assert {own["surprise_rerank.side"] for own in counted} == {"document"}


@pytest.mark.filterwarnings("ignore:Payload indexes:UserWarning")
def test_an_attached_collection_is_searched_in_spans_too(
    spans: Callable[[], list[ReadableSpan]],
) -> None:
    encoder, client = WordEncoder(), QdrantClient(":memory:")
    client.create_collection("c", models.VectorParams(size=16, distance=models.Distance.COSINE))
    vectors = encoder.encode(TEXTS).dense.tolist()
    rows = enumerate(zip(TEXTS, vectors, strict=True))
    client.upsert("c", [models.PointStruct(id=i, vector=v, payload={"text": text}) for i, (text, v) in rows])
    collection = Collection.attach(client, "c", embed=encoder, background=False)
    pipeline = collection.pipeline("fusion")
    spans()
    pipeline.search(QUESTION)
    ended = spans()
    assert [own.name for own in ended] == SEARCH
    assert attributes(ended[2])["reranker.model_name"] == "FusionReranker"


def test_the_command_line_has_them_too(
    named_index: str,  # noqa: F811
    spans: Callable[[], list[ReadableSpan]],
) -> None:
    search = ("search", "loud dog", "--index", named_index, "--system", "cosine", "--json")
    assert exit_code(main, "surprise-rerank", *search) == 0
    ended = [own for own in spans() if own.name in SEARCH]
    assert [own.name for own in ended] == SEARCH
    require_children(ended, ended[-1])


class BrokenRetriever:
    """Fails, with what was asked in its message."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        raise StoreError(f"no answer to {query.text}")


def test_an_error_is_recorded_by_its_class_and_never_by_its_message(
    spans: Callable[[], list[ReadableSpan]],
) -> None:
    with pytest.raises(StoreError, match="SECRETdogs"):
        Pipeline(WordEncoder(), BrokenRetriever()).search(QUESTION)
    ended = spans()
    assert [own.name for own in ended] == ["CreateEmbeddings", "surprise_rerank.retrieve", SEARCH[-1]]
    for own in ended[1:]:
        assert attributes(own)["error.type"] == "StoreError"
        assert own.status.status_code is StatusCode.ERROR
        assert own.status.description is None
    assert "error.type" not in attributes(ended[0])


def test_what_the_caller_does_not_sample_is_not_recorded(
    spans: Callable[[], list[ReadableSpan]],
) -> None:
    traceparent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    with continuing([(b"traceparent", traceparent)]), span("CHAIN", "unsampled", {}):
        pass
    with span("CHAIN", "sampled", {"surprise_rerank.texts": None}):
        pass
    (own,) = spans()
    assert own.name == "sampled"
    assert attributes(own) == {"openinference.span.kind": "CHAIN"}


@pytest.mark.parametrize(
    "traceparent", [b"", b"nonsense", b"\xff\xfe", b"00-" + b"0" * 32 + b"-" + b"0" * 16]
)
def test_a_traceparent_that_says_nothing_changes_nothing(
    traceparent: bytes, spans: Callable[[], list[ReadableSpan]]
) -> None:
    with continuing([(b"traceparent", traceparent)]), span("CHAIN", "root", {}):
        pass
    (own,) = spans()
    assert own.parent is None


# The server


def caller(number: int) -> tuple[str, str]:
    """Ids of a trace and of a span in it, and the header that names them."""
    return format_trace_id(0xABC000 + number), format_span_id(0xDEF000 + number)


@pytest.fixture
def url(index: DocumentIndex, spans: Callable[[], list[ReadableSpan]]) -> Iterator[str]:
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    from serving import Log, served

    from surprise_rerank.connectors.server import ServerOptions, create_app

    options = ServerOptions(workers=2)
    reranker, pipeline = text_reranker_of(index, "dynamax"), pipeline_of(index, "dynamax")
    with served(create_app(reranker, pipeline, options, logger=Log().logger())) as url:
        spans()
        yield url


def test_requests_at_once_hang_on_their_own_callers_spans(
    url: str, spans: Callable[[], list[ReadableSpan]]
) -> None:
    import httpx

    def ask(number: int) -> int:
        trace_id, span_id = caller(number)
        headers = {"traceparent": f"00-{trace_id}-{span_id}-01", "authorization": "Bearer SECRETtoken"}
        search = number % 2 == 0
        body = {"query": f"{QUESTION} {number}"} if search else {"query": QUESTION, "documents": TEXTS}
        path = "/v1/search" if search else "/v1/rerank"
        return httpx.post(f"{url}{path}", json=body, headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(16))) == {200}
    ended = spans()
    assert len(ended) == 8 * len(SEARCH) + 8 * (len(SEARCH) + 1)  # what is stored is looked for first
    for number in range(16):
        trace_id, span_id = caller(number)
        mine = [own for own in ended if format_trace_id(own.context.trace_id) == trace_id]
        name = "surprise_rerank.rank_texts" if number % 2 else "surprise_rerank.search"
        chain = named(mine, name)
        assert len(mine) == len(SEARCH) + number % 2
        assert chain.parent is not None
        assert format_span_id(chain.parent.span_id) == span_id
        require_children(mine, chain)


def test_a_request_without_a_traceparent_begins_a_trace_of_its_own(
    url: str, spans: Callable[[], list[ReadableSpan]]
) -> None:
    import httpx

    for _ in range(2):
        assert httpx.post(f"{url}/v1/search", json={"query": QUESTION}).status_code == 200
    ended = spans()
    assert len({own.context.trace_id for own in ended}) == 2
    assert [own.name for own in ended if own.parent is None] == ["surprise_rerank.search"] * 2


def test_an_instrumented_frameworks_span_comes_before_the_traceparent(
    spans: Callable[[], list[ReadableSpan]],
) -> None:
    trace_id, span_id = caller(1)
    header = (b"traceparent", f"00-{trace_id}-{span_id}-01".encode())
    begun = trace.get_tracer("framework").start_as_current_span("POST /v1/search")
    with begun as request, continuing([header]), span("CHAIN", "mine", {}):
        pass
    mine = named(spans(), "mine")
    assert mine.parent is not None
    assert mine.parent.span_id == request.get_span_context().span_id


def test_a_search_of_an_agent_is_a_child_of_its_call(
    index: DocumentIndex, spans: Callable[[], list[ReadableSpan]]
) -> None:
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    from mcp.client.client import Client
    from serving import Log

    from surprise_rerank.connectors.mcp import mcp_server
    from surprise_rerank.connectors.server import ServerOptions, Service

    service = Service(searches=True, options=ServerOptions(workers=1), logger=Log().logger())
    pipeline = pipeline_of(index, "dynamax")
    service.open(text_reranker_of(index, "dynamax"), pipeline, "dynamax")
    spans()

    async def asked() -> tuple[bool, bool]:
        async with Client(mcp_server(service)) as client:
            found = await client.call_tool("search", {"question": QUESTION})
            refused = await client.call_tool("search", {"question": QUESTION, "SECRETfield": 1})
            return found.is_error, refused.is_error

    assert asyncio.run(asked()) == (False, True)
    ended = spans()
    chain = named(ended, "surprise_rerank.search")
    called = [own for own in ended if own.name == "tools/call search"]
    assert chain.parent is not None
    assert chain.parent.span_id in {own.context.span_id for own in called}


# Without it

CODE = """
import importlib.abc, sys
sys.path.append("tests")

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

if "absent" in sys.argv:
    sys.meta_path.insert(0, Absent())
if "loaded" in sys.argv:
    import opentelemetry.trace
from words import WordEncoder
from surprise_rerank import TextReranker
from surprise_rerank.core.tracing import continuing
with continuing([(b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]):
    ranked = TextReranker(WordEncoder()).rank("dogs", ["cats", "dogs"])
assert [line.position for line in ranked] == [1, 0]
assert ("opentelemetry.trace" in sys.modules) == ("loaded" in sys.argv)
"""


@pytest.mark.parametrize("how", ["absent", "installed", "loaded"])
def test_without_a_provider_there_is_no_span_and_no_import(how: str) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CODE, how], capture_output=True, text=True, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_documentation_is_true() -> None:
    """In a process of its own: a process can have one provider."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "doctest", "docs/observability.md"],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert done.returncode == 0, done.stdout
