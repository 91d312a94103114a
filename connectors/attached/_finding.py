"""What is found when a collection is attached: its vectors, and whether the given models fit them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import numpy as np

from surprise_rerank._errors import DataError, IndexMismatchError, ModelError, SurpriseRerankError
from surprise_rerank.connectors.attached._layouts import are_unit, find_vectors
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._lexical import LANGUAGES, Bm25, SparseVector
from surprise_rerank.connectors.qdrant._manifest import is_index
from surprise_rerank.connectors.qdrant._payloads import PayloadLayout
from surprise_rerank.connectors.qdrant._schema import Record, to_terms
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.readers._fields import shown
from surprise_rerank.core._terms import TermBatch
from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._function import FunctionEncoder
from surprise_rerank.encoders._paired import PairedEncoder
from surprise_rerank.encoders.base import Encoder, encode_documents, token_dimension
from surprise_rerank.similarities._dynamax import DynaMax

_LOOKED_AT = 64  # points that the layout is found from
_PROBES = 5
_SHORT = 40  # characters
# The cosine of a text's stored vector with its vector now. Another model's is around 0; a prompt, a title or
# metadata that were embedded with the text leave it above .5, rounding in the store above .9.
_OTHER, _SAME = 0.5, 0.9
# A model of two kinds, such as of pictures and captions, has small cosines, but the own ones are the largest:
# among this share of the points looked at, as five random places are in one of 100 cases.
_NEAREST = 0.1


def models_of(embed: Any, token_encoder: Any, collection: str) -> tuple[Encoder | None, Encoder | None]:
    """The model of dense vectors, and the one of token vectors; None where there is none."""
    is_anonymous = getattr(embed, "__name__", "") == "<lambda>"
    name = f"embedding of {collection}" if is_anonymous else None
    model = None if embed is None else as_encoder(embed, name=name)
    tokens = None if token_encoder is None else as_encoder(token_encoder)
    if isinstance(model, PairedEncoder):
        return model.dense_encoder, tokens or model.token_encoder
    if tokens is None and model is not None and token_dimension(model) is not None:
        return model, model
    return model, tokens


def dense_model(model: Encoder) -> Encoder:
    """The model of dense vectors alone."""
    return model.dense_encoder if isinstance(model, PairedEncoder) else model


def look(
    points: ClientEngine, names: dict[str, str | None], size: int | None
) -> tuple[VectorLayout, list[Record]]:
    """The vectors of a collection, for a model of this dimension, and some points."""
    info = points.info()
    if is_index(info.config.metadata or {}):
        raise IndexMismatchError(
            f"{points.where} is an index of surprise-rerank; open it with DocumentIndex.open"
        )
    layout = find_vectors(info.config.params, points.where, **names, size=size)
    wanted = (layout.dense, *((layout.sparse,) if layout.sparse else ()))
    most = _LOOKED_AT if layout.has_dense else _LOOKED_AT // 4  # multivectors are large
    records = next(iter(points.scroll(None, wanted, batch=most)), [])
    if not records:
        raise DataError(f"{points.where} is empty; add documents first")
    if not layout.has_dense:
        return layout, records
    vectors, rows = layout.dense_of(records)
    if not rows:
        raise DataError(
            f"{points.where}: none of {len(records)} points looked at has the vector {layout.dense!r}; name "
            "another with vector="
        )
    return replace(layout, unit=are_unit(vectors)), records


def raw(model: Encoder, layout: VectorLayout, where: str) -> Encoder:
    """The model of dense vectors, with vectors of the length that the collection compares."""
    if layout.unit:
        return model
    if isinstance(model, FunctionEncoder):
        changed = copy.copy(model)
        changed.unit = False
        return changed
    warnings.warn(
        f"{where} compares vectors that are not of length 1 by {layout.distance.value}, but "
        f"{model.name!r} gives questions of length 1; give a FunctionEncoder(..., unit=False) for its own",
        stacklevel=3,
    )
    return model


def with_tokens(
    source: Encoder | None, layout: VectorLayout, has_model: bool, named: str | None, where: str
) -> tuple[VectorLayout, tuple[str, ...]]:
    """The layout without multivectors that are of another model than the one of token vectors."""
    size = None if source is None else token_dimension(source)
    is_unasked = not layout.has_dense and source is None and not has_model
    if layout.tokens is None or size == layout.token_size or is_unasked:
        return layout, ()
    what = f"{size} dimensions" if size else "no token vectors"
    problem = f"the multivector {layout.tokens!r} has {layout.token_size} dimensions, the model has {what}"
    if named is not None or not layout.has_dense:
        raise DataError(
            f"{where}: {problem}; give the model that it was made with as token_encoder=, or name another "
            "with multivector="
        )
    return replace(layout, tokens=None, token_size=0), (f"{problem}: it is not read",)


def sparse_of(
    model: Any, layout: VectorLayout, payloads: PayloadLayout, records: Sequence[Record]
) -> tuple[SparseEmbed | None, tuple[str, ...]]:
    """How a question becomes a sparse vector, if that is known; and what to say of it."""
    if model is not None:
        if layout.sparse is None:
            raise DataError("sparse= is given, but the collection has no sparse vector; leave it out")
        return sparse_embed(model), ()
    if layout.sparse is None:
        return None, ()
    texts = [payloads.document(record.id, record.payload).text for record in records]
    for language in ("english", *LANGUAGES) if layout.idf else ():
        if is_bm25(texts, to_terms(records, layout.sparse), words := Bm25(language=language)):
            return words.query, (f"the sparse vector is Qdrant's BM25 in {language.title()}",)
    return None, (
        f"the sparse vector {layout.sparse!r} is not read: it is not known what made it; give sparse=",
    )


def require_same_model(
    records: Sequence[Record], layout: VectorLayout, payloads: PayloadLayout, model: Encoder, where: str
) -> tuple[str, ...]:
    """What to say of a model whose vectors differ from those of points; a DataError if it is another one.

    Of token vectors, inclusion stands for the cosine.
    """
    own_vectors = [record for record in records if record.vectors.get(layout.dense) is not None]
    documents = [payloads.document(record.id, record.payload) for record in own_vectors]
    with_text = [i for i, document in enumerate(documents) if document.text.strip()]
    # Short ones are encoded quickly; the shortest may be such that many are alike.
    lengths = [len(document.text) for document in documents]
    probes = sorted(with_text, key=lambda i: (lengths[i] < _SHORT, lengths[i]))[:_PROBES]
    if not probes:
        return ()

    def near(texts: list[str]) -> Float32Array:
        encoded = encode_documents(model, texts)
        if layout.has_dense:
            return unit_rows(encoded.dense) @ unit_rows(layout.dense_of(own_vectors)[0]).T
        tokens, stored = encoded.require_tokens(), layout.tokens_of(own_vectors)
        return np.stack([DynaMax().pool(tokens[i], stored) for i in range(len(texts))])

    of_itself = np.arange(len(probes)), probes
    cosines = near([documents[i].text for i in probes])
    if np.median(cosines[of_itself]) < _SAME and any(documents[i].title for i in probes):
        cosines = np.maximum(cosines, near([documents[i].content for i in probes]))
    same_text = cosines[of_itself]
    cosine = float(np.median(same_text))
    if cosine >= _SAME:
        return ()
    difference = (
        f"stored vectors of {len(probes)} texts have a cosine of {cosine:.2f} with those that it gives"
    )
    place = float(np.median((cosines > same_text[:, None]).mean(axis=1)))
    if cosine < _OTHER and place > _NEAREST:
        raise DataError(
            f"{where} has vectors of another model than {model.name!r}: {difference}; give the model that "
            "they were made with as embed=, or name another vector with vector="
        )
    return (f"the model: {difference}; see that its prompts and settings are those of the vectors",)


SparseEmbed: TypeAlias = Callable[[str], SparseVector]

# Of a text's terms, how many its stored vector must have, to be of the same function.
_SHARED = 0.9
_COMPARED = 8  # texts
_START = 60  # characters of what was given, in a message


def sparse_embed(model: Any) -> SparseEmbed:
    """A function from a question to its sparse vector, of what the user has.

    That is settings of Qdrant's BM25; or an object of LangChain (`embed_query`), Haystack (`run`), fastembed
    (`query_embed`) or sentence-transformers (`encode_query`), or a function, that gives indices and values.

    Raises:
        DataError: if it is none of these. The function raises it, if what is given gives no sparse vector,
            and ModelError, if it fails.
    """
    if isinstance(model, Bm25):
        return model.query
    ask, who = _sparse_vector_function(model), getattr(model, "__name__", type(model).__name__)

    def embed(text: str) -> SparseVector:
        try:
            vector = ask(text)
        except SurpriseRerankError:
            raise
        except Exception as error:  # of a function that anybody may have written
            raise ModelError(
                f"the sparse model {who} failed for {text[:30]!r}: {type(error).__name__}: {error}"
            ) from error
        return _sparse(vector, who)

    return embed


def _sparse_vector_function(model: Any) -> Callable[[str], Any]:
    """What gives a question's sparse vector, as its package has them."""
    for name, many in (("embed_query", False), ("query_embed", True), ("encode_query", True)):
        method = getattr(model, name, None)
        if callable(method):
            if many:
                return lambda text: _first(method([text]))
            return cast(Callable[[str], Any], method)
    if hasattr(model, "run"):
        return lambda text: model.run(text=text)["sparse_embedding"]
    if callable(model):
        return cast(Callable[[str], Any], model)
    raise DataError(
        f"sparse= must be a function from a question to indices and values, a sparse model of "
        f"LangChain, Haystack or fastembed, or Bm25(); got {type(model).__name__}"
    )


def is_bm25(texts: Sequence[str], vectors: TermBatch, settings: Bm25) -> bool:
    """Whether stored sparse vectors are Qdrant's BM25 in a language: its terms of each text are there."""
    shares = []
    for i, text in enumerate(texts[:_COMPARED]):
        terms = settings.query(text).indices
        if len(terms):
            shares.append(float(np.isin(terms, vectors[i][0]).mean()))
    return bool(shares) and min(shares) >= _SHARED


def _first(rows: Any) -> Any:
    return rows[0] if hasattr(rows, "__getitem__") else next(iter(rows))


def _sparse(vector: Any, who: str) -> SparseVector:
    """Indices ascending, and their values; zeros are no terms."""
    if hasattr(vector, "coalesce"):  # a row of a sparse tensor of torch
        entries = vector.coalesce()
        indices, values = entries.indices()[-1].cpu().numpy(), entries.values().cpu().numpy()
    elif isinstance(vector, dict) and {"indices", "values"} <= vector.keys():
        indices, values = vector["indices"], vector["values"]
    elif isinstance(vector, tuple) and len(vector) == 2:
        indices, values = vector
    elif hasattr(vector, "indices") and hasattr(vector, "values"):
        indices, values = vector.indices, vector.values
    else:
        keys = f" with the keys {shown(vector)}" if isinstance(vector, dict) else ""
        raise DataError(
            f"the sparse model {who} gave a {type(vector).__name__}{keys} for a question; a sparse vector "
            "has indices and values"
        )
    try:
        terms, weights = np.asarray(indices).reshape(-1), np.asarray(values, np.float32).reshape(-1)
        whole = bool(np.all((terms >= 0) & (terms < 2**32) & (terms % 1 == 0)))
        is_right = whole and len(np.unique(terms)) == len(terms) == len(weights)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: of torch
        is_right, weights = False, np.zeros(0, np.float32)
    if not is_right or not np.isfinite(weights).all():
        raise DataError(
            f"the sparse model {who} gave the indices {_start(indices)} and the values {_start(values)}; "
            "expected whole numbers from 0 to 2^32 - 1, each once, and as many finite numbers"
        )
    order = np.argsort(terms, kind="stable")
    order = order[weights[order] != 0]
    return SparseVector(terms[order].astype(np.uint32), weights[order])


def _start(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _START else f"{text[:_START]} ..."
