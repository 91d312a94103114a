"""A shard of Qdrant Edge at work: it is read, or claimed, changed, written to disk and released."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import qdrant_edge

from surprise_rerank._errors import MADE_ANEW, StoreError, UnreadableIndexError
from surprise_rerank.connectors.qdrant._engines.edge_files import note_points
from surprise_rerank.connectors.qdrant._engines.edge_opening import (
    CAN_SHARE,
    LOG,
    FolderLock,
    count,
    loaded,
    open_to_change,
    open_to_read,
    read_ahead,
    settle,
)
from surprise_rerank.connectors.qdrant._engines.edge_purge import mark_of, note_deleted, purge
from surprise_rerank.connectors.qdrant._schema import PointId
from surprise_rerank.core._files import disk_errors, explain
from surprise_rerank.core._process import at_fork, never_freed

# A page of Edge's payload storage is 32 MiB, mapped into memory: writing to one that the disk has no room
# for kills the process, so room for the next pages is asked for before every write.
_ROOM = 256 * 2**20
_FULL = ("os error 28", "No space left", "Not enough space")  # as Edge says that a disk is full

_MOST_IN_LOG = 500  # changes until the segments are written, too: whoever opens the shard repeats them


class Shard:
    """One shard in one folder; one that exists is open for reading, beside other readers, until `claim`.

    Where there is none it is made of the configuration, and given to `begin` before it takes its place. A
    forked process opens it for reading with its first request, unless the parent was changing it.

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
        self._opening = threading.Lock()
        self._optimizes = True
        self._in_log = 0  # changes that the segments on disk lack
        self._is_noted = True  # whether a note of the number of points may be there
        self._inherits = False  # in a forked process that has not opened it yet
        with disk_errors(self.where):
            if not folder.exists():
                self._require_room()
                _create(folder, config, begin)
            read_ahead(folder)
        self._open()
        at_fork(self)

    def claim(self) -> None:
        """Become the only one who has the shard open, after the requests of other threads.

        Raises:
            StoreError: if somebody else reads or changes it; this one can be read on.
        """
        self._require_own()
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
        if self._is_noted:
            note_points(self._folder, None)
            self._is_noted = False
        with self.use() as shard:
            shard.update(operation)
        self._in_log += 1

    def delete(self, point_ids: Sequence[PointId]) -> None:
        """Remove points; their texts leave the files with `purge`, or when the shard is closed."""
        if not point_ids:
            return
        self.claim()
        note_deleted(self._folder)
        self.update(qdrant_edge.UpdateOperation.delete_points(list(point_ids)))

    def purge(self) -> None:
        """Take deleted points out of the files now, after the requests of other threads.

        Raises:
            StoreError: if the shard cannot be changed.
        """
        self.claim()
        note_deleted(self._folder)
        with self._idle:
            self._idle.wait_for(lambda: self._using == 0)
            self._release()
            self._open()

    @contextlib.contextmanager
    def use(self) -> Iterator[qdrant_edge.EdgeShard]:
        """For a request: the shard stays open meanwhile, and Edge's errors become a `StoreError`."""
        self._require_own()
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

        Edge keeps Python's lock: no other thread runs meanwhile. After `leave_to_others` only a mark is set,
        and the log alone is written to disk: whoever opens the shard after a crash finds the changes in it.

        Raises:
            StoreError: if it fails, or the disk has no room.
        """
        self.claim()
        self._require_room()
        mark = grown_mark_of(self._folder)
        with self.use() as shard:
            if self._optimizes:
                shard.optimize()
                mark.unlink(missing_ok=True)
            else:
                mark.touch()
            if self._optimizes or self._in_log > _MOST_IN_LOG:
                shard.flush()
                self._in_log = 0
            points = count(shard)
        with disk_errors(self.where):
            for path in (self._folder / LOG).iterdir() if self._in_log else ():
                with path.open("r+b") as file:
                    os.fsync(file.fileno())
            note_points(self._folder, points)
        self._is_noted = True

    def condense(self, config: qdrant_edge.EdgeConfig) -> None:
        """Build the approximate index of what was stored, and open the shard again with a configuration.

        Edge gives memory back when a shard is closed. After `leave_to_others` nothing happens.

        Raises:
            StoreError: if it fails, or the disk has no room.
        """
        if not self._optimizes:
            return
        self._require_room()
        with self._idle:
            self._idle.wait_for(lambda: self._using == 0)
            shard, self._shard = self._shard, None
            if shard is not None:
                with self._named_errors():
                    shard.optimize()
                    shard.close()
                    self._shard, self._in_log = loaded(self._folder, config), 0

    def leave_to_others(self) -> None:
        """Build no approximate index from now on; see `optimize_elsewhere`."""
        self._optimizes = False

    def close(self) -> None:
        """Flush and release the folder's lock, after the requests of other threads."""
        if self._inherits:
            return  # it is the parent's
        with self._idle:
            self._idle.wait_for(lambda: self._using == 0)
            self._release()

    def leave_behind(self) -> None:
        """In a forked process: let go of the parent's shard, whose threads are not here."""
        if self._shard is None and not self._inherits:
            return
        never_freed(self._shard)
        self._shard, self._lock, self._using, self._inherits = None, None, 0, True
        self._idle, self._opening = threading.Condition(), threading.Lock()

    def _require_own(self) -> None:
        """Open the shard in a forked process; a StoreError if the parent was changing it."""
        if not self._inherits:
            return
        if not self._reads:
            raise StoreError(
                f"{self.where} was being changed when this process was forked; close the index before "
                "the fork, and open it in each process"
            )
        with self._opening:
            if self._shard is None:  # no other thread was here meanwhile
                self._open()
                self._inherits = False

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
                    if mark_of(self._folder).exists():
                        purge(self._folder)
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
            if any(said in text for said in _FULL):
                text = "the disk is full; free some space and run again, what is stored stays"
            elif "os error 30" in text or "os error 13" in text:
                text = "it is read-only; choose another folder"
            else:
                text += f"; if this stays so, {MADE_ANEW}"
                kind = UnreadableIndexError if self._shard is None else StoreError
            raise kind(f"Qdrant Edge cannot use {self.where}: {text}") from error


def grown_mark_of(folder: Path) -> Path:
    """Return the file that is beside a shard while something came that its approximate index lacks."""
    return folder.with_name(f"{folder.name}.grown")


def optimize_elsewhere(folder: Path) -> None:
    """Build the approximate index of a shard that grew, in another process: Edge keeps Python's lock for it.

    Nothing happens where the shard did not grow; one that is in use, or cannot be changed, stays as it is.
    """
    if not grown_mark_of(folder).exists():
        return
    # Not multiprocessing, which runs the user's script again. -P: no module of the current folder.
    code = f"from {__name__} import optimize_here; optimize_here({str(folder)!r})"
    path = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, "-P", "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False)


def optimize_here(name: str) -> None:
    """Build the approximate index of the shard in a folder, and release it; see `optimize_elsewhere`."""
    folder = Path(name)
    with contextlib.suppress(OSError, StoreError):
        shard, lock = open_to_change(folder)
        try:
            shard.optimize()
            shard.flush()
            shard.close()
            if CAN_SHARE:
                settle(folder)
            grown_mark_of(folder).unlink()
        finally:
            lock.close()


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
