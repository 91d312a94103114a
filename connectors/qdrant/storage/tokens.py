"""Packed token vectors, read from the points that hold them."""

from __future__ import annotations

from collections.abc import Sequence

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
    if not storage.manifest.options.packed_tokens:
        raise DataError("the index holds no token vectors (it was made with packed_tokens=False)")
    points = [tokens_id(record.id) for record in records]
    found = {r.id: r.payload for r in storage.engine.retrieve(points, (TOKENS,))} if points else {}
    missing = [
        record.payload[ID] for record, point in zip(records, points, strict=True) if point not in found
    ]
    if missing:
        raise DataError(
            f"{len(missing)} documents, such as {missing[0]!r}, were deleted meanwhile, or lost their token "
            "vectors; ask again, or rebuild the index"
        )
    names = [f"of document {record.payload[ID]!r}" for record in records]
    return to_tokens([found[point] for point in points], storage.manifest.token_dimension, names)
