"""Spans for OpenTelemetry, read with its own SDK: their parents, their counts, and no text in any of them."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from helpers.words import WordEncoder
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from surprise_rerank import Candidates, Document, Pipeline, Query, StoreError
from surprise_rerank._candidates import Field
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.core._tracing import continuing, span

QUESTION = "why do SECRETdogs bark"
TEXTS = ["SECRETcats sleep all day", "SECRETdogs bark at night", "SECRETdogs bark", "a SECRETwing gives lift"]
DOCUMENTS = [
    Document(f"SECRETid{i}", text, title="SECRETtitle", metadata={"SECRETkey": f"SECRETvalue{i}"})
    for i, text in enumerate(TEXTS)
]
SEARCH = ["CreateEmbeddings", "surprise_rerank.retrieve", "surprise_rerank.rerank", "surprise_rerank.search"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """What the process' provider exports. There can be one, and other tests follow."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    exporter.shutdown()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[Callable[[], list[ReadableSpan]]]:
    """Takes what has ended since the last call; whatever a test leaves behind, no text was in it."""
    everything: list[ReadableSpan] = []

    def taken() -> list[ReadableSpan]:
        finished = list(exporter.get_finished_spans())
        everything.extend(finished)
        exporter.clear()
        return finished

    exporter.clear()
    yield taken
    taken()
    assert everything, "the test has made no span"
    for recorded in everything:
        assert "SECRET" not in recorded.to_json()
        assert not recorded.events


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(tmp_path / "index", WordEncoder(name="/models/SECRETuser/model")) as index:
        index.sync(DOCUMENTS)
        yield index


def require_children(spans: Sequence[ReadableSpan], parent: ReadableSpan) -> None:
    for child in spans:
        if child is not parent:
            assert child.parent.span_id == parent.context.span_id


def test_a_search_is_a_chain_of_encode_retrieve_and_rerank(spans, index):
    assert 4 in [(ended_span.attributes or {}).get("surprise_rerank.texts") for ended_span in spans()]
    pipeline = index.pipeline("dynamax", depth=3)
    spans()
    ranking = pipeline.search(QUESTION, 2)
    ended = spans()
    assert [ended_span.name for ended_span in ended] == SEARCH
    require_children(ended, ended[-1])
    assert ranking.verdict is not None
    attributes = [dict(ended_span.attributes or {}) for ended_span in ended]
    kinds = [values.pop("openinference.span.kind") for values in attributes]
    assert kinds == ["EMBEDDING", "RETRIEVER", "RERANKER", "CHAIN"]
    name = type(pipeline.retriever).__name__
    assert [
        {key.removeprefix("surprise_rerank."): values[key] for key in values} for values in attributes
    ] == [
        # Of a path, the last part only.
        {"embedding.model_name": "model", "texts": 1, "side": "query"},
        {"retriever": name, "depth": 3, "candidates": 3},
        {"reranker.model_name": "DynaMaxScorer", "reranker.top_k": 2, "candidates": 3},
        {"top_k": 2, "documents": 2, "verdict": ranking.verdict.status},
    ]
    assert all(ended_span.status.status_code is StatusCode.UNSET for ended_span in ended)


def test_given_texts_are_fetched_or_encoded_and_ranked(index, spans):
    reranker = index.text_reranker("dynamax")
    spans()
    reranker.rank(QUESTION, TEXTS, ids=["SECRETid0", "SECRETid1", "SECRETnone", None], top_k=2)
    ended = spans()
    ours = [f"surprise_rerank.{name}" for name in ("fetch", "retrieve", "rerank", "search")]
    assert [ended_span.name for ended_span in ended] == [
        *("CreateEmbeddings", ours[0], "CreateEmbeddings", *ours[1:]),
    ]
    require_children([ended[0], *ended[3:]], ended[-1])
    require_children(ended[1:3], ended[3])
    _, fetch, texts, _, rerank, chain = (dict(ended_span.attributes or {}) for ended_span in ended)
    assert (fetch["surprise_rerank.asked"], fetch["surprise_rerank.documents"]) == (3, 2)
    assert (texts["surprise_rerank.side"], texts["surprise_rerank.texts"]) == ("document", 2)
    assert (rerank["reranker.top_k"], rerank["surprise_rerank.candidates"]) == (2, 4)
    assert (chain["surprise_rerank.top_k"], chain["surprise_rerank.documents"]) == (2, 2)


class BrokenRetriever:
    """Fails, with what was asked in its message."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        raise StoreError(f"no answer to {query.text}")


def test_an_error_is_recorded_by_its_class_and_never_by_its_message(spans):
    with pytest.raises(StoreError, match="SECRETdogs"):
        Pipeline(WordEncoder(), BrokenRetriever()).search(QUESTION)
    ended = spans()
    assert [ended_span.name for ended_span in ended] == [
        "CreateEmbeddings",
        "surprise_rerank.retrieve",
        SEARCH[-1],
    ]
    for ended_span in ended[1:]:
        assert (ended_span.attributes or {})["error.type"] == "StoreError"
        assert ended_span.status.status_code is StatusCode.ERROR
        assert ended_span.status.description is None


@pytest.mark.parametrize("traceparent", [b"", b"nonsense", b"\xff\xfe", b"00-" + b"0" * 49])
def test_a_traceparent_that_says_nothing_changes_nothing(traceparent, spans):
    with continuing([(b"traceparent", traceparent)]), span("CHAIN", "root", {"surprise_rerank.texts": None}):
        pass
    (only,) = spans()
    assert only.parent is None
    assert dict(only.attributes or {}) == {"openinference.span.kind": "CHAIN"}


def caller(number: int) -> tuple[str, str]:
    """Ids of a trace and of a span in it."""
    return format_trace_id(0xABC000 + number), format_span_id(0xDEF000 + number)


def test_an_instrumented_frameworks_span_comes_before_the_traceparent(spans):
    header = (b"traceparent", "00-{}-{}-01".format(*caller(1)).encode())
    begun = trace.get_tracer("framework").start_as_current_span("POST /v1/search")
    with begun, continuing([header]), span("CHAIN", "mine", {}):
        pass
    mine, request = spans()
    require_children([mine], request)


def test_requests_at_once_hang_on_their_own_callers_spans(index, spans):
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    import httpx
    from helpers.serving import Log, served

    from surprise_rerank.connectors.server import ServerOptions, create_app

    reranker, pipeline = index.text_reranker("dynamax"), index.pipeline("dynamax")
    app = create_app(reranker, pipeline, ServerOptions(workers=2), logger=Log().logger())
    with served(app) as url:
        spans()

        def ask(number: int) -> int:
            trace_id, span_id = caller(number)
            headers = {"traceparent": f"00-{trace_id}-{span_id}-01", "authorization": "Bearer SECRETtoken"}
            body = {"query": f"{QUESTION} {number}"}
            return httpx.post(f"{url}/v1/search", json=body, headers=headers).status_code

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, range(8))) == {200}
    ended = spans()
    for number in range(8):
        trace_id, span_id = caller(number)
        mine = [
            ended_span for ended_span in ended if format_trace_id(ended_span.context.trace_id) == trace_id
        ]
        assert [ended_span.name for ended_span in mine] == SEARCH
        chain = mine[-1]
        assert format_span_id(chain.parent.span_id) == span_id
        require_children(mine, chain)


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
from helpers.words import WordEncoder
from surprise_rerank import TextReranker
from surprise_rerank.core._tracing import continuing
with continuing([(b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]):
    ranked = TextReranker(WordEncoder()).rank("dogs", ["cats", "dogs"])
assert [line.position for line in ranked] == [1, 0]
assert ("opentelemetry.trace" in sys.modules) == ("loaded" in sys.argv)
"""


@pytest.mark.parametrize("command", [["-c", CODE, "absent"], ["-c", CODE, "loaded"]])
def test_nothing_is_imported_without_a_provider(command):
    """In processes of their own: a process can have one provider."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
