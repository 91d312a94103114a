"""What a stored point looks like, and what a collection remembers of how it was made."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import pybase64

from surprise_rerank.arrays import Float32Array
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.tokens import TokenBatch

Payload: TypeAlias = dict[str, Any]

SCHEMA_VERSION = 2
DENSE = "dense"

# Payload fields. Token vectors are int8 in base64, in the payload: Qdrant hands them out several times
# faster than as a multivector, which arrives as lists of floats.
ID, TITLE, TEXT, METADATA, HASH, TOKENS = "id", "title", "text", "metadata", "hash", "tokens"
DOCUMENT_FIELDS = (ID, TITLE, TEXT, METADATA)

# Any constant would do; another one would store every document a second time.
_NAMESPACE = uuid.UUID("541a8262-a322-5cc3-9a06-75c2d3d02f8e")


def point_id(document_id: str) -> str:
    """The UUID of a document's point: the same in every run, so that indexing again is an upsert.

    It is the same in every collection, too: the documents of the smallest point ids, which stand for the
    whole corpus in a fusion, are then the same wherever the corpus is stored.
    """
    return str(uuid.uuid5(_NAMESPACE, document_id))


@dataclass(frozen=True, slots=True)
class Point:
    """A document as it is stored.

    Attributes:
        id: see `point_id`.
        dense: (d,) unit vector.
        payload: document, content hash and packed tokens.
    """

    id: str
    dense: Float32Array
    payload: Payload

    @property
    def size(self) -> int:
        """About how many bytes it takes as JSON: 21 for a number, the texts as they are."""
        return 21 * len(self.dense) + sum(len(v) for v in self.payload.values() if isinstance(v, str)) + 200


@dataclass(frozen=True, slots=True)
class Record:
    """A point as it comes back.

    Attributes:
        payload: the fields that were asked for.
        dense: (d,) numbers, where asked for.
        score: the similarity, in a search.
    """

    payload: Mapping[str, Any]
    dense: Sequence[float] | None = None
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Manifest:
    """How a collection was made; opening it with another model is an error that names both.

    Attributes:
        model: the encoder's name.
        fingerprint: digits that differ where the weights differ.
        dimension: d of dense and token vectors.
        schema: version of the layout in this module.
    """

    model: str
    fingerprint: str
    dimension: int
    schema: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, str | int]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any], where: str) -> Manifest:
        """What `to_json` gave.

        Raises:
            IndexMismatchError: if the values are not a manifest.
        """
        try:
            return cls(
                model=str(values["model"]),
                fingerprint=str(values["fingerprint"]),
                dimension=int(values["dimension"]),
                schema=int(values["schema"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise IndexMismatchError(
                f"{where} was not made by surprise-rerank (it does not say of which model it is); "
                "choose another folder or collection"
            ) from error

    def check(self, expected: Manifest, where: str) -> None:
        """Compare with what the caller brings.

        Raises:
            IndexMismatchError: if schema, model, weights or dimension differ; the message names both sides.
        """
        if self.schema != expected.schema:
            raise IndexMismatchError(
                f"{where} has schema version {self.schema}, this version reads {expected.schema}; "
                "delete it and index again"
            )
        # The weights decide, not the name: a model can be called by its name on the hub or by a folder.
        if (self.fingerprint, self.dimension) != (expected.fingerprint, expected.dimension):
            raise IndexMismatchError(
                f"{where} was made by model {self._label()}, asked for is {expected._label()}; "
                "use that model, or another folder or collection, or index again"
            )

    def _label(self) -> str:
        return f"{self.model!r} ({self.dimension} dimensions, weights {self.fingerprint})"


def stored_hash(document: Document) -> str:
    """Tells whether a stored document is up to date: the hash of its content, and of its metadata if any.

    Raises:
        DataError: if its metadata cannot be written as JSON.
    """
    if not document.metadata:
        return document.content_hash
    metadata = json.dumps(_json(document), sort_keys=True)
    return hashlib.sha256(f"{document.content_hash}{metadata}".encode()).hexdigest()


def to_payload(document: Document, packed_tokens: bytes) -> Payload:
    """The payload of a document.

    Raises:
        DataError: if its metadata cannot be written as JSON.
    """
    return {
        ID: document.id,
        TITLE: document.title,
        TEXT: document.text,
        METADATA: _json(document),
        HASH: stored_hash(document),
        TOKENS: pybase64.b64encode(packed_tokens).decode("ascii"),
    }


def _json(document: Document) -> Any:
    try:
        return json.loads(json.dumps(dict(document.metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"metadata of document {document.id!r} is not JSON: {error}") from error


def to_document(payload: Mapping[str, Any]) -> Document:
    """The document that `to_payload` stored."""
    return Document(
        id=payload[ID], text=payload[TEXT], title=payload[TITLE], metadata=payload.get(METADATA) or {}
    )


def to_tokens(payloads: Sequence[Mapping[str, Any]], dimension: int) -> TokenBatch:
    """The token vectors of several payloads, in int8."""
    return TokenBatch.unpack([pybase64.b64decode(p[TOKENS], validate=True) for p in payloads], dimension)
