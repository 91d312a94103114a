"""LangChain: a document compressor that re-ranks, and a retriever over a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetPydanticSchema
from pydantic_core.core_schema import is_instance_schema
from qdrant_client import models

from surprise_rerank.candidates import Hit, Ranking, Verdict, verdict_json
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.components import (
    VERDICT,
    attached,
    found_metadata,
    judged_metadata,
    least_surprise,
    stored_names,
)
from surprise_rerank.core.extras import pip_line
from surprise_rerank.errors import MissingExtraError
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.text_reranker import RankedText, RankedTexts, TextReranker

try:
    from langchain_core.callbacks import (
        AsyncCallbackManager,
        AsyncCallbackManagerForRetrieverRun,
        CallbackManager,
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

    With a background `surprise_verdict` is the status of the question's verdict. The whole verdict is sent to
    callbacks as the custom event `surprise_verdict`, also where nothing comes back.

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
    def load(
        cls,
        *,
        top_n: int | None = 3,
        id_key: str | None = None,
        score_threshold: float | None = None,
        **settings: Any,
    ) -> SurpriseRerank:
        """One made of names and numbers.

        Args:
            top_n: the most that are returned; None returns all.
            id_key: the key of the metadata that has the stored id, instead of `Document.id`.
            score_threshold: LangChain's name for min_surprise.
            settings: of `attached.settings.PipelineSettings`: index, system, min_surprise, diversity, ...

        Raises:
            SurpriseRerankError: as `PipelineSettings.text_reranker`.
        """
        made = _settings(settings, score_threshold, cls.__name__, ["top_n", "id_key"])
        return cls(reranker=made.text_reranker(), top_n=top_n, id_key=id_key)

    @classmethod
    def attach(
        cls,
        store: Any,
        *,
        embed: Any = None,
        system: str | None = None,
        min_surprise: float | None = None,
        score_threshold: float | None = None,
        top_n: int | None = 3,
        **settings: Any,
    ) -> SurpriseRerank:
        """One over the collection of a vector store, as it is: what is there is not encoded again.

        Args:
            store: a `QdrantVectorStore`, or what else `attach_store` takes.
            embed: the model of its vectors, where the store has none.
            system: what ranks; the best that the collection has enough for by default.
            min_surprise: leave out what is less surprising than this share of other questions.
            score_threshold: LangChain's name for min_surprise.
            top_n: the most that are returned; None returns all.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.text_reranker`.
        """
        collection, diversity = attached(store, embed, settings)
        least = least_surprise(min_surprise, score_threshold=score_threshold)
        reranker = collection.text_reranker(system, min_surprise=least, **diversity)
        return cls(reranker=reranker, top_n=top_n)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Copies of the best documents, in order; none where none is surprising enough.

        Args:
            documents: as retrieved.
            query: the question.
            callbacks: get the verdict, as the custom event `surprise_verdict`.
        """
        ids = self._ids(documents)
        ranked = self.reranker.rank(query, _texts(documents), ids=ids, top_k=self.top_n)
        _tell(CallbackManager.configure(callbacks), ranked.verdict)
        return _scored(documents, ranked, ids)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """`compress_documents` in another thread, while the event loop goes on.

        Args:
            documents: as retrieved.
            query: the question.
            callbacks: get the verdict.
        """
        ids = self._ids(documents)
        ranked = await self.reranker.arank(query, _texts(documents), ids=ids, top_k=self.top_n)
        await _atell(AsyncCallbackManager.configure(callbacks), ranked.verdict)
        return _scored(documents, ranked, ids)

    def _ids(self, documents: Sequence[Document]) -> list[tuple[str, ...] | None]:
        if self.id_key is None:
            return [stored_names(document.id, _point_id(document)) for document in documents]
        return [stored_names(document.metadata.get(self.id_key)) for document in documents]


class SurpriseRetriever(BaseRetriever):
    """The documents that a pipeline finds.

    `page_content` is the best passage, or the whole where there are no passages; `Document.id` is the stored
    id, which `SurpriseRerank` finds again. The metadata are the stored document's, with that id, its `title`
    where it has one, `relevance_score`, `surprise` and `surprise_verdict` (the status) where the pipeline has
    a background, and `duplicates` where others were folded into it. The verdict is sent to callbacks as the
    custom event `surprise_verdict`: it says why nothing comes back.

    Attributes:
        pipeline: that is searched.
        k: the most documents that are returned; `invoke(question, k=10)` asks for others, and
            `invoke(question, score_threshold=.95)` for another least surprise than the pipeline's.
        filter: only documents that it lets through, beside the one of `invoke(question, filter=...)`.
        id_key: the key of the metadata that the stored id is put under.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    pipeline: Annotated[Pipeline, _AS_IT_IS] = Field(repr=False, exclude=True)
    k: int = Field(default=4, ge=1)
    filter: models.Filter | None = None
    id_key: str = "id"

    @classmethod
    def load(cls, *, k: int = 4, score_threshold: float | None = None, **settings: Any) -> SurpriseRetriever:
        """One made of names and numbers.

        Args:
            k: the most documents that are returned.
            score_threshold: LangChain's name for min_surprise.
            settings: of `attached.settings.PipelineSettings`: index or url, system, depth, min_surprise,
                diversity, ...

        Raises:
            SurpriseRerankError: as `PipelineSettings.pipeline`.
        """
        return cls(pipeline=_settings(settings, score_threshold, cls.__name__, ["k"]).pipeline(), k=k)

    @classmethod
    def attach(
        cls,
        store: Any,
        *,
        embed: Any = None,
        system: str | None = None,
        depth: int = 100,
        min_surprise: float | None = None,
        score_threshold: float | None = None,
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
            min_surprise: leave out what is less surprising than this share of other questions.
            score_threshold: LangChain's name for min_surprise.
            k: the most documents that are returned.
            filter: only documents that it lets through.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.pipeline`.
        """
        collection, diversity = attached(store, embed, settings)
        least = least_surprise(min_surprise, score_threshold=score_threshold)
        pipeline = collection.pipeline(system, depth=depth, min_surprise=least, **diversity)
        return cls(pipeline=pipeline, k=k, filter=filter, id_key=_POINT_ID)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: models.Filter | None = None,  # noqa: A002
        score_threshold: float | None = None,
    ) -> list[Document]:
        pipeline = self._asked(filter, score_threshold)
        found = pipeline.search(query, self.k if k is None else k)
        _tell(run_manager.get_child(), found.verdict)
        return self._documents(found)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: models.Filter | None = None,  # noqa: A002
        score_threshold: float | None = None,
    ) -> list[Document]:
        pipeline = self._asked(filter, score_threshold)
        found = await pipeline.asearch(query, self.k if k is None else k)
        await _atell(run_manager.get_child(), found.verdict)
        return self._documents(found)

    def _asked(self, condition: models.Filter | None, least: float | None) -> Pipeline:
        """The pipeline by the keywords of one call."""
        return self.pipeline.changed(filter=self.filter).changed(filter=condition, min_surprise=least)

    def _documents(self, found: Ranking) -> list[Document]:
        return [_found(hit, self.id_key, found.verdict) for hit in found]


def _settings(
    names: dict[str, Any], score_threshold: float | None, of: str, beside: Sequence[str]
) -> PipelineSettings:
    """Settings that a user gave by name, the least surprise also by LangChain's."""
    names["min_surprise"] = least_surprise(names.get("min_surprise"), score_threshold=score_threshold)
    return PipelineSettings.of(names, of, [*beside, "score_threshold"])


def _tell(callbacks: CallbackManager, verdict: Verdict | None) -> None:
    """Send a verdict to the handlers of a run, or of no run at all, which `dispatch_custom_event` refuses."""
    callbacks.on_custom_event(VERDICT, verdict_json(verdict), run_id=callbacks.parent_run_id)


async def _atell(callbacks: AsyncCallbackManager, verdict: Verdict | None) -> None:
    await callbacks.on_custom_event(VERDICT, verdict_json(verdict), run_id=callbacks.parent_run_id)


def _point_id(document: Document) -> object:
    """The id of a point of Qdrant, which may be a whole number."""
    found = document.metadata.get(_POINT_ID)
    return str(found) if isinstance(found, int) else found


def _texts(documents: Sequence[Document]) -> list[str]:
    return [document.page_content for document in documents]


def _scored(
    documents: Sequence[Document], ranked: RankedTexts, ids: Sequence[tuple[str, ...] | None]
) -> list[Document]:
    names = [own[0] if own else position for position, own in enumerate(ids)]

    def copy(document: Document, line: RankedText) -> Document:
        scored = {**document.metadata, _RELEVANCE: line.relevance}
        duplicates = [names[i] for i in line.folded]
        metadata = judged_metadata(scored, line.surprise, duplicates, ranked.verdict)
        return document.model_copy(update={"metadata": metadata})

    return [copy(documents[line.position], line) for line in ranked]


def _found(hit: Hit, id_key: str, verdict: Verdict | None) -> Document:
    metadata = found_metadata(hit, verdict)
    metadata[id_key] = hit.id  # whatever the stored document's own metadata call so
    metadata[_RELEVANCE] = hit.relevance
    return Document(page_content=hit.text, id=hit.id, metadata=metadata)
