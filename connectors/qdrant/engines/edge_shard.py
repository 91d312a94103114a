"""A shard of Qdrant Edge: it is opened or made, its errors fit on one line, and disk space is checked."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import qdrant_edge

from surprise_rerank.connectors.qdrant.engines.edge_sharing import (
    CAN_SHARE,
    FolderLock,
    open_to_change,
    open_to_read,
    settle,
)
from surprise_rerank.core.files import disk_errors, explain
from surprise_rerank.errors import MADE_ANEW, StoreError, UnreadableIndexError

# A page of Edge's payload storage is 32 MiB, mapped into memory: writing to one that the disk has no room
# for kills the process, so room for the next pages is asked for before every write.
_ROOM = 256 * 2**20

# What forked processes have of their parent, and the lock of those that open their own.
_INHERITED: list[object] = []
_FORKED = threading.Lock()


class Shard:
    """One shard in one folder; one that exists is open for reading, beside other readers, until `claim`.

    Where there is none it is made of the configuration, and given to `begin` before it takes its place.

    Raises:
        StoreError: if the shard cannot be opened.
    """

    def __init__(
        self, folder: Path, config: qdrant_edge.EdgeConfig, begin: Callable[[qdrant_edge.EdgeShard], None]
    ) -> None:
        self.where = str(folder)
        self._folder = folder
        self._using = 0
        self._idle = threading.Condition()
        self._reads = CAN_SHARE and folder.exists()  # only, until `claim`
        self._shard: qdrant_edge.EdgeShard | None = None
        self._lock: FolderLock | None = None
        self._process = os.getpid()
        with disk_errors(self.where):
            if not folder.exists():
                self._require_room()
                _create(folder, config, begin)
            _read_ahead(folder)
        self._open()

    def claim(self) -> None:
        """Become the only one who has the shard open, after the requests of other threads.

        Raises:
            StoreError: if somebody else reads or changes it; this one can be read on.
        """
        self._follow_fork()
        with self._idle:
            self._idle.wait_for(lambda: not self._reads or self._using == 0)
            if not self._reads or self._shard is None:
                return
            self._release()
            self._reads = False
            try:
                self._open()
            except StoreError:
                self._reads = True
                self._open()
                raise

    def update(self, operation: qdrant_edge.UpdateOperation) -> None:
        """Change points.

        Raises:
            StoreError: if it fails, or the disk is full.
        """
        self.claim()
        self._require_room()
        with self.use() as shard:
            shard.update(operation)

    @contextlib.contextmanager
    def use(self) -> Iterator[qdrant_edge.EdgeShard]:
        """For a request: the shard stays open meanwhile, and Edge's errors become a `StoreError`."""
        self._follow_fork()
        with self._idle:
            self._using += 1
        try:
            if self._shard is None:
                raise StoreError(f"{self.where} is closed; open it again")
            with self._named_errors():
                yield self._shard
        finally:
            with self._idle:
                self._using -= 1
                self._idle.notify_all()

    def finish(self) -> None:
        """Build the approximate index where there is enough to index, and write everything to disk.

        Edge keeps Python's lock: no other thread runs meanwhile.

        Raises:
            StoreError: if it fails, or the disk has no room.
        """
        self.claim()
        self._require_room()
        with self.use() as shard:
            shard.optimize()
            shard.flush()

    def close(self) -> None:
        """Flush and release the folder's lock, after the requests of other threads."""
        if self._process != os.getpid():
            return  # it is the parent's
        with self._idle:
            self._idle.wait_for(lambda: self._using == 0)
            self._release()

    def _follow_fork(self) -> None:
        """In a forked process open the shard anew: the threads of the inherited one are not there."""
        if self._process == os.getpid():
            return
        with _FORKED:
            if self._process == os.getpid():
                return
            _INHERITED.append((self._shard, self._lock))  # neither closed nor dropped: they are the parent's
            self._idle, self._using, self._reads = threading.Condition(), 0, CAN_SHARE
            if self._shard is not None:
                self._open()
            self._process = os.getpid()

    def _open(self) -> None:
        with self._named_errors():
            opened = open_to_read(self._folder) if self._reads else open_to_change(self._folder)
        self._shard, self._lock = opened

    def _release(self) -> None:
        shard, lock, self._shard, self._lock = self._shard, self._lock, None, None
        if shard is None or lock is None:
            return
        try:
            if not self._reads:
                with self._named_errors():
                    shard.close()
                    if CAN_SHARE:
                        with contextlib.suppress(OSError):  # who reads next does it
                            settle(self._folder)
        finally:
            del shard  # before the lock: a reader's is not closed
            lock.close()

    def _require_room(self) -> None:
        folder = self._folder if self._folder.exists() else self._folder.parent
        with disk_errors(self.where):
            free = shutil.disk_usage(folder).free
        if free < _ROOM:
            raise StoreError(
                f"cannot write to {self.where}: the disk is full ({free // 2**20} MiB are free, "
                f"{_ROOM // 2**20} MiB are needed); free some space and run again, what is stored stays"
            )

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except BlockingIOError as error:
            does = "changes it" if self._reads else "has it open"
            text = f"another program {does}; close that one, or use a server"
            raise StoreError(f"Qdrant Edge cannot use {self.where}: {text}") from error
        except FileNotFoundError as error:
            raise UnreadableIndexError(f"{error.filename} is missing; {MADE_ANEW}") from error
        except OSError as error:
            raise StoreError(f"cannot use {self.where}: {explain(error)}") from error
        except BaseException as error:  # Edge raises nothing more precise, and panics are no Exception
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            kind: type[StoreError] = StoreError
            text = str(error).replace("\n", " ")[:300]
            if "os error 28" in text or "No space left" in text:
                text = "the disk is full; free some space and run again, what is stored stays"
            elif "os error 30" in text or "os error 13" in text:
                text = "it is read-only; choose another folder"
            else:
                text += f"; if this stays so, {MADE_ANEW}"
                kind = UnreadableIndexError if self._shard is None else StoreError
            raise kind(f"Qdrant Edge cannot use {self.where}: {text}") from error


def _read_ahead(folder: Path) -> None:
    """Read a shard's files once, from front to back, where they take less than a quarter of the memory."""
    # Edge maps them into memory and reads them as they are touched. On a disk that has not been read lately,
    # going through 5,000 documents that way takes 15 s; after this, which takes 0.7 s, half a second.
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not report it
        return
    for path in files if size <= memory / 4 else ():
        with path.open("rb", buffering=0) as file:
            while file.read(2**20):
                pass


def _create(
    folder: Path, config: qdrant_edge.EdgeConfig, begin: Callable[[qdrant_edge.EdgeShard], None]
) -> None:
    """Make an empty shard beside its place and move it there, so that a half-made one is never opened."""
    draft = folder.with_name(folder.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        shard = qdrant_edge.EdgeShard.create(str(draft), config)
        begin(shard)
        shard.close()
    except Exception as error:  # Edge raises nothing more precise
        raise StoreError(f"Qdrant Edge cannot make {folder}: {error}") from error
    draft.rename(folder)
