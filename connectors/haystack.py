"""Haystack: a ranker and a retriever as components of pipelines.

A pipeline that was written is read by `Pipeline.loads(text, allowed_modules=["surprise_rerank"])`: Haystack
imports only modules that are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from surprise_rerank.candidates import Hit, Ranking, Verdict, verdict_json
from surprise_rerank.connectors.components import (
    Lazy,
    attached,
    component_settings,
    found_metadata,
    given_vectors,
    judged_metadata,
    least_surprise,
    refuse_arguments,
    require_writable,
    stored_names,
)
from surprise_rerank.connectors.haystack_filters import to_qdrant_filter
from surprise_rerank.connectors.qdrant.retrievers.base import filterable
from surprise_rerank.core.extras import pip_line
from surprise_rerank.errors import DataError, MissingExtraError
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.text_reranker import RankedTexts, TextReranker

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtraError(f"haystack-ai is not installed: run {pip_line('haystack')}") from error


class _Loaded:
    """What both components can do, once they have something that loads itself."""

    _lazy: Lazy[Any]

    def warm_up(self) -> None:
        """Load the model and open the index; `run` does so otherwise."""
        self._lazy.get()

    async def warm_up_async(self) -> None:
        """The same, while the event loop goes on."""
        await self._lazy.aget()

    def close(self) -> None:
        """Let go of the model and the index."""
        self._lazy.forget()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The component that `to_dict` wrote."""
        return default_from_dict(cls, data)


@component
class SurpriseRanker(_Loaded):
    """Re-ranks documents, best first: copies with their new score; those that are given stay as they are.

    The score is the surprise where there is a background (then in `meta["surprise"]` too), else the
    re-ranker's own. What is compared are the vectors that an index has under `Document.id`, or else under
    `meta["id"]`; or else `Document.embedding`, where it is of the encoder's model and dense vectors are
    compared; or else its content. As in Haystack's own rankers, of documents with one id the one with the
    highest score counts.

    The output `verdict` has the fields of `candidates.Verdict`, also where there are no documents; its status
    is in `meta["surprise_verdict"]` of documents with a surprise.

    Args:
        index: folder of an index whose stored vectors are used.
        url: of a Qdrant server with the index, instead; its key comes from QDRANT_API_KEY.
        collection: on the server.
        config: file with the names of a collection that others made; see `attached.settings.ForeignParts`.
        model: of the encoder; the index's own by default.
        system: what ranks: `dynamax`, `cosine` or `auto`; with an index also `surprise` or `fusion`.
        min_surprise: leave out what is less surprising; the index must have a background for the system, or
            `background` be given.
        score_threshold: Haystack's name for min_surprise.
        background: file of a background, where there is no index.
        encoder: instead of a model's name; see `encoders.adapting.as_encoder`. Such a component cannot be
            written.
        diversity: different documents first, from 0 (by relevance alone) to 1.
        mmr: the same as 1 - diversity.
        collapse: documents with this cosine to a better one are folded into it: `meta["duplicates"]` of that
            has their ids.
        top_k: the most documents that are returned.
        meta_fields_to_embed: metadata that is read before the content, a line each, where the index does not
            have the document.
        reranker: what ranks, instead of all the names above. Such a component cannot be written.
        unknown: nothing else; refused by name.

    Raises:
        DataError: if top_k is not positive, or a name is not known; if there are both a re-ranker and names,
            both index and url, or a password in the url.
    """

    def __init__(
        self,
        *,
        index: str | None = None,
        url: str | None = None,
        collection: str = "documents",
        config: str | None = None,
        model: str | None = None,
        system: str | None = None,
        min_surprise: float | None = None,
        score_threshold: float | None = None,
        background: str | None = None,
        encoder: Any = None,
        diversity: float | None = None,
        mmr: float | None = None,
        collapse: float | None = None,
        top_k: int = 10,
        meta_fields_to_embed: list[str] | None = None,
        reranker: TextReranker | None = None,
        **unknown: Any,
    ) -> None:
        refuse_arguments(type(self), unknown)
        self.settings = component_settings(
            reranker,
            "reranker",
            index=index,
            url=url,
            collection=collection,
            config=config,
            model=model,
            system=system,
            min_surprise=least_surprise(min_surprise, score_threshold=score_threshold),
            background=background,
            encoder=encoder,
            diversity=diversity,
            mmr=mmr,
            collapse=collapse,
        )
        self.top_k = _positive(top_k)
        self.meta_fields_to_embed = list(meta_fields_to_embed or [])
        self._lazy = Lazy(self.settings.text_reranker, reranker)

    @classmethod
    def attach(
        cls,
        store: Any,
        *,
        embed: Any = None,
        system: str | None = None,
        min_surprise: float | None = None,
        score_threshold: float | None = None,
        top_k: int = 10,
        meta_fields_to_embed: list[str] | None = None,
        **settings: Any,
    ) -> Self:
        """One over the collection of a document store, as it is: what is there is not encoded again.

        Args:
            store: a `QdrantDocumentStore`, or what else `attach_store` takes.
            embed: a text embedder, or `(document_embedder, text_embedder)`, or what `as_encoder` takes.
            system: what ranks; the best that the collection has enough for by default.
            min_surprise: leave out what is less surprising than this share of other questions.
            score_threshold: Haystack's name for min_surprise.
            top_k: the most documents that are returned.
            meta_fields_to_embed: metadata that is read before the content of documents that are not there.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.text_reranker`.
        """
        collection, diversity = attached(store, embed, settings)
        least = least_surprise(min_surprise, score_threshold=score_threshold)
        reranker = collection.text_reranker(system, min_surprise=least, **diversity)
        return cls(reranker=reranker, top_k=top_k, meta_fields_to_embed=meta_fields_to_embed)

    def to_dict(self) -> dict[str, Any]:
        """The component in names.

        Raises:
            DataError: if it was given a re-ranker.
        """
        names = require_writable(self._lazy, "SurpriseRanker", "reranker", self.settings)
        del names["depth"]  # of a pool that it does not make
        return default_to_dict(
            self, **names, top_k=self.top_k, meta_fields_to_embed=self.meta_fields_to_embed
        )

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, Any]:
        """The documents in order, best first, and the verdict on the question.

        Args:
            query: in words.
            documents: to rank; of those with one id, the one with the highest score.
            top_k: the most that are returned, instead of the component's own.

        Raises:
            DataError: if top_k is not positive.
            SurpriseRerankError: if the index or the model cannot be loaded.
        """
        most = self.top_k if top_k is None else _positive(top_k)
        given = _deduplicated(documents)
        ranked = self._lazy.get().rank(
            query, self._texts(given), ids=_ids(given), vectors=_vectors(given), top_k=most
        )
        return _scored(given, ranked)

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    async def run_async(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, Any]:
        """`run`, in a thread, while the event loop goes on.

        Args:
            query: in words.
            documents: to rank; of those with one id, the one with the highest score.
            top_k: the most that are returned, instead of the component's own.

        Raises:
            SurpriseRerankError: as `run`.
        """
        most = self.top_k if top_k is None else _positive(top_k)
        given = _deduplicated(documents)
        reranker = await self._lazy.aget()
        ranked = await reranker.arank(
            query, self._texts(given), ids=_ids(given), vectors=_vectors(given), top_k=most
        )
        return _scored(given, ranked)

    def _texts(self, documents: Sequence[Document]) -> list[str]:
        if not self.meta_fields_to_embed:
            return [document.content or "" for document in documents]
        return [_with_fields(document, self.meta_fields_to_embed) for document in documents]


# The name that re-rankers of the other hosts have.
SurpriseRerank = SurpriseRanker


@component
class SurpriseRetriever(_Loaded):
    """The documents of an index for a question.

    A document has the stored id, the text of its best passage as content, the stored metadata and `title` as
    meta, and the surprise as score where the index has a background (then in `meta["surprise"]` too), else
    the pipeline's.

    The output `verdict` has the fields of `candidates.Verdict`: it says why there are no documents. Its
    status is in `meta["surprise_verdict"]` of documents with a surprise.

    Args:
        index: folder of an index.
        url: of a Qdrant server with the index, instead; its key comes from QDRANT_API_KEY.
        collection: on the server.
        config: file with the names of a collection that others made; see `attached.settings.ForeignParts`.
        model: of the encoder; the index's own by default.
        system: what ranks; see `connectors.attached.settings.PipelineSettings`.
        depth: size of the candidate pool that is re-ranked.
        min_surprise: leave out what is less surprising; the index must have a background for the system.
        score_threshold: Haystack's name for min_surprise.
        diversity: different documents first, from 0 (by relevance alone) to 1.
        mmr: the same as 1 - diversity.
        collapse: documents with this cosine to a better one are folded into it: `meta["duplicates"]` of that
            has their ids.
        top_k: the most documents that are returned.
        filters: of metadata, as everywhere in Haystack; those of `run` replace them.
        pipeline: what retrieves and ranks, instead of the names above. Such a component cannot be written.
        unknown: nothing else; refused by name.

    Raises:
        DataError: if top_k is not positive, a name is not known, or the filters are none; if there are both a
            pipeline and names, both index and url, or a password in the url.
    """

    def __init__(
        self,
        *,
        index: str | None = None,
        url: str | None = None,
        collection: str = "documents",
        config: str | None = None,
        model: str | None = None,
        system: str | None = None,
        depth: int = 100,
        min_surprise: float | None = None,
        score_threshold: float | None = None,
        diversity: float | None = None,
        mmr: float | None = None,
        collapse: float | None = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        pipeline: Pipeline | None = None,
        **unknown: Any,
    ) -> None:
        refuse_arguments(type(self), unknown)
        self.settings = component_settings(
            pipeline,
            "pipeline",
            index=index,
            url=url,
            collection=collection,
            config=config,
            model=model,
            system=system,
            depth=depth,
            min_surprise=least_surprise(min_surprise, score_threshold=score_threshold),
            diversity=diversity,
            mmr=mmr,
            collapse=collapse,
        )
        self.top_k = _positive(top_k)
        self.filters = filters
        self._lazy = Lazy(self.settings.pipeline, pipeline)
        if filters:
            to_qdrant_filter(filters)

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
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Self:
        """One over the collection of a document store, as it is.

        Args:
            store: a `QdrantDocumentStore`, or what else `attach_store` takes.
            embed: a text embedder, or `(document_embedder, text_embedder)`, or what `as_encoder` takes.
            system: what ranks; the best that the collection has enough for by default.
            depth: size of the candidate pool that is re-ranked.
            min_surprise: leave out what is less surprising than this share of other questions.
            score_threshold: Haystack's name for min_surprise.
            top_k: the most documents that are returned.
            filters: of metadata; those of `run` replace them.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.pipeline`.
        """
        collection, diversity = attached(store, embed, settings)
        least = least_surprise(min_surprise, score_threshold=score_threshold)
        pipeline = collection.pipeline(system, depth=depth, min_surprise=least, **diversity)
        return cls(pipeline=pipeline, top_k=top_k, filters=filters)

    def to_dict(self) -> dict[str, Any]:
        """The component in names.

        Raises:
            DataError: if it was given a pipeline.
        """
        names = require_writable(self._lazy, "SurpriseRetriever", "pipeline", self.settings)
        del names["background"]  # of texts without an index
        return default_to_dict(self, **names, top_k=self.top_k, filters=self.filters)

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """The best documents for a question, and the verdict on it.

        Args:
            query: in words.
            filters: of metadata, instead of the component's own.
            top_k: the most that are returned, instead of the component's own.

        Raises:
            DataError: if top_k is not positive, or the filters are none.
            SurpriseRerankError: if the index or the model cannot be loaded.
        """
        most = self.top_k if top_k is None else _positive(top_k)
        pipeline = _filtered(self._lazy.get(), filters or self.filters)
        return _documents(pipeline.search(query, most))

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """`run`, in a thread, while the event loop goes on.

        Args:
            query: in words.
            filters: of metadata, instead of the component's own.
            top_k: the most that are returned, instead of the component's own.

        Raises:
            SurpriseRerankError: as `run`.
        """
        most = self.top_k if top_k is None else _positive(top_k)
        pipeline = _filtered(await self._lazy.aget(), filters or self.filters)
        return _documents(await pipeline.asearch(query, most))


def _positive(top_k: int) -> int:
    if top_k < 1:
        raise DataError(f"top_k must be at least 1, got {top_k}")
    return top_k


def _deduplicated(documents: Sequence[Document]) -> list[Document]:
    """One document of each id, where the first of them stood: the one with the highest score."""
    best: dict[str, Document] = {}
    for document in documents:
        known = best.get(document.id)
        if known is None or _score(document) > _score(known):
            best[document.id] = document
    return list(best.values())


def _score(document: Document) -> float:
    return float("-inf") if document.score is None else document.score


def _ids(documents: Sequence[Document]) -> list[tuple[str, ...] | None]:
    return [stored_names(document.id, document.meta.get("id")) for document in documents]


def _vectors(documents: Sequence[Document]) -> list[Any] | None:
    return given_vectors(document.embedding for document in documents)


def _with_fields(document: Document, fields: Sequence[str]) -> str:
    values = [str(document.meta[field]) for field in fields if document.meta.get(field)]
    return "\n".join([*values, document.content or ""])


def _scored(given: Sequence[Document], ranked: RankedTexts) -> dict[str, Any]:
    """What a ranker puts out."""
    found = []
    for line in ranked:
        document, duplicates = given[line.position], [given[i].id for i in line.folded]
        meta = judged_metadata(document.meta, line.surprise, duplicates, ranked.verdict)
        found.append(replace(document, score=line.relevance, meta=meta))
    return {"documents": found, "verdict": verdict_json(ranked.verdict)}


def _documents(ranking: Ranking) -> dict[str, Any]:
    """What a retriever puts out."""
    found = [_document(hit, ranking.verdict) for hit in ranking]
    return {"documents": found, "verdict": verdict_json(ranking.verdict)}


def _document(hit: Hit, verdict: Verdict | None) -> Document:
    meta = found_metadata(hit, verdict)
    return Document(id=hit.id, content=hit.text, meta=meta, score=hit.relevance)


def _filtered(pipeline: Pipeline, filters: dict[str, Any] | None) -> Pipeline:
    """The same over the documents that the filters let through."""
    if not filters:
        return pipeline
    index = filterable(pipeline).index
    return pipeline.changed(filter=to_qdrant_filter(filters, index.metadata_key, index.id_key))
