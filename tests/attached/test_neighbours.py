"""`context=` over chunks that others made: the hosts' own splitters and stores, and plain payloads."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from helpers.foreign import foreign
from helpers.words import WordEncoder
from qdrant_client import QdrantClient

from surprise_rerank import FunctionEncoder
from surprise_rerank._pipeline import NO_NEIGHBOURS
from surprise_rerank.connectors.attached import Collection, attach_store

D = 16
SENTENCES = [
    "Cats purr on soft mats all day.",
    "Dogs bark at the moon in the night.",
    "Bread needs flour, water and salt.",
    "Stocks fell sharply on a Monday.",
    "Rivers carry sand into the sea.",
]
OTHERS = ["Birds sing in the morning light.", "Bees hum over the meadow at noon."]
TEXT, OTHER = " ".join(SENTENCES), " ".join(OTHERS)
QUESTION = "what does bread need: flour, water or salt"

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes:UserWarning")


def encoder() -> FunctionEncoder:
    words = WordEncoder(D)
    return FunctionEncoder(lambda texts: words.encode(texts).dense, name="words")


def langchain_store() -> Any:
    splitters = pytest.importorskip("langchain_text_splitters")
    store_class = pytest.importorskip("langchain_qdrant").QdrantVectorStore
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    class Words(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return WordEncoder(D).encode(texts).dense.tolist()

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    texts = [
        Document(TEXT, metadata={"source": "all.txt"}),
        Document(OTHER, metadata={"source": "birds.txt"}),
    ]
    splitter = splitters.RecursiveCharacterTextSplitter(
        chunk_size=36, chunk_overlap=0, separators=[". "], keep_separator="end", add_start_index=True
    )
    chunks = splitter.split_documents(texts)
    return store_class.from_documents(chunks, Words(), location=":memory:")


def langchain_chunks() -> Collection:
    return attach_store(langchain_store())


def llama_index_chunks() -> Collection:
    stores = pytest.importorskip("llama_index.vector_stores.qdrant")
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.schema import Document

    splitter = SentenceSplitter(chunk_size=12, chunk_overlap=0, include_metadata=False)
    nodes = splitter.get_nodes_from_documents([Document(text=TEXT), Document(text=OTHER)])
    vectors = WordEncoder(D).encode([node.get_content() for node in nodes]).dense
    for node, vector in zip(nodes, vectors, strict=True):
        node.embedding = vector.tolist()
    store = stores.QdrantVectorStore(client=QdrantClient(":memory:"), collection_name="docs")
    store.add(nodes)
    return attach_store(store, embed=encoder())


def haystack_chunks() -> Collection:
    stores = pytest.importorskip("haystack_integrations.document_stores.qdrant")
    from haystack import Document
    from haystack.components.preprocessors import DocumentSplitter

    splitter = DocumentSplitter(split_by="period", split_length=1)
    parts = splitter.run([Document(content=TEXT), Document(content=OTHER)])["documents"]
    store = stores.QdrantDocumentStore(":memory:", index="docs", embedding_dim=D, progress_bar=False)
    vectors = WordEncoder(D).encode([part.content for part in parts]).dense
    embedded = zip(parts, vectors.tolist(), strict=True)
    store.write_documents([replace(part, embedding=vector) for part, vector in embedded])
    return attach_store(store, embed=encoder())


def numbered_chunks() -> Collection:
    """What people write by hand: a parent and a number."""
    rows = [{"text": text, "parent": "all", "chunk_index": i} for i, text in enumerate(SENTENCES)]
    rows += [{"text": text, "parent": "birds", "chunk_index": i} for i, text in enumerate(OTHERS)]
    client = foreign(WordEncoder(D).encode([row["text"] for row in rows]).dense, rows)
    return Collection.attach(client, "papers", embed=encoder())


@pytest.fixture(params=[langchain_chunks, llama_index_chunks, haystack_chunks, numbered_chunks])
def chunks(request: pytest.FixtureRequest) -> Iterator[Collection]:
    with request.param() as collection:
        yield collection


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_chunk_has_the_text_of_those_around_it(chunks, count):
    pipeline = chunks.pipeline("cosine")
    (alone,) = pipeline.search(QUESTION, 1)
    ranking = pipeline.search(QUESTION, 1, context=count)
    assert NO_NEIGHBOURS not in ranking.notes
    assert alone.text.strip() == SENTENCES[2]
    assert ranking.ids == (alone.id,)
    expected = SENTENCES[max(2 - count, 0) : 3 + count]
    assert " ".join(ranking[0].text.split()) == " ".join(expected)


def test_the_first_and_the_last_of_each_text_have_one_neighbour(chunks):
    hits = chunks.pipeline("cosine").search(QUESTION, 7, context=1)
    assert len(hits) == 7
    assert sum(" ".join(hit.text.split()).count(".") for hit in hits) == (2 + 3 + 3 + 3 + 2) + (2 + 2)


def test_texts_without_a_place_say_so_beside_those_that_have_one():
    rows = [{"text": text, "chunk_index": i} for i, text in enumerate(SENTENCES)]  # of nobody knows what
    client = foreign(WordEncoder(D).encode(SENTENCES).dense, rows)
    with Collection.attach(client, "papers", embed=encoder()) as collection:
        assert NO_NEIGHBOURS in collection.pipeline("cosine").search(QUESTION, 1, context=1).notes
