"""Documents to a corpus: read in chunks, and encoded by one process or by many workers, with one result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.connectors.readers import DocumentSource, Skipped
from surprise_rerank.connectors.similar.corpus import (
    duplicate_id,
    duplicates,
    hash_of,
    is_stored,
    store_chunk,
    token_arrays,
)
from surprise_rerank.core.arrays import Float32Array, matrix, unit_rows
from surprise_rerank.core.tokens import TokenBatch, TokenForm
from surprise_rerank.documents import Document, encodable
from surprise_rerank.encoders.base import Encoder, encode_documents
from surprise_rerank.errors import DataError

# Documents of a chunk; after a kill, less than one chunk is encoded again.
CHUNK = 1024
# Texts whose float32 token vectors are in memory at a time.
_WINDOW = 128


@dataclass(frozen=True, slots=True)
class Model:
    """A model that every worker loads for itself.

    Attributes:
        name: stored with the corpora that it encodes.
        load: loads it; must pass from process to process, as a function of a module does, or a
            `functools.partial` of one.
    """

    name: str
    load: Callable[[], Encoder]


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Documents that come with their vectors.

    Attributes:
        name: what to call them.
        batches: (ids, (n, d) vectors), which can be iterated several times; vectors are scaled to length 1.
            With token vectors: (ids, vectors, tokens), the tokens in any form.
        tokens: whether batches have tokens.
        form: of the tokens, where it is known. Documents that are compared with them get it, too.
    """

    name: str
    batches: Iterable[tuple[Sequence[str], Float32Array] | tuple[Sequence[str], Float32Array, TokenBatch]]
    tokens: bool = False
    form: TokenForm | None = None


def chunk_name(source: int, number: int) -> str:
    """The name of a chunk of a source; names sort in the order of the documents."""
    return f"chunk-{source:05d}-{number:07d}"


def chunks_of(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Consecutive documents, `CHUNK` at a time."""
    stream = iter(documents)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


def digest_of(documents: Sequence[Document], model: str, tokens: TokenForm | None) -> str:
    """Digits that differ where the documents of a chunk, their order, the model, or what is kept does."""
    kept = json.dumps(None if tokens is None else tokens.to_json())
    digest = hashlib.sha256(f"{model}\0{kept}".encode())
    for document in documents:
        digest.update(f"\0{len(document.id)}\0{document.id}{document.content_hash}".encode())
    return digest.hexdigest()


def store_documents(
    folder: Path,
    name: str,
    documents: Sequence[Document],
    load: Callable[[], Encoder],
    model: str,
    tokens: TokenForm | None,
) -> None:
    """Encode a chunk and store it, unless it is there.

    Texts are encoded longest first, in batches that depend on the chunk alone, so that every worker computes
    the same vectors.

    Args:
        folder: of the corpus.
        name: of the chunk.
        documents: of the chunk, in order.
        load: gives the encoder; called only if there is something to encode.
        model: its name.
        tokens: the form in which token vectors are kept; None for none.

    Raises:
        DataError: if an id is empty.
        StoreError: if the disk is full, or cannot be written.
    """
    nameless = next((d for d in documents if not d.id), None)
    if nameless is not None:
        place = documents.index(nameless) + 1
        raise DataError(f"a document has an empty id: number {place} of {name}; give it one, or leave it out")
    digest = digest_of(documents, model, tokens)
    if is_stored(folder, name, digest):
        return
    encoder = load()
    order = sorted(range(len(documents)), key=lambda i: -len(documents[i].content))
    dense = np.empty((len(documents), encoder.dimension), np.float32)
    parts: list[TokenBatch] = []
    for start in range(0, len(order), _WINDOW):
        rows = order[start : start + _WINDOW]
        encoded = encode_documents(encoder, [documents[i].content for i in rows])
        dense[rows] = encoded.dense
        if tokens is not None:
            parts.append(tokens.of(encoded.require_tokens()))
    kept = TokenBatch.concatenate(parts).take(np.argsort(order)) if parts else None
    store_chunk(folder, name, digest, [d.id for d in documents], dense, kept)


def store_vectors(folder: Path, given: Vectors) -> list[str]:
    """Store given vectors as the chunks of a corpus; returns the names of the chunks.

    Raises:
        DataError: if shapes do not fit, or a value is NaN or infinite.
        StoreError: if the disk is full, or cannot be written.
    """
    names, dimension = [], 0
    for number, (ids, vectors, *tokens) in enumerate(given.batches):
        rows = unit_rows(matrix(vectors, f"vectors of {given.name}"))
        dimension = dimension or rows.shape[1]
        if rows.shape[1] != dimension:
            raise DataError(
                f"{given.name}: batch {number + 1} has vectors of dimension {rows.shape[1]}, those before "
                f"have {dimension}; use one model for all"
            )
        if len(rows) != len(ids):
            raise DataError(f"{given.name}: {len(ids)} ids for {len(rows)} vectors; give one for each")
        names_of_rows = [_named(name, given.name) for name in ids]
        named = hashlib.sha256("\0".join(names_of_rows).encode())
        named.update(rows.tobytes())
        for own in tokens:
            for values in token_arrays(own):
                named.update(values.tobytes())
        names.append(chunk_name(0, number))
        store_chunk(folder, names[-1], named.hexdigest(), names_of_rows, rows, *tokens)
    return names


def _named(given: object, where: str) -> str:
    """An id as a string, as a `Document` has it."""
    name = str(given)
    if not name:
        raise DataError(f"{where}: there is an empty id; give every vector one")
    if encodable(name) != name:
        raise DataError(
            f"{where}: the id {name!r} contains lone surrogates, which are no characters; replace them"
        )
    return name


class Once:
    """A source without what was read before: documents of the same id, title and text.

    Args:
        source: all documents.
        repeated: ids that come several times, in this source or another.
        before: those of them that sources before this one have.
    """

    def __init__(self, source: Iterable[Document], repeated: frozenset[str], before: frozenset[str]) -> None:
        self._source, self._repeated, self._before = source, repeated, before
        self._again = Skipped()

    def __iter__(self) -> Iterator[Document]:
        self._again, seen = Skipped(), set(self._before)
        for document in self._source:
            if document.id in self._repeated:
                if document.id in seen:
                    self._again.add(document.id, "the same id and text as one before")
                    continue
                seen.add(document.id)
            yield document

    @property
    def accounts(self) -> list[Skipped]:
        """What the source skipped, and what was left out here."""
        return [*_accounts(self._source), self._again]


def once(
    sources: Sequence[Iterable[Document]], advance: Callable[[int], None]
) -> tuple[int, Sequence[Iterable[Document]]]:
    """How many documents there are, and the sources without those that come again.

    17 bytes a document are in memory; of each that comes several times its id, a number and 16 bytes more.

    Args:
        sources: each is read, twice where an id comes several times.
        advance: called with the number of documents that were read.

    Raises:
        DataError: if different documents have one id; names it.
    """

    def hashes_of_ids() -> Iterator[int]:
        for source in sources:
            for document in source:
                advance(1)
                yield hash_of(document.id)

    hashes = np.fromiter(hashes_of_ids(), np.int64)
    several = set(duplicates(hashes))
    if not several:
        return len(hashes), sources
    first: dict[str, tuple[int, bytes]] = {}
    repeated, before = set[str](), list[frozenset[str]]()
    number = again = 0
    for source in sources:
        before.append(frozenset(first))
        for document in source:
            number += 1
            if hash_of(document.id) not in several:
                continue
            content = hashlib.blake2b(document.content.encode(), digest_size=16).digest()
            place, known = first.setdefault(document.id, (number, content))
            if place != number:
                if content != known:
                    raise duplicate_id(document.id, place, number, " with different texts")
                repeated.add(document.id)
                again += 1
    found = frozenset(repeated)
    left = [Once(source, found, own & found) for source, own in zip(sources, before, strict=True)]
    return len(hashes) - again, left


def skipped_by(names: Sequence[str], sources: Sequence[Iterable[Document]]) -> list[dict[str, Any]]:
    """What sources skipped when they were read last, by source and reason, with the first places.

    Sources that skip nothing need not count, as `readers.DocumentSource` does.
    """
    return [
        {"source": name, "reason": reason, "count": count, "places": account.places[reason]}
        for name, source in zip(names, sources, strict=True)
        for account in _accounts(source)
        for reason, count in account.counts.items()
    ]


def _accounts(source: Iterable[Document]) -> list[Skipped]:
    if isinstance(source, Once):
        return source.accounts
    return [source.skipped] if isinstance(source, DocumentSource) else []
