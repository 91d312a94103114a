"""The components for Haystack, in Haystack's own pipelines."""

import asyncio
import copy
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from helpers.named_index import DOCUMENTS, OFF_TOPIC, ON_TOPIC
from helpers.words import WordEncoder

from surprise_rerank import CosineScorer, DataError, TextReranker
from surprise_rerank import Document as Stored
from surprise_rerank.connectors.attached._settings import PipelineSettings
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.core._extras import is_installed

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when it is imported
if not is_installed("haystack"):
    pytest.skip("the extra 'haystack' is not installed", allow_module_level=True)

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.routers import ConditionalRouter
from haystack.core.errors import DeserializationError

from surprise_rerank.connectors.haystack import SurpriseRanker, SurpriseRetriever

TEXTS = ["cats sleep all day", "the dog barks", "a dog barks at night and bites", "tea is hot"]


def documents_of(*texts: str) -> list[Document]:
    return [Document(id=f"d{i}", content=text, score=i / 10, meta={"n": i}) for i, text in enumerate(texts)]


def ranker(**more: Any) -> SurpriseRanker:
    return SurpriseRanker(reranker=TextReranker(WordEncoder()), **more)


def test_of_documents_with_one_id_the_one_with_the_highest_score_counts():
    low, high = Document(id="x", content="tea", score=0.1), Document(id="x", content="dog", score=0.2)
    without = Document(id="x", content="cat")
    (document,) = ranker().run("dog", [low, high, without])["documents"]
    assert document.content == "dog"
    empty = [Document(id="e", content=None), Document(id="f", content="")]
    assert [d.id for d in ranker().run("dog", [*empty, *documents_of("dog")])["documents"]] == [
        "d0",
        "e",
        "f",
    ]


def test_top_k_of_a_run_goes_before_that_of_the_component(named_index):
    assert len(ranker(top_k=3).run("dog", documents_of(*TEXTS), top_k=1)["documents"]) == 1
    retriever = SurpriseRetriever(index=named_index, system="dynamax", top_k=2)
    assert len(retriever.run(ON_TOPIC, top_k=1)["documents"]) == 1
    for run in (lambda: ranker().run("dog", [], top_k=0), lambda: retriever.run("dog", top_k=0)):
        with pytest.raises(ValueError, match="top_k must be a whole number of at least 1, got 0"):
            run()


def test_metadata_is_read_where_it_is_asked_for():
    encoder = WordEncoder()
    component = SurpriseRanker(reranker=TextReranker(encoder), meta_fields_to_embed=["title", "none", "year"])
    component.run("q", [Document(content="text", meta={"year": 1999, "title": "Dogs", "none": None})])
    assert encoder.encoded_texts[-1] == "Dogs\n1999\ntext"


def test_a_string_is_no_list_of_keys_and_no_document():
    with pytest.raises(DataError, match="meta_fields_to_embed must be a list of strings, got 'title'"):
        ranker(meta_fields_to_embed="title")
    with pytest.raises(DataError, match=r"documents\[0\] must be a Document, got 'dogs'"):
        ranker().run("dogs", ["dogs"])


def test_embeddings_of_documents_are_used_and_ids_in_meta_are_known():
    encoder = WordEncoder()
    component = SurpriseRanker(reranker=TextReranker(encoder, CosineScorer()))
    dense = WordEncoder().encode(TEXTS).dense
    documents = [replace(d, embedding=v.tolist()) for d, v in zip(documents_of(*TEXTS), dense, strict=True)]
    plain = component.run("dog barks", documents_of(*TEXTS))["documents"]
    encoder.encoded_texts.clear()
    ranked = component.run("dog barks", documents)["documents"]
    assert [(d.id, d.score) for d in ranked] == [(d.id, pytest.approx(d.score, abs=1e-6)) for d in plain]
    assert encoder.encoded_texts == ["dog barks", TEXTS[0]]  # one text is compared
    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync([Stored("mine", "a dog barks")])
        index.encoder.encoded_texts.clear()
        by_id = copy.deepcopy(SurpriseRanker(reranker=index.text_reranker("dynamax")))
        by_id.run("dog barks", [Document(content="?", meta={"id": "mine"})])
        assert index.encoder.encoded_texts == ["dog barks"]


@pytest.mark.parametrize("system", ["cosine", "dynamax", "fusion"])
def test_filters_pick_documents_and_those_of_a_run_replace_the_others(named_index, system):
    tea = {"field": "meta.topic", "operator": "==", "value": "tea"}
    wet = {"field": "meta.topic", "operator": "in", "value": ["tea", "boats"]}
    retriever = SurpriseRetriever(index=named_index, system=system, filters=wet)
    assert {d.id for d in retriever.run(ON_TOPIC)["documents"]} == {"tea", "boats"}
    assert [d.id for d in retriever.run(ON_TOPIC, filters=tea)["documents"]] == ["tea"]
    assert [d.id for d in asyncio.run(retriever.run_async(ON_TOPIC, tea))["documents"]] == ["tea"]
    with pytest.raises(DataError, match="a comparison has field, operator and value"):
        SurpriseRetriever(filters={"field": "id"})


def search_pipeline(index: str) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", SurpriseRetriever(index=index, system="cosine", top_k=4))
    pipeline.add_component("ranker", SurpriseRanker(index=index, system="dynamax", min_percentile=0.9))
    prompt = "{% for d in documents %}{{ d.content }}{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(prompt, required_variables=["documents"]))
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "prompt.documents")
    return pipeline


def asked(question: str) -> dict[str, dict[str, str]]:
    return {"retriever": {"query": question}, "ranker": {"query": question}}


def test_a_pipeline_answers_from_what_is_surprising_and_is_written_and_read(named_index):
    pipeline = search_pipeline(named_index)
    text = pipeline.dumps()
    answer = pipeline.run(asked(ON_TOPIC), include_outputs_from={"ranker"})
    assert [d.id for d in answer["ranker"]["documents"]] == ["dogs"]
    assert answer["prompt"]["prompt"] == DOCUMENTS[0].content
    assert asyncio.run(pipeline.run_async(asked(ON_TOPIC), include_outputs_from={"ranker"})) == answer
    assert pipeline.run(asked(OFF_TOPIC))["prompt"]["prompt"] == ""
    assert pipeline.dumps() == text  # after loading, too
    pipeline.close()
    again = Pipeline.loads(text, allowed_modules=["surprise_rerank"])
    assert again.to_dict()["components"] == pipeline.to_dict()["components"]
    for pipe in (pipeline, again):
        assert pipe.run(asked(ON_TOPIC), include_outputs_from={"ranker"}) == answer
    with pytest.raises(DeserializationError):
        Pipeline.loads(text)


@pytest.mark.parametrize("kind", [SurpriseRanker, SurpriseRetriever])
def test_a_router_sends_a_refused_question_elsewhere(named_index, kind):
    pipeline = Pipeline()
    pipeline.add_component("ours", kind(index=named_index, system="dynamax", min_percentile=0.9))
    answered = ("{{ verdict.status != 'off-topic' }}", "{{ documents }}", "found", list[Document])
    refused = ("{{ True }}", "{{ verdict.status }}: {{ verdict.reason }}", "refused", str)
    keys = ("condition", "output", "output_name", "output_type")
    routes = [dict(zip(keys, route, strict=True)) for route in (answered, refused)]
    pipeline.add_component("router", ConditionalRouter(routes, unsafe=True))
    pipeline.connect("ours.documents", "router.documents")
    pipeline.connect("ours.verdict", "router.verdict")
    documents = [Document(id=document.id, content=document.content) for document in DOCUMENTS]
    more = {"documents": documents} if kind is SurpriseRanker else {}
    answer = pipeline.run({"ours": {"query": ON_TOPIC, **more}})["router"]["found"]
    assert [(document.id, document.meta["rerank_verdict"]) for document in answer] == [("dogs", "unknown")]
    said = pipeline.run({"ours": {"query": OFF_TOPIC, **more}})["router"]["refused"]
    assert said.startswith("off-topic: ")
    if kind is SurpriseRanker:
        nothing = pipeline.get_component("ours").run(ON_TOPIC, [])
        assert (nothing["documents"], nothing["verdict"]["status"]) == ([], "no match")


def test_all_that_is_given_by_name_is_written_and_copied():
    names = {"index": "http://localhost:6333/c", "model": "m", "system": "fusion"}
    names |= {"min_percentile": 0.5, "diversity": 0.3, "collapse": 0.9}
    filters = {"field": "meta.n", "operator": ">", "value": 1}
    written = {
        SurpriseRanker: names | {"top_k": 3, "meta_fields_to_embed": ["title"]},
        SurpriseRetriever: names | {"top_k": 3, "depth": 7, "filters": filters, "unit": "document"},
    }
    for kind, parameters in written.items():
        data = kind(**parameters).to_dict()
        type_name = f"surprise_rerank.connectors.haystack.{kind.__name__}"
        assert data == {"type": type_name, "init_parameters": parameters}
        assert kind.from_dict(data).to_dict() == copy.deepcopy(kind(**parameters)).to_dict() == data
    for component, said in ((ranker(), "reranker="), (SurpriseRanker(encoder=WordEncoder()), "encoder=")):
        with pytest.raises(DataError, match=f"a SurpriseRanker that was given {said} cannot be written"):
            component.to_dict()


def test_threads_share_one_load_which_is_tried_again_after_an_error(monkeypatch):
    loads: list[TextReranker] = []

    def load(self: PipelineSettings) -> TextReranker:
        loads.append(TextReranker(WordEncoder()))
        if len(loads) == 1:
            raise DataError("not yet")
        return loads[-1]

    monkeypatch.setattr(PipelineSettings, "text_reranker", load)
    shared = SurpriseRanker(system="cosine")
    with pytest.raises(DataError, match="not yet"):
        shared.warm_up()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: shared.warm_up(), range(8)))
    copied = copy.deepcopy({"component": shared})["component"]
    copied.warm_up()
    assert len(loads) == 2
    copied.close()
    copied.warm_up()
    shared.warm_up()
    assert len(loads) == 3
    component = ranker()
    component.close()
    component.warm_up()  # what was given stays
    assert len(loads) == 3


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {"reranker": TextReranker(WordEncoder()), "model": "w"},
            "both reranker= and names",
        ),
        ({"model": "m", "encoder": len}, "are both given"),
        ({"index": "i", "background": "b"}, "index= and background= are both given"),
        ({"index": "http://me:secret@localhost/a"}, "index='http://localhost' came with a password"),
    ],
)
def test_what_contradicts_itself_or_would_write_a_secret_is_refused(names, message):
    with pytest.raises(DataError, match=message) as refused:
        SurpriseRanker(**names)
    assert "secret" not in str(refused.value)


def test_a_background_in_a_file_judges_without_an_index(tmp_path):
    others = [f"{a} {b}" for a in ("salt", "jam", "egg", "rye") for b in ("pot", "tin", "cup", "jar", "mug")]
    judging = TextReranker(WordEncoder()).with_background(others, lambda question: TEXTS)
    judging.background.save(tmp_path / "kept" / "b.npz")
    names = {"background": str(tmp_path / "kept" / "b.npz"), "min_percentile": 0.9}
    component = SurpriseRanker(encoder=WordEncoder(), system="dynamax", **names)
    ranked = component.run("dog barks", documents_of(*TEXTS))["documents"]
    assert [document.meta["percentile"] for document in ranked] == [20 / 21] * len(ranked)
    assert 0 < len(ranked) < len(TEXTS)
    assert component.run("rye mug", documents_of(*TEXTS))["documents"] == []
    nowhere = SurpriseRanker(encoder=WordEncoder(), background=str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"cannot read the background .*with_background"):
        nowhere.warm_up()
    with pytest.raises(DataError, match=r"cannot read the background .*with_background"):
        asyncio.run(nowhere.warm_up_async())
