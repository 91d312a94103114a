"""LlamaIndex: a node postprocessor that re-ranks, and a retriever over an index.

`SurpriseRerank` re-ranks what any retriever found; nodes whose id an index knows are compared by their stored
vectors, others are encoded. `SurpriseRetriever` finds and ranks documents of an index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from qdrant_client import models

from surprise_rerank.candidates import Hit, Ranking, Verdict, verdict_json
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.components import (
    OURS,
    TITLE,
    Lazy,
    attached,
    component_settings,
    found_metadata,
    given_vectors,
    judged_metadata,
    least_surprise,
    require_writable,
    stored_names,
)
from surprise_rerank.connectors.haystack_filters import metadata_path
from surprise_rerank.connectors.qdrant.retrievers.base import filterable
from surprise_rerank.core.extras import pip_line
from surprise_rerank.errors import DataError, MissingExtraError, refuse_unknown
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.text_reranker import RankedTexts, TextReranker

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
    from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
    from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
    from llama_index.core.instrumentation.events import BaseEvent
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores.types import MetadataFilters
    from pydantic import SkipValidation, model_validator
except ImportError as error:
    raise MissingExtraError(f"llama-index-core is not installed: run {pip_line('llama-index')}") from error

_WRITTEN = frozenset({"class_name"})  # what `to_dict` adds to the fields
_CUTOFF = "similarity_cutoff"  # LlamaIndex's name for min_surprise
_RETRIEVAL_SCORE = "retrieval_score"

_dispatcher = get_dispatcher(__name__)

_Comparison: TypeAlias = Callable[[str, Any], models.Condition]


class VerdictEvent(BaseEvent):
    """Whether a question got an answer, and why: the fields of `candidates.Verdict`.

    Attributes:
        query: the question.
        verdict: status, chance and reason.
    """

    query: str
    verdict: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """The name that it is written under."""
        return "VerdictEvent"


class SurpriseRerank(BaseNodePostprocessor):
    """Re-ranks nodes, best first: copies with their new score; those that are given stay as they are.

    Made from names, it can be written and read (`to_dict`, `to_json`, `from_dict`); the model is loaded when
    the first nodes come, and anew once a name has changed. A `TextReranker` of your own goes into `reranker`
    instead of names; copies share it.

    The score is the surprise where there is a background (then in `metadata["surprise"]` too, and the
    verdict's status in `metadata["surprise_verdict"]`), else the re-ranker's own. The verdict is sent as a
    `VerdictEvent`, also where nothing comes back. `similarity_cutoff` is another name of min_surprise.

    What is compared are the vectors that an index has under `node_id`, or, for a node that is a whole
    document (none comes before or after it), under `ref_doc_id`; or else `node.embedding`, where it is of the
    encoder's model and dense vectors are compared; or else the node's text with the metadata that it shows to
    embedding models, as LlamaIndex's re-rankers read it.

    Raises:
        ValidationError: if a field is of a wrong type; if there are both a re-ranker and names, both index
            and url, or a password in the url.
    """

    # Input stays out of messages: there can be a password in a url.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True)

    top_n: int = Field(default=2, gt=0, description="The most nodes that are returned.")
    # pydantic would look into the dataclass, whose protocols it cannot check.
    reranker: SkipValidation[TextReranker | None] = Field(
        default=None, exclude=True, description="What ranks, instead of the names below."
    )
    index: str | None = Field(default=None, description="Folder of an index whose stored vectors are used.")
    url: str | None = Field(default=None, description="Of a Qdrant server with the index, instead.")
    collection: str = Field(default="documents", description="The collection on the server.")
    config: str | None = Field(default=None, description="File with the names of a collection of others.")
    model: str | None = Field(default=None, description="Of the encoder; the index's own by default.")
    system: str | None = Field(
        default=None, description="What ranks; see `connectors.attached.settings.PipelineSettings`."
    )
    min_surprise: float | None = Field(default=None, description="Leave out what is less surprising.")
    diversity: float | None = Field(default=None, description="Different nodes first, from 0 to 1.")
    mmr: float | None = Field(default=None, description="The same as 1 - diversity.")
    collapse: float | None = Field(
        default=None,
        description="Nodes with this cosine to a better one are folded into it; see metadata['duplicates'].",
    )
    background: str | None = Field(default=None, description="File of a background, where there is no index.")
    # Like the re-ranker, an object is none of pydantic's business.
    encoder: SkipValidation[Any] = Field(
        default=None, exclude=True, description="Instead of a model's name; see `as_encoder`."
    )
    keep_retrieval_score: bool = Field(
        default=False, description="Keep the score that a node came with in metadata['retrieval_score']."
    )
    # With the settings that it loads by.
    _lazy: tuple[PipelineSettings, Lazy[TextReranker]] = PrivateAttr()

    @classmethod
    def attach(
        cls,
        store: Any,
        *,
        embed: Any = None,
        system: str | None = None,
        min_surprise: float | None = None,
        similarity_cutoff: float | None = None,
        top_n: int = 2,
        keep_retrieval_score: bool = False,
        **settings: Any,
    ) -> SurpriseRerank:
        """One over the collection of a vector store, as it is: what is there is not encoded again.

        Args:
            store: a `VectorStoreIndex` over Qdrant, its retriever, a `QdrantVectorStore`, or what else
                `attach_store` takes.
            embed: the model of its vectors; an index has one.
            system: what ranks; the best that the collection has enough for by default.
            min_surprise: leave out what is less surprising than this share of other questions.
            similarity_cutoff: LlamaIndex's name for min_surprise.
            top_n: the most nodes that are returned.
            keep_retrieval_score: keep the score that a node came with.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.text_reranker`.
        """
        collection, diversity = attached(store, embed, settings)
        least = least_surprise(min_surprise, similarity_cutoff=similarity_cutoff)
        reranker = collection.text_reranker(system, min_surprise=least, **diversity)
        return cls(reranker=reranker, top_n=top_n, keep_retrieval_score=keep_retrieval_score)

    @classmethod
    def class_name(cls) -> str:
        """The name that it is written under."""
        return "SurpriseRerank"

    @model_validator(mode="before")
    @classmethod
    def _known_fields_only(cls, given: Any) -> Any:
        """Refuse a name that is no field with the names that are; the least surprise has two."""
        if isinstance(given, dict):
            given = dict(given)
            cutoff = given.pop(_CUTOFF, None)
            refuse_unknown(set(given) - _WRITTEN, [*cls.model_fields, _CUTOFF], cls.__name__)
            given["min_surprise"] = least_surprise(given.get("min_surprise"), similarity_cutoff=cutoff)
        return given

    def model_post_init(self, context: Any, /) -> None:
        """Refuse what contradicts itself, and what must not be written."""
        settings = self._settings()
        self._lazy = settings, Lazy(settings.text_reranker, self.reranker)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> SurpriseRerank:
        memo = {} if memo is None else memo
        memo[id(self.reranker)] = self.reranker  # an open index cannot be copied
        memo[id(self.encoder)] = self.encoder
        return super().__deepcopy__(memo)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """All fields but the callback manager.

        Raises:
            DataError: if it was given a re-ranker, which no names stand for.
        """
        require_writable(self._current(), self.class_name(), "reranker", self._settings())
        return super().to_dict(**kwargs)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        reranker = self._current().get()
        with self._reported(nodes, query_bundle, reranker.encoder.name) as (question, found):
            ranked = reranker.rank(
                question, _texts(nodes), ids=_ids(nodes), vectors=_vectors(nodes), top_k=self.top_n
            )
            _tell(question, ranked.verdict)
            found += self._picked(nodes, ranked)
        return found

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        reranker = await self._current().aget()
        with self._reported(nodes, query_bundle, reranker.encoder.name) as (question, found):
            ranked = await reranker.arank(
                question, _texts(nodes), ids=_ids(nodes), vectors=_vectors(nodes), top_k=self.top_n
            )
            _tell(question, ranked.verdict)
            found += self._picked(nodes, ranked)
        return found

    def _settings(self) -> PipelineSettings:
        if self.reranker is not None and not isinstance(self.reranker, TextReranker):
            raise DataError(f"reranker must be a TextReranker, got {type(self.reranker).__name__}")
        return component_settings(
            self.reranker,
            "reranker",
            index=self.index,
            url=self.url,
            collection=self.collection,
            config=self.config,
            model=self.model,
            system=self.system,
            min_surprise=self.min_surprise,
            background=self.background,
            encoder=self.encoder,
            diversity=self.diversity,
            mmr=self.mmr,
            collapse=self.collapse,
        )

    def _current(self) -> Lazy[TextReranker]:
        """What the fields name now: they can be assigned, and `model_copy` changes them in a copy."""
        settings = self._settings()
        known, lazy = self._lazy
        if settings != known or self.reranker is not None or lazy.is_given:
            lazy = Lazy(settings.text_reranker, self.reranker)
            self._lazy = settings, lazy
        return lazy

    @contextmanager
    def _reported(
        self, nodes: list[NodeWithScore], query: QueryBundle | None, model: str
    ) -> Iterator[tuple[str, list[NodeWithScore]]]:
        """The question and a list for the results, between the events that LlamaIndex's re-rankers send."""
        _dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=self.top_n, model_name=model))
        if query is None:
            raise DataError("there is no question to rank nodes by; give query_bundle= or query_str=")
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: model,
            EventPayload.QUERY_STR: query.query_str,
            EventPayload.TOP_K: self.top_n,
        }
        found: list[NodeWithScore] = []
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            yield query.query_str, found
            event.on_end(payload={EventPayload.NODES: found})
        _dispatcher.event(ReRankEndEvent(nodes=found))

    def _picked(self, nodes: Sequence[NodeWithScore], ranked: RankedTexts) -> list[NodeWithScore]:
        found = []
        for line in ranked:
            given = nodes[line.position]
            duplicates = [nodes[i].node.node_id for i in line.folded]
            metadata = judged_metadata(given.node.metadata, line.surprise, duplicates, ranked.verdict)
            if self.keep_retrieval_score:
                metadata[_RETRIEVAL_SCORE] = given.score
            found.append(NodeWithScore(node=_with_metadata(given.node, metadata), score=line.relevance))
        return found


class SurpriseRetriever(BaseRetriever):
    """The documents of an index for a question, as nodes whose `node_id` is the document's id.

    A node has the text of the document's best passage, the document's metadata and `title`, and the surprise
    as its score where the pipeline has a background (then in `metadata["surprise"]` too, and the verdict's
    status in `metadata["surprise_verdict"]`), else the pipeline's score. The verdict is sent as a
    `VerdictEvent`: it says why nothing comes back.

    Args:
        pipeline: what retrieves and ranks.
        similarity_top_k: the most nodes that are returned.
        filters: only documents that they let through, in LlamaIndex's form or Qdrant's.
        callback_manager: as for every retriever.
        verbose: as for every retriever.

    Raises:
        DataError: if similarity_top_k is not positive, or the filters do not reach the pipeline.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        filters: MetadataFilters | models.Filter | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        if similarity_top_k < 1:
            raise DataError(f"similarity_top_k must be at least 1, got {similarity_top_k}")
        self.pipeline = _filtered(pipeline, filters)
        self._store: Any = None  # of LlamaIndex, which gives whole nodes
        self.similarity_top_k = similarity_top_k
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    @classmethod
    def load(
        cls,
        *,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        similarity_cutoff: float | None = None,
        **names: Any,
    ) -> SurpriseRetriever:
        """A retriever from names, such as index= or url=.

        Args:
            similarity_top_k: the most nodes that are returned.
            similarity_cutoff: LlamaIndex's name for min_surprise.
            names: the attributes of `connectors.attached.settings.PipelineSettings`.

        Raises:
            SurpriseRerankError: as `PipelineSettings.pipeline`.
        """
        names["min_surprise"] = least_surprise(names.get("min_surprise"), similarity_cutoff=similarity_cutoff)
        settings = PipelineSettings.of(names, cls.__name__, ["similarity_top_k", _CUTOFF])
        return cls(settings.pipeline(), similarity_top_k=similarity_top_k)

    @classmethod
    def attach(
        cls,
        store: Any,
        *,
        embed: Any = None,
        system: str | None = None,
        depth: int = 100,
        min_surprise: float | None = None,
        similarity_cutoff: float | None = None,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        filters: MetadataFilters | models.Filter | None = None,
        **settings: Any,
    ) -> SurpriseRetriever:
        """One over the collection of a vector store, as it is.

        Args:
            store: a `VectorStoreIndex` over Qdrant, its retriever, a `QdrantVectorStore`, or what else
                `attach_store` takes.
            embed: the model of its vectors; an index has one.
            system: what ranks; the best that the collection has enough for by default.
            depth: size of the candidate pool that is re-ranked.
            min_surprise: leave out what is less surprising than this share of other questions.
            similarity_cutoff: LlamaIndex's name for min_surprise.
            similarity_top_k: the most nodes that are returned.
            filters: only documents that they let through, in LlamaIndex's form or Qdrant's.
            settings: diversity, mmr, collapse; and more for `Collection.attach`, such as `token_encoder`.

        Raises:
            SurpriseRerankError: as `Collection.attach` and `Collection.pipeline`.
        """
        collection, diversity = attached(store, embed, settings)
        least = least_surprise(min_surprise, similarity_cutoff=similarity_cutoff)
        pipeline = collection.pipeline(system, depth=depth, min_surprise=least, **diversity)
        made = cls(pipeline, similarity_top_k=similarity_top_k, filters=filters)
        made._store = _with_nodes(store)
        return made

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        ranking = self.pipeline.search(query_bundle.query_str, self.similarity_top_k)
        return self._nodes(query_bundle.query_str, ranking)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        ranking = await self.pipeline.asearch(query_bundle.query_str, self.similarity_top_k)
        return await asyncio.to_thread(self._nodes, query_bundle.query_str, ranking)

    def _nodes(self, question: str, ranking: Ranking) -> list[NodeWithScore]:
        """The hits as nodes; those of a store of LlamaIndex as they are there, with their relationships."""
        _tell(question, ranking.verdict)
        whole: dict[str, BaseNode] = {}
        if self._store is not None and len(ranking):
            whole = {own.node_id: own for own in self._store.get_nodes(node_ids=list(ranking.ids))}
        return [_node(hit, ranking.verdict, whole.get(hit.id)) for hit in ranking]


def _with_nodes(store: Any) -> Any:
    """The vector store behind an index or a retriever, where it gives nodes back; else None."""
    for name in ("vector_store", "_index"):
        if hasattr(store, name):
            return _with_nodes(getattr(store, name))
    return store if hasattr(store, "get_nodes") and getattr(store, "_client", None) is not None else None


def _filtered(pipeline: Pipeline, filters: MetadataFilters | models.Filter | None) -> Pipeline:
    """The same over the documents that the filters let through."""
    if isinstance(filters, MetadataFilters):
        filters = _qdrant_filter(filters, filterable(pipeline).index.metadata_key)
    return pipeline.changed(filter=filters)


def _texts(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]


def _ids(nodes: Sequence[NodeWithScore]) -> list[tuple[str, ...] | None]:
    return [stored_names(own.node_id, _whole_document(own)) for own in (node.node for node in nodes)]


def _whole_document(node: BaseNode) -> str | None:
    """The id of the document that a node is the whole of; a part has a neighbour before or after it."""
    is_part = node.prev_node is not None or node.next_node is not None
    return None if is_part else node.ref_doc_id


def _vectors(nodes: Sequence[NodeWithScore]) -> list[Any] | None:
    return given_vectors(node.node.embedding for node in nodes)


def _with_metadata(node: BaseNode, metadata: dict[str, Any]) -> BaseNode:
    """A copy with these metadata, which shows what is ours to no model: it is no part of the text."""
    hidden = [key for key in OURS if key in metadata]
    update = {
        "metadata": metadata,
        "excluded_embed_metadata_keys": _and(node.excluded_embed_metadata_keys, hidden),
        "excluded_llm_metadata_keys": _and(node.excluded_llm_metadata_keys, hidden),
    }
    return node.model_copy(update=update)


def _tell(question: str, verdict: Verdict | None) -> None:
    _dispatcher.event(VerdictEvent(query=question, verdict=verdict_json(verdict) or {}))


def _node(hit: Hit, verdict: Verdict | None, whole: BaseNode | None = None) -> NodeWithScore:
    if whole is not None:
        metadata = judged_metadata(whole.metadata, hit.surprise, hit.duplicates, verdict)
        return NodeWithScore(node=_with_metadata(whole, metadata), score=hit.relevance)
    text, title = hit.text, hit.title
    # A text that begins with its title does not need it twice.
    hidden = [*OURS, TITLE] if title and text.startswith(title) else list(OURS)
    node = TextNode(
        id_=hit.id,
        text=text,
        metadata=found_metadata(hit, verdict),
        excluded_embed_metadata_keys=list(hidden),
        excluded_llm_metadata_keys=list(hidden),
        start_char_idx=None if hit.passage is None else hit.passage.start,
        end_char_idx=None if hit.passage is None else hit.passage.end,
    )
    return NodeWithScore(node=node, score=hit.relevance)


def _and(keys: list[str], more: list[str]) -> list[str]:
    return [*keys, *(key for key in more if key not in keys)]


def _qdrant_filter(filters: Any, root: str) -> models.Filter:
    """LlamaIndex's filters as Qdrant's, with what its own Qdrant store means by them.

    As in LlamaIndex's store, `!=` and `nin` hold only where there is a value, and a string is a list of
    values with commas between them for `in` and `nin`. `any`, `all` and `contains` are understood, too.

    Args:
        filters: `MetadataFilters`, read by their attributes.
        root: the key of the metadata in the payload; empty where they are the payload.

    Raises:
        DataError: if a value does not go with its operator.
    """
    conditions: list[models.Condition] = [
        _qdrant_filter(own, root) if hasattr(own, "filters") else _condition(own, root)
        for own in filters.filters
        if getattr(own, "filters", True)  # none in brackets is no condition
    ]
    match filters.condition:
        case "or":
            return models.Filter(should=conditions)
        case "not":
            return models.Filter(must_not=conditions)
        case _:
            return models.Filter(must=conditions)


def _condition(given: Any, root: str) -> models.Condition:
    key = metadata_path(given.key, root)
    try:
        return _COMPARISONS[given.operator](key, given.value)
    except ValueError as error:  # pydantic's, of Qdrant's own models
        raise DataError(
            f"the filter {given.key!r} {given.operator.value} {given.value!r} is none of Qdrant; a list "
            "goes with in, nin, any and all, a number with <, <=, > and >=, a text or a whole number with !="
        ) from error


def _equal(key: str, value: Any) -> models.Condition:
    if isinstance(value, float):  # a match is for strings and whole numbers
        return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _range(bound: str) -> _Comparison:
    return lambda key, value: models.FieldCondition(key=key, range=models.Range(**{bound: value}))


def _except(key: str, values: list[Any]) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchExcept(**{"except": values}))


def _any(key: str, value: Any) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=_listed(value)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else str(value).split(",")


def _text(key: str, value: Any) -> models.Condition:
    return models.FieldCondition(key=key, match=models.MatchText(text=value))


_COMPARISONS: Mapping[str, _Comparison] = {
    "==": _equal,
    "!=": lambda key, value: _except(key, [value]),
    "<": _range("lt"),
    "<=": _range("lte"),
    ">": _range("gt"),
    ">=": _range("gte"),
    "in": _any,
    "any": _any,
    "nin": lambda key, value: _except(key, _listed(value)),
    "all": lambda key, value: models.Filter(must=[_equal(key, own) for own in _listed(value)]),
    "contains": _equal,
    "text_match": _text,
    "text_match_insensitive": _text,
    "is_empty": lambda key, _: models.IsEmptyCondition(is_empty=models.PayloadField(key=key)),
}
