"""The adapters for LlamaIndex, in LlamaIndex's own engines."""

from __future__ import annotations

import asyncio
import copy
import runpy
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from named_index import DOCUMENTS, OFF_TOPIC, ON_TOPIC, named_index
from words import WordEncoder

from surprise_rerank import Document, Pipeline
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.retrievers.stored import StoredCandidates
from surprise_rerank.core.extras import is_installed
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import DataError, MissingExtraError
from surprise_rerank.rerank.rerankers import CosineReranker, DynaMaxReranker
from surprise_rerank.text_reranker import TextReranker

if not is_installed("llama_index"):
    pytest.skip("the extra 'llama-index' is not installed", allow_module_level=True)

from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from surprise_rerank.connectors import llama_index
from surprise_rerank.connectors.llama_index import SurpriseRerank, SurpriseRetriever

__all__ = ["named_index"]

TEXTS = ["cats sleep all day", "the dog barks", "a dog barks at night and bites", "tea is hot"]


class Recorder(BaseEventHandler):
    """Keeps what is dispatched."""

    events: ClassVar[list[Any]] = []

    @classmethod
    def class_name(cls) -> str:
        return "Recorder"

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.events.append(event)


def nodes_of(*texts: str, **more: Any) -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(id_=f"n{i}", text=text, **more), score=i / 10)
        for i, text in enumerate(texts)
    ]


def rerank(**more: Any) -> SurpriseRerank:
    return SurpriseRerank(reranker=TextReranker(WordEncoder()), **more)


def test_embeddings_of_nodes_are_used():
    encoder = WordEncoder()
    component = SurpriseRerank(reranker=TextReranker(encoder, CosineReranker()), top_n=4)
    nodes = nodes_of(*TEXTS)
    plain = component.postprocess_nodes(nodes, query_str="dog barks")
    for node, vector in zip(nodes, WordEncoder().encode(TEXTS).dense, strict=True):
        node.node.embedding = vector.tolist()
    encoder.encoded_texts.clear()
    found = component.postprocess_nodes(nodes, query_str="dog barks")
    assert [node.node_id for node in found] == [node.node_id for node in plain]
    assert encoder.encoded_texts == ["dog barks", TEXTS[0]]
    assert asyncio.run(component.apostprocess_nodes(nodes, query_str="dog barks"))[0].score == found[0].score


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


def test_what_is_no_field_is_told_with_the_fields():
    with pytest.raises(ValueError, match="SurpriseRerank has no setting 'sytem'; did you mean 'system'"):
        SurpriseRerank(sytem="auto")
    with pytest.raises(ValueError, match="unknown system 'atuo'; did you mean 'auto'"):
        SurpriseRerank(system="atuo")
    with pytest.raises(DataError, match="SurpriseRetriever has no setting 'sytem'; did you mean 'system'"):
        SurpriseRetriever.load(sytem="auto")
    found = SurpriseRerank(encoder=WordEncoder(), system="dynamax")
    assert found.postprocess_nodes(nodes_of(*TEXTS), query_str="tea is hot")[0].node_id == "n3"
    assert copy.deepcopy(found).encoder is found.encoder
    with pytest.raises(DataError, match="given encoder= cannot be written"):
        found.to_dict()


def test_nodes_come_back_best_first_and_those_given_stay_as_they_are():
    nodes = nodes_of(*TEXTS, metadata={"year": 2020})
    before = copy.deepcopy(nodes)
    found = rerank(top_n=3, keep_retrieval_score=True).postprocess_nodes(nodes, query_str="dog barks")
    texts = [node.get_content(MetadataMode.EMBED) for node in before]
    ranked = TextReranker(WordEncoder()).rank("dog barks", texts, top_k=3)
    assert [node.node_id for node in found] == [f"n{line.position}" for line in ranked]
    assert [node.score for node in found] == [line.score for line in ranked]
    assert {node.node_id for node in found[:2]} == {"n1", "n2"}
    for node in found:
        given = before[int(node.node_id[1:])]
        assert node.metadata == {"year": 2020, "retrieval_score": given.score}
        assert node.text == given.text
    assert nodes == before
    assert all(a is not b for a in found for b in nodes)


def test_nodes_that_come_back_are_copies_which_may_be_changed():
    nodes = nodes_of(*TEXTS, metadata={"year": 2020})
    before = copy.deepcopy(nodes)
    for node in rerank(top_n=4).postprocess_nodes(nodes, query_str="dog barks"):
        node.metadata["page"] = 1
        node.node.excluded_llm_metadata_keys.append("page")
        node.node.excluded_embed_metadata_keys.append("page")
        node.node.set_content("other")
    assert nodes == before


def test_a_surprise_of_an_earlier_score_does_not_stay_beside_the_new_one():
    before = nodes_of("dog", metadata={"surprise": 0.5, "year": 2020})
    (found,) = rerank().postprocess_nodes(before, query_str="dog")
    assert found.metadata == {"year": 2020}
    assert before[0].metadata == {"surprise": 0.5, "year": 2020}


def test_metadata_is_read_as_far_as_nodes_show_it_to_embedding_models():
    encoder = WordEncoder()
    node = TextNode(
        text="text", metadata={"colour": "red", "secret": "blue"}, excluded_embed_metadata_keys=["secret"]
    )
    SurpriseRerank(reranker=TextReranker(encoder)).postprocess_nodes(
        [NodeWithScore(node=node)], query_str="q"
    )
    assert encoder.encoded_texts[-1] == "colour: red\n\ntext"


def test_no_nodes_one_node_more_than_there_are_and_the_same_twice():
    assert rerank().postprocess_nodes([], query_str="dog") == []
    one = nodes_of("dog")
    assert [node.node_id for node in rerank().postprocess_nodes(one, query_str="dog")] == ["n0"]
    twice = [*nodes_of(*TEXTS), *nodes_of(*TEXTS)]
    found = rerank(top_n=50).postprocess_nodes(twice, query_str="dog barks")
    assert sorted(node.node_id for node in found) == sorted(node.node_id for node in twice)


def test_nodes_that_an_index_has_are_not_encoded_again():
    encoder = WordEncoder()
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync(Document(f"n{i}", text) for i, text in enumerate(TEXTS[:3]))
        encoder.encoded_texts.clear()
        postprocessor = SurpriseRerank(
            reranker=TextReranker(encoder, stored=StoredCandidates(index)), top_n=4
        )
        found = postprocessor.postprocess_nodes(nodes_of(*TEXTS), query_str="dog barks")
        assert encoder.encoded_texts == ["dog barks", TEXTS[3]]
    fresh = rerank(top_n=4).postprocess_nodes(nodes_of(*TEXTS), query_str="dog barks")
    assert [node.node_id for node in found] == [node.node_id for node in fresh]
    assert [node.score for node in found] == pytest.approx([node.score for node in fresh], abs=0.01)


def test_what_is_not_surprising_is_left_out_and_no_model_reads_the_surprise(named_index: str):
    postprocessor = SurpriseRerank(index=named_index, system="dynamax", min_surprise=0.9, top_n=4)
    nodes = [NodeWithScore(node=TextNode(id_=d.id, text=d.content), score=0.5) for d in DOCUMENTS]
    (best,) = postprocessor.postprocess_nodes(nodes, query_str=ON_TOPIC)
    assert best.node_id == "dogs"
    assert best.score == best.metadata["surprise"] >= 0.9
    assert "surprise" not in best.get_content(MetadataMode.LLM) + best.get_content(MetadataMode.EMBED)
    assert nodes[0].metadata == {}
    assert nodes[0].node.excluded_llm_metadata_keys == []
    assert postprocessor.postprocess_nodes(nodes, query_str=OFF_TOPIC) == []
    again = postprocessor.postprocess_nodes([best], query_str=ON_TOPIC)
    assert again[0].node.excluded_llm_metadata_keys == ["surprise", "surprise_verdict"]


def test_events_and_callbacks_tell_what_happened():
    seen = Recorder()
    seen.events.clear()
    dispatcher = get_dispatcher("surprise_rerank.connectors.llama_index")
    dispatcher.add_event_handler(seen)
    debug = LlamaDebugHandler(print_trace_on_end=False)
    nodes = nodes_of(*TEXTS)
    try:
        postprocessor = rerank(top_n=2, callback_manager=CallbackManager([debug]))
        found = postprocessor.postprocess_nodes(nodes, query_str="dog barks")
        again = asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str="dog barks"))
    finally:
        dispatcher.event_handlers.remove(seen)
    assert again == found
    events = [event for event in seen.events if isinstance(event, ReRankStartEvent | ReRankEndEvent)]
    assert [type(event) for event in events] == [ReRankStartEvent, ReRankEndEvent] * 2
    assert (events[0].top_n, events[0].model_name, events[0].query.query_str) == (2, "words", "dog barks")
    assert events[0].nodes == nodes
    assert events[1].nodes == events[3].nodes == found
    pairs = debug.get_event_pairs(CBEventType.RERANKING)
    assert len(pairs) == 2
    for start, end in pairs:
        assert start.payload == {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: "words",
            EventPayload.QUERY_STR: "dog barks",
            EventPayload.TOP_K: 2,
        }
        assert end.payload == {EventPayload.NODES: found}


def test_without_a_question_it_says_so():
    with pytest.raises(DataError, match="no question"):
        rerank().postprocess_nodes(nodes_of("dog"))


def test_the_event_loop_goes_on_while_nodes_are_ranked():
    ticked = threading.Event()

    class Waiting(WordEncoder):
        def encode(self, *args: Any, **more: Any) -> Any:
            assert ticked.wait(10), "the event loop stood still"
            return super().encode(*args, **more)

    async def both() -> list[NodeWithScore]:
        postprocessor = SurpriseRerank(reranker=TextReranker(Waiting()))
        task = asyncio.create_task(postprocessor.apostprocess_nodes(nodes_of(*TEXTS), query_str="dog barks"))
        await asyncio.sleep(0.01)
        ticked.set()
        return await task

    assert {node.node_id for node in asyncio.run(both())} == {"n1", "n2"}


def test_it_is_written_and_read_by_names(named_index: str):
    made = SurpriseRerank(
        index=named_index, system="dynamax", top_n=3, min_surprise=0.5, keep_retrieval_score=True
    )
    data = made.to_dict()
    assert data["class_name"] == "SurpriseRerank"
    assert "callback_manager" not in data
    nodes = [NodeWithScore(node=TextNode(id_=d.id, text=d.content), score=0.5) for d in DOCUMENTS]
    expected = made.postprocess_nodes(nodes, query_str=ON_TOPIC)
    assert expected
    for again in (SurpriseRerank.from_dict(data), SurpriseRerank.from_json(made.to_json())):
        assert again.to_dict() == data
        assert again.postprocess_nodes(nodes, query_str=ON_TOPIC) == expected
    assert made.to_dict() == data  # after loading, too


def test_fields_that_change_later_count(named_index: str):
    made = SurpriseRerank(index=named_index, system="dynamax", top_n=4)
    nodes = [NodeWithScore(node=TextNode(id_=d.id, text=d.content)) for d in DOCUMENTS]
    judged = made.postprocess_nodes(nodes, query_str=ON_TOPIC)
    assert "surprise" in judged[0].metadata
    changed = made.model_copy(update={"system": "cosine"})  # which the index has no background for
    plain = changed.postprocess_nodes(nodes, query_str=ON_TOPIC)
    assert "surprise" not in plain[0].metadata
    assert made.postprocess_nodes(nodes, query_str=ON_TOPIC) == judged
    made.system = "cosine"
    assert made.postprocess_nodes(nodes, query_str=ON_TOPIC) == plain
    assert made.to_dict() == changed.to_dict()
    made.url = "http://me:secret@localhost"
    with pytest.raises(DataError, match="are both given"):
        made.to_dict()
    own = made.model_copy(update={"index": None, "url": None, "system": None, "min_surprise": None})
    own.reranker = TextReranker(WordEncoder())
    assert len(own.postprocess_nodes(nodes, query_str="dog")) == 4
    with pytest.raises(DataError, match="make it from names"):
        own.to_dict()
    own.reranker = None
    assert own.to_dict()["system"] is None


def test_it_can_be_copied_after_it_has_loaded_an_index(named_index: str):
    made = SurpriseRerank(index=named_index, system="dynamax")
    nodes = [NodeWithScore(node=TextNode(id_=d.id, text=d.content)) for d in DOCUMENTS]
    expected = made.postprocess_nodes(nodes, query_str=ON_TOPIC)
    for again in (copy.deepcopy(made), made.model_copy(deep=True)):
        assert again.postprocess_nodes(nodes, query_str=ON_TOPIC) == expected
        assert again.to_dict() == made.to_dict()
    encoder = WordEncoder()
    with DocumentIndex.open(":memory:", encoder) as index:
        own = SurpriseRerank(reranker=TextReranker(encoder, stored=StoredCandidates(index)))
        for again in (copy.deepcopy(own), own.model_copy(deep=True)):
            assert again.reranker is own.reranker
            assert len(again.postprocess_nodes(nodes, query_str="dog")) == 2


def test_what_cannot_be_written_says_so():
    with pytest.raises(DataError, match="make it from names"):
        rerank().to_json()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"top_n": 0}, "greater than 0"),
        ({"index": "a", "url": "http://localhost"}, "are both given"),
        ({"url": "http://me:secret@localhost"}, "came with a password"),
        ({"reranker": TextReranker(WordEncoder()), "model": "words"}, "give one of the two"),
        ({"reranker": "words"}, "must be a TextReranker, got str"),
        ({"system": "dynmax"}, "dynamax"),
        ({"indx": "a"}, "indx"),
    ],
)
def test_bad_input_is_refused_when_it_is_made(names: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message) as refused:
        SurpriseRerank(**names)
    assert "secret" not in str(refused.value)


def test_retrieved_nodes_carry_id_text_metadata_and_score(named_index: str):
    retriever = SurpriseRetriever.load(index=named_index, system="dynamax", similarity_top_k=2)
    first, second = retriever.retrieve(ON_TOPIC)
    assert first.node_id == "dogs"
    assert first.text == DOCUMENTS[0].content
    ours = {"surprise": first.score, "surprise_verdict": "unknown"}
    assert first.metadata == {"length": 7, "topic": "dogs", "title": "dogs", **ours}
    assert first.score > second.score
    # The text begins with the title, so that no prompt has it twice.
    assert first.get_content(MetadataMode.LLM) == f"length: 7\ntopic: dogs\n\n{first.text}"
    assert asyncio.run(retriever.aretrieve(ON_TOPIC)) == [first, second]
    strict = SurpriseRetriever.load(index=named_index, system="dynamax", min_surprise=0.9)
    assert [node.node_id for node in strict.retrieve(ON_TOPIC)] == ["dogs"]
    assert strict.retrieve(OFF_TOPIC) == []


def test_filters_narrow_the_search_of_an_index():
    from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
    from qdrant_client import models

    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync(DOCUMENTS)
        chosen = MetadataFilters(filters=[MetadataFilter(key="topic", value="dogs")])
        condition = models.FieldCondition(key="metadata.topic", match=models.MatchValue(value="dogs"))
        for filters in (chosen, models.Filter(must=[condition])):
            retriever = SurpriseRetriever(index.pipeline("dynamax"), similarity_top_k=9, filters=filters)
            found = retriever.retrieve(ON_TOPIC)
            assert found
            assert {node.metadata["topic"] for node in found} == {"dogs"}


def test_the_postprocessor_finds_what_the_retriever_hands_out():
    encoder = WordEncoder()
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync(DOCUMENTS)
        encoder.encoded_texts.clear()
        nodes = SurpriseRetriever(Pipeline(encoder, DenseRetriever(index)), similarity_top_k=4).retrieve(
            "dog"
        )
        assert nodes[0].metadata == {**DOCUMENTS[0].metadata, "title": "dogs"}
        SurpriseRerank(reranker=TextReranker(encoder, stored=StoredCandidates(index))).postprocess_nodes(
            nodes, query_str="dog"
        )
    assert encoder.encoded_texts == ["dog", "dog"]


def test_a_node_of_a_long_document_is_its_best_passage():
    encoder = WordEncoder()
    text = "tea is hot . " * 10 + "dog barks at night . " + "bread is old . " * 10
    with DocumentIndex.open(
        ":memory:", encoder, options=IndexOptions(passages=Passages(6, overlap=0))
    ) as index:
        index.sync([Document("long", text)])
        (node,) = SurpriseRetriever(Pipeline(encoder, DenseRetriever(index), DynaMaxReranker())).retrieve(
            "dog barks"
        )
    assert isinstance(node.node, TextNode)
    assert "dog barks" in node.text
    assert len(node.text) < 60
    assert text[node.node.start_char_idx : node.node.end_char_idx] == node.text


def test_a_query_engine_answers_from_what_is_surprising_and_from_nothing_else(named_index: str):
    engine = RetrieverQueryEngine.from_args(
        SurpriseRetriever.load(index=named_index, system="cosine", similarity_top_k=4),
        llm=MockLLM(),
        node_postprocessors=[
            SurpriseRerank(index=named_index, system="dynamax", top_n=3),
            SimilarityPostprocessor(similarity_cutoff=0.9),
        ],
    )
    for response in (engine.query(ON_TOPIC), asyncio.run(engine.aquery(ON_TOPIC))):
        assert [node.node_id for node in response.source_nodes] == ["dogs"]
        assert "postman" in str(response)
    nothing = engine.query(OFF_TOPIC)
    assert (nothing.source_nodes, str(nothing)) == ([], "Empty Response")


def test_the_retriever_refuses_to_return_nothing():
    encoder = WordEncoder()
    with (
        DocumentIndex.open(":memory:", encoder) as index,
        pytest.raises(DataError, match="similarity_top_k must be at least 1, got 0"),
    ):
        SurpriseRetriever(Pipeline(encoder, DenseRetriever(index)), similarity_top_k=0)


def test_it_is_a_postprocessor_of_its_name():
    assert isinstance(rerank(), BaseNodePostprocessor)
    assert SurpriseRerank.class_name() == "SurpriseRerank"


def test_without_llama_index_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "llama_index"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "llama_index", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[llama-index\]'"):
        runpy.run_path(str(Path(str(llama_index.__file__))))
