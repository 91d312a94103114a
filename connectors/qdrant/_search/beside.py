"""What was added beside somebody else's collection: points of the same ids, in a collection of their own."""

from __future__ import annotations

from collections.abc import Sequence

from qdrant_client import models

from surprise_rerank._documents import Document
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant._schema import BESIDE, HASH, Record
from surprise_rerank.connectors.qdrant._search.queries import by_id


def is_beside(vector: str | None) -> bool:
    """Whether a vector was added beside a collection."""
    return vector in (BESIDE.words, BESIDE.tokens)


def added_to(points: Sequence[str], *, tokens: bool = True) -> models.QueryRequest:
    """A request for what was added to points: the hashes of their texts, and token vectors."""
    fields, vector = ((HASH, *TOKEN_FIELDS), BESIDE.tokens) if tokens else ((HASH,), BESIDE.words)
    return by_id(points, fields, (vector,))


def out_of_date(
    points: Sequence[str], documents: Sequence[Document] | None, records: Sequence[Record]
) -> tuple[str, ...]:
    """The note on a ranking for which some points have nothing added, or of an earlier text."""
    hashes = {record.id: record.payload.get(HASH) for record in records}
    texts = documents or (None,) * len(points)
    old = sum(
        hashes.get(point) is None or (document is not None and hashes[point] != document.content_hash)
        for point, document in zip(points, texts, strict=True)
    )
    note = f"what was added for {old} of {len(points)} documents is missing or of an earlier text; run sync"
    return (note,) if old else ()
