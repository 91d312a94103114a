"""The term statistics that are stored with an index, in parts: a question reads those of its words alone.

A file, the head, has the numbers of points. The terms are in parts by what is left of a term divided by the
number of parts, some hundred terms in each, so that a change of one document writes a few of them. While
somebody writes, a mark stands in the place of the head. A killed process leaves the mark, and so no
statistics of other points: whoever needs them next counts again, in one scroll.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

import numpy as np

from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.connectors.qdrant._engines import Engine
from surprise_rerank.connectors.qdrant._engines.retries import CollectionGone, TooLarge
from surprise_rerank.connectors.qdrant._schema import BM25, Payload, Point, PointId, Record, to_terms
from surprise_rerank.connectors.qdrant._storage.files import CollectionFiles, FolderFiles, digest_of
from surprise_rerank.connectors.qdrant._writing.term_statistics import TermStatistics
from surprise_rerank.core._process import PerProcess
from surprise_rerank.core._terms import TermArray

FILE = "terms.json"

_CHANGING = b"changing "  # and who does
_STALE = b"stale"  # nobody writes, and the statistics are not known
_PART_TERMS = 256  # most in a part of a new table, in the mean: 6 kB; four times as many in one that grew
_PARTS_READ = 256  # together; a change of more of them writes a new table
_PARTS_HELD = 4096  # in memory: 25 to 50 MB
_PENDING = 2**18  # entries of changes that are added up together
_MOST_PENDING = 2**20  # terms of changes that are in memory: 30 MB, and 60 more while they are stored
_PATIENCE = 2.0  # seconds until a reader looks, in a request of 1 ms, whether there are other statistics
_LATER = 60.0  # seconds more, where it could not look
_DELETED = 1000  # points that are looked up together before they are deleted


_NONE = TermStatistics.total([])


class MissingPartsError(StoreError):
    """A table has lost parts: somebody has written another one in its place."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is stored beside the parts: how many points, those with a term, terms; parts of which table.

    The last change has a name, by which readers know that parts are others, though all numbers are as before.
    """

    points: int
    filled: int
    terms: int
    parts: int
    table: str
    change: str

    @classmethod
    def of(cls, statistics: TermStatistics) -> Head:
        """Return the head of statistics that are in memory, in one part."""
        return cls(statistics.points, statistics.filled, len(statistics.terms), 1, "", "")

    @classmethod
    def from_bytes(cls, content: bytes) -> Head | None:
        """Return the head that a file holds; None where it holds a mark, or something else."""
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            return None

    def to_bytes(self) -> bytes:
        """Return the content of a file."""
        return json.dumps(asdict(self)).encode()


class KeptTerms:
    """The term statistics of a collection's points, kept right while they change. Threads may share it.

    Of several writers none stores its own, unless its mark is still there at the end.

    Args:
        engine: has the points.
        files: what is beside them.
        vector: the sparse vectors.
        is_shared: whether others may change the points while they are open here.
    """

    def __init__(
        self,
        engine: Engine,
        files: FolderFiles | CollectionFiles,
        vector: str = BM25,
        *,
        is_shared: bool | None = None,
    ) -> None:
        self._engine, self._files, self.vector = engine, files, vector
        self._is_alone = not (engine.kind == "server" if is_shared is None else is_shared)
        self._lock = PerProcess(threading.RLock)
        self._head: Head | None = None
        self._whole: TermStatistics | None = None  # of all terms, where they were counted and not stored
        self._parts: dict[int, TermStatistics] = {}  # that were read, of the head's table
        self._changes: list[TermStatistics] = []  # that are not stored yet; the first is the sum of many
        self._entries = 0  # of the others
        self._is_changing = False  # whether our mark is set
        self._published = ""  # the table that readers have meanwhile
        self._seen = ""  # digest of what was last there
        self._looked = 0.0

    def statistics(self, terms: TermArray | None = None) -> TermStatistics:
        """Return the statistics of these terms, distinct and ascending, over all points; None for all terms.

        They are counted where none are stored that fit, and stored then on a server.
        """
        with self._lock.get():
            if self._head is None or self._is_outdated():
                self._read()
            try:
                stored = self._stored(terms)
            except MissingPartsError:
                self._read(distrusted=self._table)
                stored = self._stored(terms)
            changes = self._changes if terms is None else [change.among(terms) for change in self._changes]
            return TermStatistics.total([*stored, *changes])

    def begin(self) -> None:
        """Read the stored statistics before the first change, and set the mark of a change."""
        with self._lock.get():
            if self._is_changing:
                return
            if self._head is None or not self._is_alone:  # others may have written since it was read
                self._read()
            self._engine.claim()  # the mark is not for readers
            self._write(_CHANGING + uuid.uuid4().hex.encode())
            self._published = self._head.table if self._head else ""
            self._is_changing = True

    def change(self, added: Sequence[Point], removed: Sequence[Record]) -> None:
        """Points were stored in place of others."""
        with self._lock.get():
            stored, replaced = to_terms(added, self.vector), to_terms(removed, self.vector)
            changes = [TermStatistics.of(stored), TermStatistics.of(replaced, -1)]
            self._changes += changes
            self._entries += sum(len(change.terms) for change in changes)
            if self._entries > _PENDING:
                self._changes, self._entries = [TermStatistics.merged(self._changes)], 0
                if len(self._changes[0].terms) > _MOST_PENDING:
                    # In a table of its own: readers have the one before until the end.
                    self._use(self._with_changes(in_place=False))
                    self._files.delete_tables({self._published, self._table})

    def end(self, *, counted: bool) -> None:
        """After the last change: take the mark off, and store the statistics if they were counted."""
        with self._lock.get():
            if not self._is_changing:
                return
            self._is_changing = False
            # A store that cannot be written keeps the mark. What was done to its points stands.
            with suppress(StoreError):
                if counted and self._files.holds(FILE, self._seen):
                    head = self._with_changes(in_place=True)
                    if self._files.holds(FILE, self._seen):
                        self._write(head.to_bytes())
                        self._use(head)
                        with suppress(StoreError):
                            self._files.delete_tables({head.table})
                        return
            self._use(None)
            with suppress(StoreError):
                self._write(_STALE)

    @property
    def _table(self) -> str:
        return self._head.table if self._head else ""

    def _is_outdated(self) -> bool:
        """Whether other processes have stored something else."""
        if self._is_alone or self._is_changing or time.monotonic() < self._looked + _PATIENCE:
            return False
        self._looked = time.monotonic()
        try:
            return not self._files.holds(FILE, self._seen)
        except CollectionGone:  # the index was rebuilt; what counts finds the version in use
            return True
        except StoreError:  # a question needs the points, and does not fail for newer statistics
            self._looked += _LATER
            return False

    def _use(self, head: Head | None, whole: TermStatistics | None = None) -> None:
        """Take these statistics for the stored ones, in which all changes are; None to read them again."""
        self._head, self._whole = head, whole
        self._parts, self._changes, self._entries = {}, [], 0

    def _read(self, distrusted: str | None = None) -> None:
        """Use the stored statistics, or new ones; while another process writes, those that are known.

        A distrusted table has lost parts: it was replaced by another one, or it is damaged.
        """
        self._looked = time.monotonic()
        count = self._engine.count()  # first: it finds the version in use
        content = self._files.read_file(FILE) or b""
        self._seen = digest_of(content or None)
        is_written = content.startswith(_CHANGING) and not self._is_alone
        if is_written and self._head is not None and distrusted is None:
            return
        head = Head.from_bytes(content)
        if head is not None and head.points == count and head.table != distrusted:
            self._use(head)
            return
        pages = self._engine.scroll((), (self.vector,))
        counted = TermStatistics.counted(pages, self.vector)
        self._use(Head.of(counted), counted)
        # Who may not write searches all the same. Who reads a folder writes nothing there.
        with suppress(StoreError):
            is_shown = count and not self._is_alone and not is_written
            if is_shown and self._files.holds(FILE, self._seen):
                head = self._with_changes(in_place=False)
                self._write(head.to_bytes())
                self._use(head)

    def _stored(self, terms: TermArray | None) -> list[TermStatistics]:
        """What is stored of these terms, and the numbers of points."""
        head, whole = self._head, self._whole
        assert head is not None
        if whole is not None:
            return [whole if terms is None else whole.among(terms)]
        numbers = np.unique(terms % head.parts).tolist() if terms is not None else range(head.parts)
        parts = list(self._read_parts(head, numbers).values())
        if terms is not None:
            parts = [part.among(terms) for part in parts]
        return [replace(_NONE, points=head.points, filled=head.filled), *parts]

    def _read_parts(self, head: Head, numbers: Collection[int]) -> dict[int, TermStatistics]:
        """Parts of a head's table; a MissingPartsError if one is missing or damaged."""
        if self._whole is not None:
            return {0: self._whole}
        if len(self._parts) + len(numbers) > _PARTS_HELD:
            self._parts = {}
        missing = [number for number in numbers if number not in self._parts]
        contents = self._files.read_parts(head.table, missing) if missing else {}
        try:
            read = {number: TermStatistics.from_bytes(contents[number]) for number in missing}
        except (KeyError, DataError) as error:
            raise MissingPartsError(f"{self._engine.where}: term statistics are incomplete") from error
        if len(numbers) <= _PARTS_READ:
            self._parts |= read
        return {number: self._parts.get(number) or read[number] for number in numbers}

    def _with_changes(self, *, in_place: bool) -> Head:
        """Store the changes: in the parts that they are of, if these are few, or else in a new table."""
        assert self._head is not None
        head, change = self._head, TermStatistics.merged(self._changes)
        points, filled = head.points + change.points, head.filled + change.filled
        most = head.terms + len(change.terms)
        changes = change.by_part(head.parts)
        is_narrow = len(changes) <= _PARTS_READ and most <= 4 * _PART_TERMS * head.parts
        if in_place and is_narrow and self._whole is None:
            stored = self._read_parts(head, changes)
            parts = {i: TermStatistics.total([stored[i], part]) for i, part in changes.items()}
            self._files.write_parts(head.table, {i: part.to_bytes() for i, part in parts.items()})
            terms = head.terms + sum(len(part.terms) - len(stored[i].terms) for i, part in parts.items())
            return Head(points, filled, terms, head.parts, head.table, uuid.uuid4().hex)
        count, table, terms = head.parts, uuid.uuid4().hex, 0
        while count * _PART_TERMS < most:
            count *= 2
        for start in range(0, head.parts, _PARTS_READ):
            numbers = range(start, min(start + _PARTS_READ, head.parts))
            contents: dict[int, bytes] = {}
            for i, part in self._read_parts(head, numbers).items():
                total = TermStatistics.total([part, *([changes[i]] if i in changes else [])])
                terms += len(total.terms)
                split = total.by_part(count)
                for number in range(i, count, head.parts):
                    contents[number] = split.get(number, _NONE).to_bytes()
            self._files.write_parts(table, contents)
        return Head(points, filled, terms, count, table, uuid.uuid4().hex)

    def _write(self, content: bytes) -> None:
        self._files.write_file(FILE, content)
        self._seen = digest_of(content)


@contextmanager
def changing_points(engine: Engine, kept: KeptTerms | None) -> Iterator[PointWriter]:
    """Something to change points by, in one thread at a time; at the end their statistics are stored."""
    writer = PointWriter(engine, kept)
    try:
        yield writer
    finally:
        if kept is not None:
            kept.end(counted=not writer.is_lost)


class PointWriter:
    """Changes points, and tells what terms came and went, where these are counted."""

    def __init__(self, points: Engine, kept: KeptTerms | None) -> None:
        self._points, self._kept = points, kept
        self.is_lost = False  # whether a change failed, so that nobody knows what is stored

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, or replace those of the same id."""
        if self._kept is None:
            self._points.upsert(points)
            return
        with self._change(self._kept):
            before = self._points.retrieve([point.id for point in points], (), (self._kept.vector,))
            self._points.upsert(points)
            self._kept.change(points, before)

    def delete(self, point_ids: Sequence[PointId]) -> None:
        """Remove points."""
        if self._kept is None:
            self._points.delete(point_ids)
            return
        for start in range(0, len(point_ids), _DELETED):
            part = point_ids[start : start + _DELETED]
            with self._change(self._kept):
                before = self._points.retrieve(part, (), (self._kept.vector,))
                self._points.delete(part)
                self._kept.change([], before)

    def set_payloads(self, changes: Sequence[tuple[PointId, Payload]]) -> None:
        """Set some fields of points, which have no terms."""
        self._points.set_payloads(changes)

    @contextmanager
    def _change(self, kept: KeptTerms) -> Iterator[None]:
        kept.begin()
        try:
            yield
        except TooLarge:
            raise  # nothing was stored
        except BaseException:
            self.is_lost = True
            raise
