"""The LangChain adapters, in LangChain's own retrievers and chains."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from helpers.named_index import DOCUMENTS, OFF_TOPIC, ON_TOPIC
from helpers.words import WordEncoder

pytest.importorskip("langchain_core")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from qdrant_client import models

from surprise_rerank import Candidates, DataError, Query
from surprise_rerank import Document as Stored
from surprise_rerank._candidates import Field
from surprise_rerank.connectors.langchain import SurpriseRerank, SurpriseRetriever
from surprise_rerank.connectors.qdrant import DocumentIndex

TEXTS = ["cats sleep all day", "dogs bark at night", "the dogs of the night bark", "a wing gives lift"]
QUESTION = "dogs bark"
EVENT = "rerank_verdict"


@pytest.fixture
def index() -> Iterator[DocumentIndex]:
    encoder = WordEncoder(64)
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync(Stored(str(i), text, metadata={"i": i}) for i, text in enumerate(TEXTS))
        encoder.encoded_texts.clear()
        yield index


@pytest.mark.parametrize(
    ("id_key", "document", "encoded"),
    [
        # What a splitter makes: metadata are copied, with the id of a retriever, but no `Document.id`.
        (None, Document("a part", metadata={"id": "3"}), True),
        (None, Document("?", id="1", metadata={"_id": "none"}), False),
        # Where langchain-qdrant puts a point's id.
        (None, Document("?", id="of another store", metadata={"_id": "2"}), False),
        (None, Document("?", metadata={"_id": 0}), False),
        ("source", Document("?", metadata={"source": "1"}), False),
        ("source", Document("a text", id="1", metadata={"source": 1}), True),
    ],
)
def test_where_the_stored_id_is(index, id_key, document, encoded):
    rerank = SurpriseRerank(reranker=index.text_reranker("dynamax"), id_key=id_key)
    assert isinstance(rerank, BaseDocumentCompressor)
    rerank.compress_documents([document], QUESTION)
    texts = [document.page_content] if encoded else []
    assert index.encoder.encoded_texts == [QUESTION, *texts]


def test_it_ranks_as_a_base_reranker_does(index):
    result = pytest.importorskip("langchain_reranker.rerankers").RerankResult
    rerank = SurpriseRerank(reranker=index.text_reranker("dynamax"), top_n=2)
    documents = [Document(text) for text in TEXTS]
    results = rerank.rerank(QUESTION, documents)
    assert all(isinstance(line, result) for line in results)
    assert [line.document for line in results] == rerank.compress_documents(documents, QUESTION)
    assert [TEXTS[line.index] for line in results] == [line.document.page_content for line in results]
    assert [line.relevance_score for line in rerank.rerank(QUESTION, documents, top_n=1)] == [
        results[0].relevance_score
    ]


def test_a_filter_of_qdrant_narrows_the_search(index):
    early = models.Filter(must=[models.FieldCondition(key="metadata.i", range=models.Range(lte=2))])
    late = models.Filter(must=[models.FieldCondition(key="metadata.i", range=models.Range(gte=2))])
    retriever = SurpriseRetriever(pipeline=index.pipeline("dynamax"))
    assert isinstance(retriever, BaseRetriever)
    assert {d.id for d in retriever.invoke(QUESTION, filter=early)} == {"0", "1", "2"}
    narrowed = retriever.model_copy(update={"filter": late})
    assert {d.id for d in narrowed.invoke(QUESTION)} == {"2", "3"}
    assert [d.id for d in narrowed.invoke(QUESTION, filter=early)] == ["2"]
    assert [d.id for d in asyncio.run(narrowed.ainvoke(QUESTION, filter=early))] == ["2"]
    elsewhere = replace(retriever.pipeline, retriever=Elsewhere())
    with pytest.raises(DataError, match="retriever must be one of an index, got a Elsewhere"):
        SurpriseRetriever(pipeline=elsewhere).invoke(QUESTION, filter=early)


class Elsewhere:
    """A retriever of somebody else's, without filters."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        raise AssertionError("never asked")


class Recorder(BaseCallbackHandler):
    """What callbacks were told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.verdicts: list[tuple[str, Any]] = []
        self.runs: list[Any] = []

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **kwargs: Any) -> None:
        self.events.append((kwargs["name"], 0))
        self.runs.append(run_id)

    def on_retriever_end(self, documents: Any, **kwargs: Any) -> None:
        self.events.append(("end", len(documents)))

    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        assert name == EVENT
        self.verdicts.append((data["status"], run_id))


def test_callbacks_of_a_run_are_told_the_verdict_also_where_nothing_comes_back(named_index):
    retriever = SurpriseRetriever.load(index=named_index, system="dynamax", min_percentile=0.9)
    recorder = Recorder()
    config = {"callbacks": [recorder]}
    assert retriever.invoke(OFF_TOPIC, config) == []
    assert len(retriever.invoke(ON_TOPIC, config)) == 1
    assert asyncio.run(retriever.ainvoke(OFF_TOPIC, config)) == []
    statuses = ["off-topic", "unknown", "off-topic"]
    assert recorder.verdicts == list(zip(statuses, recorder.runs, strict=True))
    assert len(retriever.invoke(OFF_TOPIC, min_percentile=0)) == 4
    with pytest.raises(DataError, match="measure a percentile of at most"):
        retriever.invoke(OFF_TOPIC, min_percentile=0.999)

    async def streamed() -> list[Any]:
        stream = retriever.astream_events(OFF_TOPIC, version="v2")
        return [event async for event in stream if event["event"] == "on_custom_event"]

    (event,) = asyncio.run(streamed())
    assert (event["name"], event["data"]["status"]) == (EVENT, "off-topic")
    assert event["data"]["reason"]

    rerank = SurpriseRerank.load(index=named_index, system="dynamax", min_percentile=0.9)
    documents = [Document(document.content, id=document.id) for document in DOCUMENTS]
    recorder = Recorder()
    assert rerank.compress_documents(documents, OFF_TOPIC, [recorder]) == []
    assert asyncio.run(rerank.acompress_documents(documents, ON_TOPIC, [recorder]))[0].id == "dogs"
    assert rerank.compress_documents([], ON_TOPIC, [recorder]) == []
    assert [status for status, _ in recorder.verdicts] == ["off-topic", "unknown", "no match"]


def test_both_work_in_a_compression_retriever_with_callbacks(index):
    pytest.importorskip("langchain_classic")
    from langchain_classic.retrievers import ContextualCompressionRetriever

    two_stages = ContextualCompressionRetriever(
        base_compressor=SurpriseRerank(reranker=index.text_reranker("dynamax"), top_n=2),
        base_retriever=SurpriseRetriever(pipeline=index.pipeline("cosine"), k=5),
    )
    recorder = Recorder()
    ranked = two_stages.invoke(QUESTION, config={"callbacks": [recorder]})
    assert [d.id for d in ranked] == ["1", "2"]
    names = [("ContextualCompressionRetriever", 0), ("SurpriseRetriever", 0), ("end", 4), ("end", 2)]
    assert recorder.events == names
    assert index.encoder.encoded_texts == [QUESTION, QUESTION]
    assert asyncio.run(two_stages.ainvoke(QUESTION, config={"callbacks": [recorder]})) == ranked
