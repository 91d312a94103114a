"""Why a retriever or re-ranker of a host gave back nothing, told in the host's way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from named_index import DOCUMENTS, OFF_TOPIC, ON_TOPIC, named_index  # noqa: F401 - a fixture

from surprise_rerank.candidates import Verdict
from surprise_rerank.connectors.components import VERDICT, judged_metadata, least_surprise
from surprise_rerank.errors import DataError

FIELDS = {"status", "chance", "reason"}
BOTH = "min_surprise=0.9 and {}=0.8 are both given"


def test_a_status_without_a_surprise_is_not_kept_and_that_of_an_earlier_stage_goes() -> None:
    before = {"verdict": "guilty", "surprise": 0.2, VERDICT: "off-topic"}
    assert judged_metadata(before, None, (), Verdict("unknown", None, "")) == {"verdict": "guilty"}
    measured = judged_metadata(before, 0.97, (), Verdict("answered", 0.9, ""))
    assert measured == {"verdict": "guilty", "surprise": 0.97, VERDICT: "answered"}


def test_a_threshold_has_one_of_two_names() -> None:
    assert least_surprise(None, score_threshold=0.8) == least_surprise(0.8, score_threshold=None) == 0.8
    assert least_surprise(None, score_threshold=None) is None
    assert least_surprise(None, score_threshold=0.0) == 0
    with pytest.raises(DataError, match=BOTH.format("score_threshold")):
        least_surprise(0.9, score_threshold=0.8)


class TestLangChain:
    @pytest.fixture(autouse=True)
    def needs_langchain(self) -> None:
        pytest.importorskip("langchain_core")

    def recorder(self) -> Any:
        from langchain_core.callbacks import BaseCallbackHandler

        class Recorder(BaseCallbackHandler):
            def __init__(self) -> None:
                self.told: list[Any] = []
                self.runs: list[Any] = []

            def on_retriever_start(self, *_: Any, run_id: Any, **__: Any) -> None:
                self.runs.append(run_id)

            def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
                self.told.append((name, data["status"], run_id))

        return Recorder()

    def test_a_retriever_that_finds_nothing_tells_callbacks_of_its_run(self, named_index: str) -> None:  # noqa: F811
        from surprise_rerank.connectors.langchain import SurpriseRetriever

        retriever = SurpriseRetriever.load(index=named_index, system="dynamax", score_threshold=0.9)
        recorder = self.recorder()
        config = {"callbacks": [recorder]}
        assert retriever.invoke(OFF_TOPIC, config) == []
        (found,) = retriever.invoke(ON_TOPIC, config)
        assert asyncio.run(retriever.ainvoke(OFF_TOPIC, config)) == []
        assert [own[:2] for own in recorder.told] == [
            (VERDICT, "off-topic"),
            (VERDICT, "unknown"),
            (VERDICT, "off-topic"),
        ]
        assert [own[2] for own in recorder.told] == recorder.runs
        assert found.metadata[VERDICT] == "unknown"  # of four documents
        assert len(retriever.invoke(OFF_TOPIC, score_threshold=0)) == 4
        with pytest.raises(DataError, match="measure a surprise of at most"):
            retriever.invoke(OFF_TOPIC, score_threshold=0.999)

    def test_streams_of_events_have_it(self, named_index: str) -> None:  # noqa: F811
        from surprise_rerank.connectors.langchain import SurpriseRetriever

        retriever = SurpriseRetriever.load(index=named_index, system="dynamax", min_surprise=0.9)

        async def events() -> list[Any]:
            stream = retriever.astream_events(OFF_TOPIC, version="v2")
            return [event async for event in stream if event["event"] == "on_custom_event"]

        (event,) = asyncio.run(events())
        assert (event["name"], event["data"]["status"], set(event["data"])) == (VERDICT, "off-topic", FIELDS)

    def test_a_compressor_tells_the_callbacks_that_it_is_given(self, named_index: str) -> None:  # noqa: F811
        from langchain_core.documents import Document

        from surprise_rerank.connectors.langchain import SurpriseRerank

        rerank = SurpriseRerank.load(index=named_index, system="dynamax", score_threshold=0.9)
        documents = [Document(own.content, id=own.id) for own in DOCUMENTS]
        recorder = self.recorder()
        assert rerank.compress_documents(documents, OFF_TOPIC, [recorder]) == []
        assert asyncio.run(rerank.acompress_documents(documents, ON_TOPIC, [recorder]))[0].id == "dogs"
        assert rerank.compress_documents([], ON_TOPIC, [recorder]) == []
        assert [own[1] for own in recorder.told] == ["off-topic", "unknown", "no match"]

    def test_two_names_of_one_threshold_are_refused(self, named_index: str) -> None:  # noqa: F811
        from surprise_rerank.connectors.langchain import SurpriseRerank, SurpriseRetriever

        for kind in (SurpriseRerank, SurpriseRetriever):
            with pytest.raises(DataError, match=BOTH.format("score_threshold")):
                kind.load(index=named_index, min_surprise=0.9, score_threshold=0.8)


class TestLlamaIndex:
    @pytest.fixture(autouse=True)
    def needs_llama_index(self) -> None:
        pytest.importorskip("llama_index.core")

    def test_retriever_and_re_ranker_send_an_event(self, named_index: str) -> None:  # noqa: F811
        from llama_index.core.instrumentation import get_dispatcher
        from llama_index.core.instrumentation.event_handlers import BaseEventHandler

        from surprise_rerank.connectors.llama_index import SurpriseRerank, SurpriseRetriever, VerdictEvent

        told: list[VerdictEvent] = []

        class Handler(BaseEventHandler):
            def handle(self, event: Any, **_: Any) -> None:
                if isinstance(event, VerdictEvent):
                    told.append(event)

        names = {"index": named_index, "system": "dynamax"}
        retriever = SurpriseRetriever.load(**names, similarity_top_k=4)
        nodes = retriever.retrieve(ON_TOPIC)
        handler, dispatcher = Handler(), get_dispatcher("surprise_rerank.connectors.llama_index")
        dispatcher.add_event_handler(handler)
        try:
            assert SurpriseRetriever.load(**names, similarity_cutoff=0.9).retrieve(OFF_TOPIC) == []
            reranker = SurpriseRerank(**names, similarity_cutoff=0.9)
            assert reranker.min_surprise == 0.9
            assert reranker.postprocess_nodes(nodes, query_str=OFF_TOPIC) == []
            (found,) = asyncio.run(reranker.apostprocess_nodes(nodes, query_str=ON_TOPIC))
        finally:
            dispatcher.event_handlers.remove(handler)
        assert found.metadata[VERDICT] == "unknown"  # of four documents
        assert [(event.query, event.verdict["status"]) for event in told] == [
            (OFF_TOPIC, "off-topic"),
            (OFF_TOPIC, "off-topic"),
            (ON_TOPIC, "unknown"),
        ]
        assert set(told[0].verdict) == FIELDS
        assert SurpriseRerank.from_dict(reranker.to_dict()).min_surprise == 0.9

    def test_two_names_of_one_threshold_are_refused(self, named_index: str) -> None:  # noqa: F811
        from surprise_rerank.connectors.llama_index import SurpriseRerank, SurpriseRetriever

        for kind in (SurpriseRerank, SurpriseRetriever.load):
            with pytest.raises(ValueError, match=BOTH.format("similarity_cutoff")):
                kind(index=named_index, min_surprise=0.9, similarity_cutoff=0.8)


class TestHaystack:
    @pytest.fixture(autouse=True)
    def needs_haystack(self) -> None:
        pytest.importorskip("haystack")

    @pytest.mark.parametrize("kind", ["SurpriseRanker", "SurpriseRetriever"])
    def test_a_router_sends_a_refused_question_elsewhere(self, named_index: str, kind: str) -> None:  # noqa: F811
        from haystack import Document, Pipeline
        from haystack.components.routers import ConditionalRouter

        from surprise_rerank.connectors import haystack

        names = {"index": named_index, "system": "dynamax", "score_threshold": 0.9}
        pipeline = Pipeline()
        pipeline.add_component("ours", getattr(haystack, kind)(**names))
        routes = [
            {
                "condition": "{{ verdict.status != 'off-topic' }}",
                "output": "{{ documents }}",
                "output_name": "found",
                "output_type": list[Document],
            },
            {
                "condition": "{{ True }}",
                "output": "{{ verdict.status }}: {{ verdict.reason }}",
                "output_name": "refused",
                "output_type": str,
            },
        ]
        pipeline.add_component("router", ConditionalRouter(routes, unsafe=True))
        pipeline.connect("ours.documents", "router.documents")
        pipeline.connect("ours.verdict", "router.verdict")
        documents = [Document(id=own.id, content=own.content) for own in DOCUMENTS]
        more = {"documents": documents} if kind == "SurpriseRanker" else {}
        found = pipeline.run({"ours": {"query": ON_TOPIC, **more}})["router"]["found"]
        assert [(own.id, own.meta[VERDICT]) for own in found] == [("dogs", "unknown")]
        refused = pipeline.run({"ours": {"query": OFF_TOPIC, **more}})["router"]["refused"]
        assert refused.startswith("off-topic: the best document is above that of")

    def test_no_documents_are_no_match(self, named_index: str) -> None:  # noqa: F811
        from surprise_rerank.connectors.haystack import SurpriseRanker

        ranker = SurpriseRanker(index=named_index, system="dynamax")
        found = ranker.run(ON_TOPIC, [])
        assert (found["documents"], found["verdict"]["status"]) == ([], "no match")
        assert asyncio.run(ranker.run_async(ON_TOPIC, [])) == found

    def test_two_names_of_one_threshold_are_refused_and_one_is_written(self, named_index: str) -> None:  # noqa: F811
        from surprise_rerank.connectors.haystack import SurpriseRanker, SurpriseRetriever

        for kind in (SurpriseRanker, SurpriseRetriever):
            with pytest.raises(DataError, match=BOTH.format("score_threshold")):
                kind(index=named_index, min_surprise=0.9, score_threshold=0.8)
            written = kind(index=named_index, score_threshold=0.8).to_dict()["init_parameters"]
            assert written["min_surprise"] == 0.8
            assert "score_threshold" not in written


def test_results_of_rerankers_have_it(named_index: str) -> None:  # noqa: F811
    pytest.importorskip("rerankers")
    from surprise_rerank.connectors.rerankers import SurpriseRanker

    ranker = SurpriseRanker.load(index=named_index, system="dynamax", min_surprise=0.9)
    texts, names = [own.content for own in DOCUMENTS], [own.id for own in DOCUMENTS]
    refused = ranker.rank(OFF_TOPIC, texts, names)
    assert (refused.results, refused.verdict.status) == ([], "off-topic")
    found = ranker.rank(ON_TOPIC, texts, names)
    assert (found[0].surprise_verdict, found.verdict.status) == ("unknown", "unknown")
