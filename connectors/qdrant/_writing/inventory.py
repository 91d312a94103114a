"""The documents of one pass and those that were stored before it, in a temporary database on disk.

A process may bring a hundred million documents up to date: their ids do not fit into its memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, EmptySourceError
from surprise_rerank.connectors.qdrant._engines import Engine
from surprise_rerank.connectors.qdrant._manifest import IndexOptions
from surprise_rerank.connectors.qdrant._schema import (
    HASH,
    NUMBER,
    OF_INDEX,
    PASSAGES,
    SOURCE,
    PointForm,
    tenant_of_key,
)
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.core._files import database_errors

_WHAT = "the temporary list of the documents that came"
_PAGE = 5000  # points that are read together
# `seen` keeps the order in which documents came. A source is one of a file, a table or a data set.
_TABLES = """
    PRAGMA journal_mode = OFF;
    CREATE TABLE seen (key TEXT UNIQUE);
    CREATE TABLE sources (source TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE tenants (tenant TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE stored (key TEXT PRIMARY KEY, hash TEXT, passages INT, source TEXT, tenant TEXT)
        WITHOUT ROWID;
"""
_GONE = """
    FROM stored WHERE key NOT IN (SELECT key FROM seen)
    AND (source IN (SELECT source FROM sources) OR NOT EXISTS (SELECT 1 FROM sources))
    AND (tenant IN (SELECT tenant FROM tenants) OR NOT EXISTS (SELECT 1 FROM tenants))
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document's hash, number of passages (1 where it is whole), and what it was read from."""

    hash: str
    passages: int
    source: str = ""

    @classmethod
    def of(cls, payload: Mapping[str, object]) -> Stored:
        """Return the state that the payload of a document's first point tells."""
        points = payload.get(PASSAGES, 1)
        return cls(str(payload[HASH]), points if isinstance(points, int) else 1, str(payload.get(SOURCE, "")))


class UnusablePlace(Protocol):
    """A row or file whose documents cannot be read this time; see `readers.source.Unusable`."""

    @property
    def place(self) -> str:
        """The place, and why."""

    @property
    def id(self) -> str | None:
        """Of its document, or what is before the `#` in the ids of several; None if nobody can tell."""


class Inventory:
    """Keys of the documents that a pass has seen and, to prune, of those that are stored when it begins.

    It is closed with the pass. An error of the disk is a `StoreError`.
    """

    def __init__(
        self,
        options: IndexOptions,
        tenant: str | None,
        pruned: Engine | None = None,
        form: PointForm = OF_INDEX,
    ) -> None:
        self._has_tenants = options.tenant is not None and tenant is None
        self._database = sqlite3.connect("", isolation_level=None)  # in memory as long as it is small
        with database_errors(_WHAT):
            self._database.executescript(_TABLES)
            for key, state in () if pruned is None else all_stored(pruned, options, tenant, form):
                row = (key, state.hash, state.passages, state.source, tenant_of_key(key))
                self._database.execute("INSERT INTO stored VALUES (?, ?, ?, ?, ?)", row)

    def __enter__(self) -> Inventory:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def see(self, key: str, source: str) -> bool:
        """Note a document, and what it was read from; returns whether it was not seen before."""
        with database_errors(_WHAT):
            is_new = self._database.execute("INSERT OR IGNORE INTO seen VALUES (?)", [key]).rowcount == 1
            if source:
                self._database.execute("INSERT OR IGNORE INTO sources VALUES (?)", [source])
            if self._has_tenants:  # documents of tenants that no document names stay
                self._database.execute("INSERT OR IGNORE INTO tenants VALUES (?)", [tenant_of_key(key)])
        return is_new

    def seen(self) -> Iterator[str]:
        """Yield the keys of the documents seen, in their order."""
        return (key for (key,) in self._rows("SELECT key FROM seen ORDER BY rowid"))

    def stored(self, keys: Iterable[str]) -> dict[str, Stored]:
        """Return the state of those of these documents that were stored."""
        statement = "SELECT key, hash, passages, source FROM stored WHERE key = ?"
        rows = (row for key in keys for row in self._rows(statement, [key]))
        return {key: Stored(*state) for key, *state in rows}

    def require_some(self, where: str) -> None:
        """Refuse a pass without documents, which would take all that are stored away: an EmptySourceError."""
        stored = next(self._rows("SELECT COUNT(*) FROM stored"))[0]
        if stored and next(self.seen(), None) is None:
            raise no_documents(stored, where)

    def gone(self, documents: Iterable[Document], options: IndexOptions) -> Iterator[tuple[str, int, bool]]:
        """Yield stored documents that were not seen: key, passages, and whether a place of it is unusable.

        They are of the sources and tenants of those that were seen. The unusable places are those of the
        documents, as a `DocumentSource` has them.

        Raises:
            DataError: if there is a place that any of them may be of.
        """
        unusable: Sequence[UnusablePlace] = getattr(documents, "unusable", ())
        unclear = [document.place for document in unusable if document.id is None]
        count, first = next(self._rows(f"SELECT COUNT(*), MIN(key) {_GONE}"))
        if count and unclear:
            raise DataError(
                f"{len(unclear)} files, folders or rows could not be read, such as {unclear[0]}, and {count} "
                f"stored documents, such as {first!r}, were not found in the others, which are stored; "
                "nothing was removed: mend it, exclude it (--set exclude=...), leave prune away, or remove "
                "documents by their ids (--delete)"
            )
        slashes = 0 if options.tenant is None else 1  # a key is an id, or has the tenant before it
        unusable_ids = {document.id for document in unusable}
        for key, passages in self._rows(f"SELECT key, passages {_GONE} ORDER BY key") if count else ():
            name = key.split("/", slashes)[-1]
            yield key, passages, not unusable_ids.isdisjoint({name, name.partition("#")[0]})

    def _rows(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        with database_errors(_WHAT):
            yield from self._database.execute(statement, parameters)


def require_nothing_lost(before: Storage, after: Storage, documents: Iterable[Document]) -> None:
    """Refuse a new version without documents whose files or rows are still there.

    Raises:
        DataError: names the first of them.
        EmptySourceError: if it has none at all.
    """
    options, others = before.manifest.options, after.manifest.options
    with Inventory(options, None, before.engine) as inventory:
        for key, state in all_stored(after.engine, others, None):
            inventory.see(key, state.source)
        inventory.require_some(before.where)
        if options.tenant != others.tenant:
            return  # keys of one are not those of the other
        lost = [key for key, _, is_unusable in inventory.gone(documents, options) if is_unusable]
    if lost:
        raise DataError(
            f"{len(lost)} stored documents, such as {lost[0]!r}, could not be read this time, so the index "
            "stays as it is: mend their files, exclude them (--set exclude=...), or remove them first "
            "(--delete ID)"
        )


def all_stored(
    engine: Engine, options: IndexOptions, tenant: str | None, form: PointForm = OF_INDEX
) -> Iterator[tuple[str, Stored]]:
    """Yield key and state of every stored document, of one tenant or of all."""
    condition = None if tenant is None else options.tenant_filter(tenant)
    fields = (options.key_field, HASH, PASSAGES, NUMBER, SOURCE)
    for batch in engine.scroll(fields, batch=_PAGE, condition=condition):
        for record in batch:
            if record.payload.get(NUMBER, 0) == 0:
                yield form.key(record, options.key_field), Stored.of(record.payload)


def no_documents(count: int | str, where: str) -> EmptySourceError:
    """Return the error of a source without a document, which would take so many stored ones away."""
    return EmptySourceError(
        f"the documents given are none, expected those that replace {count} of {where}, so nothing was "
        "removed; look for why the source is empty, or remove documents with delete(ids)"
    )


class WithOtherTenants:
    """Documents, and after them those of an index whose tenant none of them has."""

    def __init__(self, documents: Iterable[Document], storage: Storage) -> None:
        self._documents, self._storage = documents, storage

    def __iter__(self) -> Iterator[Document]:
        options, tenants = self._storage.manifest.options, set[str]()
        for document in self._documents:
            tenants.add(tenant_of_key(options.key_of(document)))
            yield document
        layout = options.payloads
        fields = (*layout.document_fields(), layout.source, options.key_field)
        for records in self._storage.engine.scroll(fields, condition=options.firsts()):
            for record in records:
                if tenant_of_key(record.payload[options.key_field]) not in tenants:
                    yield layout.document(record.id, record.payload)

    @property
    def unusable(self) -> Sequence[UnusablePlace]:
        """What could not be used, as a `DocumentSource` has it."""
        places: Sequence[UnusablePlace] = getattr(self._documents, "unusable", ())
        return places
