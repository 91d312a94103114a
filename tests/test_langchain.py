"""The LangChain adapters, in LangChain's own retrievers and chains."""

from __future__ import annotations

import asyncio
import copy
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from words import WordEncoder

pytest.importorskip("langchain_core")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.langchain import SurpriseRerank, SurpriseRetriever
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.systems.loading import pipeline_of, text_reranker_of
from surprise_rerank.documents import Document as Stored
from surprise_rerank.errors import DataError, MissingExtraError, StoreError
from surprise_rerank.text_reranker import TextReranker

TEXTS = ["cats sleep all day", "dogs bark at night", "the dogs of the night bark", "a wing gives lift"]
OFF_TOPIC = [f"x{i} y{i} z{i % 3}" for i in range(19)]
QUESTION = "dogs bark"


@pytest.fixture
def index() -> Iterator[DocumentIndex]:
    encoder = WordEncoder(64)
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync(Stored(str(i), text, metadata={"i": i}) for i, text in enumerate(TEXTS))
        index.sync([Stored("titled", "howl at the moon", title="Wolves", metadata={"tags": ["a"]})])
        encoder.encoded_texts.clear()
        yield index


@pytest.fixture
def fresh() -> SurpriseRerank:
    return SurpriseRerank(reranker=TextReranker(WordEncoder(64)))


def with_background(encoder: WordEncoder, **more: Any) -> TextReranker:
    judged = TextReranker(encoder).with_background(OFF_TOPIC, lambda _: TEXTS)
    return TextReranker(encoder, background=judged.background, **more)


def documents(texts: list[str] = TEXTS) -> list[Document]:
    return [Document(text, id=f"d{i}", metadata={"i": i, "deep": [i]}) for i, text in enumerate(texts)]


def test_documents_come_back_in_order_with_their_score(fresh: SurpriseRerank) -> None:
    assert isinstance(fresh, BaseDocumentCompressor)
    found = fresh.compress_documents(documents(), QUESTION)
    assert [d.id for d in found][:2] == ["d1", "d2"]
    assert len(found) == fresh.top_n == 3
    scores = [d.metadata["relevance_score"] for d in found]
    assert scores == sorted(scores, reverse=True)
    assert {type(score) for score in scores} == {float}
    assert "surprise" not in found[0].metadata
    assert found[0].metadata["deep"] == [1]


@given(st.lists(st.sampled_from([*TEXTS, ""]), max_size=6), st.integers(1, 8) | st.none())
def test_what_comes_back_are_copies_of_what_was_given_each_once(texts: list[str], top_n: int | None) -> None:
    rerank = SurpriseRerank(reranker=TextReranker(WordEncoder()), top_n=top_n)
    given = documents(texts)
    before = copy.deepcopy(given)
    found = rerank.compress_documents(given, QUESTION)
    assert given == before
    assert len(found) == min(len(texts), top_n or len(texts))
    places = [d.metadata["i"] for d in found]
    assert len(set(places)) == len(places)
    assert all(found[n].page_content == texts[i] for n, i in enumerate(places))
    assert not {id(d) for d in found} & {id(d) for d in given}


def test_duplicate_ids_and_none_at_all_are_harmless(fresh: SurpriseRerank, index: DocumentIndex) -> None:
    stored = SurpriseRerank(reranker=text_reranker_of(index, "dynamax"), top_n=None)
    for rerank in (fresh, stored):
        twice = [Document(text, id="1") for text in ("dogs bark at night", "dogs bark at night")]
        assert len(rerank.compress_documents(twice, QUESTION)) == 2
        assert rerank.compress_documents([], QUESTION) == []
        assert len(rerank.compress_documents([Document("alone")], QUESTION)) == 1


def test_stored_documents_are_not_encoded(index: DocumentIndex) -> None:
    rerank = SurpriseRerank(reranker=text_reranker_of(index, "dynamax"), top_n=None)
    given = [
        Document(TEXTS[0], id="0"),
        Document(TEXTS[1], id="1", metadata={"id": "0"}),
        Document("a stray dogs song", id="unknown", metadata={"id": "3"}),
        Document("another song", metadata={"id": "2"}),
    ]
    found = rerank.compress_documents(given, QUESTION)
    assert index.encoder.encoded_texts == [QUESTION, "a stray dogs song", "another song"]  # type: ignore[attr-defined]
    assert found[0].page_content == TEXTS[1]


def test_parts_of_a_split_document_are_ranked_each_by_its_own_text(index: DocumentIndex) -> None:
    rerank = SurpriseRerank(reranker=text_reranker_of(index, "dynamax"), top_n=None)
    # What a splitter makes: metadata are copied, with the id of a retriever, but no `Document.id`.
    parts = [Document(text, metadata={"id": "3"}) for text in ("tea is hot", "dogs bark", "a wing")]
    found = rerank.compress_documents(parts, QUESTION)
    assert found[0].page_content == "dogs bark"
    assert found[0].metadata["relevance_score"] > found[1].metadata["relevance_score"]


def test_the_stored_id_may_stand_in_metadata_where_that_is_said(index: DocumentIndex) -> None:
    rerank = SurpriseRerank(reranker=text_reranker_of(index, "dynamax"), top_n=None, id_key="source")
    given = [
        Document(TEXTS[1], id="of the store", metadata={"source": "1"}),
        Document("a stray dogs song", id="0"),
        Document("another song", metadata={"source": 3}),
    ]
    found = rerank.compress_documents(given, QUESTION)
    assert index.encoder.encoded_texts == [QUESTION, "a stray dogs song", "another song"]  # type: ignore[attr-defined]
    assert asyncio.run(rerank.acompress_documents(given, QUESTION)) == found
    assert found[0].page_content == TEXTS[1]


def test_the_id_of_a_point_of_langchain_qdrant_is_known_without_being_told(index: DocumentIndex) -> None:
    rerank = SurpriseRerank(reranker=text_reranker_of(index, "dynamax"), top_n=None)
    given = [
        Document("?", metadata={"_id": "1"}),
        Document("?", metadata={"_id": 0}),
        Document("?", id="of another store", metadata={"_id": "2"}),
        Document("?", id="3", metadata={"_id": "0"}),
    ]
    rerank.compress_documents(given, QUESTION)
    assert index.encoder.encoded_texts == [QUESTION]  # type: ignore[attr-defined]


def test_a_function_is_an_encoder_by_name(fresh: SurpriseRerank) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return WordEncoder(64).encode(texts).dense.tolist()

    found = SurpriseRerank.load(encoder=embed, top_n=1).compress_documents(documents(), QUESTION)
    assert found[0].id in {"d1", "d2"}
    assert SurpriseRerank.load(encoder=embed, system="auto").reranker.rank(QUESTION, TEXTS)


def test_the_retriever_hands_out_the_stored_id_whatever_metadata_call_so(index: DocumentIndex) -> None:
    index.sync([Stored("mine", "howl howl", metadata={"id": "other", "title": "own"})])
    found = {d.id: d for d in SurpriseRetriever(pipeline=pipeline_of(index, "cosine")).invoke("howl", k=9)}
    assert {d.metadata["id"] for d in found.values()} == found.keys()
    assert found["mine"].metadata["title"] == "own"


def test_a_surprise_of_an_earlier_score_does_not_stay_beside_the_new_one(fresh: SurpriseRerank) -> None:
    judged = SurpriseRerank(reranker=with_background(WordEncoder(64)), top_n=None)
    found = judged.compress_documents(documents(), QUESTION)
    again = fresh.compress_documents(found, QUESTION)
    assert all("surprise" in d.metadata for d in found)
    assert [d.metadata.keys() for d in again] == [{"i", "deep", "relevance_score"}] * 3


def test_a_background_makes_the_score_a_surprise_and_refuses_what_is_off_topic() -> None:
    encoder = WordEncoder(64)
    shown = SurpriseRerank(reranker=with_background(encoder), top_n=None)
    found = shown.compress_documents(documents(), QUESTION)
    assert found[0].metadata["relevance_score"] == found[0].metadata["surprise"] == 0.95
    strict = SurpriseRerank(reranker=with_background(encoder, min_surprise=0.9))
    assert strict.compress_documents(documents(), QUESTION)[0].id == "d1"
    assert strict.compress_documents(documents(), "x99 y99 z99") == []


def test_the_async_twin_does_the_same_and_lets_the_loop_go_on(fresh: SurpriseRerank) -> None:
    async def both() -> tuple[Any, int]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(count())
        found = await fresh.acompress_documents(documents(TEXTS * 50), QUESTION)
        beside.cancel()
        return found, turns

    found, turns = asyncio.run(both())
    assert found == fresh.compress_documents(documents(TEXTS * 50), QUESTION)
    assert turns > 1


@pytest.mark.parametrize("top_n", [0, -1])
def test_numbers_that_make_no_sense_are_refused(
    fresh: SurpriseRerank, index: DocumentIndex, top_n: int
) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        SurpriseRerank(reranker=fresh.reranker, top_n=top_n)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        SurpriseRetriever(pipeline=pipeline_of(index), k=top_n)
    with pytest.raises(ValueError, match="instance of TextReranker"):
        SurpriseRerank(reranker=WordEncoder())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Extra inputs"):
        SurpriseRerank(reranker=fresh.reranker, top_k=3)  # type: ignore[call-arg]


def test_the_retriever_hands_out_what_is_stored(index: DocumentIndex) -> None:
    retriever = SurpriseRetriever(pipeline=pipeline_of(index, "dynamax"))
    assert isinstance(retriever, BaseRetriever)
    found = {d.id: d for d in retriever.invoke("wolves howl", k=5)}
    assert len(found) == 5
    assert len(retriever.invoke(QUESTION)) == retriever.k == 4
    titled = found["titled"]
    assert titled.page_content == "Wolves howl at the moon"
    kept = {key: titled.metadata[key] for key in ("id", "title", "tags")}
    assert kept == {"id": "titled", "title": "Wolves", "tags": ["a"]}
    assert found["1"].metadata.keys() == {"id", "i", "relevance_score"}
    assert titled.metadata["relevance_score"] > found["3"].metadata["relevance_score"]


def test_a_filter_of_qdrant_narrows_the_search(index: DocumentIndex) -> None:
    early = models.Filter(must=[models.FieldCondition(key="metadata.i", range=models.Range(lte=2))])
    late = models.Filter(must=[models.FieldCondition(key="metadata.i", range=models.Range(gte=2))])
    retriever = SurpriseRetriever(pipeline=pipeline_of(index, "dynamax"))
    assert {d.id for d in retriever.invoke(QUESTION, filter=early)} == {"0", "1", "2"}
    narrowed = retriever.model_copy(update={"filter": late})
    assert {d.id for d in narrowed.invoke(QUESTION)} == {"2", "3"}
    assert [d.id for d in narrowed.invoke(QUESTION, filter=early)] == ["2"]
    elsewhere = replace(retriever.pipeline, retriever=Elsewhere())
    with pytest.raises(DataError, match="go to a retriever of an index, not to a Elsewhere"):
        SurpriseRetriever(pipeline=elsewhere).invoke(QUESTION, filter=early)


class Elsewhere:
    """A retriever of somebody else's, without filters."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        raise AssertionError("never asked")


def test_a_pipeline_with_a_background_answers_off_topic_questions_with_nothing(index: DocumentIndex) -> None:
    judged = pipeline_of(index, "dynamax").with_background(OFF_TOPIC)
    found = SurpriseRetriever(pipeline=judged).invoke(QUESTION)
    assert found[0].metadata["surprise"] == found[0].metadata["relevance_score"] == 0.95
    strict = SurpriseRetriever(pipeline=replace(judged, min_surprise=0.9))
    assert strict.invoke("x99 y99 z99") == []
    assert strict.invoke(QUESTION) != []


class Recorder(BaseCallbackHandler):
    """Which retriever events came, with how many documents."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
        self.events.append((kwargs["name"], 0))

    def on_retriever_end(self, documents: Any, **kwargs: Any) -> None:
        self.events.append(("end", len(documents)))


def test_both_work_in_a_compression_retriever_with_callbacks(index: DocumentIndex) -> None:
    pytest.importorskip("langchain_classic")
    from langchain_classic.retrievers import ContextualCompressionRetriever

    two_stages = ContextualCompressionRetriever(
        base_compressor=SurpriseRerank(reranker=text_reranker_of(index, "dynamax"), top_n=2),
        base_retriever=SurpriseRetriever(pipeline=pipeline_of(index, "cosine"), k=5),
    )
    recorder = Recorder()
    found = two_stages.invoke(QUESTION, config={"callbacks": [recorder]})
    assert [d.id for d in found] == ["1", "2"]
    names = [("ContextualCompressionRetriever", 0), ("SurpriseRetriever", 0), ("end", 5), ("end", 2)]
    assert recorder.events == names
    assert index.encoder.encoded_texts == [QUESTION, QUESTION]  # type: ignore[attr-defined]
    assert asyncio.run(two_stages.ainvoke(QUESTION)) == found


def test_both_work_in_chains(index: DocumentIndex, fresh: SurpriseRerank) -> None:
    retriever = SurpriseRetriever(pipeline=pipeline_of(index, "cosine"), k=3)
    best = RunnableLambda(lambda given: fresh.compress_documents(given["context"], given["question"])[0].id)
    chain = {"context": retriever, "question": RunnablePassthrough()} | best
    assert chain.invoke(QUESTION) == "1"
    assert chain.batch([QUESTION, "wing lift"]) == ["1", "3"]
    assert asyncio.run(chain.abatch([QUESTION, "wing lift"])) == ["1", "3"]
    assert asyncio.run(retriever.ainvoke(QUESTION, k=1)) == retriever.invoke(QUESTION, k=1)


def test_names_are_enough_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        SurpriseRetriever.load(index=str(tmp_path / "nowhere"), k=2)
    with pytest.raises(DataError, match=r"SurpriseRerank has no setting 'top_k'; .*top_n, url"):
        SurpriseRerank.load(top_k=2)
    with pytest.raises(DataError, match="no setting 'sytem'; did you mean 'system'"):
        SurpriseRerank.load(sytem="auto")
    with pytest.raises(DataError, match="SurpriseRetriever has no setting 'sytem'; did you mean 'system'"):
        SurpriseRetriever.load(sytem="auto")
    with pytest.raises(DataError, match="unknown system 'atuo'; did you mean 'auto'"):
        SurpriseRerank.load(system="atuo")


def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core.callbacks", None)
    monkeypatch.delitem(sys.modules, "surprise_rerank.connectors.langchain")
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[langchain\]'"):
        importlib.import_module("surprise_rerank.connectors.langchain")
