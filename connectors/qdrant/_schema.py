"""What a stored point looks like, and how documents become points and come back."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from surprise_rerank._documents import Document, Passage
from surprise_rerank._places import places_json
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.core._terms import TermBatch
from surprise_rerank.core.arrays import FloatArray

Payload: TypeAlias = dict[str, Any]
# What Qdrant calls the vector of a collection that has one without a name.
UNNAMED = ""
StoredVector: TypeAlias = FloatArray | SparseVector
# Names of a payload's fields that are read; None for all.
PayloadFields: TypeAlias = Sequence[str] | None
PointId: TypeAlias = str | int  # a UUID; a number where a point is a vector alone

# Of what is stored, and how. No other one is read: such an index is made anew.
SCHEMA_VERSION = 9

# Named vectors.
DENSE, TOKEN_VECTORS, SURPRISE, BM25 = "dense", "tokens", "surprise", "bm25"

# Payload fields.
ID, TITLE, TEXT, METADATA, HASH = "id", "title", "text", "metadata", "hash"
SOURCE = "source"  # what a document was read from, where that is known
KEY = "key"  # what a document is known by in an index with tenants; see `document_key`
PLACES = "places"  # where a document's text stands in its file
DOCUMENT_FIELDS = (ID, TITLE, TEXT, METADATA, PLACES)
# Stands in place of a tenant for the documents of all of them; no tenant has this name.
ALL = "*"
# A document's moments over the ensemble, and the version of the statistics that they belong to.
MU, SIGMA, STATISTICS = "mu", "sigma", "statistics"
# Where documents are split: a passage's number and place, and on the first how many there are.
NUMBER, START, END, PASSAGES = "number", "start", "end", "passages"
PASSAGE_FIELDS = (NUMBER, START, END)
PLACE = "place"  # where a passage stands, for filters: `place.page`, `place.heading`
# All keys that a point of an index may have.
STORED_FIELDS = (
    *(*DOCUMENT_FIELDS, HASH, SOURCE, KEY, MU, SIGMA, STATISTICS, PASSAGES, PLACE),
    *(*PASSAGE_FIELDS, *TOKEN_FIELDS),
)
# Stands before the hash while points of a new document are being written; alone where it replaces another.
INCOMPLETE = "incomplete "

# Any constant would do; another one would store every document a second time.
_NAMESPACE = uuid.UUID("541a8262-a322-5cc3-9a06-75c2d3d02f8e")


def document_key(document_id: str, tenant: str | None) -> str:
    """Return what a document is known by: its id, in an index with tenants with the tenant before it.

    No two pairs have one key: a slash in a tenant is escaped, as in a JSON pointer. None is of an index
    without tenants, the empty string of a document without a tenant.
    """
    if tenant is None:
        return document_id
    return f"{tenant.replace('~', '~0').replace('/', '~1')}/{document_id}"


def tenant_of_key(key: str) -> str:
    """Return the tenant of a `document_key`."""
    return key.partition("/")[0].replace("~1", "/").replace("~0", "~")


def point_id(key: str, number: int = 0) -> str:
    """The UUID of a document's point, or of a later passage's: the same in every run, so an upsert finds it.

    It is the same in every collection, too: the documents of the smallest point ids, which represent the
    whole corpus in a fusion, are then the same wherever the corpus is stored.
    """
    document = uuid.uuid5(_NAMESPACE, key)
    return str(document if number == 0 else uuid.uuid5(document, str(number)))


def given_point_id(name: str) -> PointId:
    """Return the id of a point, from the string that stands for it."""
    return int(name) if name.isascii() and name.isdigit() else name


@dataclass(frozen=True, slots=True)
class PointForm:
    """What the points of documents hold, by name, and what a document's key and its points' ids are.

    In somebody else's collection the ids of its points are the keys, too; points beside it have the same
    ids, and of a document the hash alone.
    """

    dense: str | None = DENSE
    tokens: str = TOKEN_VECTORS
    words: str = BM25
    is_beside: bool = False

    def point_id(self, key: str, number: int = 0) -> PointId:
        """Return the id of a document's point, or of a later passage's."""
        return given_point_id(key) if self.is_beside else point_id(key, number)

    def key(self, record: Record, key_field: str) -> str:
        """Return what the document of a stored point is known by."""
        return record.id if self.is_beside else record.payload[key_field]


OF_INDEX = PointForm()
# No names that a collection of somebody else has: a request goes to where its vector is.
BESIDE = PointForm(None, "surprise_tokens", "surprise_words", is_beside=True)


@dataclass(frozen=True, slots=True)
class Point:
    """A document, or a passage of one, as it is stored."""

    id: PointId  # see `point_id`; a number where the point is a vector alone
    vectors: Mapping[str, StoredVector]  # name -> (d,) dense, (n, d) token vectors, or a sparse vector
    payload: Payload  # document, content hash, moments

    @property
    def size(self) -> int:
        """About how many bytes it takes as JSON: 21 for a number, the texts as they are."""
        numbers = sum(
            2 * len(v.indices) if isinstance(v, SparseVector) else v.size for v in self.vectors.values()
        )
        texts = sum(len(v) for v in self.payload.values() if isinstance(v, str))
        return 21 * numbers + texts + len(str(self.payload.get(METADATA, ""))) + 300


@dataclass(frozen=True, slots=True)
class Record:
    """A point as it comes back."""

    id: str  # of the point
    payload: Mapping[str, Any]  # the fields that were asked for
    vectors: Mapping[str, Any]  # name -> numbers, where asked for
    score: float = 0.0  # what the query's last stage gave it


def to_record(point: Any, score: float = 0.0) -> Record:
    """A point that Edge or a client has found; its only vector may have no name.

    Qdrant's scores are float32. JSON has their shortest decimals, and local mode computes more digits, whose
    last ones differ between copies of a text.
    """
    vectors = point.vector or {}
    named = vectors if isinstance(vectors, dict) else {UNNAMED: vectors}
    return Record(str(point.id), point.payload or {}, named, float(np.float32(score)))


def pages(read: Callable[[Any], tuple[Sequence[Any], Any]]) -> Iterator[list[Record]]:
    """All pages of a scroll, by what reads one from an offset on, and gives the next one."""
    points, offset = read(None)
    yield [to_record(point) for point in points]
    while offset is not None:
        points, offset = read(offset)
        yield [to_record(point) for point in points]


def stored_hash(document: Document) -> str:
    """Tells whether a stored document is up to date: the hash of its content, and of its metadata if any."""
    if not document.metadata:
        return document.content_hash
    metadata = json.dumps(dict(document.metadata), sort_keys=True)
    return hashlib.sha256(f"{document.content_hash}{metadata}".encode()).hexdigest()


def document_payload(document: Document) -> Payload:
    """The fields that a document's first point has."""
    return {
        ID: document.id,
        TITLE: document.title,
        TEXT: document.text,
        METADATA: dict(document.metadata),
        HASH: stored_hash(document),
        **({SOURCE: document.source} if document.source else {}),
        **({PLACES: places_json(document.places)} if document.places else {}),
    }


def passage_payload(document: Document, passage: Passage) -> Payload:
    """The fields that every passage's point has; metadata is on each, so that filters reach them."""
    place = document.place(passage.start, passage.end)
    return {
        **({} if place is None else {PLACE: place.to_json()}),
        ID: document.id,
        METADATA: dict(document.metadata),
        NUMBER: passage.number,
        START: passage.start,
        END: passage.end,
    }


def to_terms(points: Sequence[Point | Record], vector: str = BM25) -> TermBatch:
    """The sparse vectors of several points, by name; a text without a term has none."""
    vectors: list[Any] = [point.vectors.get(vector) for point in points]
    batch = TermBatch.of([((), ()) if terms is None else (terms.indices, terms.values) for terms in vectors])
    # Stored in float32, which REST tells by its shortest digits: as float64 they are another number.
    return replace(batch, values=batch.values.astype(np.float32).astype(np.float64))
