"""The collection behind a vector store of LangChain, LlamaIndex, Haystack or Mem0.

Stores are recognised by what they have, and no framework is imported.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

from surprise_rerank._errors import DataError, refuse_unknown
from surprise_rerank.connectors.attached._collection import Collection
from surprise_rerank.connectors.qdrant._engines.connections import connect, existing
from surprise_rerank.connectors.qdrant._lexical import SparseVector

# Names that stores have unless somebody chose others: then the layout is recognised by itself.
_LANGCHAIN_KEYS = {"page_content", "metadata"}
# Arguments of `Collection.attach` that are no settings.
_FROM_STORE = frozenset({"where", "collection", "embed"})


# The client of its Qdrant, the collection's name, its model if it has one, and more for `Collection.attach`.
_StoreParts: TypeAlias = tuple[Any, str, Any, dict[str, Any]]


def attach_store(store: Any, *, embed: Any = None, **settings: Any) -> Collection:
    """Attach the collection of a framework's vector store.

    That is LangChain's or LlamaIndex's `QdrantVectorStore`, LlamaIndex's `VectorStoreIndex` over one,
    Haystack's `QdrantDocumentStore`, or Mem0's store; a `Collection` is that itself. `embed` is the model of
    its dense vectors, where the store has none: LangChain's and a `VectorStoreIndex` have one. Settings are
    more for `Collection.attach`, such as `token_encoder` and `keep`.

    Raises:
        DataError: if it is no such store, its model or a setting is not known; as `Collection.attach`.
    """
    names = [name for name in inspect.signature(Collection.attach).parameters if name not in _FROM_STORE]
    refuse_unknown(settings, names, "Collection.attach")
    if isinstance(store, Collection):
        if embed is not None or settings:
            raise DataError("the collection is attached already; give embed and other settings when it is")
        return store
    client, name, model_of_store, settings_of_store = _parts_of(store)
    model = model_of_store if embed is None else embed
    if model is None:
        raise DataError(
            f"{type(store).__name__} does not know the model of its vectors; give it as embed= (the "
            "embedding object of your framework, or a function from texts to vectors)"
        )
    return Collection.attach(client, name, embed=model, **{**settings_of_store, **settings})


def _parts_of(store: Any) -> _StoreParts:
    if hasattr(store, "vector_store"):  # LlamaIndex's VectorStoreIndex
        client, name, _, settings = _parts_of(store.vector_store)
        return client, name, getattr(store, "_embed_model", None), settings
    if hasattr(store, "content_payload_key"):
        return _langchain(store)
    if hasattr(store, "dense_vector_name") and hasattr(store, "text_key"):
        return _llama_index(store)
    if hasattr(store, "use_sparse_embeddings") and hasattr(store, "count_documents"):
        return _haystack(store)
    if hasattr(store, "client") and hasattr(store, "collection_name"):  # Mem0, and others built alike
        return store.client, store.collection_name, None, {}
    raise DataError(
        f"a {type(store).__name__} is no vector store over Qdrant that is known; give one of LangChain, "
        "LlamaIndex, Haystack or Mem0, or use Collection.attach(client, name, embed=...)"
    )


def _langchain(store: Any) -> _StoreParts:
    keys = (store.content_payload_key, store.metadata_payload_key)
    settings: dict[str, Any] = {}
    if set(keys) != _LANGCHAIN_KEYS:
        settings = {"text": keys[0], "metadata": keys[1]}
    if store.vector_name:
        settings["vector"] = store.vector_name
    sparse = getattr(store, "_sparse_embeddings", None)
    # A dense store may have a sparse model that it never asks.
    if sparse is not None and (store.retrieval_mode != "dense" or _has_sparse(store)):
        settings |= {"sparse": sparse, "sparse_vector": store.sparse_vector_name}
    return store.client, store.collection_name, store.embeddings, settings


def _has_sparse(store: Any) -> bool:
    params = existing(connect(store.client), store.collection_name).info().config.params
    return store.sparse_vector_name in (params.sparse_vectors or {})


def _llama_index(store: Any) -> _StoreParts:
    client = store._client if store._client is not None else store._aclient
    settings: dict[str, Any] = {"vector": store.dense_vector_name} if store.dense_vector_name else {}
    query = getattr(store, "_sparse_query_fn", None)
    if store.enable_hybrid and query is not None:

        def sparse(text: str) -> SparseVector:
            indices, values = query([text])
            return SparseVector(indices[0], values[0])

        settings |= {"sparse": sparse, "sparse_vector": store.sparse_vector_name}
    return client, store.collection_name, None, settings


def _haystack(store: Any) -> _StoreParts:
    store.count_documents()  # its client is made with the first request
    return store._client, store.index, None, {}
