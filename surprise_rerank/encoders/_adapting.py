"""What people have that makes vectors, as encoders: recognised by its methods; no host is imported."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, cast

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.encoders._function import Embed, FunctionEncoder
from surprise_rerank.encoders.base import Encoder

_POSSIBLE = (
    "an Encoder, the name or folder of a model, a SentenceTransformer or MultiVectorEncoder, a function from "
    "texts to vectors, an object with encode(texts), LangChain's Embeddings, LlamaIndex's BaseEmbedding, "
    "Haystack's text or document embedder or the pair (document embedder, text embedder), or fastembed's "
    "TextEmbedding"
)
# Documents' method, questions' method, and whether the second takes one question.
_METHODS = (
    ("embed_documents", "embed_query", True),
    ("get_text_embedding_batch", "get_query_embedding", True),
    ("passage_embed", "query_embed", False),
    ("encode_document", "encode_query", False),  # a SentenceTransformer without token vectors
)


def as_encoder(model: object, *, name: str | None = None) -> Encoder:
    """Return anything that makes vectors as an `Encoder`; an error lists what it takes.

    A string goes to `load_encoder`, and models of sentence-transformers keep their tokens. All others give
    dense vectors only; their calls are checked and tried again as `FunctionEncoder` does. One of Haystack's
    two embedders is used for questions and documents alike. `name` is that of the model; by default what the
    object says, or the name of a function.
    """
    border.optional(border.text, "name", name)
    if isinstance(model, str):
        from surprise_rerank.encoders._loading import load_encoder

        return load_encoder(model)
    if _has(model, "encode", "token_spans", "dimension", "fingerprint", "name", "window"):
        return cast(Encoder, model)
    if _is_of(model, "SentenceTransformer") and hasattr(cast(Any, model).tokenizer, "backend_tokenizer"):
        from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

        return SentenceTransformerEncoder(cast(Any, model), name or _own_name(model))
    if _is_of(model, "MultiVectorEncoder"):
        from surprise_rerank.encoders.multi_vector import MultiVectorEncoder

        return MultiVectorEncoder(cast(Any, model), name or _own_name(model))
    functions = _functions(model)
    if functions is None:
        kind = model if inspect.isclass(model) else type(model)
        raise DataError(f"{kind.__name__} is no encoder; give {_POSSIBLE}")
    embed, query_embed = functions
    return FunctionEncoder(embed, name=name or _own_name(model), query_embed=query_embed)


def _functions(model: Any) -> tuple[Embed, Embed | None] | None:
    """What embeds documents, and questions where that is another function; None for what is not known."""
    # Classes are given by mistake, and a CrossEncoder, which scores pairs, is a function of something else.
    if inspect.isclass(model) or _is_of(model, "CrossEncoder"):
        return None
    if isinstance(model, tuple) and len(model) == 2:
        documents, texts = (
            _haystack(part, reads) for part, reads in zip(model, ("documents", "text"), strict=True)
        )
        return None if documents is None or texts is None else (documents, texts)
    for for_documents, for_questions, one in _METHODS:
        if _has(model, for_documents, for_questions):
            embed, ask = getattr(model, for_documents), getattr(model, for_questions)
            return embed, functools.partial(_one_by_one, ask) if one else ask
    embed = _haystack(model, "documents") or _haystack(model, "text")
    if embed is None and _has(model, "encode"):
        embed = model.encode
    if embed is None and callable(model):
        embed = cast(Embed, model)
    return None if embed is None else (embed, None)


def _one_by_one(embed: Callable[[str], Any], texts: list[str]) -> list[Any]:
    return [embed(text) for text in texts]


def _haystack(model: Any, reads: str) -> Embed | None:
    """A function that calls Haystack's embedder of `documents` or `text`; None where it is none."""
    if not _has(model, "run") or reads not in inspect.signature(model.run).parameters:
        return None
    return _HaystackEmbedder(model, reads)


class _HaystackEmbedder:
    """A function that calls an embedder of Haystack, which is warmed up for the first texts."""

    def __init__(self, model: Any, reads: str) -> None:
        self._model, self._reads, self._is_warm = model, reads, False

    def __call__(self, texts: list[str]) -> list[Any]:
        if not self._is_warm:
            getattr(self._model, "warm_up", lambda: None)()
            self._is_warm = True
        if self._reads == "text":
            return [self._model.run(text=text)["embedding"] for text in texts]
        document = sys.modules["haystack"].Document  # its embedders are here, so it is imported
        embedded = self._model.run(documents=[document(content=text) for text in texts])["documents"]
        return [one.embedding for one in embedded]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_is_warm": False}


def _has(model: object, *names: str) -> bool:
    """Whether an object has these members; properties, which may call an API, are not asked."""
    missing = object()
    return all(inspect.getattr_static(model, name, missing) is not missing for name in names)


def _is_of(model: object, name: str) -> bool:
    """Whether an object is of this class of sentence-transformers, or of a subclass of it."""
    return any(
        kind.__name__ == name and kind.__module__.startswith("sentence_transformers.")
        for kind in type(model).__mro__
    )


def _own_name(model: Any) -> str:
    """What to call a model: as its object says, else as its class or function; else a DataError."""
    if isinstance(model, tuple):
        return _own_name(model[0])
    if _is_of(model, "BaseModel"):
        card = getattr(model, "model_card_data", None)
        written = getattr(card, "base_model", None) or getattr(card, "model_id", None)
        return str(written or type(model).__name__)
    if inspect.isroutine(model) or isinstance(model, functools.partial):
        name = getattr(model, "__name__", "<")
        if not name.startswith("<"):
            return str(name)
        raise DataError(
            "a function without a name tells its vectors from no others; give name=... with it, as in "
            "FunctionEncoder(embed, name=...)"
        )
    for attribute in ("name", "model_name", "model", "model_id", "deployment"):
        if _has(model, attribute) and isinstance(value := getattr(model, attribute), str) and value:
            return value
    return type(model).__name__
