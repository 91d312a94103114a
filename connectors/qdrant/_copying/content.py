"""What a copy holds, whatever the index's schema: documents, their vectors, and the files beside them.

Points are made of it as `DocumentIndex.sync` makes them, in the schema of today.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np

from surprise_rerank._documents import Document, Passage
from surprise_rerank._errors import StoreError
from surprise_rerank.connectors._progress import Advance
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant._schema import (
    BM25,
    DENSE,
    DOCUMENT_FIELDS,
    HASH,
    ID,
    INCOMPLETE,
    PASSAGE_FIELDS,
    PASSAGES,
    SOURCE,
    TOKEN_VECTORS,
    Record,
    point_id,
)
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.connectors.qdrant._writing.indexing import Indexer, Piece, PointMaker
from surprise_rerank.connectors.qdrant._writing.kept_terms import FILE, KeptTerms, changing_points
from surprise_rerank.connectors.qdrant._writing.statistics import load
from surprise_rerank.encoders.base import Encoded, Progress

_PAGE = 64  # documents, or points with their vectors, in a request
_PASSAGES = 1000  # places of passages in a request
Address: TypeAlias = str | int  # where a content has the vectors of a passage


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedDocument(Document):
    """A document, its passages (one None where it is whole), and where the vectors of each are."""

    passages: tuple[Passage | None, ...]
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Vectors(Encoded):
    """The vectors of n passages, with those of their words; none where the index stores no words."""

    terms: tuple[SparseVector, ...] = ()


class Content(Protocol):
    """What is copied.

    Attributes:
        where: the place, for messages.
        manifest: the model, the options, and the ensembles.
    """

    where: str
    manifest: Manifest

    def __len__(self) -> int:
        """Return the number of documents."""

    def count(self) -> int:
        """Return the number of points."""

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of ensembles, backgrounds, weights and counts of changes."""

    def documents(self) -> Iterator[CopiedDocument]:
        """Yield all documents, without their vectors."""

    def vectors(self, addresses: Sequence[Address]) -> Vectors:
        """Read the vectors of some passages."""


class IndexContent:
    """The content of an index."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self.where = storage, storage.where
        self.manifest = storage.reload()
        self._firsts = storage.manifest.options.firsts()

    def __len__(self) -> int:
        return self._storage.engine.count(self._firsts)

    def count(self) -> int:
        """Return the number of points."""
        return self._storage.engine.count()

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of all files but the statistics of words, which are counted again."""
        contents = ((name, self._storage.read_file(name)) for name in self._storage.file_names())
        return ((name, content) for name, content in contents if name != FILE and content is not None)

    def documents(self) -> Iterator[CopiedDocument]:
        """Yield all documents; a StoreError if one is not whole."""
        options = self.manifest.options
        fields = (*DOCUMENT_FIELDS, SOURCE, HASH, PASSAGES, options.key_field, *PASSAGE_FIELDS)
        for page in self._storage.engine.scroll(fields, batch=_PAGE, condition=self._firsts):
            points = [
                [point_id(r.payload[options.key_field], n) for n in range(r.payload.get(PASSAGES, 1))]
                for r in page
            ]
            passages = self._passages([point for those in points for point in those[1:]])
            for record, addresses in zip(page, points, strict=True):
                if str(record.payload[HASH]).startswith(INCOMPLETE):
                    raise _changed(self.where, record.payload[ID])
                document = options.payloads.document(record.id, record.payload)
                first = None if options.passages is None else options.payloads.passage_of(record.payload)
                parts = (first, *(passages.get(point) for point in addresses[1:]))
                if None in parts[1:]:
                    raise _changed(self.where, document.id)
                yield CopiedDocument(
                    document.id,
                    document.text,
                    document.title,
                    document.metadata,
                    source=document.source,
                    places=document.places,
                    passages=parts,
                    addresses=tuple(addresses),
                )

    def _passages(self, points: Sequence[str]) -> dict[str, Passage]:
        """The passages after the first, by their points."""
        parts = (points[start : start + _PASSAGES] for start in range(0, len(points), _PASSAGES))
        records = chain.from_iterable(self._storage.engine.retrieve(p, PASSAGE_FIELDS) for p in parts)
        return {r.id: self.manifest.options.payloads.passage_of(r.payload) for r in records}

    def vectors(self, addresses: Sequence[Address]) -> Vectors:
        """Read the vectors of some points; a StoreError if one is not there any more."""
        options, layout = self.manifest.options, VectorLayout.of(self.manifest)
        stored = {TOKEN_VECTORS: options.tokens, BM25: options.bm25 is not None}
        names = (DENSE, *(name for name, is_stored in stored.items() if is_stored))
        parts = (addresses[start : start + _PAGE] for start in range(0, len(addresses), _PAGE))
        retrieve = self._storage.engine.retrieve
        records = {r.id: r for part in parts for r in retrieve(part, (ID, *TOKEN_FIELDS), names)}
        if len(records) < len(addresses):
            raise _changed(self.where, next(str(a) for a in addresses if a not in records))
        page = [records[str(address)] for address in addresses]
        tokens = layout.tokens_of(page) if options.tokens else None
        terms = tuple(map(_terms, page)) if options.bm25 is not None else ()
        return Vectors(layout.dense_of(page)[0], tokens, terms)


@dataclass(frozen=True, slots=True)
class CopyMaker(PointMaker):
    """Makes points of documents whose passages and vectors a content has."""

    content: Content = field(kw_only=True)

    @property
    def sizes(self) -> tuple[int, int | None]:
        """Dimensions of dense vectors and of token vectors."""
        return self.content.manifest.dimension, self.content.manifest.token_dimension

    def pieces(self, documents: Sequence[Document]) -> list[list[Piece]]:
        """Each document in its passages."""
        copied = [document for document in documents if isinstance(document, CopiedDocument)]
        return [[Piece(d, passage, len(d.passages), "") for passage in d.passages] for d in copied]

    def encoded(self, pieces: Sequence[Piece], on_progress: Progress | None = None) -> Vectors:
        """Read the vectors of pieces."""
        addresses: list[Any] = []
        for piece in pieces:
            assert isinstance(piece.document, CopiedDocument)
            addresses.append(piece.document.addresses[piece.passage.number if piece.passage else 0])
        return self.content.vectors(addresses)

    def terms(self, pieces: Sequence[Piece], encoded: Encoded) -> Sequence[SparseVector]:
        """The words' vectors as they were: no text is stemmed again."""
        assert isinstance(encoded, Vectors)
        return encoded.terms


def fill(version: Storage, content: Content, advance: Advance) -> None:
    """Store a content in an empty version, or what an interrupted call has left of it."""
    kept, manifest = None, content.manifest
    for name, file in content.files():
        version.write_file(name, file)
    version.save(replace(version.reload(), statistics=manifest.statistics, latest=manifest.latest))
    if manifest.options.bm25 is not None:
        kept = KeptTerms(version.engine, version)
    record = manifest.statistics
    statistics = None if record is None else load(version, record, manifest.model)
    maker = CopyMaker(manifest.options, None, statistics, content=content)
    with version.engine.changing(), changing_points(version.engine, kept) as points:
        Indexer(version.engine, points, maker, advance, lambda _: None, replaces=True).run(
            content.documents()
        )


def _changed(where: str, what: str) -> StoreError:
    return StoreError(
        f"{where}: {what!r} is not whole, expected every passage with its vectors; somebody changes the "
        "index, or a run was interrupted: run 'surprise-rerank index SOURCE' to its end, and copy it again"
    )


def _terms(record: Record) -> SparseVector:
    terms = record.vectors.get(BM25)
    indices, values = ((), ()) if terms is None else (terms.indices, terms.values)
    return SparseVector(np.array(indices, np.uint32), np.array(values, np.float32))
