"""How points become documents: which keys of a payload are what, in an index and in anybody's collection."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._documents import Document, Passage
from surprise_rerank._errors import DataError
from surprise_rerank._places import places_from
from surprise_rerank.connectors.qdrant._schema import (
    BESIDE,
    ID,
    METADATA,
    OF_INDEX,
    PASSAGE_FIELDS,
    PLACES,
    SOURCE,
    TEXT,
    TITLE,
    PointForm,
)
from surprise_rerank.core._json_values import at, finite, id_string

Payload: TypeAlias = Mapping[str, Any]

NODE = "_node_content"  # LlamaIndex: a node as JSON
_NODE_KEYS = frozenset({NODE, "_node_type", "document_id", "doc_id", "ref_doc_id"})
# Haystack makes a point's id of a document's id, by uuid5 in this namespace.
_HAYSTACK = uuid.UUID("3896d314-1e95-4a3a-b45a-945f9f0b541d")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")  # what Qdrant takes for keys without quotes
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # what fits 64 bits


@dataclass(frozen=True, slots=True)
class PayloadLayout:
    """Which keys of a payload hold what of a document."""

    texts: tuple[str, ...]  # of the text, of which the first that a point has counts
    title: str = ""  # of the title; empty for none
    id: str = ""  # of the document's id; empty where the point's id is it
    metadata: str = ""  # of the metadata; empty where all other keys are
    places: str = ""  # of the places where the text stands in its file; empty for none
    source: str = ""  # of what the document was read from; empty where that is not kept
    passage: tuple[str, ...] = ()  # of a passage's number, start and end; empty where points are documents
    lacking: int = 0  # how many of the points that were looked at have no text
    seen: int = 0  # how many were looked at
    id_path: str = ""  # what a filter of Qdrant calls the key of the id
    key: str = ""  # of what a document is known by in an index of ours; empty where its point's id is it
    hashed_ids: bool = False  # whether a point's id follows from its document's id, as Haystack has it

    @property
    def id_fields(self) -> tuple[str, ...]:
        """What to fetch of a payload for the document's id."""
        return selectors(self.id) if self.id else ()

    def text_fields(self) -> tuple[str, ...]:
        """Return the keys of a payload that make the document's content."""
        names = (*self.texts, *(["text"] if NODE in self.texts else []), self.title)
        return tuple(dict.fromkeys(path for name in names if name for path in selectors(name)))

    def document_fields(self) -> tuple[str, ...]:
        """Return the keys of a payload that make the document, where metadata are under one key."""
        names = (self.id, self.title, *self.texts, self.metadata, self.places)
        return tuple(path for name in names if name for path in selectors(name))

    def having(self, ids: Sequence[str]) -> models.Filter:
        """Return a filter for documents by ids in the payload, which may be strings or integers."""
        numbers = [int(name) for name in ids if _INTEGER.fullmatch(name)]
        kinds: list[list[int] | list[str]] = [list(ids), *([numbers] if numbers else [])]
        matches = [models.MatchAny(any=values) for values in kinds]
        return models.Filter(
            should=[models.FieldCondition(key=self.id_path, match=match) for match in matches]
        )

    @property
    def form(self) -> PointForm:
        """What documents are known by, and the ids of their points."""
        return OF_INDEX if self.key else BESIDE

    def document_id(self, point: str, payload: Payload) -> str:
        """The id of the document that a point is; the point's where its payload has none."""
        return (id_string(at(payload, self.id)) if self.id else None) or point

    def document(self, point: str, payload: Payload) -> Document:
        """The document that a point is. A point without a text is a document without one."""
        if NODE in self.texts:
            key, (text, values) = NODE, _node(payload)
        else:
            texts = ((key, string_of(at(payload, key))) for key in self.texts)
            key, text = next(((key, content) for key, content in texts if content is not None), ("", ""))
            values = payload
        if self.metadata:
            inner = at(payload, self.metadata)
            values = inner if isinstance(inner, Mapping) else {}
        else:
            taken = {key, self.title, self.id}
            values = {field: value for field, value in values.items() if field not in taken}
        title = at(payload, self.title) if self.title else None
        document = partial(
            Document,
            id=self.document_id(point, payload),
            text=text,
            title=title if isinstance(title, str) else "",
            source=payload.get(self.source, ""),
            places=places_from(payload.get(self.places) or ()),
        )
        try:
            return document(metadata=values)
        except DataError:
            return document(metadata=_kept(values))

    def is_first(self, payload: Payload) -> bool:
        """Whether a point has the text of its document: it is the document, or its first passage."""
        return not self.passage or not payload.get(self.passage[0], 0)

    def passage_of(self, payload: Payload) -> Passage:
        """The passage that a point is."""
        return Passage(*(payload[name] for name in self.passage))

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


def layout_of_index(has_passages: bool, key: str) -> PayloadLayout:
    """Return the layout of a `DocumentIndex`, whose points are documents or passages of them."""
    passage = PASSAGE_FIELDS if has_passages else ()
    return PayloadLayout((TEXT,), TITLE, ID, METADATA, PLACES, SOURCE, passage, key=key)


def quoted(key: str) -> str:
    """A key as Qdrant calls it: in quotes, where it has a dot, a space or the like."""
    return key if _PLAIN.fullmatch(key) else f'"{key}"'


def filter_path(key: str, names: Container[str]) -> str:
    """Return the path of a key in a filter; a key that has dots in its name is quoted."""
    return quoted(key) if key in names else ".".join(quoted(part) for part in key.split("."))


def selectors(key: str) -> tuple[str, ...]:
    """What to ask Qdrant for, so that `at` finds a key: a key with a dot of its own is one in quotes."""
    return tuple(dict.fromkeys((quoted(key), quoted(key.partition(".")[0]))))


def haystack_point(document_id: str) -> str:
    """The id that Haystack gives the point of a document."""
    return str(uuid.uuid5(_HAYSTACK, document_id))


def point_named(document_id: str) -> str | None:
    """The point that a document's id is, a number or a UUID in any spelling; None for anything else."""
    if document_id.isascii() and document_id.isdigit():
        return str(int(document_id)) if int(document_id) < 2**64 else None
    try:
        return str(uuid.UUID(document_id))
    except ValueError:
        return None


def shared_id(where: str, key: str, names: Sequence[str]) -> DataError:
    """The error for ids that several points share."""
    shared = next(name for name, n in Counter(names).items() if n > 1)
    return DataError(
        f"{where}: several points have the id {shared!r} in {key!r}; an id is of one point, so leave id= out "
        "where points are parts of documents"
    )


def string_of(value: object) -> str | None:
    """A string, or several of a list with empty lines between; None for all else."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return "\n\n".join(value)
    return value if isinstance(value, str) else None


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


def _kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as JSON; what is no JSON is left out."""
    metadata = {}
    for name, value in values.items():
        with contextlib.suppress(DataError, RecursionError):
            metadata[name] = border.json_value(name, finite(value))
    return metadata
