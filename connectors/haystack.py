"""Haystack: a ranker and a retriever as components of pipelines.

A pipeline that was written is read by `Pipeline.loads(text, allowed_modules=["surprise_rerank"])`: Haystack
imports only modules that are allowed.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self, get_args

from surprise_rerank import _border as border
from surprise_rerank._candidates import Unit
from surprise_rerank._errors import DataError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors._components import (
    Adapter,
    found_metadata,
    ranked_metadata,
    stored_names,
    verdict_values,
)
from surprise_rerank.connectors._filters import from_haystack
from surprise_rerank.connectors.attached._settings import PipelineSettings
from surprise_rerank.connectors.qdrant._location import shown_url
from surprise_rerank.connectors.qdrant._retrievers import narrowable
from surprise_rerank.core._extras import importing
from surprise_rerank.core._process import PerProcess

with importing("haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict


# One load at a time: whoever waits for one finds what it loaded.
_loading = PerProcess(threading.Lock)


class _Component(Adapter):
    """A component of a pipeline or a re-ranker: given, or made of names when it is first asked for."""

    def _take(self, taken: Any, names: Mapping[str, Any]) -> None:
        self._named = self._settings(names)
        self._passed = self._object = taken
        if taken is not None and self._named != PipelineSettings():
            raise DataError(f"both {self._argument}= and names of one are given; give one of the two")
        place = ",".join(self._named.location.urls)
        if shown_url(place) != place:
            raise DataError(
                f"index={shown_url(place)!r} came with a password, which would be written with the "
                "component; give a key by the environment variable QDRANT_API_KEY, or what you opened by "
                f"{self._argument}="
            )

    def _get(self) -> Any:
        """The object; raises what loading raises, and loads anew the next time."""
        if self._object is None:
            with _loading.get():
                if self._object is None:
                    self._object = self._build(replace(self._named, unit=getattr(self, "unit", None)))
        return self._object

    # Threads may share it; a copy shares what was loaded or given: models and open indexes cannot be copied.
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo |= {id(shared): shared for shared in (self._named, self._passed, self._object)}
        component = copy.copy(self)
        component.__dict__ = copy.deepcopy(self.__dict__, memo)
        return component

    def warm_up(self) -> None:
        """Load the model and open the index; `run` does so otherwise."""
        self._get()

    async def warm_up_async(self) -> None:
        """The same, while the event loop goes on."""
        await asyncio.to_thread(self.warm_up)

    def close(self) -> None:
        """Let go of a model and an index that were loaded."""
        self._object = self._passed

    def to_dict(self) -> dict[str, Any]:
        """The component in names; a DataError if it was given an object instead."""
        argument = "encoder" if self._named.encoder is not None else ""
        if self._passed is not None:
            argument = self._argument
        if argument:
            raise DataError(
                f"a {type(self).__name__} that was given {argument}= cannot be written; make it from names: "
                "index, model, system, min_percentile"
            )
        usual, named = PipelineSettings(), self._named
        names = {field.name: getattr(named, field.name) for field in fields(named)}
        names = {name: value for name, value in names.items() if value != getattr(usual, name)}
        return default_to_dict(self, **names, **{name: getattr(self, name) for name in self._options})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The component that `to_dict` wrote."""
        return default_from_dict(cls, data)


@component
class SurpriseRanker(_Component):
    """Re-ranks documents, best first: copies with their new score; those that are given stay as they are.

    What is compared are the vectors that an index has under `Document.id`, or else under `meta["id"]`; or
    else `Document.embedding`, where it is of the encoder's model and dense vectors are compared; or else its
    content. As in Haystack's own rankers, of documents with one id the one with the highest score counts.
    `names` are those of `attached.settings.PipelineSettings`: index, model, system, min_percentile, ...
    """

    _argument: ClassVar = "reranker"
    _options: ClassVar = ("top_k", "meta_fields_to_embed")

    def __init__(
        self,
        *,
        top_k: int = 10,  # the most documents that are returned
        # Metadata that is read before the content, a line each, where the index does not have the document.
        meta_fields_to_embed: list[str] | None = None,
        reranker: TextReranker | None = None,  # instead of names; then the component cannot be written
        **names: Any,
    ) -> None:
        self._take(reranker, names)
        self.top_k = border.count("top_k", top_k)
        self.meta_fields_to_embed = (
            border.optional(border.texts, "meta_fields_to_embed", meta_fields_to_embed) or []
        )

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, Any]:
        """The documents in order, best first, and the verdict on the question.

        `top_k` goes before the component's own.
        """
        most = self.top_k if top_k is None else border.count("top_k", top_k)
        distinct = _one_of_each_id(list(border.instances("documents", documents, Document)))
        texts = []
        for document in distinct:
            values = [
                str(document.meta[name]) for name in self.meta_fields_to_embed if document.meta.get(name)
            ]
            texts.append("\n".join([*values, document.content or ""]))
        ids = [stored_names(document.id, document.meta.get("id")) for document in distinct]
        vectors = [document.embedding for document in distinct]
        ranked = self._get().rank(query, texts, ids=ids, vectors=vectors, top_k=most)
        copies = []
        for line in ranked:
            document, duplicates = distinct[line.position], [distinct[i].id for i in line.folded]
            meta = ranked_metadata(document.meta, line, ranked.verdict, duplicates)
            copies.append(replace(document, score=line.relevance, meta=meta))
        return {"documents": copies, "verdict": verdict_values(ranked.verdict)}

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    async def run_async(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, Any]:
        """`run` in a thread, while the event loop goes on."""
        return await asyncio.to_thread(self.run, query, documents, top_k)


# The name that re-rankers of the other hosts have.
SurpriseRerank = SurpriseRanker


@component
class SurpriseRetriever(_Component):
    """The passages of an index for a question, or the documents.

    One has the stored id, of a later passage with a number behind it, and the document's as `source_id` of
    its meta; the passage's text as content, of a document that of the best one; the stored metadata and
    `title`. The output `verdict` says why there are no documents. `names` are those of
    `attached.settings.PipelineSettings`: index, system, depth, min_percentile, diversity, collapse, ...
    """

    _argument: ClassVar = "pipeline"
    _options: ClassVar = ("top_k", "filters", "unit")

    def __init__(
        self,
        *,
        top_k: int = 10,  # the most that are returned
        filters: dict[str, Any] | None = None,  # of metadata, in Haystack's form; those of `run` replace them
        unit: Unit = "passage",  # what is returned: passages, or documents with the best passage of each
        pipeline: Pipeline | None = None,  # instead of names; then the component cannot be written
        **names: Any,
    ) -> None:
        self._take(pipeline, names)
        self.top_k = border.count("top_k", top_k)
        self.filters = filters
        self.unit: Unit = border.choice("unit", unit, get_args(Unit))
        if filters:
            from_haystack(filters)

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """The best documents for a question, and the verdict on it.

        `filters` and `top_k` go before the component's own.
        """
        most = self.top_k if top_k is None else border.count("top_k", top_k)
        pipeline, chosen = self._get(), filters or self.filters
        if chosen:
            corpus = narrowable(pipeline.retriever).corpus
            pipeline = pipeline.with_options(filter=from_haystack(chosen, corpus.metadata_key, corpus.id_key))
        ranking = pipeline.search(query, most, unit=self.unit)
        documents = []
        for hit, name in zip(ranking, ranking.line_ids, strict=True):
            meta = {"source_id": hit.id, **found_metadata(hit, ranking.verdict, "page_number")}
            documents.append(Document(id=name, content=hit.text, meta=meta, score=hit.relevance))
        return {"documents": documents, "verdict": verdict_values(ranking.verdict)}

    @component.output_types(documents=list[Document], verdict=dict[str, Any])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """`run` in a thread, while the event loop goes on."""
        return await asyncio.to_thread(self.run, query, filters, top_k)


def _one_of_each_id(documents: Sequence[Document]) -> list[Document]:
    """Where the first of an id stood, the one with the highest score."""

    def score(document: Document) -> float:
        return float("-inf") if document.score is None else document.score

    best: dict[str, Document] = {}
    for document in documents:
        best[document.id] = max(best.get(document.id, document), document, key=score)
    return list(best.values())
