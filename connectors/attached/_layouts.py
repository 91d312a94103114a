"""What a foreign collection has: its text, title, id and metadata, and which vectors are compared."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from qdrant_client import models

from surprise_rerank._errors import DataError, did_you_mean
from surprise_rerank.connectors.qdrant._payloads import (
    NODE,
    Payload,
    PayloadLayout,
    filter_path,
    haystack_point,
    shared_id,
    string_of,
)
from surprise_rerank.connectors.qdrant._schema import UNNAMED, given_point_id
from surprise_rerank.connectors.qdrant._search.layout import SIMILARITIES, VectorLayout
from surprise_rerank.connectors.readers._fields import (
    METADATA_NAMES,
    TEXT_NAMES,
    TITLE_NAMES,
    shown,
)
from surprise_rerank.core._json_values import at
from surprise_rerank.core.arrays import Float32Array

# More names of a text than tables have: Mem0's `data`, and what vector databases' examples use.
_TEXTS = (*TEXT_NAMES, "data", "page_content", "chunk", "chunk_text", "raw_text", "document_text")
_RANDOM = {3, 4, 5, 8}  # versions of UUIDs that are hashes or random


class NamedKeys(TypedDict, total=False):
    """Which keys of a payload are what; None finds the key by its name. See `Collection.attach`."""

    text: str | None
    title: str | None
    id: str | None
    metadata: str | None


def find_layout(
    points: Sequence[tuple[str, Payload]], where: str, **keys: Unpack[NamedKeys]
) -> PayloadLayout:
    """How a collection keeps its documents, from ids and payloads of some points, and from what is named.

    Raises:
        DataError: if no key is known to hold the text, or a named one is in no point; lists the keys.
    """
    payloads = [payload for _, payload in points]
    names = Counter(name for payload in payloads for name in payload)
    named: dict[str, str] = {name: str(key) for name, key in keys.items() if key is not None}
    for name, key in named.items():
        if payloads and all(at(payload, key) is None for payload in payloads):
            hint = did_you_mean(key, names)
            raise DataError(
                f"{where}: none of {len(payloads)} points looked at has the key {key!r} for the {name}; "
                f"{hint}there are {shown(names)}"
            )
    common = {name for name, n in names.items() if 2 * n > len(points)}
    if NODE in common and "text" not in named:
        title, own_id, metadata = (named.get(name, "") for name in ("title", "id", "metadata"))
        layout = PayloadLayout((NODE,), title, own_id, metadata)
    else:
        layout = _plain(payloads, names, named, where)
        hashed = (haystack_point(str(payload.get("id"))) == point for point, payload in points)
        if named.get("id", "id") == "id" and "id" in common and all(hashed):
            layout = replace(layout, id="id", hashed_ids=True)
    shared = [name for name, n in Counter(layout.document_id(*point) for point in points).items() if n > 1]
    if shared:
        raise shared_id(where, layout.id, shared * 2)
    return replace(
        layout,
        lacking=sum(not layout.document(point, payload).text for point, payload in points),
        seen=len(points),
        id_path=filter_path(layout.id, names),
    )


def is_random(name: str) -> bool:
    """Whether the id of a point is a hash or random, so that the smallest ids are a uniform sample."""
    return isinstance(given_point_id(name), str) and uuid.UUID(name).version in _RANDOM


def _plain(
    payloads: Sequence[Payload], names: Counter[str], named: Mapping[str, str], where: str
) -> PayloadLayout:
    lower = {name.lower(): name for name in reversed(list(names))}
    texts = (named["text"],) if "text" in named else tuple(_usual(_TEXTS, lower, payloads))
    if not texts:
        guess = max(names, key=lambda name: _letters(name, payloads), default="")
        hint = f"; the longest texts are in {guess!r}" if guess and _letters(guess, payloads) else ""
        raise DataError(
            f"{where}: no key is known to hold the text. The payloads have {shown(names)}{hint}. Name it "
            "with text= (in the file of --config), with a dot for a key inside an object"
        )
    title = named.get("title") or next(iter(_usual(TITLE_NAMES, lower, payloads)), "")
    inner = [lower[name] for name in METADATA_NAMES if name in lower]
    metadata = named.get("metadata") or next(
        (name for name in inner if all(isinstance(p.get(name) or {}, Mapping) for p in payloads)), ""
    )
    return PayloadLayout(texts, title, named.get("id", ""), metadata)


def _usual(usual: Sequence[str], lower: Mapping[str, str], payloads: Sequence[Payload]) -> list[str]:
    """The usual names that are there and hold strings, as they are written there."""
    present = [lower[name] for name in usual if name in lower]
    return [
        name for name in dict.fromkeys(present) if any(string_of(p.get(name)) is not None for p in payloads)
    ]


def _letters(name: str, payloads: Sequence[Payload]) -> int:
    return sum(len(string_of(payload.get(name)) or "") for payload in payloads)


# Vectors whose lengths differ from 1 by less are taken for unit vectors: float16 and APIs round.
_ROUNDED = 1e-2


def find_vectors(
    config: models.CollectionParams,
    where: str,
    *,
    vector: str | None = None,
    multivector: str | None = None,
    sparse_vector: str | None = None,
    size: int | None = None,
) -> VectorLayout:
    """The vectors of a collection, by name, or the only ones of their kind, or of the model's dimension.

    Raises:
        DataError: if a name is not there, there are several and none was named, or the dimension is another
            one than the model's; lists what there is.
    """
    dense, multi = _params(config)
    words = config.sparse_vectors or {}
    if not dense and not multi:
        raise DataError(
            f"{where} has no dense vectors and no multivectors, which documents are found by; it has "
            f"{_listed(words) or 'none at all'}"
        )
    token_name = _chosen("multivector", multivector, multi, where) if multi or multivector else None
    sparse_name = _chosen("sparse_vector", sparse_vector, words, where) if words or sparse_vector else None
    token_size = 0 if token_name is None else multi[token_name].size
    idf = sparse_name is not None and words[sparse_name].modifier == models.Modifier.IDF
    if not dense and vector is None and token_name is not None:
        distance = models.Distance(multi[token_name].distance)
        if SIMILARITIES[distance] != "dot":
            raise DataError(f"{where}: {token_name!r} is compared by {distance.value}, not by Cosine or Dot")
        return VectorLayout(
            token_name,
            token_size,
            distance,
            token_name,
            token_size,
            has_dense=False,
            sparse=sparse_name,
            idf=idf,
        )
    fitting = {name: params for name, params in dense.items() if params.size == size}
    chosen = _chosen("vector", vector, fitting if vector is None and len(fitting) == 1 else dense, where)
    if size is not None and dense[chosen].size != size:
        raise DataError(
            f"{where}: the vector {chosen!r} has {dense[chosen].size} dimensions, the model's have {size}; "
            "give the model that the collection was made with (embed=), or another vector="
        )
    distance = models.Distance(dense[chosen].distance)
    cosines = token_name is not None and models.Distance(multi[token_name].distance) == models.Distance.COSINE
    return VectorLayout(
        chosen, dense[chosen].size, distance, token_name, token_size, cosines, sparse=sparse_name, idf=idf
    )


def are_unit(vectors: Float32Array) -> bool:
    """Whether (n, d) vectors have length 1, but for rounding; zeros are no text's vector and do not count."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    positive = lengths[lengths > 0]
    return bool((np.abs(positive - 1) < _ROUNDED).all())


def _params(
    config: models.CollectionParams,
) -> tuple[dict[str, models.VectorParams], dict[str, models.VectorParams]]:
    """Dense vectors and multivectors by name."""
    vectors: Any = config.vectors or {}
    named = vectors if isinstance(vectors, Mapping) else {UNNAMED: vectors}
    dense = {name: params for name, params in named.items() if params.multivector_config is None}
    return dense, {name: params for name, params in named.items() if name not in dense}


def _chosen(option: str, wanted: str | None, vectors: Mapping[str, Any], where: str) -> str:
    """The name that was asked for, or the only one."""
    kind = "dense vector" if option == "vector" else option.replace("_", " ")
    if wanted is not None:
        if wanted not in vectors:
            hint = did_you_mean(wanted, vectors)
            raise DataError(f"{where} has no {kind} {wanted!r}; {hint}there is {_listed(vectors) or 'none'}")
        return wanted
    if len(vectors) == 1 or UNNAMED in vectors:
        return UNNAMED if UNNAMED in vectors else next(iter(vectors))
    raise DataError(
        f"{where} has several vectors of the kind {kind}: {_listed(vectors)}; name one with {option}= "
        "(in the file of --config)"
    )


def _listed(names: Any) -> str:
    return ", ".join(repr(name) if name else "one without a name" for name in names)
