"""LangChain: a document compressor that re-ranks, and a retriever over a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetPydanticSchema
from pydantic_core.core_schema import is_instance_schema

from surprise_rerank.candidates import Hit
from surprise_rerank.connectors.loading import Settings
from surprise_rerank.errors import MissingExtraError
from surprise_rerank.extras import pip_line
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.text_reranker import RankedText, TextReranker

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
        Callbacks,
    )
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingExtraError(f"langchain-core is not installed: run {pip_line('langchain')}") from error

# Pydantic would look into our dataclasses, and stumble over the protocols of their fields.
_AS_IT_IS = GetPydanticSchema(lambda kind, _: is_instance_schema(kind))


class SurpriseRerank(BaseDocumentCompressor):
    """Puts retrieved documents in order, best first, and keeps the first of them.

    What comes back are copies. Their metadata has `relevance_score`: the surprise where the re-ranker has a
    background of other questions, else its score; with a background `surprise` as well. Documents whose id is
    stored are not encoded: their vectors are fetched. The id is `Document.id`, or `metadata["id"]` where a
    splitter or a store has dropped it.

    Attributes:
        reranker: of texts.
        top_n: the most that are returned; None returns all.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Annotated[TextReranker, _AS_IT_IS] = Field(repr=False, exclude=True)
    top_n: int | None = Field(default=3, ge=1)

    @classmethod
    def load(cls, *, top_n: int | None = 3, **settings: Any) -> SurpriseRerank:
        """One made of names and numbers.

        Args:
            top_n: the most that are returned; None returns all.
            settings: of `connectors.loading.Settings`: index, model, system, min_surprise, ...

        Raises:
            SurpriseRerankError: as `Settings.text_reranker`.
        """
        return cls(reranker=Settings(**settings).text_reranker(), top_n=top_n)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Copies of the best documents, in order; none where none is surprising enough.

        Args:
            documents: as retrieved.
            query: the question.
            callbacks: not used; LangChain hands them to compressors that call models of its own.
        """
        ranked = self.reranker.rank(query, _texts(documents), ids=_ids(documents), top_n=self.top_n)
        return _scored(documents, ranked)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """`compress_documents` in another thread, while the event loop goes on.

        Args:
            documents: as retrieved.
            query: the question.
            callbacks: not used.
        """
        ranked = await self.reranker.arank(query, _texts(documents), ids=_ids(documents), top_n=self.top_n)
        return _scored(documents, ranked)


class SurpriseRetriever(BaseRetriever):
    """The documents that a pipeline finds.

    `page_content` is the best passage, or the whole where there are no passages; `Document.id` is the stored
    id, which `SurpriseRerank` finds again. The metadata are the stored document's, with its `id`, its `title`
    where it has one, `relevance_score`, and `surprise` where the pipeline has a background.

    Attributes:
        pipeline: that is searched.
        k: the most documents that are returned; `invoke(question, k=10)` asks for others.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    pipeline: Annotated[Pipeline, _AS_IT_IS] = Field(repr=False, exclude=True)
    k: int = Field(default=4, ge=1)

    @classmethod
    def load(cls, *, k: int = 4, **settings: Any) -> SurpriseRetriever:
        """One made of names and numbers.

        Args:
            k: the most documents that are returned.
            settings: of `connectors.loading.Settings`: index or url, system, depth, min_surprise, ...

        Raises:
            SurpriseRerankError: as `Settings.pipeline`.
        """
        return cls(pipeline=Settings(**settings).pipeline(), k=k)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [_found(hit) for hit in self.pipeline.search(query, self.k if k is None else k)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [_found(hit) for hit in await self.pipeline.asearch(query, self.k if k is None else k)]


def _texts(documents: Sequence[Document]) -> list[str]:
    return [document.page_content for document in documents]


def _ids(documents: Sequence[Document]) -> list[str | None]:
    return [_id(document) for document in documents]


def _id(document: Document) -> str | None:
    if document.id is not None:
        return document.id
    kept = document.metadata.get("id")
    return kept if isinstance(kept, str) else None


def _scored(documents: Sequence[Document], ranked: Sequence[RankedText]) -> list[Document]:
    return [_copy(documents[line.position], line) for line in ranked]


def _copy(document: Document, line: RankedText) -> Document:
    scores = _scores(line.score, line.surprise)
    return document.model_copy(update={"metadata": {**document.metadata, **scores}})


def _found(hit: Hit) -> Document:
    stored = hit.document
    named = {"id": hit.id}
    if stored is not None:
        named = {**named, **({"title": stored.title} if stored.title else {}), **stored.metadata}
    scores = _scores(hit.score, hit.surprise)
    return Document(page_content=hit.text or "", id=hit.id, metadata={**named, **scores})


def _scores(score: float, surprise: float | None) -> dict[str, float]:
    if surprise is None:
        return {"relevance_score": score}
    return {"relevance_score": surprise, "surprise": surprise}
