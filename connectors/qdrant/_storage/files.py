"""Small files beside points: in a folder, in a collection of Qdrant, or in the memory of this process.

In a folder and in a collection there are tables, too: large contents in numbered parts, of which one reads
and writes some alone.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pybase64
from qdrant_client import models

from surprise_rerank._errors import StoreError
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._schema import ALL, Point, point_id
from surprise_rerank.core._batches import in_batches
from surprise_rerank.core._files import database_errors, disk_errors, whole_file

_PART_BYTES = 4 * 2**20  # of a file, in one point; a server takes 32 MiB in a request
_PARTS = "parts.sqlite"  # what a folder has parts of tables in


def digest_of(content: bytes | None) -> str:
    """Tells contents apart; empty for none."""
    return "" if content is None else hashlib.sha256(content).hexdigest()[:16]


class Files(ABC):
    """Named files. Every error is a `StoreError`."""

    @abstractmethod
    def read_file(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""

    def holds(self, name: str, digest: str) -> bool:
        """Whether a file has the content of a digest, see `digest_of`; on a server without reading it."""
        return digest_of(self.read_file(name)) == digest

    @abstractmethod
    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, in place of the one of this name."""

    @abstractmethod
    def delete_file(self, name: str) -> None:
        """Delete a file; nothing happens if there is none."""


class MemoryFiles(Files):
    """Files that are gone when the process ends, over others that are only read.

    Args:
        below: what is not here is read from there.
    """

    def __init__(self, below: Files) -> None:
        self._below = below
        self._contents: dict[str, bytes | None] = {}

    def read_file(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""
        return self._contents[name] if name in self._contents else self._below.read_file(name)

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, in place of the one of this name."""
        self._contents[name] = content

    def delete_file(self, name: str) -> None:
        """Hide a file."""
        self._contents[name] = None


class TenantFiles(Files):
    """Files of one tenant beside those of the whole index, which are read where the tenant has none.

    Args:
        shared: returns the files of the index; a rebuild puts others in their place.
        tenant: its name, of which file names have a digest; the files of `ALL` are those of the index.
    """

    def __init__(self, shared: Callable[[], Files], tenant: str) -> None:
        self._shared = shared
        self._prefix = "" if tenant == ALL else f"tenant-{digest_of(tenant.encode())}-"

    def read_file(self, name: str) -> bytes | None:
        """The tenant's file, or that of the whole index; None if there is neither."""
        content = self._shared().read_file(self._prefix + name)
        return self._shared().read_file(name) if content is None else content

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file of the tenant's, in place of the one of this name."""
        self._shared().write_file(self._prefix + name, content)

    def delete_file(self, name: str) -> None:
        """Delete a file of the tenant's; that of the whole index stays."""
        self._shared().delete_file(self._prefix + name)


class FolderFiles(Files):
    """Files in a folder, each written whole or not at all.

    Args:
        folder: is made with the first file.
        where: the place, for messages.
    """

    def __init__(self, folder: Path, where: str | None = None) -> None:
        self.folder = folder
        self._where = where or str(folder)

    def read_file(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""
        with disk_errors(self._where):
            path = self.folder / name
            return path.read_bytes() if path.exists() else None

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, in place of the one of this name."""
        with disk_errors(self._where):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(self.folder / name, private=True) as file:
                file.write(content)

    def delete_file(self, name: str) -> None:
        """Delete a file; nothing happens if there is none."""
        with disk_errors(self._where):
            (self.folder / name).unlink(missing_ok=True)

    def read_parts(self, table: str, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return parts of a table by their numbers, those that are there."""
        path = self.folder / _PARTS
        if not path.exists():
            return {}
        # Nobody writes meanwhile: the folder's lock keeps others out. A reader may not write there.
        name = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        ask = "SELECT number, content FROM parts WHERE belongs = ? AND number = ?"
        with database_errors(self._where), closing(sqlite3.connect(name, uri=True)) as database:
            return dict(row for number in numbers for row in database.execute(ask, [table, number]))

    def write_parts(self, table: str, parts: Mapping[int, bytes]) -> None:
        """Keep parts of a table, in place of those of these numbers; all of them, or none."""
        rows = [(table, number, content) for number, content in parts.items()]
        self._change_parts("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", rows)

    def delete_tables(self, kept: Collection[str]) -> None:
        """Delete all parts but those of the tables that are kept."""
        marks = ", ".join("?" * len(kept))
        self._change_parts(f"DELETE FROM parts WHERE belongs NOT IN ({marks})", [tuple(kept)])

    def _change_parts(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement of SQL for every row, in the database of parts, which is made if it is missing."""
        path = self.folder / _PARTS
        with disk_errors(self._where):
            path.touch(mode=0o600)
        with database_errors(self._where), closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA secure_delete = ON")
            database.execute("PRAGMA auto_vacuum = FULL")  # of a new file: deleted tables take no place
            database.execute(
                "CREATE TABLE IF NOT EXISTS parts (belongs, number, content, UNIQUE (belongs, number))"
            )
            database.executemany(statement, rows)


class CollectionFiles(Files):
    """Files in a collection of their own, `kept`, which is made with the first file.

    The spread gives settings of that, such as `replication_factor`; to know them may take a request.
    """

    def __init__(self, kept: ClientEngine, spread: Callable[[], Mapping[str, Any]] = dict) -> None:
        self.kept = kept
        self._spread = spread

    def read_file(self, name: str) -> bytes | None:
        """A file, joined from its parts; the latest content of which all parts exist.

        Raises:
            StoreError: if a part is damaged.
        """
        if not self.kept.exists():
            return None
        contents: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        fields = ("part", "data", "parts", "of", "written")
        for batch in self.kept.scroll(fields, batch=4, condition=_named(name)):
            for record in batch:
                contents[record.payload.get("of", "")][record.payload["part"]] = record.payload
        whole = [parts for parts in contents.values() if len(parts) == parts[min(parts)]["parts"]]
        if not whole:
            return None
        latest = max(whole, key=lambda parts: max(part.get("written", 0.0) for part in parts.values()))
        try:
            return pybase64.b64decode("".join(latest[i]["data"] for i in sorted(latest)), validate=True)
        except ValueError as error:
            raise StoreError(f"{self.kept.where}: the file {name!r} is damaged; write it again") from error

    def holds(self, name: str, digest: str) -> bool:
        """Whether a file has the content of a digest: its first part is there until all of another one is."""
        if not digest:
            return self.read_file(name) is None
        return bool(self.kept.retrieve([_part_id(name, digest, 0)], ()))

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, in parts that fit into a request, in place of the file of this name.

        The old parts are deleted when all new ones are stored. A reader finds one of the two, complete.
        """
        if not self.kept.exists():
            self.kept.create_of({}, self._spread())
            self.kept.index_keywords("name", "table")  # or every look at a file goes through all parts
        text = pybase64.b64encode(content).decode("ascii")
        digest = digest_of(content)
        starts = range(0, len(text), _PART_BYTES)
        shared = {"name": name, "of": digest, "parts": len(starts), "written": time.time()}
        for part, start in enumerate(starts):
            payload = {**shared, "part": part, "data": text[start : start + _PART_BYTES]}
            self.kept.upsert([Point(_part_id(name, digest, part), {}, payload)])
        stored = self.kept.scroll(("of",), condition=_named(name))
        self.kept.delete([r.id for batch in stored for r in batch if r.payload.get("of") != digest])

    def delete_file(self, name: str) -> None:
        """Delete a file; nothing happens if there is none."""
        if self.kept.exists():
            ids = [r.id for batch in self.kept.scroll((), condition=_named(name)) for r in batch]
            self.kept.delete(ids)

    def file_names(self) -> list[str]:
        """Return the names of all files."""
        wanted = models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key="name"))])
        pages = self.kept.scroll(("name",), condition=wanted) if self.kept.exists() else ()
        return sorted({record.payload["name"] for page in pages for record in page})

    def read_parts(self, table: str, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return parts of a table by their numbers, those that are there."""
        ids = {point_id(table, number): number for number in numbers}
        records = self.kept.retrieve(list(ids), ("data",))
        return {ids[record.id]: pybase64.b64decode(record.payload["data"]) for record in records}

    def write_parts(self, table: str, parts: Mapping[int, bytes]) -> None:
        """Keep parts of a table, in place of those of these numbers."""
        points = []
        for number, part in parts.items():
            payload = {"table": table, "data": pybase64.b64encode(part).decode("ascii")}
            points.append(Point(point_id(table, number), {}, payload))
        for batch in in_batches(points, lambda point: point.size, _PART_BYTES, len(parts)):
            self.kept.upsert(batch)

    def delete_tables(self, kept: Collection[str]) -> None:
        """Delete all parts but those of the tables that are kept."""
        others = models.FieldCondition(key="table", match=models.MatchExcept(**{"except": list(kept)}))
        for batch in self.kept.scroll((), condition=models.Filter(must=[others])):
            self.kept.delete([record.id for record in batch])


def _part_id(name: str, digest: str, part: int) -> str:
    return point_id(f"{name}@{digest}", part)


def _named(name: str) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="name", match=models.MatchValue(value=name))])
