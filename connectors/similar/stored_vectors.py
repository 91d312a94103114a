"""The vectors of an index that exists, for jobs that need not encode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant.schema import DENSE, ID, TOKEN_VECTORS, Record
from surprise_rerank.connectors.similar.encoding import Vectors
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError

# Documents of a chunk, and of one with token vectors, which arrive as lists of floats.
_BATCH, _TOGETHER = 1024, 128

_Batch: TypeAlias = tuple[list[str], Float32Array] | tuple[list[str], Float32Array, TokenBatch]


def stored_vectors(index: QdrantIndex, *, tokens: bool = False, show_progress: bool = False) -> Vectors:
    """The documents of an index, in the order of their points.

    Args:
        index: on a server, or in a folder; it must stay open until the vectors are read.
        tokens: whether their token vectors are read, too.
        show_progress: a bar on the error stream while they are read.

    Raises:
        DataError: if it holds documents in passages, or no token vectors where they are asked for.
    """
    status = index.status()
    if status.points != status.documents:
        raise DataError(
            f"{index.where} holds {status.documents} documents in {status.points} passages, and neighbours "
            "are found of whole documents; give the documents' files, or an index made with --no-passages"
        )
    if tokens and not index.manifest.options.tokens:
        raise DataError(
            f"{index.where} holds no token vectors, which dynamax compares; choose similarity "
            "'cosine', or give the documents' files"
        )
    return Vectors(
        index.where, _Stored(index, tokens, show_progress), tokens, replace(index.token_form, storage="int8")
    )


class _Stored:
    """Batches of an index, read anew by every iteration."""

    def __init__(self, index: QdrantIndex, tokens: bool, show_progress: bool) -> None:
        self._index, self._tokens = index, tokens
        self._terminal = Terminal(quiet=not show_progress)

    def __iter__(self) -> Iterator[_Batch]:
        engine = self._index.storage.engine
        fields = (ID, *TOKEN_FIELDS) if self._tokens else (ID,)
        vectors = (DENSE, TOKEN_VECTORS) if self._tokens else (DENSE,)
        with self._terminal.bar("reading", len(self._index), "documents") as advance:
            for records in engine.scroll(fields, vectors, batch=_TOGETHER if self._tokens else _BATCH):
                if records:
                    yield self._batch(records)
                advance(len(records))

    def _batch(self, records: Sequence[Record]) -> _Batch:
        ids = [record.payload[ID] for record in records]
        vectors = np.array([record.vectors[DENSE] for record in records], np.float32)
        return (ids, vectors, self._index.pools.tokens_of(records)) if self._tokens else (ids, vectors)
