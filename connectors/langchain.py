"""LangChain: a document compressor that re-ranks, and a retriever over a pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, GetPydanticSchema
from pydantic_core.core_schema import is_instance_schema
from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._candidates import Unit, Verdict
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors._components import (
    VERDICT,
    LoadedAdapter,
    found_metadata,
    ranked_metadata,
    stored_names,
    verdict_values,
)
from surprise_rerank.core._extras import importing

with importing("langchain"):
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManager,
        CallbackManagerForRetrieverRun,
        Callbacks,
    )
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever

if TYPE_CHECKING:
    from langchain_reranker.rerankers import RerankResult

_RELEVANCE = "relevance_score"
_POINT_ID = "_id"

# Pydantic would look into our dataclasses, and stumble over the protocols of their fields.
_AS_IT_IS = GetPydanticSchema(lambda kind, _: is_instance_schema(kind))


class SurpriseRerank(LoadedAdapter, BaseDocumentCompressor):
    """Puts retrieved documents in order, best first, and keeps the first of them.

    What comes back are copies, with `relevance_score` in their metadata. The verdict is sent to callbacks as
    the custom event `rerank_verdict`, also where nothing comes back. `load(index=..., system=...)` makes
    one of names.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    _argument: ClassVar = "reranker"
    _options: ClassVar = ("top_n", "id_key")

    reranker: Annotated[TextReranker, _AS_IT_IS] = Field(repr=False, exclude=True)
    top_n: int | None = Field(default=3, ge=1)  # the most that are returned; None returns all
    # The key of the metadata that has the stored id. By default it is `Document.id`, or else
    # `metadata["_id"]`, where langchain-qdrant puts a point's id. A splitter copies metadata to all parts of
    # a document, which are then taken for the whole.
    id_key: str | None = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Copies of the best documents, in order; none where none reaches `min_percentile`."""
        return [document for _, document in self._ranked(documents, query, self.top_n, callbacks)]

    def rerank(
        self, query: str, documents: Sequence[Document], top_n: int | None = None
    ) -> list[RerankResult]:
        """The same as a `BaseReranker` of the package langchain-reranker gives it, with positions.

        Raises:
            ImportError: where that package is not installed.
        """
        from langchain_reranker.rerankers import RerankResult

        ranked = self._ranked(documents, query, self.top_n if top_n is None else top_n)
        return [
            RerankResult(index=position, relevance_score=document.metadata[_RELEVANCE], document=document)
            for position, document in ranked
        ]

    def _ranked(
        self,
        documents: Sequence[Document],
        query: str,
        top_n: int | None,
        callbacks: Callbacks | None = None,
    ) -> list[tuple[int, Document]]:
        """Copies of the best documents, with where these are among those given."""
        documents = list(border.instances("documents", documents, Document))
        ids = [self._names(document) for document in documents]
        texts = [document.page_content for document in documents]
        ranked = self.reranker.rank(query, texts, ids=ids, top_k=top_n)
        _tell(CallbackManager.configure(callbacks), ranked.verdict)
        copies = []
        for line in ranked:
            document = documents[line.position]
            duplicates = [(ids[i] or (i,))[0] for i in line.folded]
            scored = {**document.metadata, _RELEVANCE: line.relevance}
            metadata = ranked_metadata(scored, line, ranked.verdict, duplicates)
            copies.append((line.position, document.model_copy(update={"metadata": metadata})))
        return copies

    def _names(self, document: Document) -> tuple[str, ...] | None:
        if self.id_key is not None:
            return stored_names(document.metadata.get(self.id_key))
        point = document.metadata.get(_POINT_ID)
        return stored_names(document.id, str(point) if isinstance(point, int) else point)


class SurpriseRetriever(LoadedAdapter, BaseRetriever):
    """The passages that a pipeline finds, or the documents.

    `page_content` is the passage, of a document the best one, or the whole where there are no passages.
    `Document.id` is the stored id, which `SurpriseRerank` finds again; of a later passage it has a number
    behind it. The metadata are the stored document's, with its id, `title` and what `SurpriseRerank` adds.
    `load(index=..., system=...)` makes one of names; `invoke(question, k=10, filter=..., min_percentile=.95)`
    asks for others than its own.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    _argument: ClassVar = "pipeline"
    _options: ClassVar = ("k", "filter", "id_key", "unit")

    pipeline: Annotated[Pipeline, _AS_IT_IS] = Field(repr=False, exclude=True)
    k: int = Field(default=4, ge=1)  # the most that are returned
    unit: Unit = "passage"  # what is returned: passages, or documents with the best passage of each
    filter: models.Filter | None = None  # only documents that it lets through, beside the one of `invoke`
    id_key: str = "id"  # the key of the metadata that the stored id is put under; `_id` of an attached store

    @classmethod
    def attach(cls, store: Any, *, embed: Any = None, **options: Any) -> Self:
        """As of every adapter; the id is put under `_id`, as langchain-qdrant does."""
        return super().attach(store, embed=embed, **{"id_key": _POINT_ID, **options})

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: models.Filter | None = None,  # noqa: A002 - LangChain's name
        min_percentile: float | None = None,
    ) -> list[Document]:
        pipeline = self.pipeline.with_options(filter=self.filter, unit=self.unit)
        ranking = pipeline.search(
            query, self.k if k is None else k, filter=filter, min_percentile=min_percentile
        )
        _tell(run_manager.get_child(), ranking.verdict)
        documents = []
        for hit, name in zip(ranking, ranking.line_ids, strict=True):
            # The id goes before whatever the stored document's own metadata call so.
            added = {self.id_key: hit.id, _RELEVANCE: hit.relevance}
            metadata = {**found_metadata(hit, ranking.verdict), **added}
            if hit.place is not None and hit.place.page is not None:
                metadata.setdefault("page", hit.place.page - 1)  # as LangChain's readers count
            documents.append(Document(page_content=hit.text, id=name, metadata=metadata))
        return documents

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        # LangChain's own fallback does not hand on the options of a call.
        search = self._get_relevant_documents
        return await asyncio.to_thread(search, query, run_manager=run_manager.get_sync(), **options)


def _tell(callbacks: CallbackManager, verdict: Verdict | None) -> None:
    """Send a verdict to the handlers of a run, or of no run at all, which `dispatch_custom_event` refuses."""
    callbacks.on_custom_event(VERDICT, verdict_values(verdict), run_id=callbacks.parent_run_id)
