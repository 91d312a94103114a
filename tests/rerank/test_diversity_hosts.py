"""Diversity and collapsing through the interfaces: hosts, the server and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts import HOSTS, Host
from hypothesis import given
from hypothesis import strategies as st
from serving import Log, client_of
from words import WordEncoder

from surprise_rerank import Diversity, TextReranker
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


@given(st.lists(st.floats(-9, 9) | st.just(-np.inf), max_size=8))
def test_scores_for_hosts_that_sort_again_keep_the_order(scores: list[float]) -> None:
    shown = falling(scores)
    assert shown == sorted(shown, reverse=True)
    assert falling(shown) == shown


@pytest.mark.parametrize("host", HOSTS)
def test_hosts_name_the_duplicates_in_the_metadata(host: Host, index: DocumentIndex) -> None:
    documents = [host.document(name, text, {}) for name, text in zip(NAMES, TEXTS, strict=True)]
    ranker = host.ranker(texts(collapse=0.9))
    first, second = (own.meta for own in host.rank(ranker, documents, QUESTION)[:2])
    assert first["duplicates"] == [NAMES[COPY]]
    assert "duplicates" not in second
    if host.module == "llama_index":
        node = ranker.postprocess_nodes(documents, query_str=QUESTION)[0].node
        assert "duplicates" in node.excluded_llm_metadata_keys
    if hasattr(host.adapter, "SurpriseRetriever"):
        retriever = host.retriever(index.pipeline("cosine", collapse=0.9))
        assert host.retrieve(retriever, QUESTION)[0].meta["duplicates"] == [NAMES[COPY]]


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


def test_the_server_takes_it_with_every_request(index: DocumentIndex) -> None:
    server = pytest.importorskip("surprise_rerank.connectors.server")

    def client_with(**own: Any) -> Any:
        reranker, pipeline = index.text_reranker("cosine", **own), index.pipeline("cosine", **own)
        return client_of(server.create_app(reranker, pipeline, logger=Log().logger()))

    client, started = client_with(), client_with(collapse=0.9)
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
    # What a server was started with can be said otherwise.
    assert len(started.post("/v1/rerank", json=asked).json()["results"]) == len(TEXTS) - 1
    assert len(started.post("/v1/rerank", json={**asked, "collapse": 1.0}).json()["results"]) == len(TEXTS)
    # Clients of Text Embeddings Inference expect a rank for each text.
    tei = started.post("/rerank", json={"query": QUESTION, "texts": list(TEXTS)})
    assert len(tei.json()) == len(TEXTS)
