"""Diversity and collapsing through the interfaces: hosts, the server and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import exit_code
from serving import Log, client_of
from words import WordEncoder

from surprise_rerank import Diversity, TextReranker
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.diversity import falling
from surprise_rerank.rerank.rerankers import CosineReranker

# Two near-copies of the best answer, and two other answers.
TEXTS = (
    "a wing gives lift to a plane in still air",
    "a wing gives lift to a plane in air",
    "the lift of a wing falls at a stall",
    "drag slows every plane",
)
QUESTION = "a wing gives lift in air"
NAMES = tuple(f"d{i}" for i in range(len(TEXTS)))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DocumentIndex]:
    options = IndexOptions(passages=None, bm25=None)
    with DocumentIndex.open(tmp_path / "index", WordEncoder(64), options=options) as opened:
        opened.sync([Document(name, text) for name, text in zip(NAMES, TEXTS, strict=True)])
        yield opened


def texts(**options: Any) -> TextReranker:
    return TextReranker(WordEncoder(64), CosineReranker(), diversity=Diversity().changed(**options))


PLAIN = tuple(line.position for line in texts().rank(QUESTION, TEXTS))
BEST, COPY = PLAIN[:2]


def test_an_index_gives_pipelines_and_re_rankers_that_have_it(index: DocumentIndex) -> None:
    pipeline = index.pipeline("cosine", mmr=0.75, collapse=0.9)
    assert pipeline.diversity == Diversity(0.25, collapse=0.9)
    first, *others = pipeline.search(QUESTION)
    assert (first.id, first.duplicates) == (NAMES[BEST], (NAMES[COPY],))
    assert NAMES[COPY] not in {hit.id for hit in others}
    reranker = index.text_reranker("cosine", diversity=0.25, collapse=0.9)
    assert reranker.diversity == pipeline.diversity
    assert reranker.rank(QUESTION, TEXTS, ids=NAMES)[0].folded == (COPY,)
    with pytest.raises(DataError, match="both diversity= and mmr= are given"):
        index.pipeline("cosine", diversity=0.25, mmr=0.75)


def test_settings_take_what_a_user_would_write() -> None:
    for given in ({"mmr": 0.75}, {"diversity": 0.25}):
        assert Diversity().changed(**PipelineSettings(**given).variety) == Diversity(0.25)
    for names in ({"diversity": 2}, {"mmr": 0.5, "diversity": 0.5}, {"collapse": -0.1}):
        with pytest.raises(DataError):
            PipelineSettings(**names)


def test_scores_for_hosts_that_sort_again_keep_the_order() -> None:
    shown = falling([3.0, 1.0, 2.0, 1.0, 0.5, float("-inf")])
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) == 6
    assert shown[:2] == [3.0, 1.0]
    assert falling([3.0, 3.0, 1.0]) == [3.0, 3.0, 1.0]


def test_langchain_names_the_duplicates_in_the_metadata(index: DocumentIndex) -> None:
    langchain = pytest.importorskip("surprise_rerank.connectors.langchain")
    from langchain_core.documents import Document as Found

    found = [Found(text, id=name) for name, text in zip(NAMES, TEXTS, strict=True)]
    shown = langchain.SurpriseRerank(reranker=texts(collapse=0.9)).compress_documents(found, QUESTION)
    assert shown[0].metadata["duplicates"] == [NAMES[COPY]]
    assert "duplicates" not in shown[1].metadata
    bare = [Found(text) for text in TEXTS]
    shown = langchain.SurpriseRerank(reranker=texts(collapse=0.9)).compress_documents(bare, QUESTION)
    assert shown[0].metadata["duplicates"] == [COPY]
    retriever = langchain.SurpriseRetriever(pipeline=index.pipeline("cosine", collapse=0.9))
    assert retriever.invoke(QUESTION)[0].metadata["duplicates"] == [NAMES[COPY]]


def test_llama_index_shows_the_duplicates_to_no_model(index: DocumentIndex) -> None:
    llama = pytest.importorskip("surprise_rerank.connectors.llama_index")
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(id_=n, text=t)) for n, t in zip(NAMES, TEXTS, strict=True)]
    rerank = llama.SurpriseRerank(reranker=texts(collapse=0.9), top_n=3)
    first = rerank.postprocess_nodes(nodes, query_str=QUESTION)[0].node
    assert first.metadata["duplicates"] == [NAMES[COPY]]
    assert "duplicates" in first.excluded_llm_metadata_keys
    retriever = llama.SurpriseRetriever(index.pipeline("cosine", collapse=0.9))
    assert retriever.retrieve(QUESTION)[0].node.metadata["duplicates"] == [NAMES[COPY]]


def test_haystack_and_rerankers_name_the_duplicates() -> None:
    haystack = pytest.importorskip("surprise_rerank.connectors.haystack")
    from haystack import Document as Given

    given = [Given(id=name, content=text) for name, text in zip(NAMES, TEXTS, strict=True)]
    ranker = haystack.SurpriseRanker(reranker=texts(collapse=0.9))
    assert ranker.run(QUESTION, given)["documents"][0].meta["duplicates"] == [NAMES[COPY]]

    rerankers = pytest.importorskip("surprise_rerank.connectors.rerankers")
    results = rerankers.SurpriseRanker(texts(collapse=0.9)).rank(QUESTION, list(TEXTS), doc_ids=list(NAMES))
    assert results.results[0].document.metadata["duplicates"] == [NAMES[COPY]]


def test_pyterrier_gets_scores_that_it_can_sort_by(index: DocumentIndex) -> None:
    pyterrier = pytest.importorskip("surprise_rerank.connectors.pyterrier")
    import pandas as pd

    queries = pd.DataFrame({"qid": ["1"], "query": [QUESTION]})
    pipeline = index.pipeline("cosine", diversity=0.9)
    found = pyterrier.SurpriseRetriever(pipeline).transform(queries)
    order = pipeline.search(QUESTION).ids
    assert not (pipeline.search(QUESTION).scores[:-1] >= pipeline.search(QUESTION).scores[1:]).all()
    assert tuple(found.sort_values("score", ascending=False)["docno"]) == order
    frame = pd.DataFrame({"qid": "1", "query": QUESTION, "docno": NAMES, "text": TEXTS})
    ranked = pyterrier.SurpriseTransformer(texts(diversity=0.9)).transform(frame)
    assert ranked["score"].is_monotonic_decreasing


@pytest.fixture
def app(index: DocumentIndex) -> Any:
    server = pytest.importorskip("surprise_rerank.connectors.server")
    return server.create_app(index.text_reranker("cosine"), index.pipeline("cosine"), logger=Log().logger())


def test_the_server_takes_it_with_every_request(app: Any) -> None:
    client = client_of(app)
    asked = {"query": QUESTION, "documents": list(TEXTS)}
    plain = client.post("/v1/rerank", json=asked).json()["results"]
    assert [result["index"] for result in plain] == list(PLAIN)
    assert "duplicates" not in plain[0]
    folded = client.post("/v1/rerank", json={**asked, "collapse": 0.9}).json()["results"]
    assert [result["index"] for result in folded] == [i for i in PLAIN if i != COPY]
    assert folded[0]["duplicates"] == [COPY]
    diverse = client.post("/v2/rerank", json={**asked, "mmr": 0.1}).json()["results"]
    assert [result["index"] for result in diverse] != list(PLAIN)
    shown = [result["relevance_score"] for result in diverse]
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) == len(shown)
    search = {"query": QUESTION, "top_k": 2}
    hits = client.post("/v1/search", json={**search, "collapse": 0.9}).json()["results"]
    assert (hits[0]["id"], hits[0]["duplicates"]) == (NAMES[BEST], [NAMES[COPY]])
    assert client.post("/v1/search", json=search).json()["results"][0]["duplicates"] == []
    for wrong in ({"diversity": 0.3, "mmr": 0.7}, {"collapse": 95}, {"diversity": "much"}):
        assert client.post("/v1/search", json={**search, **wrong}).status_code == 422


def test_what_a_server_was_started_with_can_be_said_otherwise(index: DocumentIndex) -> None:
    server = pytest.importorskip("surprise_rerank.connectors.server")
    pipeline, reranker = index.pipeline("cosine", collapse=0.9), index.text_reranker("cosine", collapse=0.9)
    client = client_of(server.create_app(reranker, pipeline, logger=Log().logger()))
    asked = {"query": QUESTION, "documents": list(TEXTS)}
    assert len(client.post("/v1/rerank", json=asked).json()["results"]) == len(TEXTS) - 1
    assert len(client.post("/v1/rerank", json={**asked, "collapse": 1.0}).json()["results"]) == len(TEXTS)
    # Clients of Text Embeddings Inference expect a rank for each text.
    tei = client.post("/rerank", json={"query": QUESTION, "texts": list(TEXTS)})
    assert len(tei.json()) == len(TEXTS)


def test_the_command_line_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from surprise_rerank.eval.cli.surprise_rerank import search_results
    from surprise_rerank.eval.cli.surprise_rerank.main import main

    folder = tmp_path / "edge"
    with DocumentIndex.open(folder, WordEncoder(64), options=IndexOptions(passages=None)) as opened:
        opened.sync([Document(name, text) for name, text in zip(NAMES, TEXTS, strict=True)])
    monkeypatch.setattr(search_results, "model_of", lambda *_: WordEncoder(64))

    def search(*options: str) -> str:
        assert exit_code(main, "surprise-rerank", "search", QUESTION, *options) == 0
        return capsys.readouterr().out

    here = ("--index", str(folder), "--system", "cosine")
    hits = json.loads(search(*here, "--collapse", ".9", "--json"))["hits"]
    assert (hits[0]["id"], hits[0]["duplicates"]) == (NAMES[BEST], [NAMES[COPY]])
    first = search(*here, "--collapse", ".9").splitlines()[1].split("\t")
    assert first[2:4] == [NAMES[BEST], NAMES[COPY]]
