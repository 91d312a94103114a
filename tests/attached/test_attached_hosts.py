"""Collections that LangChain, LlamaIndex, Haystack and Mem0 made, attached from their own stores."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from helpers import hosts
from helpers.faults import server_url
from helpers.foreign import foreign
from helpers.hosts import Shown
from helpers.words import WordEncoder
from qdrant_client import QdrantClient, models

from surprise_rerank import DataError
from surprise_rerank.connectors.attached import Collection, attach_store
from surprise_rerank.core._extras import is_installed

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


class Filled:
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
        self.usual: dict[str, Any] = {}  # settings of attaching
        self.make(url, name, texts, rows, **more)

    def attach_ranker(self, store: Any, **settings: Any) -> Any:
        return self.ranker_class.attach(store, **{self.most: 5, **self.usual, **settings})

    def attach_retriever(self, store: Any, **settings: Any) -> Any:
        given = {self.retriever_most: 5, **self.usual, **settings}
        return self.adapter.SurpriseRetriever.attach(store, **given)


class LangChain(Filled, hosts.Host):
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

    def among(self, store: Any, kind: str, question: str, **settings: Any) -> list[Shown]:
        condition = models.FieldCondition(key="metadata.kind", match=models.MatchValue(value=kind))
        chosen = models.Filter(must=[condition])
        asked = self.attach_retriever(store, **settings)
        own = self.attach_retriever(store, filter=chosen, **settings)
        found = asked.invoke(question, filter=chosen)
        again = asyncio.run(asked.ainvoke(question, filter=chosen))
        assert [d.id for d in found] == [d.id for d in own.invoke(question)] == [d.id for d in again]
        return [self.shown(document) for document in found]


class LlamaIndex(Filled, hosts.LlamaIndex):
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

    def among(self, store: Any, kind: str, question: str, **settings: Any) -> list[Shown]:
        from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

        filters = MetadataFilters(filters=[MetadataFilter(key="kind", value=kind)])
        condition = models.FieldCondition(key="kind", match=models.MatchValue(value=kind))
        chosen = models.Filter(must=[condition])
        found, own = (
            self.retrieve(self.attach_retriever(store, filters=own, **settings), question)
            for own in (filters, chosen)
        )
        assert [node.id for node in found] == [node.id for node in own]
        return found


class Haystack(Filled, hosts.Haystack):
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
        self.usual = {"embed": self.embed}
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

    def among(self, store: Any, kind: str, question: str, **settings: Any) -> list[Shown]:
        filters = {"field": "meta.kind", "operator": "==", "value": kind}
        own = self.attach_retriever(store, filters=filters, **settings)
        found = self.attach_retriever(store, **settings).run(question, filters=filters)["documents"]
        assert [d.id for d in found] == [d.id for d in own.run(question)["documents"]]
        return [self.shown(document) for document in found]


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
def test_what_a_host_found_is_ranked_by_its_stored_vectors(host, system):
    found = host.found(QUESTION)
    before = everything(host)
    ranker = host.attach_ranker(host.store, system=system)
    host.counting.texts.clear()
    ranked = host.rank(ranker, found, QUESTION)
    assert host.counting.texts == [QUESTION]  # no document is encoded, and nothing else
    assert everything(host) == before
    assert_same(asyncio.run(host.arank(ranker, found, QUESTION)), ranked)
    scores = [own.score for own in ranked]
    assert scores == sorted(scores, reverse=True)
    assert len(ranked) == 5
    assert_whole(ranked)
    if system in (None, "cosine"):
        # What the host ranks by, too. It has its order already.
        assert [own.text for own in ranked] == [host.shown(own).text for own in found][:5]


def assert_whole(found: list[Shown]) -> None:
    """With all metadata of each text; hosts add their own."""
    for own in found:
        assert METADATA[TEXTS.index(own.text)].items() <= own.meta.items()


def assert_same(some: list[Shown], others: list[Shown]) -> None:
    assert [own.text for own in some] == [own.text for own in others]
    assert [own.score for own in some] == pytest.approx([own.score for own in others], abs=1e-6)
    assert_whole(some)


def test_a_retriever_searches_the_collection(host):
    retriever = host.attach_retriever(host.store, system="cosine")
    host.counting.texts.clear()
    found = host.retrieve(retriever, QUESTION)
    assert host.counting.texts == [QUESTION]
    assert_same(asyncio.run(host.aretrieve(retriever, QUESTION)), found)
    assert [own.text for own in found] == [host.shown(own).text for own in host.found(QUESTION)][:5]
    assert_whole(found)
    # What the retriever finds has the ids that a re-ranker knows.
    ranker = host.attach_ranker(host.store)
    documents = host.retrieved(retriever, QUESTION)
    host.counting.texts.clear()
    host.rank(ranker, documents, QUESTION)
    assert host.counting.texts == [QUESTION]


@pytest.mark.parametrize("make", [needs(*store) for store in STORES])
def test_chunks_that_overlap_come_back_as_one(make):
    """Hosts keep no common offsets; each chunk begins with the end of the one before."""
    words = " ".join(f"word{i}" for i in range(60))
    texts = [words[:199], words[160:339], words[380:], "dogs bark"]
    host = make[0](texts=texts, rows=[{"source": "book.txt"}] * 3 + [{"source": "dogs.txt"}])
    hits = host.retrieve(host.attach_retriever(host.store, system="cosine"), "word1 word2")
    assert {hit.text for hit in hits} == {words[:339], words[380:], "dogs bark"}
    retriever = host.attach_retriever(host.store, system="cosine", **{host.retriever_most: 3})
    assert len(host.retrieve(retriever, "word1 word2")) == 3  # the fourth chunk fills the gap
    by_document = host.attach_retriever(host.store, system="cosine", unit="document")
    assert {hit.text for hit in host.retrieve(by_document, "word1 word2")} == set(texts)


@pytest.mark.parametrize("system", ["surprise", "fusion"])
def test_a_filter_reaches_the_collection(host, system):
    found = host.among(host.store, "food", QUESTION, system=system)
    assert [own.meta["kind"] for own in found] == ["food"] * KINDS.count("food")
    assert host.among(host.store, "none such", QUESTION, system=system) == []


def test_a_filter_reaches_what_was_added_beside(host):
    collection = attached(host, token_encoder=WordEncoder(32, name="tokens"))
    collection.enrich()
    found = host.among(collection, "food", "bread of the night", system="auto", embed=None)
    assert [own.meta["kind"] for own in found] == ["food"] * 3


def test_off_topic_questions_come_back_empty_with_a_background(host, tmp_path):
    found = host.found(QUESTION)
    with pytest.raises(DataError, match=r"has no background .* make one"):
        host.attach_ranker(host.store, min_percentile=0.9)
    attached(host, keep=str(tmp_path)).measure_background("cosine", OFF_TOPIC)
    settings = {"system": "cosine", "min_percentile": 0.9, "keep": str(tmp_path)}
    ranker, retriever = (
        host.attach_ranker(host.store, **settings),
        host.attach_retriever(host.store, **settings),
    )
    kept = [*host.rank(ranker, found, QUESTION), *host.retrieve(retriever, QUESTION)]
    assert {own.text for own in kept} >= {"dogs bark at night"}
    assert all(0.9 <= own.score <= 1 for own in kept)
    assert host.rank(ranker, host.found("x7 y8 z2"), "x7 y8 z2") == []
    assert host.retrieve(retriever, "x7 y8 z2") == []


def test_what_is_added_beside_is_used_and_can_be_taken_away(host):
    before = everything(host)
    tokens = WordEncoder(32, name="tokens")
    report = attached(host, token_encoder=tokens).enrich()
    assert report.added == len(TEXTS)  # type: ignore[union-attr]
    assert everything(host) == before
    tokens.encoded_texts.clear()
    ranker = host.attach_ranker(host.store, token_encoder=tokens)  # auto, as there are tokens and words now
    found = host.found(QUESTION)
    host.counting.texts.clear()
    ranked = host.rank(ranker, found, QUESTION)
    assert {own.text for own in ranked[:2]} == {TEXTS[1], TEXTS[2]}
    assert host.counting.texts == tokens.encoded_texts == [QUESTION]
    retriever = host.attach_retriever(host.store, token_encoder=tokens)
    assert {own.text for own in host.retrieve(retriever, QUESTION)[:2]} == {TEXTS[1], TEXTS[2]}
    collection = attached(host, token_encoder=tokens)
    assert collection.remove_enrichment()
    assert not collection.remove_enrichment()
    assert everything(host) == before
    assert collections(host) == [name_of(host)]


def test_what_cannot_be_attached_is_named(host):
    collection = attached(host)
    assert attach_store(collection) is collection
    with pytest.raises(DataError, match="attached already"):
        attach_store(collection, keep="qdrant")
    with pytest.raises(DataError, match="a dict is no vector store over Qdrant that is known"):
        attach_store({})
    for make in (host.attach_ranker, host.attach_retriever):
        with pytest.raises(DataError, match="has no setting 'tokn_encoder'; did you mean 'token_encoder'"):
            make(host.store, tokn_encoder="colbert")
        with pytest.raises(DataError, match="system='surprize' is not known"):
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
    facts = dict(attach_store(host.store).status().facts())
    assert facts["dense vector"].startswith("'own'")
    assert (facts["text"], facts["metadata"], facts["sparse vector"]) == ("body", "about", "'words'")
    assert facts["ranks by"].startswith("auto")
    found = host.retrieve(host.attach_retriever(host.store), QUESTION)  # auto, with the words
    assert {own.text for own in found[:2]} == {TEXTS[1], TEXTS[2]}
    bread = host.retrieve(host.attach_retriever(host.store, system="bm25"), "bread salt")
    assert {own.text for own in bread} == {TEXTS[i] for i in (5, 6, 8, 11)}
    assert bread[0].text == TEXTS[11]
    ranked = host.rank(host.attach_ranker(host.store), host.found("bread salt"), "bread salt")
    assert ranked[0].text == TEXTS[11]


@pytest.mark.skipif(not is_installed("llama_index.vector_stores.qdrant"), reason="it is not installed")
class TestLlamaIndex:
    def test_a_hybrid_store_brings_its_sparse_model(self):
        def many(texts: list[str]) -> tuple[list[list[int]], list[list[float]]]:
            indices, values = zip(*map(words_of, texts), strict=True)
            return list(indices), list(values)

        host = LlamaIndex(enable_hybrid=True, sparse_doc_fn=many, sparse_query_fn=many)
        assert dict(attached(host).status().facts())["ranks by"].startswith("auto")
        bread = host.retrieve(host.attach_retriever(host.store, system="bm25"), "bread and salt")
        assert {own.text for own in bread} == {TEXTS[i] for i in (5, 6, 8, 11)}

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
        retriever = host.attach_retriever(index, system="cosine", similarity_top_k=12)
        found = host.retrieved(retriever, QUESTION)
        assert all(own.node.parent_node is not None and own.node.ref_doc_id for own in found)
        merged = AutoMergingRetriever(retriever, context).retrieve(QUESTION)
        assert {own.node_id for own in merged} == {parent.node_id for parent in parents}

        groups = retriever.pipeline.search_groups(QUESTION, "ref_doc_id", top_k=2, group_size=2)
        best = {part.node_id: part.ref_doc_id for part in parts}[found[0].node_id]
        assert next(iter(groups)) == best
        assert [len(hits) for hits in groups.values()] == [2, 2]
        assert {hit.metadata["ref_doc_id"] for hit in groups[best]} == {best}
        by_document = retriever.pipeline.search_groups(QUESTION, "document", top_k=2, group_size=2)
        assert list(by_document) == list(groups)
        one_of_each = retriever.pipeline.search(QUESTION, 12, unit="passage", max_per_document=1)
        assert [hit.metadata["ref_doc_id"] for hit in one_of_each][:2] == list(groups)
        assert len(one_of_each) == len(parents)


class Mem0Store:
    """The attributes of Mem0's own store that it is recognised by."""

    def __init__(self, client: QdrantClient, collection_name: str) -> None:
        self.client, self.collection_name = client, collection_name


@pytest.fixture
def memories() -> QdrantClient:
    """A collection with Mem0's payload."""
    payloads = [
        {"data": text, "hash": f"{i:032x}", "created_at": "2026-01-01", "user_id": f"u{i % 2}"}
        for i, text in enumerate(TEXTS)
    ]
    ids = [f"00000000-0000-4000-8000-{i:012}" for i in range(len(TEXTS))]
    return foreign(WordEncoder(D).encode(TEXTS).dense, payloads, "mem0", ids=ids)


@pytest.mark.parametrize(
    "attach",
    [
        lambda client, encoder: Collection.attach(client, "mem0", embed=encoder),
        lambda client, encoder: attach_store(Mem0Store(client, "mem0"), embed=encoder),
    ],
    ids=["by name", "by its store"],
)
def test_memories_of_mem0_are_ranked(memories, attach):
    encoder = WordEncoder(D)
    collection = attach(memories, encoder)
    assert ("text", "data") in collection.status().facts()
    mine = models.FieldCondition(key="user_id", match=models.MatchValue(value="u1"))
    for system in ("cosine", "surprise", "fusion"):
        pipeline = collection.pipeline(system, filter=models.Filter(must=[mine]))
        hits = list(pipeline.search(QUESTION, 3))
        assert hits[0].document.text == "dogs bark at night"
        assert {hit.document.metadata["user_id"] for hit in hits} == {"u1"}
        assert hits[0].document.metadata["created_at"] == "2026-01-01"
