"""The components for Haystack, in Haystack's own pipelines."""

from __future__ import annotations

import asyncio
import copy
import os
import runpy
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from named_index import DOCUMENTS, OFF_TOPIC, ON_TOPIC, named_index
from words import WordEncoder

from surprise_rerank import Document as Stored
from surprise_rerank import Pipeline as SearchPipeline
from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex
from surprise_rerank.connectors.qdrant.retrievers.stored import StoredCandidates
from surprise_rerank.core.extras import is_installed
from surprise_rerank.errors import DataError, MissingExtraError, SurpriseRerankError
from surprise_rerank.rerank.rerankers import CosineReranker
from surprise_rerank.text_reranker import TextReranker

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when it is imported
if not is_installed("haystack"):
    pytest.skip("the extra 'haystack' is not installed", allow_module_level=True)

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.core.errors import DeserializationError
from haystack.document_stores.in_memory import InMemoryDocumentStore

from surprise_rerank.connectors import haystack
from surprise_rerank.connectors.haystack import SurpriseRanker, SurpriseRetriever

__all__ = ["named_index"]

TEXTS = ["cats sleep all day", "the dog barks", "a dog barks at night and bites", "tea is hot"]


def documents_of(*texts: str) -> list[Document]:
    return [Document(id=f"d{i}", content=text, score=i / 10, meta={"n": i}) for i, text in enumerate(texts)]


def ranker(**more: Any) -> SurpriseRanker:
    return SurpriseRanker(reranker=TextReranker(WordEncoder()), **more)


def ranked(component: SurpriseRanker, query: str, documents: list[Document], **more: Any) -> list[Document]:
    """What both ways of running it give, which must be the same."""
    found: list[Document] = component.run(query, documents, **more)["documents"]
    assert asyncio.run(component.run_async(query, documents, **more))["documents"] == found
    return found


@pytest.mark.filterwarnings("error:Mutating attribute")
def test_documents_come_back_best_first_and_those_given_stay_as_they_are():
    documents = documents_of(*TEXTS)
    before = copy.deepcopy(documents)
    found = ranked(ranker(), "dog barks", documents)
    lines = TextReranker(WordEncoder()).rank("dog barks", TEXTS)
    assert [(d.id, d.score) for d in found] == [(f"d{line.position}", line.score) for line in lines]
    assert {document.id for document in found[:2]} == {"d1", "d2"}
    assert all(d.meta == {"n": int(d.id[1:])} and d.content == TEXTS[d.meta["n"]] for d in found)
    found[0].meta["n"] = 99
    assert documents == before


def test_no_documents_one_more_than_there_are_and_some_without_content():
    assert ranked(ranker(), "dog", []) == []
    assert [d.id for d in ranked(ranker(top_k=50), "dog", documents_of("dog"))] == ["d0"]
    empty = [Document(id="e", content=None), Document(id="f", content="")]
    assert [d.id for d in ranked(ranker(), "dog", [*empty, *documents_of("dog")])] == ["d0", "e", "f"]


def test_of_documents_with_one_id_the_one_with_the_highest_score_counts():
    low, high = Document(id="x", content="tea", score=0.1), Document(id="x", content="dog", score=0.2)
    without = Document(id="x", content="cat")
    (found,) = ranked(ranker(), "dog", [low, high, without])
    assert found.content == "dog"


def test_top_k_of_a_run_goes_before_that_of_the_component():
    assert len(ranked(ranker(top_k=3), "dog", documents_of(*TEXTS))) == 3
    assert len(ranked(ranker(top_k=3), "dog", documents_of(*TEXTS), top_k=1)) == 1
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"top_k must be at least 1, got {bad}"):
            ranker(top_k=bad)
        with pytest.raises(ValueError, match="top_k must be at least 1"):
            ranker().run("dog", documents_of("dog"), top_k=bad)
        with pytest.raises(ValueError, match="top_k must be at least 1"):
            asyncio.run(ranker().run_async("dog", documents_of("dog"), top_k=bad))


def test_metadata_is_read_where_it_is_asked_for():
    encoder = WordEncoder()
    component = SurpriseRanker(reranker=TextReranker(encoder), meta_fields_to_embed=["title", "none", "year"])
    component.run("q", [Document(content="text", meta={"year": 1999, "title": "Dogs", "none": None})])
    assert encoder.encoded_texts[-1] == "Dogs\n1999\ntext"


def test_documents_that_an_index_has_are_not_encoded_again():
    encoder = WordEncoder()
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync(Stored(f"d{i}", text) for i, text in enumerate(TEXTS[:3]))
        encoder.encoded_texts.clear()
        component = SurpriseRanker(reranker=TextReranker(encoder, stored=StoredCandidates(index)))
        found = component.run("dog barks", documents_of(*TEXTS))["documents"]
        assert encoder.encoded_texts == ["dog barks", TEXTS[3]]
        retriever = SurpriseRetriever(pipeline=SearchPipeline(encoder, DenseRetriever(index)))
        encoder.encoded_texts.clear()
        component.run("dog", retriever.run("dog")["documents"])
        assert encoder.encoded_texts == ["dog", "dog"]
    assert [d.id for d in found] == [
        d.id for d in ranker().run("dog barks", documents_of(*TEXTS))["documents"]
    ]


def test_what_is_not_surprising_is_left_out(named_index: str):
    component = SurpriseRanker(index=named_index, system="dynamax", min_surprise=0.9)
    documents = [Document(id=d.id, content=d.content) for d in DOCUMENTS]
    (best,) = ranked(component, ON_TOPIC, documents)
    assert best.id == "dogs"
    assert best.score == best.meta["surprise"] >= 0.9
    assert documents[0].meta == {}
    assert ranked(component, OFF_TOPIC, documents) == []


def test_a_surprise_of_an_earlier_score_does_not_stay_beside_the_new_one():
    before = Document(content="dog", meta={"surprise": 0.5, "year": 2020})
    (found,) = ranked(ranker(), "dog", [before])
    assert found.meta == {"year": 2020}
    assert before.meta == {"surprise": 0.5, "year": 2020}


@pytest.mark.parametrize("kind", [SurpriseRanker, SurpriseRetriever])
def test_a_component_can_be_copied_after_it_has_loaded_an_index(named_index: str, kind: Any):
    component = kind(index=named_index, system="dynamax")
    asked = {"query": ON_TOPIC}
    if kind is SurpriseRanker:
        asked["documents"] = [Document(id=d.id, content=d.content) for d in DOCUMENTS]
    expected = component.run(**asked)
    again = copy.deepcopy(component)
    assert again.run(**asked) == expected
    assert again.to_dict() == component.to_dict()


def test_retrieved_documents_carry_id_content_meta_and_score(named_index: str):
    retriever = SurpriseRetriever(index=named_index, system="dynamax", top_k=2)
    first, second = retriever.run(ON_TOPIC)["documents"]
    assert (first.id, first.content) == ("dogs", DOCUMENTS[0].content)
    ours = {"surprise": first.score, "surprise_verdict": "unknown"}
    assert first.meta == {"length": 7, "topic": "dogs", "title": "dogs", **ours}
    assert first.score > second.score
    assert asyncio.run(retriever.run_async(ON_TOPIC))["documents"] == [first, second]
    assert len(retriever.run(ON_TOPIC, top_k=1)["documents"]) == 1
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        retriever.run(ON_TOPIC, top_k=0)
    strict = SurpriseRetriever(index=named_index, system="dynamax", min_surprise=0.9)
    assert strict.run(OFF_TOPIC)["documents"] == []


@pytest.mark.parametrize("system", ["cosine", "dynamax", "fusion"])
def test_filters_pick_documents_and_those_of_a_run_replace_the_others(named_index: str, system: Any):
    tea = {"field": "meta.topic", "operator": "==", "value": "tea"}
    wet = {"field": "meta.topic", "operator": "in", "value": ["tea", "boats"]}
    retriever = SurpriseRetriever(index=named_index, system=system, filters=wet)
    assert {d.id for d in retriever.run(ON_TOPIC)["documents"]} == {"tea", "boats"}
    assert [d.id for d in retriever.run(ON_TOPIC, filters=tea)["documents"]] == ["tea"]
    assert [d.id for d in asyncio.run(retriever.run_async(ON_TOPIC, tea))["documents"]] == ["tea"]
    assert {d.id for d in retriever.run(ON_TOPIC)["documents"]} == {"tea", "boats"}


def test_filters_of_a_retriever_that_has_none_are_refused():
    class Everything:
        def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
            raise NotImplementedError

    retriever = SurpriseRetriever(pipeline=SearchPipeline(WordEncoder(), Everything()))
    with pytest.raises(DataError, match="not to a Everything"):
        retriever.run("dog", filters={"field": "id", "operator": "==", "value": "a"})
    with pytest.raises(DataError, match="'operator'"):
        SurpriseRetriever(filters={"field": "id"})


def search_pipeline(index: str) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", SurpriseRetriever(index=index, system="cosine", top_k=4))
    pipeline.add_component("ranker", SurpriseRanker(index=index, system="dynamax", min_surprise=0.9))
    prompt = "{% for d in documents %}{{ d.content }}{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(prompt, required_variables=["documents"]))
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "prompt.documents")
    return pipeline


def asked(question: str) -> dict[str, dict[str, str]]:
    return {"retriever": {"query": question}, "ranker": {"query": question}}


def test_a_pipeline_answers_from_what_is_surprising_and_from_nothing_else(named_index: str):
    pipeline = search_pipeline(named_index)
    answer = pipeline.run(asked(ON_TOPIC), include_outputs_from={"ranker"})
    assert [d.id for d in answer["ranker"]["documents"]] == ["dogs"]
    assert answer["prompt"]["prompt"] == DOCUMENTS[0].content
    assert asyncio.run(pipeline.run_async(asked(ON_TOPIC), include_outputs_from={"ranker"})) == answer
    assert pipeline.run(asked(OFF_TOPIC))["prompt"]["prompt"] == ""
    pipeline.close()
    assert pipeline.run(asked(ON_TOPIC), include_outputs_from={"ranker"}) == answer


def test_a_pipeline_is_written_and_read(named_index: str):
    pipeline = search_pipeline(named_index)
    text = pipeline.dumps()
    again = Pipeline.loads(text, allowed_modules=["surprise_rerank"])
    assert again.to_dict()["components"] == pipeline.to_dict()["components"]
    assert again.run(asked(ON_TOPIC)) == pipeline.run(asked(ON_TOPIC))
    assert again.to_dict()["components"] == pipeline.to_dict()["components"]  # after loading, too
    with pytest.raises(DeserializationError):
        Pipeline.loads(text)


def test_it_ranks_what_haystacks_own_retrievers_find():
    store = InMemoryDocumentStore()
    store.write_documents([Document(content=text) for text in TEXTS])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    pipeline.add_component("ranker", ranker(top_k=1))
    pipeline.connect("retriever", "ranker")
    (best,) = pipeline.run(asked("barks the dog"))["ranker"]["documents"]
    assert best.content == "the dog barks"


def test_all_that_is_given_by_name_is_written():
    names = {
        "index": None,
        "url": "http://localhost:6333",
        "collection": "c",
        "config": None,
        "model": "m",
        "system": "fusion",
        "min_surprise": 0.5,
        "top_k": 3,
        "diversity": 0.3,
        "mmr": None,
        "collapse": 0.9,
    }
    filters = {"field": "meta.n", "operator": ">", "value": 1}
    written = {
        SurpriseRanker: names | {"meta_fields_to_embed": ["title"], "background": None},
        SurpriseRetriever: names | {"depth": 7, "filters": filters},
    }
    for kind, parameters in written.items():
        data = kind(**parameters).to_dict()
        assert data == {
            "type": f"surprise_rerank.connectors.haystack.{kind.__name__}",
            "init_parameters": parameters,
        }
        assert kind.from_dict(data).to_dict() == data


def test_a_background_in_a_file_judges_without_an_index(tmp_path: Path):
    others = [f"{a} {b}" for a in ("salt", "jam", "egg", "rye") for b in ("pot", "tin", "cup", "jar", "mug")]
    judging = TextReranker(WordEncoder()).with_background(others, lambda question: TEXTS)
    judging.background.save(tmp_path / "kept" / "b.npz")
    names = {"background": str(tmp_path / "kept" / "b.npz"), "min_surprise": 0.9}
    component = SurpriseRanker(encoder=WordEncoder(), system="dynamax", **names)
    found = ranked(component, "dog barks", documents_of(*TEXTS))
    assert [document.meta["surprise"] for document in found] == [20 / 21] * len(found)
    assert 0 < len(found) < len(TEXTS)
    assert ranked(component, "rye mug", documents_of(*TEXTS)) == []
    with pytest.raises(DataError, match=r"cannot read the background .*with_background"):
        SurpriseRanker(encoder=WordEncoder(), background=str(tmp_path / "nowhere")).warm_up()
    with pytest.raises(DataError, match="given encoder= cannot be written"):
        component.to_dict()
    written = SurpriseRanker(**names).to_dict()
    assert SurpriseRanker.from_dict(written).settings.background == names["background"]


def test_embeddings_of_documents_are_used_and_ids_in_meta_are_known():
    encoder = WordEncoder()
    component = SurpriseRanker(reranker=TextReranker(encoder, CosineReranker()))
    dense = WordEncoder().encode(TEXTS).dense
    documents = [replace(d, embedding=v.tolist()) for d, v in zip(documents_of(*TEXTS), dense, strict=True)]
    plain = component.run("dog barks", documents_of(*TEXTS))["documents"]
    encoder.encoded_texts.clear()
    found = ranked(component, "dog barks", documents)
    assert [(d.id, d.score) for d in found] == [(d.id, pytest.approx(d.score, abs=1e-6)) for d in plain]
    assert encoder.encoded_texts == ["dog barks", TEXTS[0], "dog barks"]  # one text is compared, once
    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync([Stored("mine", "a dog barks")])
        index.encoder.encoded_texts.clear()
        by_id = SurpriseRanker(reranker=index.text_reranker("dynamax"))
        ranked(by_id, "dog barks", [Document(content="?", meta={"id": "mine"})])
        assert set(index.encoder.encoded_texts) == {"dog barks"}


def test_what_is_no_setting_is_told_with_the_settings():
    for kind in (SurpriseRanker, SurpriseRetriever):
        with pytest.raises(DataError, match=f"{kind.__name__} has no setting 'sytem'; did you mean 'system'"):
            kind(sytem="auto")
        with pytest.raises(DataError, match="unknown system 'atuo'; did you mean 'auto'"):
            kind(system="atuo")


def test_no_secret_is_written_and_nothing_that_has_no_name():
    for kind in (SurpriseRanker, SurpriseRetriever):
        with pytest.raises(DataError, match="came with a password") as refused:
            kind(url="http://me:secret@localhost")
        assert "secret" not in str(refused.value)
    with pytest.raises(DataError, match="a SurpriseRanker that was given reranker= cannot be written"):
        ranker().to_dict()
    encoder = WordEncoder()
    with DocumentIndex.open(":memory:", encoder) as index:
        retriever = SurpriseRetriever(pipeline=SearchPipeline(encoder, DenseRetriever(index)))
        with pytest.raises(DataError, match="a SurpriseRetriever that was given pipeline= cannot be written"):
            retriever.to_dict()


def test_nothing_is_loaded_until_it_is_needed(tmp_path: Path):
    component = SurpriseRanker(index=str(tmp_path / "nowhere"))
    retriever = SurpriseRetriever(index=str(tmp_path / "nowhere"))
    for warm_up in (component.warm_up, retriever.warm_up):
        with pytest.raises(SurpriseRerankError, match="nowhere"):
            warm_up()
    for warm_up_async in (component.warm_up_async, retriever.warm_up_async):
        with pytest.raises(SurpriseRerankError, match="nowhere"):
            asyncio.run(warm_up_async())


def test_the_event_loop_goes_on_while_documents_are_ranked():
    ticked = threading.Event()

    class Waiting(WordEncoder):
        def encode(self, *args: Any, **more: Any) -> Any:
            assert ticked.wait(10), "the event loop stood still"
            return super().encode(*args, **more)

    async def both() -> Any:
        component = SurpriseRanker(reranker=TextReranker(Waiting()))
        task = asyncio.create_task(component.run_async("dog barks", documents_of(*TEXTS)))
        await asyncio.sleep(0.01)
        ticked.set()
        return await task

    assert len(asyncio.run(both())["documents"]) == 4


def test_without_haystack_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "haystack", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[haystack\]'"):
        runpy.run_path(str(haystack.__file__))
