"""How many copies must agree on what a search reads: in all its requests, and refused where there is one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import Opener
from qdrant_rest import QdrantRest, plain_server
from real_server import cleaned, server_url
from words import WordEncoder

from surprise_rerank import Passages
from surprise_rerank.candidates import Field
from surprise_rerank.connectors.qdrant import (
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    SearchOptions,
    SparseRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever
from surprise_rerank.connectors.qdrant.retrievers.inclusion import InclusionScored
from surprise_rerank.connectors.qdrant.search.inclusion import TokenSample
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble

DOCUMENTS = [Document(str(i), f"text number {i} of cats and dogs. " * (1 + i % 3)) for i in range(30)]
EVERYTHING: frozenset[Field] = frozenset({"dense", "tokens", "terms", "documents"})


def filled(index: DocumentIndex) -> DocumentIndex:
    index.sync(DOCUMENTS)
    questions = WordEncoder().encode(["a cat", "the dog", "no number"]).dense
    index.set_ensemble(Ensemble.from_vectors(questions, model="words"))
    return index


def retrievers(index: DocumentIndex, options: SearchOptions) -> list[Any]:
    words = SparseRetriever(index, options)
    sample = TokenSample(index.token_sample(8)[1], weighs=False)
    return [
        DenseRetriever(index, options=options),
        words,
        SurpriseRetriever(index, mode="formula", options=options),
        SurpriseRetriever(index, mode="client", options=options),
        HybridRetriever(index, words, options=options),
        InclusionScored(DenseRetriever(index, options=options), index, sample),
    ]


@pytest.mark.parametrize("passages", [None, Passages(tokens=8, overlap=0, best=2)])
def test_every_request_of_a_search_carries_it(passages: Passages | None) -> None:
    (query,) = encode_queries(WordEncoder(), ["cats of number 7"])
    with QdrantRest() as server:
        opened = DocumentIndex.open(
            None,
            WordEncoder(),
            url=server.url,
            options=IndexOptions(passages=passages),
        )
        with filled(opened) as index:
            for plain, agreeing in zip(
                retrievers(index, SearchOptions()),
                retrievers(index, SearchOptions(consistency="majority")),
                strict=True,
            ):
                expected = plain.retrieve(query, 5, EVERYTHING)
                server.seen.clear()
                found = agreeing.retrieve(query, 5, EVERYTHING)
                assert found.ids == expected.ids
                asked = [seen.path for seen in server.seen if "%401/points" in seen.path]
                assert asked
                assert all("consistency=majority" in path for path in asked)
            server.seen.clear()
            index.fetch(["1", "2"], EVERYTHING, options=SearchOptions(consistency=2))
            read = [seen.path for seen in server.seen]
            assert read
            assert all("consistency=2" in path for path in read)


@pytest.fixture(params=["rest", "grpc"])
def on_a_server(request: pytest.FixtureRequest) -> Iterator[DocumentIndex]:
    url = server_url()
    name = f"test-{uuid.uuid4()}"
    by_grpc = request.param == "grpc"
    port = int(os.environ.get("QDRANT_GRPC_PORT", (urlsplit(url).port or 6333) + 1))
    with cleaned(url, name):
        yield DocumentIndex.open(
            None,
            WordEncoder(),
            url=url,
            collection=name,
            prefer_grpc=by_grpc,
            grpc_port=port,
            options=IndexOptions(),
        )


@pytest.mark.server
@pytest.mark.parametrize("consistency", ["majority", "quorum", "all", 1])
def test_a_real_server_takes_all_of_them(on_a_server: DocumentIndex, consistency: Any) -> None:
    (query,) = encode_queries(WordEncoder(), ["cats of number 7"])
    with filled(on_a_server) as index:
        for plain, agreeing in zip(
            retrievers(index, SearchOptions()),
            retrievers(index, SearchOptions(consistency=consistency)),
            strict=True,
        ):
            expected = plain.retrieve(query, 5, EVERYTHING)
            assert set(agreeing.retrieve(query, 5, EVERYTHING).ids) == set(expected.ids)


@pytest.mark.parametrize("wrong", [0, -1, True, "most", 1.5])
def test_what_is_no_consistency_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError, match="a number of copies, from 1 on, or one of majority"):
        SearchOptions(consistency=wrong)


def test_where_there_is_one_copy_it_is_refused(open_index: Opener) -> None:
    (query,) = encode_queries(WordEncoder(), ["cats"])
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS[:3])
        retriever = DenseRetriever(index, options=SearchOptions(consistency=1))
        if index.engine == "server":
            assert len(retriever.retrieve(query, 3)) == 3
            return
        with pytest.raises(DataError, match="has one copy; leave it away"):
            retriever.retrieve(query, 3)


def test_a_collection_of_others_refuses_it() -> None:
    from surprise_rerank.connectors.attached import Collection

    server = plain_server()
    name = f"theirs-{uuid.uuid4()}"
    from qdrant_client import models

    encoder = WordEncoder()
    params = models.VectorParams(size=encoder.dimension, distance=models.Distance.COSINE)
    server.store.create_collection(name, params)
    texts = [document.text for document in DOCUMENTS]
    vectors = encoder.encode(texts).dense
    points = [
        models.PointStruct(id=i, vector=vector.tolist(), payload={"text": text})
        for i, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    server.store.upsert(name, points)
    (query,) = encode_queries(encoder, ["cats"])
    with (
        Collection.attach(server.url, name, embed=encoder, background=False) as theirs,
        pytest.raises(DataError, match="is for an index of surprise-rerank"),
    ):
        theirs.search(query, 3, options=SearchOptions(consistency="all"))
