"""What a foreign collection has: its text, title, id and metadata, and which vectors are compared."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np
from qdrant_client import models

from surprise_rerank.connectors.qdrant.schema import UNNAMED, PointId
from surprise_rerank.connectors.qdrant.search.layout import SIMILARITIES, VectorLayout
from surprise_rerank.connectors.readers.fields import (
    METADATA_NAMES,
    TEXT_NAMES,
    TITLE_NAMES,
    id_string,
    json_value,
    shown,
)
from surprise_rerank.connectors.readers.source import RefusedError
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.json_values import at
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, did_you_mean

Payload: TypeAlias = Mapping[str, Any]

NODE = "_node_content"  # LlamaIndex: a node as JSON
_NODE_KEYS = frozenset({NODE, "_node_type", "document_id", "doc_id", "ref_doc_id"})
# Haystack makes a point's id of a document's id, by uuid5 in this namespace.
_HAYSTACK = uuid.UUID("3896d314-1e95-4a3a-b45a-945f9f0b541d")
# More names of a text than tables have: Mem0's `data`, and what vector databases' examples use.
_TEXTS = (*TEXT_NAMES, "data", "page_content", "chunk", "chunk_text", "raw_text", "document_text")
_RANDOM = {3, 4, 5, 8}  # versions of UUIDs that are hashes or random
_PLAIN = re.compile(r"[\w-]+")  # what Qdrant takes for keys without quotes
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # what fits 64 bits


class NamedKeys(TypedDict, total=False):
    """Which keys of a payload are what; None finds the key by its name. See `Collection.attach`."""

    text: str | None
    title: str | None
    id: str | None
    metadata: str | None


@dataclass(frozen=True, slots=True)
class PayloadLayout:
    """How points become documents."""

    texts: tuple[str, ...]  # keys of the text, of which the first that a point has counts
    title: str = ""  # key of the title; empty for none
    id: str = ""  # key of the document's id; empty where the point's id is it
    metadata: str = ""  # key of the metadata; empty where all other keys are
    lacking: int = 0  # how many of the points that were looked at have no text
    seen: int = 0  # how many were looked at
    id_path: str = ""  # what a filter of Qdrant calls the key of the id
    hashed_ids: bool = False  # whether a point's id follows from its document's id, as Haystack has it

    @property
    def id_fields(self) -> tuple[str, ...]:
        """What to fetch of a payload for the document's id."""
        return selectors(self.id) if self.id else ()

    def text_fields(self) -> tuple[str, ...]:
        """What to fetch of a payload for the document's content."""
        names = (
            *self.texts,
            *(["text"] if NODE in self.texts else []),
            *([self.title] if self.title else []),
        )
        return tuple(dict.fromkeys(path for name in names for path in selectors(name)))

    def having(self, ids: Sequence[str]) -> models.Filter:
        """What finds documents by ids that the payload has, as strings or as integers."""
        numbers = [int(name) for name in ids if _INTEGER.fullmatch(name)]
        kinds: list[list[int] | list[str]] = [list(ids), *([numbers] if numbers else [])]
        matches = [models.MatchAny(any=values) for values in kinds]
        return models.Filter(
            should=[models.FieldCondition(key=self.id_path, match=match) for match in matches]
        )

    def document_id(self, point: str, payload: Payload) -> str:
        """The id of the document that a point is; the point's where its payload has none."""
        return (id_string(at(payload, self.id)) if self.id else None) or point

    def document(self, point: str, payload: Payload) -> Document:
        """The document that a point is. A point without a text is a document without one."""
        name = self.document_id(point, payload)
        if NODE in self.texts:
            key, (text, values) = NODE, _node(payload)
        else:
            texts = ((key, _text(at(payload, key))) for key in self.texts)
            key, text = next(((key, content) for key, content in texts if content is not None), ("", ""))
            values = payload
        title = at(payload, self.title) if self.title else None
        if self.metadata:
            inner = at(payload, self.metadata)
            values = inner if isinstance(inner, Mapping) else {}
        else:
            taken = {key, self.title, self.id}
            values = {field: value for field, value in values.items() if field not in taken}
        return Document(name, text, title if isinstance(title, str) else "", _metadata(values))

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for `status`."""
        texts = "the node's JSON" if NODE in self.texts else ", else ".join(self.texts)
        lacking = f"; {self.lacking} of {self.seen} points looked at have none" if self.lacking else ""
        return [
            ("text", f"{texts}{lacking}"),
            ("title", self.title or "none"),
            ("document id", self.id or "the point's"),
            ("metadata", self.metadata or ("the node's" if NODE in self.texts else "all other keys")),
        ]


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
        raise one_id(where, layout.id, shared * 2)
    return replace(
        layout,
        lacking=sum(not layout.document(point, payload).text for point, payload in points),
        seen=len(points),
        id_path=_path(layout.id, names),
    )


def one_id(where: str, key: str, names: Sequence[str]) -> DataError:
    """The error for ids that several points share."""
    shared = next(name for name, n in Counter(names).items() if n > 1)
    return DataError(
        f"{where}: several points have the id {shared!r} in {key!r}; an id is of one point, so leave id= out "
        "where points are parts of documents"
    )


def _path(key: str, names: Container[str]) -> str:
    """What a filter calls a key, which may have dots of its own."""
    return _quoted(key) if key in names else ".".join(_quoted(part) for part in key.split("."))


def selectors(key: str) -> tuple[str, ...]:
    """What to ask Qdrant for, so that `at` finds a key: a key with a dot of its own is one in quotes."""
    return tuple(dict.fromkeys((_quoted(key), _quoted(key.partition(".")[0]))))


def point_of(document_id: str) -> PointId | None:
    """The point that a document's id is, a number or a UUID in any spelling; None for anything else."""
    if _is_number(document_id):
        return int(document_id) if int(document_id) < 2**64 else None
    try:
        return str(uuid.UUID(document_id))
    except ValueError:
        return None


def is_random(name: str) -> bool:
    """Whether the id of a point is a hash or random, so that the smallest ids are a uniform sample."""
    return not _is_number(name) and uuid.UUID(name).version in _RANDOM


def haystack_point(document_id: str) -> str:
    """The id that Haystack gives the point of a document."""
    return str(uuid.uuid5(_HAYSTACK, document_id))


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


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


def _text(value: object) -> str | None:
    """A string, or several of a list with empty lines between; None for all else."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return "\n\n".join(value)
    return value if isinstance(value, str) else None


def _usual(usual: Sequence[str], lower: Mapping[str, str], payloads: Sequence[Payload]) -> list[str]:
    """The usual names that are there and hold strings, as they are written there."""
    present = [lower[name] for name in usual if name in lower]
    return [name for name in dict.fromkeys(present) if any(_text(p.get(name)) is not None for p in payloads)]


def _letters(name: str, payloads: Sequence[Payload]) -> int:
    return sum(len(_text(payload.get(name)) or "") for payload in payloads)


def _quoted(key: str) -> str:
    """A key as Qdrant calls it: in quotes, where it has a dot, a space or the like."""
    return key if _PLAIN.fullmatch(key) else f'"{key}"'


def node_of(payload: Payload) -> Mapping[str, Any]:
    """The node in a payload of LlamaIndex; empty where whoever wrote it has cut it off."""
    content = payload.get(NODE)
    try:
        node = json.loads(content) if isinstance(content, str) else {}
    except ValueError:
        return {}
    return node if isinstance(node, Mapping) else {}


def _node(payload: Payload) -> tuple[str, Mapping[str, Any]]:
    """The text and the metadata in a payload of LlamaIndex."""
    node = node_of(payload)
    resource = node.get("text_resource")
    text = node.get("text") or (resource.get("text") if isinstance(resource, Mapping) else None)
    text = text or payload.get("text")
    values = node.get("metadata")
    if not isinstance(values, Mapping):
        values = {name: value for name, value in payload.items() if name not in _NODE_KEYS}
    parent = payload.get("ref_doc_id")  # what its parts are grouped by
    if isinstance(parent, str) and parent != "None":
        values = {"ref_doc_id": parent, **values}
    return text if isinstance(text, str) else "", values


def _metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as JSON; what is no JSON is left out."""
    metadata = {}
    for name, value in values.items():
        with contextlib.suppress(RefusedError, RecursionError):
            metadata[name] = json_value(value, name)
    return metadata


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
