"""LlamaIndex: a node postprocessor that re-ranks, and a retriever over an index.

`SurpriseRerank` re-ranks what any retriever found; nodes whose id an index knows are compared by their stored
vectors, others are encoded. `SurpriseRetriever` finds and ranks documents of an index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import GetPydanticSchema
from pydantic_core.core_schema import is_instance_schema
from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._candidates import Hit, Unit, Verdict
from surprise_rerank._errors import DataError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors._components import (
    OURS,
    TITLE,
    LoadedAdapter,
    found_metadata,
    ranked_metadata,
    stored_names,
    verdict_values,
)
from surprise_rerank.connectors._filters import from_llama_index
from surprise_rerank.connectors.qdrant._location import shown_url
from surprise_rerank.connectors.qdrant._retrievers import narrowable
from surprise_rerank.core._extras import importing

with importing("llama-index"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.bridge.pydantic import ConfigDict, Field, model_validator
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
    from llama_index.core.instrumentation.events import BaseEvent
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import (
        BaseComponent,
        BaseNode,
        MetadataMode,
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
    from llama_index.core.vector_stores.types import MetadataFilters

_dispatcher = get_dispatcher(__name__)


class VerdictEvent(BaseEvent):
    """Whether a question got an answer, and why: the fields of `candidates.Verdict`."""

    query: str
    verdict: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """The name that it is written under."""
        return "VerdictEvent"


class SurpriseRerank(LoadedAdapter, BaseNodePostprocessor):
    """Re-ranks nodes, best first: copies with their new score; those that are given stay as they are.

    The verdict is sent as a `VerdictEvent`, also where nothing comes back.

    What is compared are the vectors that an index has under `node_id`, or, for a node that is a whole
    document (none comes before or after it), under `ref_doc_id`; or else `node.embedding`, where it is of the
    encoder's model and dense vectors are compared; or else the node's text with the metadata that it shows to
    embedding models, as LlamaIndex's re-rankers read it.
    `load(index=..., system=...)` makes one of names.
    """

    _argument: ClassVar = "reranker"
    _options: ClassVar = ("top_n", "keep_retrieval_score", "callback_manager")
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Annotated[TextReranker, GetPydanticSchema(lambda kind, _: is_instance_schema(kind))] = Field(
        repr=False, exclude=True
    )
    top_n: int = Field(default=2, gt=0)  # the most nodes that are returned
    keep_retrieval_score: bool = False  # that a node came with, in metadata['retrieval_score']
    # What `load` was called with, so that `from_dict` can load what `to_dict` has written.
    names: dict[str, Any] | None = Field(default=None, repr=False)

    @classmethod
    def load(cls, **options: Any) -> Self:
        """As of every adapter; `to_dict` writes the names, but for an encoder or a password among them."""
        component = super().load(**options)
        names = {name: value for name, value in options.items() if name not in cls._options}
        place = str(names.get("index", ""))
        component.names = names if "encoder" not in names and shown_url(place) == place else None
        return component

    @model_validator(mode="before")
    @classmethod
    def _of_names(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("reranker") is not None:
            return values
        if not values.get("names"):
            raise DataError(
                "there is no reranker; give reranker=, or use SurpriseRerank.load(index=...), whose names "
                "to_dict writes"
            )
        return {**values, "reranker": cls._build(cls._settings(values["names"]))}

    @classmethod
    def class_name(cls) -> str:
        """The name that it is told apart by."""
        return "SurpriseRerank"

    def __getstate__(self) -> dict[str, Any]:
        # LlamaIndex' own takes what cannot be pickled away from this object, which could rank no more.
        return super(BaseComponent, self).__getstate__()

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = border.present("the question", query_bundle, "give query_bundle= or query_str=")
        question, model = query.query_str, self.reranker.encoder.name
        start = ReRankStartEvent(query=query, nodes=nodes, top_n=self.top_n, model_name=model)
        _dispatcher.event(start)
        texts = [retrieved.node.get_content(metadata_mode=MetadataMode.EMBED) for retrieved in nodes]
        ids = [stored_names(retrieved.node.node_id, _whole_document(retrieved.node)) for retrieved in nodes]
        vectors = [retrieved.node.embedding for retrieved in nodes]
        ranked = self.reranker.rank(question, texts, ids=ids, vectors=vectors, top_k=self.top_n)
        _tell(question, ranked.verdict)
        copies = []
        for line in ranked:
            retrieved = nodes[line.position]
            duplicates = [nodes[i].node.node_id for i in line.folded]
            metadata = ranked_metadata(retrieved.node.metadata, line, ranked.verdict, duplicates)
            if self.keep_retrieval_score:
                metadata["retrieval_score"] = retrieved.score
            copies.append(NodeWithScore(node=_with_metadata(retrieved.node, metadata), score=line.relevance))
        _dispatcher.event(ReRankEndEvent(nodes=copies))
        return copies


class SurpriseRetriever(LoadedAdapter, BaseRetriever):
    """The passages of an index for a question as nodes, or the documents with the best passage of each.

    The `node_id` is the document's id, of a later passage with a number behind it, and `ref_doc_id` the
    document's. A node has the document's metadata and `title`. Of an attached store of LlamaIndex it is the
    stored node. The verdict is sent as a `VerdictEvent`. `load(index=..., system=...)` makes one of names.
    """

    _argument: ClassVar = "pipeline"
    _options: ClassVar = ("similarity_top_k", "filters", "unit", "callback_manager", "verbose")

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,  # the most nodes that are returned
        filters: MetadataFilters | models.Filter | None = None,  # only documents that they let through
        unit: Unit = "passage",  # what is returned: passages, or documents with the best passage of each
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        border.instance("pipeline", pipeline, Pipeline)
        border.count("similarity_top_k", similarity_top_k)
        if isinstance(filters, MetadataFilters):
            filters = from_llama_index(filters, narrowable(pipeline.retriever).corpus.metadata_key)
        self.pipeline = pipeline.with_options(filter=filters, unit=unit)
        self.similarity_top_k = similarity_top_k
        self._store: Any = None  # of LlamaIndex, which gives whole nodes
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    @classmethod
    def attach(cls, store: Any, *, embed: Any = None, **options: Any) -> Self:
        """As of every adapter; nodes come back as they are in the store, with their relationships."""
        retriever = super().attach(store, embed=embed, **options)
        retriever._store = _with_nodes(store)
        return retriever

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = query_bundle.query_str
        ranking = self.pipeline.search(question, self.similarity_top_k)
        _tell(question, ranking.verdict)
        whole: dict[str, BaseNode] = {}
        if self._store is not None and len(ranking):
            nodes = self._store.get_nodes(node_ids=list(ranking.ids))
            whole = {node.node_id: node for node in nodes}
        return [
            NodeWithScore(node=_node(hit, name, ranking.verdict, whole.get(hit.id)), score=hit.relevance)
            for hit, name in zip(ranking, ranking.line_ids, strict=True)
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # LlamaIndex's own fallback would hold up the event loop.
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _with_nodes(store: Any) -> Any:
    """The vector store behind an index or a retriever, where it gives nodes back; else None."""
    for name in ("vector_store", "_index"):
        if hasattr(store, name):
            return _with_nodes(getattr(store, name))
    return store if hasattr(store, "get_nodes") and getattr(store, "_client", None) is not None else None


def _whole_document(node: BaseNode) -> str | None:
    """The id of the document that a node is the whole of; a part has a neighbour before or after it."""
    is_part = node.prev_node is not None or node.next_node is not None
    return None if is_part else node.ref_doc_id


def _tell(question: str, verdict: Verdict | None) -> None:
    _dispatcher.event(VerdictEvent(query=question, verdict=verdict_values(verdict)))


def _node(hit: Hit, name: str, verdict: Verdict | None, whole: BaseNode | None) -> BaseNode:
    if whole is not None:
        node = _with_metadata(whole, ranked_metadata(whole.metadata, hit, verdict, hit.duplicates))
        if len(hit.text) > len(whole.get_content()):  # it has the text of a neighbour, too
            node.set_content(hit.text)
        return node
    # A text that begins with its title does not need it twice.
    hidden = [*OURS, TITLE] if hit.title and hit.text.startswith(hit.title) else [*OURS]
    return TextNode(
        id_=name,
        relationships=_relationships(hit),
        text=hit.text,
        metadata=found_metadata(hit, verdict),
        excluded_embed_metadata_keys=hidden,
        excluded_llm_metadata_keys=[*hidden],
        start_char_idx=None if hit.passage is None else hit.passage.start,
        end_char_idx=None if hit.passage is None else hit.passage.end,
    )


def _relationships(hit: Hit) -> dict[NodeRelationship, Any]:
    """The document that a node is of, and the neighbour by which a part is known from a whole document."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.id)}
    if hit.passage is None or hit.document is None:
        return source
    if hit.passage.start:
        return {**source, NodeRelationship.PREVIOUS: RelatedNodeInfo(node_id=hit.id)}
    if hit.passage.end < len(hit.document.content):
        return {**source, NodeRelationship.NEXT: RelatedNodeInfo(node_id=hit.id)}
    return source


def _with_metadata(node: BaseNode, metadata: dict[str, Any]) -> BaseNode:
    """Return a copy with these metadata, of which models read none that this package added."""
    added_keys = [key for key in OURS if key in metadata]

    def with_added(keys: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*keys, *added_keys]))

    update = {
        "metadata": metadata,
        "excluded_embed_metadata_keys": with_added(node.excluded_embed_metadata_keys),
        "excluded_llm_metadata_keys": with_added(node.excluded_llm_metadata_keys),
    }
    return node.model_copy(update=update)
