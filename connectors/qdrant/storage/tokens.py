"""Token vectors, read from the points that hold them: packed ones, or multivectors where these are all."""

from __future__ import annotations

from collections.abc import Sequence

from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.multivectors import token_vectors
from surprise_rerank.connectors.qdrant.schema import (
    ID,
    TOKEN_VECTORS,
    TOKENS,
    Record,
    to_tokens,
    tokens_id,
)
from surprise_rerank.connectors.qdrant.storage.base import Storage
from surprise_rerank.core.tokens.batch import TokenBatch
from surprise_rerank.errors import DataError


def stored_tokens(storage: Storage, records: Sequence[Record]) -> TokenBatch:
    """The token vectors of points, in their order; of multivectors it is not known which tokens they merge.

    Args:
        storage: of the index.
        records: of the points, with the document's id.

    Raises:
        DataError: if the index stores none, lacks some, or some are damaged; names the document.
    """
    multivectors = storage.manifest.options.token_vectors
    if multivectors is not None and not storage.manifest.options.packed_tokens:
        kept = {r.id: r for r in storage.engine.retrieve([r.id for r in records], (), (TOKEN_VECTORS,))}
        lost = [record.payload[ID] for record in records if record.id not in kept]
        if lost:
            raise _missing(lost)
        rows = (token_vectors(kept[record.id].vectors[TOKEN_VECTORS], multivectors) for record in records)
        return TokenBatch.from_arrays(list(rows), storage.manifest.token_dimension)
    holders = token_points(storage.manifest, records)
    found = storage.engine.retrieve(holders, (TOKENS,)) if holders else ()
    return to_token_batch(storage.manifest, records, found)


def token_points(manifest: Manifest, records: Sequence[Record]) -> list[str]:
    """The points that hold the packed token vectors of others.

    Raises:
        DataError: if the index stores none.
    """
    if not manifest.options.packed_tokens:
        raise DataError("the index holds no token vectors (it was made with packed_tokens=False)")
    return [tokens_id(record.id) for record in records]


def to_token_batch(manifest: Manifest, records: Sequence[Record], answer: Sequence[Record]) -> TokenBatch:
    """The token vectors of points, in their order.

    Args:
        manifest: of the index.
        records: of the points, with the document's id.
        answer: what was found of their `token_points`, with the payload.

    Raises:
        DataError: if some lack, or are damaged; names the document.
    """
    own = token_points(manifest, records)
    found = {record.id: record.payload for record in answer}
    missing = [record.payload[ID] for record, point in zip(records, own, strict=True) if point not in found]
    if missing:
        raise _missing(missing)
    names = [f"of document {record.payload[ID]!r}" for record in records]
    return to_tokens([found[point] for point in own], manifest.token_dimension, names)


def _missing(names: Sequence[str]) -> DataError:
    return DataError(
        f"{len(names)} documents, such as {names[0]!r}, were deleted meanwhile, or lost their token "
        "vectors; ask again, or rebuild the index"
    )
