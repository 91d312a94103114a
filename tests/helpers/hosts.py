"""The adapters of all hosts with one face, for contracts that hold in each of them."""

import importlib
import os
from typing import Any, NamedTuple

import pytest

from surprise_rerank.core._extras import is_installed

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when it is imported


class Shown(NamedTuple):
    """One document that came back."""

    id: str
    text: str
    meta: dict[str, Any]
    score: float


class Host:
    """LangChain; the others differ from it."""

    module, package, extra = "langchain", "langchain_core", "langchain"
    ranker_name, most = "SurpriseRerank", "top_n"
    retriever_most = "k"

    @property
    def adapter(self) -> Any:
        return importlib.import_module(f"surprise_rerank.connectors.{self.module}")

    @property
    def ranker_class(self) -> Any:
        return getattr(self.adapter, self.ranker_name)

    def ranker(self, reranker: Any, **options: Any) -> Any:
        return self.ranker_class(reranker=reranker, **options)

    def named_ranker(self, **names: Any) -> Any:
        return self.ranker_class.load(**names)

    def retriever(self, pipeline: Any, **options: Any) -> Any:
        return self.adapter.SurpriseRetriever(pipeline=pipeline, **options)

    def named_retriever(self, **names: Any) -> Any:
        return self.adapter.SurpriseRetriever.load(**names)

    def document(self, name: str, text: str, meta: dict[str, Any]) -> Any:
        from langchain_core.documents import Document

        return Document(text, id=name, metadata=meta)

    def rank(self, ranker: Any, documents: list[Any], question: str) -> list[Shown]:
        return [self.shown(item) for item in self.ranked(ranker, documents, question)]

    async def arank(self, ranker: Any, documents: list[Any], question: str) -> list[Shown]:
        return [self.shown(item) for item in await self.aranked(ranker, documents, question)]

    def retrieve(self, retriever: Any, question: str) -> list[Shown]:
        return [self.shown(item) for item in self.retrieved(retriever, question)]

    async def aretrieve(self, retriever: Any, question: str) -> list[Shown]:
        return [self.shown(item) for item in await self.aretrieved(retriever, question)]

    def ranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return ranker.compress_documents(documents, question)

    async def aranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return await ranker.acompress_documents(documents, question)

    def retrieved(self, retriever: Any, question: str) -> list[Any]:
        return retriever.invoke(question)

    async def aretrieved(self, retriever: Any, question: str) -> list[Any]:
        return await retriever.ainvoke(question)

    def shown(self, document: Any) -> Shown:
        meta = dict(document.metadata)
        return Shown(document.id, document.page_content, meta, meta.pop("relevance_score", float("nan")))


class LlamaIndex(Host):
    module, package, extra = "llama_index", "llama_index.core", "llama-index"
    retriever_most = "similarity_top_k"

    def document(self, name: str, text: str, meta: dict[str, Any]) -> Any:
        from llama_index.core.schema import NodeWithScore, TextNode

        hidden = [*meta]
        node = TextNode(id_=name, text=text, metadata=meta, excluded_embed_metadata_keys=hidden)
        return NodeWithScore(node=node, score=0.5)

    def ranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return ranker.postprocess_nodes(documents, query_str=question)

    async def aranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return await ranker.apostprocess_nodes(documents, query_str=question)

    def retrieved(self, retriever: Any, question: str) -> list[Any]:
        return retriever.retrieve(question)

    async def aretrieved(self, retriever: Any, question: str) -> list[Any]:
        return await retriever.aretrieve(question)

    def shown(self, scored: Any) -> Shown:
        return Shown(scored.node.node_id, scored.node.text, scored.node.metadata, scored.score)


class Haystack(Host):
    module, package, extra = "haystack", "haystack", "haystack"
    ranker_name, most, retriever_most = "SurpriseRanker", "top_k", "top_k"

    def named_ranker(self, **names: Any) -> Any:
        return self.adapter.SurpriseRanker(**names)

    def named_retriever(self, **names: Any) -> Any:
        return self.adapter.SurpriseRetriever(**names)

    def document(self, name: str, text: str, meta: dict[str, Any]) -> Any:
        from haystack import Document

        return Document(id=name, content=text, meta=meta)

    def ranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return ranker.run(question, documents)["documents"]

    async def aranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return (await ranker.run_async(question, documents))["documents"]

    def retrieved(self, retriever: Any, question: str) -> list[Any]:
        return retriever.run(question)["documents"]

    async def aretrieved(self, retriever: Any, question: str) -> list[Any]:
        return (await retriever.run_async(question))["documents"]

    def shown(self, document: Any) -> Shown:
        return Shown(document.id, document.content, document.meta, document.score)


class Rerankers(Host):
    module, package, extra = "rerankers", "rerankers", "rerankers"
    ranker_name, most = "SurpriseRanker", ""

    def document(self, name: str, text: str, meta: dict[str, Any]) -> Any:
        from rerankers import Document

        return Document(text, doc_id=name, metadata=meta)

    def ranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return ranker.rank(question, documents)

    async def aranked(self, ranker: Any, documents: list[Any], question: str) -> list[Any]:
        return await ranker.rank_async(question, documents)

    def shown(self, document: Any) -> Shown:
        return Shown(document.doc_id, document.text, document.metadata, document.score)


HOSTS = [
    pytest.param(
        kind(),
        id=kind.__name__,
        marks=pytest.mark.skipif(
            not is_installed(kind.package.partition(".")[0]),
            reason=f"the extra {kind.extra} is not installed",
        ),
    )
    for kind in (Host, LlamaIndex, Haystack, Rerankers)
]
