"""LangChain: a document compressor that re-ranks, and a retriever over a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetPydanticSchema
from pydantic_core.core_schema import is_instance_schema
from qdrant_client import models

from surprise_rerank.candidates import Hit
from surprise_rerank.connectors.components import (
    attached,
    filtered,
    found_metadata,
    judged_metadata,
    stored_names,
)
from surprise_rerank.connectors.systems.loading import PipelineSettings
from surprise_rerank.core.extras import pip_line
from surprise_rerank.errors import MissingExtraError
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

_RELEVANCE = "relevance_score"
_POINT_ID = "_id"

# Pydantic would look into our dataclasses, and stumble over the protocols of their fields.
_AS_IT_IS = GetPydanticSchema(lambda kind, _: is_instance_schema(kind))


class SurpriseRerank(BaseDocumentCompressor):
    """Puts retrieved documents in order, best first, and keeps the first of them.

    What comes back are copies. Their metadata has `relevance_score`: the surprise where the re-ranker has a
    background of other questions, else its score; with a background `surprise` as well; `duplicates` are the
    ids of near-duplicates that were folded into one with `collapse=` (where they have none, their positions).
    Documents whose id is stored are not encoded: the vectors of the stored text are fetched.

    Attributes:
        reranker: of texts.
        top_n: the most that are returned; None returns all.
        id_key: the key of the metadata that has the stored id. By default it is `Document.id`, or else
            `metadata["_id"]`, where langchain-qdrant puts a point's id. A splitter copies metadata to all
            parts of a document, which are then taken for the whole.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Annotated[TextReranker, _AS_IT_IS] = Field(repr=False, exclude=True)
    top_n: int | None = Field(default=3, ge=1)
    id_key: str | None = None

    @classmethod
    def load(cls, *, top_n: int | None = 3, id_key: str | None = None, **settings: Any) -> SurpriseRerank:
        """One made of names and numbers.

        Args:
            top_n: the most that are returned; None returns all.
            id_key: the key of the metadata that has the stored id, instead of `Document.id`.
            settings: of `systems.loading.PipelineSettings`: index, system, min_surprise, diversity, ...

        Raises:
            SurpriseRerankError: as `PipelineSettings.text_reranker`.
        """
        return cls(
            reranker=PipelineSettings.of(settings, cls.__name__, ["top_n", "id_key"]).text_reranker(),
            top_n=top_n,
            id_key=id_key,
        )

    @classmethod
    def attach(
        cls,
        store: Any,
        *,
        embed: Any = None,
        system: str | None = None,
        min_surprise: float | None = None,
        top_n: int | None = 3,
        **settings: Any,
    ) -> SurpriseRerank:
        """One over the collection of a vector store, as it is: what is there is not encoded again.

        Args:
            store: a `QdrantVectorStore`, or what else `attach_store` takes.
            embed: the model of its vectors, where the store has none.
            system: what ranks; the best that the collection has enough for by default.
            min_surprise: leave out what is less surprising; needs `Collection.store_background`.
            top_n: the most that are returned; None returns all.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.text_reranker`.
        """
        collection, diversity = attached(store, embed, settings)
        reranker = collection.text_reranker(system, min_surprise=min_surprise, **diversity)
        return cls(reranker=reranker, top_n=top_n)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Copies of the best documents, in order; none where none is surprising enough.

        Args:
            documents: as retrieved.
            query: the question.
            callbacks: not used; LangChain hands them to compressors that call models of its own.
        """
        ids = self._ids(documents)
        ranked = self.reranker.rank(query, _texts(documents), ids=ids, top_n=self.top_n)
        return _scored(documents, ranked, ids)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """`compress_documents` in another thread, while the event loop goes on.

        Args:
            documents: as retrieved.
            query: the question.
            callbacks: not used.
        """
        ids = self._ids(documents)
        ranked = await self.reranker.arank(query, _texts(documents), ids=ids, top_n=self.top_n)
        return _scored(documents, ranked, ids)

    def _ids(self, documents: Sequence[Document]) -> list[tuple[str, ...] | None]:
        if self.id_key is None:
            return [stored_names(document.id, _point_id(document)) for document in documents]
        return [stored_names(document.metadata.get(self.id_key)) for document in documents]


class SurpriseRetriever(BaseRetriever):
    """The documents that a pipeline finds.

    `page_content` is the best passage, or the whole where there are no passages; `Document.id` is the stored
    id, which `SurpriseRerank` finds again. The metadata are the stored document's, with that id, its `title`
    where it has one, `relevance_score`, `surprise` where the pipeline has a background, and `duplicates`
    where others were folded into it.

    Attributes:
        pipeline: that is searched.
        k: the most documents that are returned; `invoke(question, k=10)` asks for others.
        filter: only documents that it lets through, beside the one of `invoke(question, filter=...)`.
        id_key: the key of the metadata that the stored id is put under.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    pipeline: Annotated[Pipeline, _AS_IT_IS] = Field(repr=False, exclude=True)
    k: int = Field(default=4, ge=1)
    filter: models.Filter | None = None
    id_key: str = "id"

    @classmethod
    def load(cls, *, k: int = 4, **settings: Any) -> SurpriseRetriever:
        """One made of names and numbers.

        Args:
            k: the most documents that are returned.
            settings: of `systems.loading.PipelineSettings`: index or url, system, depth, min_surprise,
                diversity, ...

        Raises:
            SurpriseRerankError: as `PipelineSettings.pipeline`.
        """
        return cls(pipeline=PipelineSettings.of(settings, cls.__name__, ["k"]).pipeline(), k=k)

    @classmethod
    def attach(
        cls,
        store: Any,
        *,
        embed: Any = None,
        system: str | None = None,
        depth: int = 100,
        min_surprise: float | None = None,
        k: int = 4,
        filter: models.Filter | None = None,  # noqa: A002 - LangChain's name
        **settings: Any,
    ) -> SurpriseRetriever:
        """One over the collection of a vector store, as it is; the id is put under `_id`, as the store does.

        Args:
            store: a `QdrantVectorStore`, or what else `attach_store` takes.
            embed: the model of its vectors, where the store has none.
            system: what ranks; the best that the collection has enough for by default.
            depth: size of the candidate pool that is re-ranked.
            min_surprise: leave out what is less surprising; needs `Collection.store_background`.
            k: the most documents that are returned.
            filter: only documents that it lets through.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.pipeline`.
        """
        collection, diversity = attached(store, embed, settings)
        pipeline = collection.pipeline(system, depth=depth, min_surprise=min_surprise, **diversity)
        return cls(pipeline=pipeline, k=k, filter=filter, id_key=_POINT_ID)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: models.Filter | None = None,  # noqa: A002
    ) -> list[Document]:
        found = self._among(filter).search(query, self.k if k is None else k)
        return [_found(hit, self.id_key) for hit in found]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: models.Filter | None = None,  # noqa: A002
    ) -> list[Document]:
        found = await self._among(filter).asearch(query, self.k if k is None else k)
        return [_found(hit, self.id_key) for hit in found]

    def _among(self, condition: models.Filter | None) -> Pipeline:
        return filtered(filtered(self.pipeline, self.filter), condition)


def _point_id(document: Document) -> object:
    """The id of a point of Qdrant, which may be a whole number."""
    found = document.metadata.get(_POINT_ID)
    return str(found) if isinstance(found, int) else found


def _texts(documents: Sequence[Document]) -> list[str]:
    return [document.page_content for document in documents]


def _scored(
    documents: Sequence[Document], ranked: Sequence[RankedText], ids: Sequence[tuple[str, ...] | None]
) -> list[Document]:
    names = [own[0] if own else position for position, own in enumerate(ids)]
    return [_copy(documents[line.position], line, [names[i] for i in line.duplicates]) for line in ranked]


def _copy(document: Document, line: RankedText, duplicates: Sequence[object]) -> Document:
    metadata = judged_metadata({**document.metadata, _RELEVANCE: line.relevance}, line.surprise, duplicates)
    return document.model_copy(update={"metadata": metadata})


def _found(hit: Hit, id_key: str) -> Document:
    metadata = found_metadata(hit)
    metadata[id_key] = hit.id  # whatever the stored document's own metadata call so
    metadata[_RELEVANCE] = hit.relevance
    return Document(page_content=hit.text or "", id=hit.id, metadata=metadata)
