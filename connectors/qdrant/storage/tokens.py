"""Packed token vectors, read from the points that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surprise_rerank.connectors.qdrant.engines.steps import points
from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.schema import ID, TOKENS, Record, to_tokens, tokens_id
from surprise_rerank.connectors.qdrant.storage.base import Storage
from surprise_rerank.core.tokens.batch import TokenBatch
from surprise_rerank.errors import DataError


def stored_tokens(storage: Storage, records: Sequence[Record]) -> TokenBatch:
    """The token vectors of points, in their order.

    Args:
        storage: of the index.
        records: of the points, with the document's id.

    Raises:
        DataError: if the index stores none, lacks some, or some are damaged; names the document.
    """
    own = token_points(storage.manifest, records)
    found = storage.engine.query(points(list(own.values()), (TOKENS,))) if own else ()
    return to_token_batch(storage.manifest, records, own, found)


def token_points(manifest: Manifest, records: Sequence[Record]) -> dict[str, str]:
    """Point -> the point that holds its packed token vectors.

    Raises:
        DataError: if the index stores none.
    """
    if not manifest.options.packed_tokens:
        raise DataError("the index holds no token vectors (it was made with packed_tokens=False)")
    return {record.id: tokens_id(record.id) for record in records}


def to_token_batch(
    manifest: Manifest, records: Sequence[Record], token_points: Mapping[str, str], answer: Sequence[Record]
) -> TokenBatch:
    """The token vectors of points, in their order.

    Args:
        manifest: of the index.
        records: of the points, with the document's id.
        token_points: of these and perhaps of others.
        answer: what was found of those, with their payload.

    Raises:
        DataError: if some lack, or are damaged; names the document.
    """
    own = [token_points[record.id] for record in records]
    found = {record.id: record.payload for record in answer}
    missing = [record.payload[ID] for record, point in zip(records, own, strict=True) if point not in found]
    if missing:
        raise DataError(
            f"{len(missing)} documents, such as {missing[0]!r}, were deleted meanwhile, or lost their token "
            "vectors; ask again, or rebuild the index"
        )
    names = [f"of document {record.payload[ID]!r}" for record in records]
    return to_tokens([found[point] for point in own], manifest.token_dimension, names)
