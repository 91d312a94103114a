"""Collections that LangChain, LlamaIndex, Haystack and Mem0 made, attached from their own stores."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models
from real_server import server_url
from words import WordEncoder

from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.attached.hosts import attach_store
from surprise_rerank.core.extras import is_installed
from surprise_rerank.errors import DataError

D = 256
TEXTS = [
    "cats sleep all day",
    "dogs bark at night",
    "the dogs of the night bark at cats",
    "a wing gives lift",
    "birds fly on a wing",
    "bread is made of flour",
    "flour and water make bread",
    "the moon pulls the sea",
    "the sea is deep and salt",
    "trains run on time",
    "a train leaves at night",
    "salt goes into bread",
]
KINDS = ["animal"] * 3 + ["air"] * 2 + ["food"] * 2 + ["water"] * 2 + ["travel"] * 2 + ["food"]
METADATA = [{"n": i, "id": f"own {i}", "kind": kind, "deep": [i, kind]} for i, kind in enumerate(KINDS)]
QUESTION = "dogs bark at the moon"
OFF_TOPIC = [f"x{i} y{i} z{i % 3}" for i in range(39)]


class Counting:
    """What embeds for a host, and remembers the texts."""

    def __init__(self) -> None:
        self.model, self.texts = WordEncoder(D), list[str]()

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [[float(x) for x in row] for row in self.model.encode(texts).dense]


class Host:
    """A collection of texts as a framework makes it; `make` fills it, embedded by `counting`."""

    def __init__(
        self,
        url: str | None = None,
        name: str = "docs",
        texts: list[str] = TEXTS,
        rows: list[dict[str, Any]] = METADATA,
        **more: Any,
    ) -> None:
        self.counting = Counting()
        self.make(url, name, texts, rows, **more)


class LangChain(Host):
    """A collection of langchain-qdrant."""

    def make(
        self, url: str | None, name: str, texts: list[str], rows: list[dict[str, Any]], **more: Any
    ) -> None:
        from langchain_core.embeddings import Embeddings
        from langchain_qdrant import QdrantVectorStore

        counting = self.counting

        class Embedder(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return counting(texts)

            def embed_query(self, text: str) -> list[float]:
                return counting([text])[0]

        made = QdrantVectorStore.from_texts(
            texts, Embedder(), metadatas=rows, collection_name=name, **at(url), **more
        )
        self.store, self.client, self.embed = made, made.client, None
        self.asked = made.as_retriever(search_kwargs={"k": 8})

    def found(self, question: str) -> list[Any]:
        return self.asked.invoke(question)

    def ranker(self, store: Any, **settings: Any) -> Any:
        from surprise_rerank.connectors.langchain import SurpriseRerank

        return SurpriseRerank.attach(store, top_n=5, **settings)

    def ranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return ranker.compress_documents(documents, question)

    async def aranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return await ranker.acompress_documents(documents, question)

    def retriever(self, store: Any, **settings: Any) -> Any:
        from surprise_rerank.connectors.langchain import SurpriseRetriever

        return SurpriseRetriever.attach(store, k=5, **settings)

    def retrieved(self, retriever: Any, question: str) -> list[Any]:
        return retriever.invoke(question)

    async def aretrieved(self, retriever: Any, question: str) -> list[Any]:
        return await retriever.ainvoke(question)

    def among(self, store: Any, kind: str, question: str, **settings: Any) -> list[Any]:
        condition = models.FieldCondition(key="metadata.kind", match=models.MatchValue(value=kind))
        chosen = models.Filter(must=[condition])
        (asked, own) = (self.retriever(store, **settings), self.retriever(store, filter=chosen, **settings))
        found = asked.invoke(question, filter=chosen)
        again = asyncio.run(asked.ainvoke(question, filter=chosen))
        assert [d.id for d in found] == [d.id for d in own.invoke(question)] == [d.id for d in again]
        return found

    def view(self, document: Any) -> tuple[str, dict[str, Any], float]:
        meta = document.metadata
        return document.page_content, {key: meta[key] for key in METADATA[0]}, meta["relevance_score"]


class LlamaIndex(Host):
    """A collection of llama-index-vector-stores-qdrant, below a `VectorStoreIndex`."""

    def make(
        self, url: str | None, name: str, texts: list[str], rows: list[dict[str, Any]], **more: Any
    ) -> None:
        from llama_index.core import StorageContext, VectorStoreIndex
        from llama_index.core.embeddings import BaseEmbedding
        from llama_index.core.schema import TextNode
        from llama_index.vector_stores.qdrant import QdrantVectorStore

        counting = self.counting

        class Embedder(BaseEmbedding):
            def _get_text_embedding(self, text: str) -> list[float]:
                return counting([text])[0]

            _get_query_embedding = _get_text_embedding

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return counting([query])[0]

        self.client, self.embed = QdrantClient(**at(url)), Embedder()
        self.vectors = QdrantVectorStore(client=self.client, collection_name=name, **more)
        nodes = [
            # Only the text is embedded, as everywhere in these tests.
            TextNode(text=text, metadata=meta, excluded_embed_metadata_keys=list(meta))
            for text, meta in zip(texts, rows, strict=True)
        ]
        context = StorageContext.from_defaults(vector_store=self.vectors)
        self.store = VectorStoreIndex(nodes, storage_context=context, embed_model=self.embed)
        self.asked = self.store.as_retriever(similarity_top_k=8)

    def found(self, question: str) -> list[Any]:
        return self.asked.retrieve(question)

    def ranker(self, store: Any, **settings: Any) -> Any:
        from surprise_rerank.connectors.llama_index import SurpriseRerank

        return SurpriseRerank.attach(store, top_n=5, **settings)

    def ranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return ranker.postprocess_nodes(documents, query_str=question)

    async def aranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return await ranker.apostprocess_nodes(documents, query_str=question)

    def retriever(self, store: Any, **settings: Any) -> Any:
        from surprise_rerank.connectors.llama_index import SurpriseRetriever

        return SurpriseRetriever.attach(store, **{"similarity_top_k": 5, **settings})

    def retrieved(self, retriever: Any, question: str) -> list[Any]:
        return retriever.retrieve(question)

    async def aretrieved(self, retriever: Any, question: str) -> list[Any]:
        return await retriever.aretrieve(question)

    def among(self, store: Any, kind: str, question: str, **settings: Any) -> list[Any]:
        from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

        filters = MetadataFilters(filters=[MetadataFilter(key="kind", value=kind)])
        condition = models.FieldCondition(key="kind", match=models.MatchValue(value=kind))
        own = self.retriever(store, filters=models.Filter(must=[condition]), **settings)
        found = self.retrieved(self.retriever(store, filters=filters, **settings), question)
        assert [own.node_id for own in found] == [own.node_id for own in own.retrieve(question)]
        return found

    def view(self, document: Any) -> tuple[str, dict[str, Any], float]:
        meta = document.node.metadata
        return document.node.text, {key: meta[key] for key in METADATA[0]}, document.score


class Haystack(Host):
    """A collection of qdrant-haystack."""

    def make(self, url: str | None, name: str, texts: list[str], rows: list[dict[str, Any]]) -> None:
        from haystack import Document, component
        from haystack_integrations.components.retrievers.qdrant import QdrantEmbeddingRetriever
        from haystack_integrations.document_stores.qdrant import QdrantDocumentStore

        counting = self.counting

        @component
        class TextEmbedder:
            @component.output_types(embedding=list[float])
            def run(self, text: str) -> dict[str, list[float]]:
                return {"embedding": counting([text])[0]}

        self.embed = TextEmbedder()
        self.store = QdrantDocumentStore(
            **at(url), index=name, embedding_dim=D, similarity="cosine", progress_bar=False
        )
        self.store.write_documents(
            [
                Document(content=text, meta=meta, embedding=counting([text])[0])
                for text, meta in zip(texts, rows, strict=True)
            ]
        )
        self.client = self.store._client
        self.asked = QdrantEmbeddingRetriever(self.store, top_k=8)

    def found(self, question: str) -> list[Any]:
        return self.asked.run(self.embed.run(question)["embedding"])["documents"]

    def ranker(self, store: Any, **settings: Any) -> Any:
        from surprise_rerank.connectors.haystack import SurpriseRanker, SurpriseRerank

        assert SurpriseRerank is SurpriseRanker
        return SurpriseRanker.attach(store, **{"embed": self.embed, "top_k": 5, **settings})

    def ranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return ranker.run(question, documents)["documents"]

    async def aranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return (await ranker.run_async(question, documents))["documents"]

    def retriever(self, store: Any, **settings: Any) -> Any:
        from surprise_rerank.connectors.haystack import SurpriseRetriever

        return SurpriseRetriever.attach(store, **{"embed": self.embed, "top_k": 5, **settings})

    def retrieved(self, retriever: Any, question: str) -> list[Any]:
        return retriever.run(question)["documents"]

    async def aretrieved(self, retriever: Any, question: str) -> list[Any]:
        return (await retriever.run_async(question))["documents"]

    def among(self, store: Any, kind: str, question: str, **settings: Any) -> list[Any]:
        filters = {"field": "meta.kind", "operator": "==", "value": kind}
        own = self.retriever(store, filters=filters, **settings)
        found = self.retriever(store, **settings).run(question, filters=filters)["documents"]
        assert [d.id for d in found] == [d.id for d in own.run(question)["documents"]]
        return found

    def view(self, document: Any) -> tuple[str, dict[str, Any], float]:
        return document.content, {key: document.meta[key] for key in METADATA[0]}, document.score


def at(url: str | None) -> dict[str, Any]:
    """Where a store is, for its client."""
    return {"location": ":memory:"} if url is None else {"url": url}


def needs(module: str, host: type, *marks: Any) -> Any:
    missing = pytest.mark.skipif(not is_installed(module), reason=f"{module} is not installed")
    name = host.__name__ + (" on a server" if marks else "")
    return pytest.param((host, bool(marks)), marks=(missing, *marks), id=name)


Host = LangChain | LlamaIndex | Haystack


STORES = (
    ("langchain_qdrant", LangChain),
    ("llama_index.vector_stores.qdrant", LlamaIndex),
    ("haystack_integrations.document_stores.qdrant", Haystack),
)


@pytest.fixture(params=[needs(*store, *marks) for marks in ((), (pytest.mark.server,)) for store in STORES])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    make, on_a_server = request.param
    if not on_a_server:
        yield make()
        return
    made = make(server_url(), f"test-{uuid.uuid4()}")
    yield made
    for found in collections(made):
        made.client.delete_collection(found)


def name_of(host: Host) -> str:
    """The collection's name."""
    store = host.vectors if isinstance(host, LlamaIndex) else host.store
    return store.index if isinstance(host, Haystack) else store.collection_name


def collections(host: Host) -> list[str]:
    """The host's collection, and what lies beside it."""
    there = [found.name for found in host.client.get_collections().collections]
    return [found for found in there if found.startswith(name_of(host))]


def everything(host: Host) -> str:
    """All points of a host's collection, as one string.

    Local mode divides what it stores by its length with every search, so the last bits of vectors drift.
    """
    records, _ = host.client.scroll(name_of(host), limit=100, with_vectors=True)
    points = [record.model_dump(mode="json") for record in records]
    return json.dumps(json.loads(json.dumps(points), parse_float=lambda own: f"{float(own):.5f}"))


def attached(host: Host, **settings: Any) -> Collection:
    return attach_store(host.store, embed=host.embed, **settings)


@pytest.mark.parametrize("system", [None, "surprise"])
def test_what_a_host_found_is_ranked_by_its_stored_vectors(host: Host, system: str | None):
    found = host.found(QUESTION)
    before = everything(host)
    ranker = host.ranker(host.store, system=system)
    host.counting.texts.clear()
    ranked = host.ranked(ranker, found, QUESTION)
    assert host.counting.texts == [QUESTION]  # no document is encoded, and nothing else
    assert everything(host) == before
    assert_same(host, asyncio.run(host.aranked(ranker, found, QUESTION)), ranked)
    scores = [host.view(own)[2] for own in ranked]
    assert scores == sorted(scores, reverse=True)
    assert len(ranked) == 5
    for text, meta, _ in map(host.view, ranked):
        assert meta == METADATA[TEXTS.index(text)]
    if system in (None, "cosine"):
        # What the host ranks by, too. It has its order already.
        assert [host.view(own)[0] for own in ranked] == [text_of(own) for own in found][:5]


def assert_same(host: Host, some: list[Any], others: list[Any]) -> None:
    assert [host.view(own)[:2] for own in some] == [host.view(own)[:2] for own in others]
    scores = [host.view(own)[2] for own in others]
    assert [host.view(own)[2] for own in some] == pytest.approx(scores, abs=1e-6)


def text_of(document: Any) -> str:
    """The text of any host's document."""
    if hasattr(document, "node"):
        return document.node.text
    return document.page_content if hasattr(document, "page_content") else document.content


def test_a_retriever_searches_the_collection(host: Host):
    retriever = host.retriever(host.store, system="cosine")
    host.counting.texts.clear()
    found = host.retrieved(retriever, QUESTION)
    assert host.counting.texts == [QUESTION]
    assert_same(host, asyncio.run(host.aretrieved(retriever, QUESTION)), found)
    assert [host.view(own)[0] for own in found] == [text_of(own) for own in host.found(QUESTION)][:5]
    for text, meta, _ in map(host.view, found):
        assert meta == METADATA[TEXTS.index(text)]
    # What the retriever found has the ids that a re-ranker knows.
    ranker = host.ranker(host.store)
    host.counting.texts.clear()
    host.ranked(ranker, found, QUESTION)
    assert host.counting.texts == [QUESTION]


@pytest.mark.parametrize("system", ["surprise", "fusion"])
def test_a_filter_reaches_the_collection(host: Host, system: str):
    found = host.among(host.store, "food", QUESTION, system=system)
    assert [host.view(own)[1]["kind"] for own in found] == ["food"] * KINDS.count("food")
    assert host.among(host.store, "none such", QUESTION, system=system) == []


def test_a_filter_reaches_what_was_added_beside(host: Host):
    collection = attached(host, token_encoder=WordEncoder(32, name="tokens"))
    collection.enrich()
    found = host.among(collection, "food", "bread of the night", system="auto", **forget(host))
    assert [host.view(own)[1]["kind"] for own in found] == ["food"] * 3


def forget(host: Host) -> dict[str, Any]:
    """Settings that take back what the harness gives Haystack."""
    return {"embed": None} if isinstance(host, Haystack) else {}


def test_off_topic_questions_come_back_empty_with_a_background(host: Host, tmp_path: Path):
    found = host.found(QUESTION)
    with pytest.raises(DataError, match=r"has no background .* make one"):
        host.ranker(host.store, min_surprise=0.9)
    attached(host, keep=str(tmp_path)).store_background(OFF_TOPIC, "cosine")
    settings = {"system": "cosine", "min_surprise": 0.9, "keep": str(tmp_path)}
    ranker, retriever = host.ranker(host.store, **settings), host.retriever(host.store, **settings)
    kept = [*host.ranked(ranker, found, QUESTION), *host.retrieved(retriever, QUESTION)]
    assert {host.view(own)[0] for own in kept} >= {"dogs bark at night"}
    assert all(0.9 <= host.view(own)[2] <= 1 for own in kept)
    assert host.ranked(ranker, host.found("x7 y8 z2"), "x7 y8 z2") == []
    assert host.retrieved(retriever, "x7 y8 z2") == []


def test_what_is_added_beside_is_used_and_can_be_taken_away(host: Host):
    before = everything(host)
    tokens = WordEncoder(32, name="tokens")
    report = attached(host, token_encoder=tokens).enrich()
    assert report.enriched == len(TEXTS)  # type: ignore[union-attr]
    assert everything(host) == before
    tokens.encoded_texts.clear()
    ranker = host.ranker(host.store, token_encoder=tokens)  # auto, as there are tokens and words now
    found = host.found(QUESTION)
    host.counting.texts.clear()
    ranked = host.ranked(ranker, found, QUESTION)
    assert {host.view(own)[0] for own in ranked[:2]} == {TEXTS[1], TEXTS[2]}
    assert host.counting.texts == tokens.encoded_texts == [QUESTION]
    retriever = host.retriever(host.store, token_encoder=tokens)
    assert {host.view(own)[0] for own in host.retrieved(retriever, QUESTION)[:2]} == {TEXTS[1], TEXTS[2]}
    collection = attached(host, token_encoder=tokens)
    assert collection.remove_enrichment()
    assert not collection.remove_enrichment()
    assert everything(host) == before
    assert collections(host) == [name_of(host)]


def test_what_cannot_be_attached_is_named(host: Host):
    collection = attached(host)
    assert attach_store(collection) is collection
    with pytest.raises(DataError, match="attached already"):
        attach_store(collection, keep="qdrant")
    with pytest.raises(DataError, match="a dict is no vector store over Qdrant that is known"):
        attach_store({})
    for make in (host.ranker, host.retriever):
        with pytest.raises(DataError, match="has no setting 'tokn_encoder'; did you mean 'token_encoder'"):
            make(host.store, tokn_encoder="colbert")
        with pytest.raises(DataError, match="unknown system 'surprize'"):
            make(host.store, system="surprize")


def words_of(text: str) -> tuple[list[int], list[float]]:
    """A sparse vector of some model of the user's: which words there are."""
    known = sorted({VOCABULARY.index(word) for word in text.split() if word in VOCABULARY})
    return known, [1.0] * len(known)


VOCABULARY = sorted({word for text in TEXTS for word in text.split()})


@pytest.mark.skipif(not is_installed("langchain_qdrant"), reason="langchain-qdrant is not installed")
def test_names_keys_and_the_sparse_model_of_a_langchain_store_are_taken_from_it():
    from langchain_qdrant import RetrievalMode
    from langchain_qdrant.sparse_embeddings import SparseEmbeddings, SparseVector

    class Words(SparseEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[SparseVector]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> SparseVector:
            indices, values = words_of(text)
            return SparseVector(indices=indices, values=values)

    host = LangChain(
        retrieval_mode=RetrievalMode.HYBRID,
        sparse_embedding=Words(),
        vector_name="own",
        sparse_vector_name="words",
        content_payload_key="body",
        metadata_payload_key="about",
    )
    facts = dict(attach_store(host.store).facts())
    assert facts["dense vector"].startswith("'own'")
    assert (facts["text"], facts["metadata"], facts["sparse vector"]) == ("body", "about", "'words'")
    assert facts["ranks by"].startswith("auto")
    found = host.retrieved(host.retriever(host.store), QUESTION)  # auto, with the words
    assert {host.view(own)[0] for own in found[:2]} == {TEXTS[1], TEXTS[2]}
    bread = host.retrieved(host.retriever(host.store, system="bm25"), "bread salt")
    assert {host.view(own)[0] for own in bread} == {TEXTS[i] for i in (5, 6, 8, 11)}
    assert host.view(bread[0])[0] == TEXTS[11]
    ranked = host.ranked(host.ranker(host.store), host.found("bread salt"), "bread salt")
    assert host.view(ranked[0])[0] == TEXTS[11]


@pytest.mark.skipif(not is_installed("llama_index.vector_stores.qdrant"), reason="it is not installed")
class TestLlamaIndex:
    def test_a_hybrid_store_brings_its_sparse_model(self):
        def many(texts: list[str]) -> tuple[list[list[int]], list[list[float]]]:
            indices, values = zip(*map(words_of, texts), strict=True)
            return list(indices), list(values)

        host = LlamaIndex(enable_hybrid=True, sparse_doc_fn=many, sparse_query_fn=many)
        assert dict(attached(host).facts())["ranks by"].startswith("auto")
        bread = host.retrieved(host.retriever(host.store, system="bm25"), "bread and salt")
        assert {host.view(own)[0] for own in bread} == {TEXTS[i] for i in (5, 6, 8, 11)}

    def test_its_auto_merging_retriever_merges_again(self):
        """Nodes come back with their relationships, so that enough parts of a document are replaced by it."""
        from llama_index.core import StorageContext, VectorStoreIndex
        from llama_index.core.retrievers import AutoMergingRetriever
        from llama_index.core.schema import NodeRelationship, TextNode
        from llama_index.vector_stores.qdrant import QdrantVectorStore

        host = LlamaIndex()
        vectors = QdrantVectorStore(client=host.client, collection_name="parts")
        context = StorageContext.from_defaults(vector_store=vectors)
        parents = [TextNode(text=" ".join(TEXTS[i : i + 3])) for i in range(0, len(TEXTS), 3)]
        parts = [TextNode(text=text) for text in TEXTS]
        for i, part in enumerate(parts):
            parent = parents[i // 3]
            of = {NodeRelationship.PARENT: parent, NodeRelationship.SOURCE: parent}
            part.relationships = {name: own.as_related_node_info() for name, own in of.items()}
            own = parent.relationships.setdefault(NodeRelationship.CHILD, [])
            own.append(part.as_related_node_info())
        context.docstore.add_documents([*parents, *parts])
        index = VectorStoreIndex(parts, storage_context=context, embed_model=host.embed)
        retriever = host.retriever(index, system="cosine", similarity_top_k=12)
        found = host.retrieved(retriever, QUESTION)
        assert all(own.node.parent_node is not None and own.node.ref_doc_id for own in found)
        merged = AutoMergingRetriever(retriever, context).retrieve(QUESTION)
        assert {own.node_id for own in merged} == {parent.node_id for parent in parents}

        groups = retriever.pipeline.search_groups(QUESTION, "ref_doc_id", top_k=2, group_size=2)
        best = {part.node_id: part.ref_doc_id for part in parts}[found[0].node_id]
        assert groups[0][0] == best
        assert [len(hits) for _, hits in groups] == [2, 2]
        assert {hit.metadata["ref_doc_id"] for hit in groups[0][1]} == {best}


class Mem0Store:
    """The attributes of Mem0's own store that it is recognised by."""

    def __init__(self, client: QdrantClient, collection_name: str) -> None:
        self.client, self.collection_name = client, collection_name


@pytest.fixture
def memories() -> QdrantClient:
    """A collection with Mem0's payload."""
    client, encoder = QdrantClient(":memory:"), WordEncoder(D)
    client.create_collection(
        "mem0", vectors_config=models.VectorParams(size=D, distance=models.Distance.COSINE)
    )
    points = [
        models.PointStruct(
            id=f"00000000-0000-4000-8000-{i:012}",
            vector=encoder.encode([text]).dense[0].tolist(),
            payload={"data": text, "hash": f"{i:032x}", "created_at": "2026-01-01", "user_id": f"u{i % 2}"},
        )
        for i, text in enumerate(TEXTS)
    ]
    client.upsert("mem0", points)
    return client


@pytest.mark.parametrize(
    "attach",
    [
        lambda client, encoder: Collection.attach(client, "mem0", embed=encoder),
        lambda client, encoder: attach_store(Mem0Store(client, "mem0"), embed=encoder),
    ],
    ids=["by name", "by its store"],
)
def test_memories_of_mem0_are_ranked(memories: QdrantClient, attach: Callable[..., Collection]):
    encoder = WordEncoder(D)
    collection = attach(memories, encoder)
    assert ("text", "data") in collection.facts()
    mine = models.FieldCondition(key="user_id", match=models.MatchValue(value="u1"))
    for system in ("cosine", "surprise", "fusion"):
        pipeline = collection.pipeline(system, filter=models.Filter(must=[mine]))
        hits = list(pipeline.search(QUESTION, 3))
        assert hits[0].document.text == "dogs bark at night"
        assert {hit.document.metadata["user_id"] for hit in hits} == {"u1"}
        assert hits[0].document.metadata["created_at"] == "2026-01-01"
