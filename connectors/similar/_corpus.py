"""The documents of a job: texts and vectors in parts; a text that comes again counts once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError
from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors.qdrant._schema import (
    DENSE,
    TOKEN_VECTORS,
    Record,
)
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.similar._folder import (
    EXTRA,
    other_job,
    part,
    read_array,
    read_table,
    write_array,
    write_table,
)
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core.arrays import Float32Array, IntArray, matrix, unit_rows
from surprise_rerank.core.tokens import Members, TokenBatch, pooled_tokens
from surprise_rerank.encoders.base import Encoder, encode_documents

# Documents of a part; texts that are encoded at a time, and documents that an index sends.
CHUNK, _WINDOW = 1024, 128

# Documents, with their vectors and token vectors where these are known.
Batch: TypeAlias = tuple[Sequence[Document], Float32Array | None, TokenBatch | None]


def of_documents(documents: Iterable[Document]) -> Iterator[Batch]:
    """Documents whose texts are to be encoded."""
    stream = iter(documents)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk, None, None


def of_vectors(ids: Sequence[str], vectors: Any) -> Iterator[Batch]:
    """Vectors that are known, of texts that are not.

    Raises:
        DataError: if there is not one id for each vector, or a value is NaN or infinite.
    """
    rows = unit_rows(matrix(vectors, "vectors"))
    border.equal("the number of ids", len(ids), len(rows), "give one for each vector")
    for start in range(0, len(rows), CHUNK):
        chunk = slice(start, start + CHUNK)
        yield [Document(str(name), "") for name in ids[chunk]], rows[chunk], None


def of_index(index: DocumentIndex, tokens: bool, tenant: str | None = None) -> Iterator[Batch]:
    """What an index, or a tenant in it, holds in the order of points; of split documents the mean vectors.

    Raises:
        DataError: if dynamax needs token vectors that it does not hold, or holds of passages; or if a tenant
            is named and the index has none.
    """
    engine = index.corpus.points
    pools = Pools.of_index(index.corpus.storage, tenant=tenant)
    splits = engine.count() != len(index)
    if tokens and (splits or not index.manifest.options.tokens):
        what = "token vectors of passages" if splits else "no token vectors"
        raise DataError(
            f"{index.where} holds {what}, and dynamax compares those of whole documents; choose another "
            "similarity, or give the documents' files"
        )
    fields = pools.payload_of(frozenset({"documents", "tokens"} if tokens else {"documents"}))
    names = (DENSE, TOKEN_VECTORS) if tokens else (DENSE,)
    pages = (
        (records, unit_rows(np.array([record.vectors[DENSE] for record in records], np.float32)))
        for records in engine.scroll(
            fields,
            names,
            batch=_WINDOW if tokens else CHUNK,
            condition=pools.prepared(NO_OPTIONS).filter,
        )
        if records
    )
    if splits:
        yield from _of_passages(pages, pools)
        return
    for records, rows in pages:
        kept = pools.layout.tokens_of(records) if tokens else None
        yield [_named(record, pools) for record in records], rows, kept


def _named(record: Record, pools: Pools) -> Document:
    """Return the document of a first point, with the id that it is known by among those of the pools."""
    (name,) = pools.names([record]).values()
    return replace(pools.payloads.document(record.id, record.payload), id=name)


def _of_passages(pages: Iterable[tuple[Sequence[Record], Float32Array]], pools: Pools) -> Iterator[Batch]:
    """Documents by the order of their first passages, which hold the texts."""
    documents: dict[str, Document] = {}
    sums: dict[str, Float32Array] = {}
    for records, rows in pages:
        for record, vector in zip(records, rows, strict=True):
            name = pools.key(record)
            sums[name] = sums[name] + vector if name in sums else vector
            if pools.payloads.is_first(record.payload):
                documents[name] = _named(record, pools)
    names = iter(documents)
    while chunk := list(islice(names, CHUNK)):
        vectors = np.stack([sums[name] for name in chunk])
        yield [documents[name] for name in chunk], unit_rows(vectors), None


def store(folder: Path, batches: Iterable[Batch]) -> None:
    """Write texts, and vectors that are known, in parts; what is there must be the same.

    Raises:
        DataError: if there is no document, or two texts have one id.
        StoreError: if the folder holds other documents, or cannot be used.
    """
    rows = _Rows()
    count = 0
    folder.mkdir(exist_ok=True, mode=0o700)
    for documents, dense, tokens in batches:
        table = rows.table(documents, are_texts=dense is None or any(d.text for d in documents))
        path = part(folder, "texts", count, ".parquet")
        if not path.exists():
            write_table(path, table)
        elif not read_table(path).equals(table):
            raise other_job(folder.parent, f"{folder.name} have changed, part {count}")
        if dense is not None:
            new = np.flatnonzero(~table["is_copy"].to_numpy())
            kept = None if tokens is None else tokens.take(new)
            _store_vectors(folder, count, dense[new], kept)
        count += 1
    if not count:
        raise DataError("there are no documents to compare; give a source that has some")
    if part(folder, "texts", count, ".parquet").exists():
        raise other_job(folder.parent, f"{folder.name} had more than {count} parts")


class _Rows:
    """The row of every text, in the order in which texts come first."""

    def __init__(self) -> None:
        self._ids: dict[str, bytes] = {}
        self._texts: dict[bytes, int] = {}
        self._highest = -1

    def table(self, documents: Sequence[Document], are_texts: bool) -> Any:
        """An Arrow table of the documents; one of the same id and text as before is left out."""
        lines = []
        for document in documents:
            text = f"{document.title}\0{document.text}" if are_texts else document.id
            digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
            if not document.id or self._ids.setdefault(document.id, digest) != digest:
                raise DataError(
                    f"the document id {document.id!r} is empty, or of two texts; ids must be unique"
                )
            row = self._texts.setdefault(digest, len(self._texts))
            lines.append((document.id, document.title, document.text, row))
        return self._marked(lines)

    def _marked(self, lines: list[tuple[str, str, str, int]]) -> Any:
        pyarrow = import_extra("pyarrow", EXTRA)
        ids, titles, texts, rows = zip(*lines, strict=True)
        numbers = np.array(rows, np.int64)
        before = np.zeros(len(numbers), np.bool_)
        before[np.unique(numbers, return_index=True)[1]] = True  # the first of each in this part
        highest, self._highest = self._highest, max(self._highest, int(numbers.max()))
        columns = {
            name: pyarrow.array(v, pyarrow.large_string())
            for name, v in (("id", ids), ("title", titles), ("text", texts))
        }
        return pyarrow.table({**columns, "row": numbers, "is_copy": ~(before & (numbers > highest))})


def _store_vectors(folder: Path, number: int, dense: Float32Array, tokens: TokenBatch | None) -> None:
    """Write the vectors of a part, the dense ones last: they show that the part is whole."""
    path = part(folder, "vectors", number, ".npy")
    if path.exists():
        if tokens is None and not np.array_equal(read_array(path), dense):
            raise other_job(folder.parent, f"the vectors of {folder.name} have changed, part {number}")
        return
    if tokens is not None:
        arrays: dict[str, npt.NDArray[Any]] = {
            "directions": tokens.directions.astype(np.float16),
            "norms": tokens.norms,
            "offsets": tokens.offsets,
        }
        if tokens.members is not None:
            arrays |= {"owners": tokens.members.owners, "ends": tokens.members.offsets}
        for name, values in arrays.items():
            write_array(part(folder, "tokens", number, f"-{name}.npy"), values)
    write_array(path, dense)


@dataclass(frozen=True, slots=True)
class Encoding:
    """Encodes parts of a folder; can be sent to another process.

    Attributes:
        folder: of the documents.
        load: loads the model.
        tokens: whether token vectors are kept.
    """

    folder: Path
    load: Callable[[], Encoder]
    tokens: bool

    def __call__(self) -> Callable[[int], None]:
        """The function that encodes a part, with the model loaded for the first one."""
        load = cache(self.load)
        return lambda number: self._encode(number, load())

    def _encode(self, number: int, encoder: Encoder) -> None:
        table = read_table(part(self.folder, "texts", number, ".parquet"), ["title", "text", "is_copy"])
        rows = [
            Document("-", row["text"], row["title"]).content
            for row in table.to_pylist()
            if not row["is_copy"]
        ]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))  # texts of a length are padded least
        dense = np.empty((len(rows), encoder.dimension), np.float32)
        parts: list[TokenBatch] = []
        for start in range(0, len(order), _WINDOW):
            places = order[start : start + _WINDOW]
            encoded = encode_documents(encoder, [rows[i] for i in places])
            dense[places] = unit_rows(encoded.dense)
            if self.tokens:
                # Compared in a tenth of the time of all tokens, and nearly as similar (docs/similar.md).
                parts.append(pooled_tokens(encoded.require_tokens()))
        kept = TokenBatch.concatenate(parts).take(np.argsort(order)) if parts else None
        _store_vectors(self.folder, number, dense, kept)


class Corpus:
    """The documents of a folder whose parts are all there; a row is a text that comes first.

    Args:
        folder: of the documents.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._vectors = [read_array(path) for path in sorted(folder.glob("vectors-*.npy"))]
        self._starts = np.concatenate([[0], np.cumsum([len(part) for part in self._vectors])])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @staticmethod
    def missing(folder: Path) -> list[int]:
        """The parts whose vectors are not there."""
        count = len(list(folder.glob("texts-*.parquet")))
        return [n for n in range(count) if not part(folder, "vectors", n, ".npy").exists()]

    @cached_property
    def dense(self) -> Float32Array:
        """(n, d) vectors of length 1, in memory."""
        filled = [part for part in self._vectors if len(part)]
        return np.concatenate(filled)

    @cached_property
    def ids(self) -> Any:
        """The id of each row, as an Arrow array."""
        columns = self._columns(["id", "is_copy"])
        first = ~columns["is_copy"].to_numpy()
        return columns["id"].combine_chunks().filter(import_extra("pyarrow", EXTRA).array(first))

    @cached_property
    def copies(self) -> list[tuple[str, int]]:
        """Documents whose text another one has, and the row of that one."""
        rows = self._columns(["id", "row", "is_copy"]).to_pylist()
        first = set(self.ids.to_pylist())
        copied = {r["id"]: r["row"] for r in rows if r["is_copy"] and r["id"] not in first}
        return list(copied.items())

    def texts(self, rows: Iterable[int]) -> dict[int, Document]:
        """Some documents by their rows."""
        wanted, documents = set(rows), dict[int, Document]()
        for path in self._texts:
            table = read_table(path)
            mask = ~table["is_copy"].to_numpy() & np.isin(table["row"].to_numpy(), list(wanted))
            for row in table.filter(import_extra("pyarrow", EXTRA).array(mask)).to_pylist():
                documents[row["row"]] = Document(row["id"], row["text"], row["title"])
        return documents

    def tokens_of(self, rows: IntArray) -> TokenBatch:
        """The token vectors of some rows, in their order."""
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(owners, kind="stable")
        batches = [
            self._tokens[owner].take(rows[owners == owner] - self._starts[owner])
            for owner in np.unique(owners)
        ]
        tokens = TokenBatch.concatenate(batches).take(np.argsort(order, kind="stable"))
        return replace(tokens, directions=tokens.directions.astype(np.float32))

    @cached_property
    def _tokens(self) -> list[TokenBatch]:
        """The token vectors of each part, read from their files as they are used."""

        def batch(number: int) -> TokenBatch:
            def read(name: str) -> Any:
                return read_array(part(self.folder, "tokens", number, f"-{name}.npy"))

            tokens = TokenBatch(read("directions"), read("norms"), read("offsets"))
            if not part(self.folder, "tokens", number, "-owners.npy").exists():
                return tokens
            return replace(tokens, members=Members(read("owners"), read("ends")))

        return [batch(number) for number in range(len(self._vectors))]

    @property
    def _texts(self) -> list[Path]:
        return sorted(self.folder.glob("texts-*.parquet"))

    def _columns(self, names: list[str]) -> Any:
        return import_extra("pyarrow", EXTRA).concat_tables([read_table(path, names) for path in self._texts])
