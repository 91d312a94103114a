"""What people have that makes vectors, as encoders: recognised by its methods; no host is imported."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.function import Embed, FunctionEncoder
from surprise_rerank.errors import DataError

_POSSIBLE = (
    "an Encoder, the name or folder of a model, a SentenceTransformer or MultiVectorEncoder, a function from "
    "texts to vectors, an object with encode(texts), LangChain's Embeddings, LlamaIndex's BaseEmbedding, "
    "Haystack's text or document embedder or the pair (document embedder, text embedder), or fastembed's "
    "TextEmbedding"
)


def _one_by_one(embed: Callable[[str], Any]) -> Embed:
    return lambda texts: [embed(text) for text in texts]


def _one_by_one_async(embed: Callable[[str], Any]) -> Embed:
    async def every(texts: Sequence[str]) -> list[Any]:
        return [await embed(text) for text in texts]

    return every


# Documents' method, questions' method, and how the second takes several.
_METHODS: tuple[tuple[str, str, Callable[[Any], Embed]], ...] = (
    ("embed_documents", "embed_query", _one_by_one),
    ("get_text_embedding_batch", "get_query_embedding", _one_by_one),
    ("aget_text_embedding_batch", "aget_query_embedding", _one_by_one_async),
    ("passage_embed", "query_embed", lambda embed: embed),
    ("encode_document", "encode_query", lambda embed: embed),  # a SentenceTransformer without token vectors
)


def as_encoder(model: object, *, name: str | None = None) -> Encoder:
    """Anything that makes vectors as an `Encoder`.

    | given | documents by | questions by |
    |---|---|---|
    | an `Encoder` | itself | itself |
    | a string | `load_encoder` | |
    | sentence-transformers' `SentenceTransformer`, `MultiVectorEncoder` | with their tokens | |
    | LangChain's `Embeddings` | `embed_documents` | `embed_query` |
    | LlamaIndex's `BaseEmbedding` | `get_text_embedding_batch` | `get_query_embedding` |
    | Haystack's embedders, one or (document's, text's) | `run(documents=...)` | `run(text=...)` |
    | fastembed's `TextEmbedding` | `passage_embed` | `query_embed` |
    | an object with `encode` | `encode(texts)`, an array (n, d) | the same |
    | a function | it | the same |

    Those of other packages give dense vectors only. Their calls are checked and tried again as
    `FunctionEncoder` does. One of Haystack's two embedders is used for questions and documents alike.

    Args:
        model: what makes vectors.
        name: of the model; by default what the object says, or the name of a function.

    Raises:
        DataError: if it is something else, or a function without a name and none is given.
        ModelError: if a named model cannot be loaded.
    """
    if isinstance(model, str):
        from surprise_rerank.encoders.loading import load_encoder

        return load_encoder(model)
    if _has(model, "encode", "token_spans", "dimension", "fingerprint", "name", "window"):
        return cast(Encoder, model)
    if _is_of(model, "sentence_transformers", "SentenceTransformer") and _has_text_tokenizer(model):
        from surprise_rerank.encoders.sentence_transformer import SentenceTransformerEncoder

        return SentenceTransformerEncoder(cast(Any, model), name or _own_name(model))
    if _is_of(model, "sentence_transformers", "MultiVectorEncoder"):
        from surprise_rerank.encoders.multi_vector import MultiVectorEncoder

        return MultiVectorEncoder(cast(Any, model), name or _own_name(model))
    functions = _functions(model)
    if functions is None:
        raise DataError(f"{_shown(model)} is no encoder; give {_POSSIBLE}")
    embed, query_embed = functions
    return FunctionEncoder(embed, name=name or _own_name(model), query_embed=query_embed)


def _functions(model: Any) -> tuple[Embed, Embed | None] | None:
    """What embeds documents, and questions where that is another function; None for what is not known."""
    if isinstance(model, tuple | list) and len(model) == 2:
        return _haystack_pair(*model)
    for for_documents, for_questions, as_batch in _METHODS:
        if _has(model, for_documents, for_questions):
            return getattr(model, for_documents), as_batch(getattr(model, for_questions))
    _, embed = _haystack(model)
    if embed is not None:
        return embed, None
    # Classes are given by mistake, and a CrossEncoder, which scores pairs, is a function of something else.
    if inspect.isclass(model) or _is_of(model, "sentence_transformers", "CrossEncoder"):
        return None
    if _has(model, "encode"):
        return model.encode, None
    return (cast(Embed, model), None) if callable(model) else None


def _haystack_pair(first: Any, second: Any) -> tuple[Embed, Embed]:
    (of_first, documents), (of_second, texts) = _haystack(first), _haystack(second)
    if (of_first, of_second) != ("documents", "text") or documents is None or texts is None:
        raise DataError(
            f"({_shown(first)}, {_shown(second)}) is no pair of Haystack's embedders; give (a document "
            "embedder, a text embedder)"
        )
    return documents, texts


def _haystack(model: Any) -> tuple[str, Embed | None]:
    """What Haystack's embedder reads, and a function that calls it; None where it is none."""
    if not _has(model, "run") or inspect.isclass(model):
        return "", None
    reads = inspect.signature(model.run).parameters
    warm_up = functools.cache(getattr(model, "warm_up", lambda: None))
    if "documents" in reads:

        def documents(texts: list[str]) -> list[Any]:
            warm_up()
            document = sys.modules["haystack"].Document  # its embedders are here, so it is imported
            found = model.run(documents=[document(content=text) for text in texts])["documents"]
            return [one.embedding for one in found]

        return "documents", documents if "haystack" in sys.modules else None
    if "text" in reads:

        def one(text: str) -> Any:
            warm_up()
            return model.run(text=text)["embedding"]

        return "text", _one_by_one(one)
    return "", None


def _has_text_tokenizer(model: Any) -> bool:
    """Whether a SentenceTransformer has a tokenizer of transformers; static embeddings have another."""
    return callable(getattr(model.tokenizer, "pad", None))


def _has(model: object, *names: str) -> bool:
    """Whether an object has these members; properties, which may call an API, are not asked."""
    return all(_found(model, name) for name in names)


def _found(model: object, name: str) -> bool:
    missing = object()
    return inspect.getattr_static(model, name, missing) is not missing


def _is_of(model: object, package: str, name: str) -> bool:
    """Whether an object is of a class of another package, or of a subclass of it."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package for kind in type(model).__mro__
    )


def _own_name(model: Any) -> str:
    """What to call a model: as its object says, else as its class or function is called.

    Raises:
        DataError: if it is a function without a name.
    """
    if isinstance(model, tuple | list):
        return _own_name(model[0])
    if _is_of(model, "sentence_transformers", "BaseModel"):
        card = getattr(model, "model_card_data", None)
        given = getattr(card, "base_model", None) or getattr(card, "model_id", None)
        return str(given or type(model).__name__)
    if inspect.isroutine(model) or isinstance(model, functools.partial):
        name = getattr(model, "__name__", "")
        if name and not name.startswith("<"):
            return str(name)
        raise DataError(
            "a function without a name tells its vectors from no others; give name=... with it, as in "
            "FunctionEncoder(embed, name=...)"
        )
    for attribute in ("name", "model_name", "model", "model_id", "deployment"):
        if _found(model, attribute) and isinstance(found := getattr(model, attribute), str) and found:
            return found
    return type(model).__name__


def _shown(model: object) -> str:
    kind = model if inspect.isclass(model) else type(model)
    return f"the class {kind.__name__}" if inspect.isclass(model) else f"an object of {kind.__name__}"
