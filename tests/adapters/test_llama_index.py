"""The adapters for LlamaIndex, in LlamaIndex's own engines."""

import asyncio
import copy
from typing import Any, ClassVar

import pytest
from helpers.named_index import DOCUMENTS, OFF_TOPIC, ON_TOPIC
from helpers.words import WordEncoder

from surprise_rerank import CosineScorer, DataError, Document, Passages, TextReranker
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.core._extras import is_installed

if not is_installed("llama_index"):
    pytest.skip("the extra 'llama-index' is not installed", allow_module_level=True)

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from surprise_rerank.connectors.llama_index import SurpriseRerank, SurpriseRetriever, VerdictEvent

TEXTS = ["cats sleep all day", "the dog barks", "a dog barks at night and bites", "tea is hot"]


class Recorder(BaseEventHandler):
    """Keeps what is dispatched."""

    events: ClassVar[list[Any]] = []

    @classmethod
    def class_name(cls) -> str:
        return "Recorder"

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.events.append(event)


@pytest.fixture
def events() -> Any:
    """What is dispatched during a test."""
    recorder, dispatcher = Recorder(), get_dispatcher("surprise_rerank.connectors.llama_index")
    recorder.events.clear()
    dispatcher.add_event_handler(recorder)
    yield recorder.events
    dispatcher.event_handlers.remove(recorder)


def nodes_of(*texts: str, **more: Any) -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(id_=f"n{i}", text=text, **more), score=i / 10)
        for i, text in enumerate(texts)
    ]


def of_index() -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(id_=d.id, text=d.content), score=0.5) for d in DOCUMENTS]


def rerank(**more: Any) -> SurpriseRerank:
    return SurpriseRerank(reranker=TextReranker(WordEncoder()), **more)


def test_embeddings_of_nodes_are_used():
    encoder = WordEncoder()
    component = SurpriseRerank(reranker=TextReranker(encoder, CosineScorer()), top_n=4)
    nodes = nodes_of(*TEXTS)
    plain = component.postprocess_nodes(nodes, query_str="dog barks")
    for node, vector in zip(nodes, WordEncoder().encode(TEXTS).dense, strict=True):
        node.node.embedding = vector.tolist()
    encoder.encoded_texts.clear()
    ranked = component.postprocess_nodes(nodes, query_str="dog barks")
    assert [node.node_id for node in ranked] == [node.node_id for node in plain]
    assert encoder.encoded_texts == ["dog barks", TEXTS[0]]


def test_a_node_that_is_a_whole_document_is_known_by_that_documents_id():
    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync([Document("mine", "the dog barks"), Document("other", "tea")])
        component = SurpriseRerank(reranker=index.text_reranker("dynamax"), top_n=4)
        of_mine = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="mine")}
        part = {**of_mine, NodeRelationship.NEXT: RelatedNodeInfo(node_id="next")}
        nodes = [
            NodeWithScore(node=TextNode(text="?", relationships=of_mine)),
            NodeWithScore(node=TextNode(text="a part", relationships=part)),
            NodeWithScore(node=TextNode(id_="other", text="?", relationships=of_mine)),
        ]
        index.encoder.encoded_texts.clear()
        component.postprocess_nodes(nodes, query_str="dog barks")
        assert index.encoder.encoded_texts == ["dog barks", "a part"]


def test_nodes_that_come_back_are_copies_which_may_be_changed():
    nodes = nodes_of(*TEXTS, metadata={"year": 2020})
    before = copy.deepcopy(nodes)
    for node in rerank(top_n=4, keep_retrieval_score=True).postprocess_nodes(nodes, query_str="dog barks"):
        assert node.metadata == {"year": 2020, "retrieval_score": before[int(node.node_id[1:])].score}
        node.metadata["page"] = 1
        node.node.excluded_llm_metadata_keys.append("page")
        node.node.excluded_embed_metadata_keys.append("page")
        node.node.set_content("other")
    assert nodes == before


def test_metadata_is_read_as_far_as_nodes_show_it_to_embedding_models():
    encoder = WordEncoder()
    hidden = ["secret"]
    node = TextNode(
        text="text", metadata={"colour": "red", "secret": "blue"}, excluded_embed_metadata_keys=hidden
    )
    component = SurpriseRerank(reranker=TextReranker(encoder))
    component.postprocess_nodes([NodeWithScore(node=node)], query_str="q")
    assert encoder.encoded_texts[-1] == "colour: red\n\ntext"


def test_no_model_reads_the_percentile(named_index):
    postprocessor = SurpriseRerank.load(index=named_index, system="dynamax", min_percentile=0.9)
    (best,) = postprocessor.postprocess_nodes(of_index(), query_str=ON_TOPIC)
    assert "percentile" not in best.get_content(MetadataMode.LLM) + best.get_content(MetadataMode.EMBED)
    (again,) = postprocessor.postprocess_nodes([best], query_str=ON_TOPIC)
    assert again.node.excluded_llm_metadata_keys == ["percentile", "rerank_verdict"]


def test_events_tell_what_happened(events):
    nodes = nodes_of(*TEXTS)
    postprocessor = rerank(top_n=2)
    ranked = postprocessor.postprocess_nodes(nodes, query_str="dog barks")
    assert asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str="dog barks")) == ranked
    events_seen = [event for event in events if isinstance(event, ReRankStartEvent | ReRankEndEvent)]
    assert [type(event) for event in events_seen] == [ReRankStartEvent, ReRankEndEvent] * 2
    assert (events_seen[0].top_n, events_seen[0].model_name, events_seen[0].query.query_str) == (
        2,
        "words",
        "dog barks",
    )
    assert events_seen[0].nodes == nodes
    assert events_seen[1].nodes == events_seen[3].nodes == ranked
    with pytest.raises(DataError, match="the question must be there, got None; give query_bundle="):
        rerank().postprocess_nodes(nodes_of("dog"))


def test_the_verdict_is_sent_also_where_nothing_comes_back(named_index, events):
    names = {"index": named_index, "system": "dynamax", "min_percentile": 0.9}
    assert SurpriseRetriever.load(**names).retrieve(OFF_TOPIC) == []
    reranker = SurpriseRerank.load(**names)
    assert reranker.postprocess_nodes(of_index(), query_str=OFF_TOPIC) == []
    assert len(asyncio.run(reranker.apostprocess_nodes(of_index(), query_str=ON_TOPIC))) == 1
    verdicts = [event for event in events if isinstance(event, VerdictEvent)]
    statuses = [(OFF_TOPIC, "off-topic"), (OFF_TOPIC, "off-topic"), (ON_TOPIC, "unknown")]
    assert [(event.query, event.verdict["status"]) for event in verdicts] == statuses
    assert verdicts[0].verdict["reason"]


def test_a_title_is_not_read_twice_and_a_passage_has_its_place(named_index):
    (first, *_) = SurpriseRetriever.load(index=named_index, system="dynamax").retrieve(ON_TOPIC)
    assert first.get_content(MetadataMode.LLM) == f"length: 7\ntopic: dogs\n\n{first.text}"
    text = "tea is hot . " * 10 + "dog barks at night . " + "bread is old . " * 10
    options = IndexOptions(passages=Passages(6, overlap=0))
    with DocumentIndex.open(":memory:", WordEncoder(), options=options) as index:
        index.sync([Document("long", text)])
        retriever = SurpriseRetriever(index.pipeline("dynamax"), similarity_top_k=3)
        node, *others = retriever.retrieve("dog barks")
        (whole,) = SurpriseRetriever(index.pipeline("dynamax"), unit="document").retrieve("dog barks")
    assert [part.node.ref_doc_id for part in (node, *others)] == ["long"] * 3
    assert len({part.node_id for part in (node, *others)}) == 3
    assert (whole.node_id, whole.text) == ("long", node.text)
    assert isinstance(node.node, TextNode)
    assert "dog barks" in node.text
    assert len(node.text) < 60
    assert text[node.node.start_char_idx : node.node.end_char_idx] == node.text


def test_filters_narrow_the_search_of_an_index():
    from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
    from qdrant_client import models

    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync(DOCUMENTS)
        chosen = MetadataFilters(filters=[MetadataFilter(key="topic", value="dogs")])
        condition = models.FieldCondition(key="metadata.topic", match=models.MatchValue(value="dogs"))
        for filters in (chosen, models.Filter(must=[condition])):
            retriever = SurpriseRetriever(index.pipeline("dynamax"), similarity_top_k=9, filters=filters)
            assert [node.metadata["topic"] for node in retriever.retrieve(ON_TOPIC)] == ["dogs"]


def test_a_query_engine_answers_from_what_is_surprising_and_from_nothing_else(named_index):
    engine = RetrieverQueryEngine.from_args(
        SurpriseRetriever.load(index=named_index, system="cosine", similarity_top_k=4),
        llm=MockLLM(),
        node_postprocessors=[
            SurpriseRerank.load(index=named_index, system="dynamax", top_n=3),
            SimilarityPostprocessor(similarity_cutoff=0.9),
        ],
    )
    for response in (engine.query(ON_TOPIC), asyncio.run(engine.aquery(ON_TOPIC))):
        assert [node.node_id for node in response.source_nodes] == ["dogs"]
        assert "postman" in str(response)
    nothing = engine.query(OFF_TOPIC)
    assert (nothing.source_nodes, str(nothing)) == ([], "Empty Response")
