"""Components of hosts that are copied, pickled, and used in a forked process: they rank as before."""

import copy
import json
import multiprocessing
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers.hosts import HOSTS
from helpers.named_index import DOCUMENTS, ON_TOPIC
from helpers.words import WordEncoder

from surprise_rerank import (
    DataError,
    Document,
    Pipeline,
    StoreError,
    SurpriseRerankError,
    TextReranker,
    load_encoder,
)
from surprise_rerank import _errors as errors
from surprise_rerank.connectors.attached._settings import PipelineSettings
from surprise_rerank.connectors.qdrant import DocumentIndex, Location
from surprise_rerank.connectors.qdrant._engines.nodes import Nodes
from surprise_rerank.connectors.systems._register import SYSTEMS
from surprise_rerank.core._extras import is_installed
from surprise_rerank.rerank import CrossEncoderScorer

# What a component gives: ids and scores.
Answer = Callable[[Any], list[tuple[str, float]]]


def pickled(component: Any) -> Any:
    return pickle.loads(pickle.dumps(component))


def in_child(answer: Answer, component: Any) -> list[tuple[str, float]]:
    """What the component gives in a forked process, which ends as any program does."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        try:
            sender.send(answer(component))
        except SurpriseRerankError as error:
            sender.send(error)

    process = context.Process(target=child)
    process.start()
    try:
        assert receiver.poll(30), "the forked process hangs"
        received = receiver.recv()
    finally:
        process.join(10)
        process.kill()
    if isinstance(received, Exception):
        raise received
    return received


def require_same_everywhere(component: Any, answer: Answer) -> None:
    expected = answer(component)
    assert expected
    for way in (copy.copy, copy.deepcopy, pickled):
        assert answer(way(component)) == expected
    assert in_child(answer, component) == expected
    assert answer(component) == expected, "copying changed the component itself"


def length_scores(question: str, texts: list[str]) -> list[float]:
    return [float(len(text)) for text in texts]


every_host = pytest.mark.parametrize("host", HOSTS)


@every_host
@pytest.mark.parametrize("of_names", [True, False])
def test_a_ranker_of_every_host(host, of_names, named_index):
    documents = [host.document(document.id, document.content, {}) for document in DOCUMENTS]
    if of_names:
        ranker = host.named_ranker(index=named_index, system="dynamax")
    else:
        ranker = host.ranker(PipelineSettings(index=named_index).text_reranker())
    require_same_everywhere(
        ranker,
        lambda component: [(line.id, line.score) for line in host.rank(component, documents, ON_TOPIC)],
    )


@every_host
def test_a_retriever_of_every_host(host, named_index):
    if not hasattr(host.adapter, "SurpriseRetriever"):
        pytest.skip("rerankers has no retrievers")
    retriever = host.named_retriever(index=named_index, system="dynamax")
    require_same_everywhere(
        retriever, lambda component: [(line.id, line.score) for line in host.retrieve(component, ON_TOPIC)]
    )


@pytest.mark.skipif(not is_installed("pyterrier"), reason="the extra pyterrier is not installed")
def test_transformers_of_pyterrier(named_index):
    import pandas as pd

    from surprise_rerank.connectors.pyterrier import SurpriseRetriever, SurpriseTransformer

    def answer(pipeline: Any) -> list[tuple[str, float]]:
        frame = pipeline.transform(pd.DataFrame([{"qid": "1", "query": ON_TOPIC}]))
        return list(zip(frame["docno"], frame["score"], strict=True))

    retriever = SurpriseRetriever.load(index=named_index, system="dynamax")
    ranker = SurpriseTransformer.load(index=named_index, system="dynamax")
    require_same_everywhere(retriever, answer)
    require_same_everywhere(retriever >> ranker, answer)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_pipeline_of_every_system(system, tmp_path, named_index):
    encoder = load_encoder(str(Path(named_index).parent / "vectors.txt"))
    with DocumentIndex.open(tmp_path / "index", encoder) as writing:
        writing.sync(DOCUMENTS)
        writing.set_ensemble(writing.ensemble(), source="the corpus")
    with DocumentIndex.open(tmp_path / "index", encoder) as index:
        try:
            pipeline = index.pipeline(system)
        except DataError as error:
            pytest.skip(str(error))
        require_same_everywhere(
            pipeline, lambda pipeline: [(hit.id, hit.score) for hit in pipeline.search(ON_TOPIC, 3)]
        )


def test_a_scorer_of_a_function_of_a_module(named_index):
    pipeline = (
        PipelineSettings(index=named_index)
        .open_index()
        .pipeline("auto", scorers=[CrossEncoderScorer(length_scores, ["a", "longer"])])
    )
    require_same_everywhere(
        pipeline, lambda pipeline: [(hit.id, hit.score) for hit in pipeline.search(ON_TOPIC, 3)]
    )


@pytest.mark.skipif(not is_installed("llama_index"), reason="the extra llama-index is not installed")
def test_what_llama_index_cannot_pickle_stays_in_the_component():
    host = next(host.values[0] for host in HOSTS if host.id == "LlamaIndex")
    encoder = WordEncoder()
    encoder.tokenize = lambda text: text.split()  # which nothing can pickle
    ranker = host.ranker(TextReranker(encoder))
    nodes = [host.document("a", "dogs bark", {})]
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(ranker)
    assert len(host.rank(ranker, nodes, "dogs")) == len(host.rank(copy.deepcopy(ranker), nodes, "dogs")) == 1


@pytest.mark.skipif(not is_installed("llama_index"), reason="the extra llama-index is not installed")
def test_llama_index_reads_what_it_has_written(named_index):
    from surprise_rerank.connectors.llama_index import SurpriseRerank

    host = next(host.values[0] for host in HOSTS if host.id == "LlamaIndex")
    nodes = [host.document(document.id, document.content, {}) for document in DOCUMENTS]
    ranker = SurpriseRerank.load(index=named_index, system="dynamax", top_n=2)
    read = SurpriseRerank.from_json(ranker.to_json())
    assert host.rank(read, nodes, ON_TOPIC) == host.rank(ranker, nodes, ON_TOPIC)
    postprocessor = SurpriseRerank(reranker=ranker.reranker)
    with pytest.raises(
        ValueError, match=r"there is no reranker; give reranker=, or use SurpriseRerank\.load"
    ):
        SurpriseRerank.from_dict(postprocessor.to_dict())


def test_every_error_comes_out_of_another_process_as_it_is():
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, SurpriseRerankError):
            error = kind("what is wrong", ["a"]) if kind is errors.IndexingError else kind("what is wrong")
            copied = pickled(error)
            assert (type(copied), str(copied), vars(copied)) == (kind, "what is wrong", vars(error))


def test_an_index_in_memory_is_copied_and_forked_and_refuses_a_pickle():
    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync([Document("d", "dogs bark")])
        pipeline: Pipeline = index.pipeline("cosine")

        def answer(pipeline: Pipeline) -> list[tuple[str, float]]:
            return [(hit.id, hit.score) for hit in pipeline.search("dogs")]

        assert answer(copy.deepcopy(pipeline)) == in_child(answer, pipeline) == answer(pipeline)
        with pytest.raises(StoreError, match=r"in memory cannot be pickled.*in a folder or on a server"):
            pickle.dumps(pipeline)


def test_a_child_cannot_read_what_the_parent_was_changing_and_leaves_its_lock(tmp_path):
    def answer(pipeline: Pipeline) -> list[tuple[str, float]]:
        return [(hit.id, hit.score) for hit in pipeline.search("dogs")]

    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync([Document("d", "dogs bark")])
        with pytest.raises(
            StoreError, match="was being changed when this process was forked; close the index"
        ):
            in_child(answer, index.pipeline("cosine"))
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        expected = answer(index.pipeline("cosine"))
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(sender)
            os.read(receiver, 1)  # until the parent has written
            os._exit(0)
        try:
            index.sync([Document("e", "cats sleep")])
            assert len(answer(index.pipeline("cosine"))) == len(expected) + 1
        finally:
            os.close(sender)
            os.waitpid(child, 0)


def test_a_child_has_connections_of_its_own_to_a_server():
    requests: Counter[int] = Counter()  # by the port of the client

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            requests[self.client_address[1]] += 1
            answer = json.dumps({"result": {"collections": []}, "status": "ok", "time": 0.0}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        nodes = Nodes.of(Location(url=f"http://127.0.0.1:{server.server_port}"))

        def answer(nodes: Nodes) -> list[tuple[str, float]]:
            nodes.call(lambda client: client.get_collections(), "the server", reads=True)
            return []

        (port,) = requests
        in_child(answer, nodes)
        answer(nodes)
        nodes.close()
        server.shutdown()
    assert requests[port] == 2
    assert len(requests) == 2


def test_a_key_is_not_written_into_a_pickle(monkeypatch):
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    location = Location(url="http://localhost:6333", api_key="very-secret")
    assert copy.deepcopy(location) == location
    with pytest.raises(DataError, match="set the environment variable QDRANT_API_KEY") as error:
        pickle.dumps(location)
    assert "very-secret" not in str(error.value)
    monkeypatch.setenv("QDRANT_API_KEY", "very-secret")
    assert b"very-secret" not in pickle.dumps(location)
    assert pickled(location).key == location.key
