"""Opening a shard of Qdrant Edge, and who has it: several programs that read it, or one that changes it.

Edge locks the folder of a shard's log (`wal`) while the shard is open, and lets nobody else in. A reader
needs no log. It opens the segments through a folder of its own, whose configuration names no log, and locks
Edge's log for reading. So readers and writers exclude each other, and the system releases the lock of a
program that was killed.

A killed writer may leave changes that only the log holds. While a list of the shard's files is beside it
there are none; else the first reader opens it as a writer does, once. A shard that differs from its list is
refused before Edge has seen it; see `edge_files`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import qdrant_edge

from surprise_rerank._errors import MADE_ANEW, UnreadableIndexError
from surprise_rerank.connectors.qdrant._engines.edge_files import list_of_files, points_of_whole, write_list
from surprise_rerank.connectors.qdrant._engines.edge_purge import finish_purge
from surprise_rerank.core._process import at_fork

if sys.platform != "win32":
    import fcntl

# Whether folders can be locked and linked; elsewhere a shard is open once, as Edge alone has it.
CAN_SHARE = sys.platform != "win32"
LOG = "wal"

_PATIENCE = 2.0  # seconds; a search from the command line is over by then
_PAUSE = 0.02
_CONFIG, _SEGMENTS = "edge_config.json", "segments"
_PART = 2**20  # bytes that are read at once

T = TypeVar("T")


class FolderLock:
    """A lock on a folder, which ends with the process; others may have it, too, if it is shared.

    Raises:
        BlockingIOError: if others have one that excludes it.
        OSError: if the folder cannot be opened.
    """

    def __init__(self, folder: Path, *, shared: bool) -> None:
        self._file: int | None = None
        at_fork(self)
        if sys.platform != "win32":
            self._file = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(self._file, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
            except BaseException:
                self.close()
                raise

    def leave_behind(self) -> None:
        """In a forked process: leave the lock to the parent, which could not release it otherwise."""
        self.close()

    def close(self) -> None:
        """Release it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def open_to_read(folder: Path) -> tuple[qdrant_edge.EdgeShard, FolderLock]:
    """A shard for reading, and the lock that is to be closed after it; the shard is dropped, not closed.

    On a disk or in a folder that may not be written to it is a copy, as Edge opens files for writing.

    Raises:
        BlockingIOError: if another program changes the shard.
        OSError: if there is no room for a copy.
        UnreadableIndexError: if it is damaged.
    """
    lock = _patiently(lambda: _locked_to_read(folder))
    try:
        points = points_of_whole(folder)  # before Edge sees it
        return _with_all(_linked(folder), points, folder), lock
    except BaseException:
        lock.close()
        raise


def open_to_change(folder: Path) -> tuple[qdrant_edge.EdgeShard, FolderLock]:
    """A shard for reading and writing, and the lock that is to be closed after it.

    Raises:
        BlockingIOError: if another program has the shard open.
        UnreadableIndexError: if it is damaged.
    """
    lock = _patiently(lambda: FolderLock(folder, shared=False))
    try:
        points = points_of_whole(folder)
        shard = _with_all(_patiently(lambda: loaded(folder)), points, folder)
        list_of_files(folder).unlink(missing_ok=True)
    except BaseException:
        lock.close()
        raise
    return shard, lock


def settle(folder: Path) -> None:
    """After a shard was closed: write what opening it would write, so that readers write nothing.

    Who calls it has the folder locked: the list is of files that nobody writes meanwhile.
    """
    with closing(loaded(folder)) as shard:
        points = count(shard)
    is_private = not folder.parent.stat().st_mode & 0o077  # unless its owner has opened it to others
    for path in (folder, *folder.rglob("*")) if is_private else ():
        path.chmod(0o700 if path.is_dir() else 0o600)
    write_list(folder, points, private=is_private)


def _locked_to_read(folder: Path) -> FolderLock:
    """The lock of a reader; the log holds nothing then that the segments do not."""
    mark = list_of_files(folder)
    if not mark.exists():
        with closing(FolderLock(folder, shared=False)):
            if not mark.exists():  # nobody else did it meanwhile
                points = points_of_whole(folder)
                with closing(loaded(folder)) as shard:
                    _with_all(shard, points, folder).flush()
                settle(folder)
    lock = FolderLock(folder / LOG, shared=True)
    if mark.exists():
        return lock
    lock.close()
    raise BlockingIOError(f"{folder} was changed in between")


def _patiently(attempt: Callable[[], T]) -> T:
    """Return the result of an attempt, repeated for a while: another program may be about to end."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return attempt()
        except BlockingIOError:
            if time.monotonic() > end:
                raise
        time.sleep(_PAUSE)


def loaded(folder: Path, config: qdrant_edge.EdgeConfig | None = None) -> qdrant_edge.EdgeShard:
    """Return the shard in a folder that nobody else has open; a BlockingIOError if somebody has."""
    finish_purge(folder)
    try:
        return qdrant_edge.EdgeShard.load(str(folder), config)
    except Exception as error:  # Edge raises nothing more precise
        text = str(error)
        if "WouldBlock" in text:
            raise BlockingIOError(text) from error
        raise


def _linked(folder: Path) -> qdrant_edge.EdgeShard:
    """The shard without its log. Edge has its files open, so that the folder of links can go at once."""
    with tempfile.TemporaryDirectory(prefix="surprise-rerank-") as links:
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        Path(links, _CONFIG).write_text(json.dumps({**config, "wal_enabled": False}), encoding="utf-8")
        segments, linked = (folder / _SEGMENTS).absolute(), Path(links, _SEGMENTS)
        if os.access(segments, os.W_OK):
            linked.symlink_to(segments, target_is_directory=True)
        else:
            shutil.copytree(segments, linked, copy_function=_copy_file)
        return loaded(Path(links))


def count(shard: qdrant_edge.EdgeShard) -> int:
    """Return how many points a shard has."""
    return int(shard.count(qdrant_edge.CountRequest(exact=True)))


def _with_all(shard: qdrant_edge.EdgeShard, points: int | None, folder: Path) -> qdrant_edge.EdgeShard:
    """The shard, if it has as many points as it must have."""
    if points is not None and count(shard) != points:
        raise UnreadableIndexError(
            f"{folder} is damaged: {count(shard)} points are left of {points}; {MADE_ANEW}"
        )
    return shard


def read_ahead(folder: Path) -> None:
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
            while file.read(_PART):
                pass


def _copy_file(source: str, target: str) -> None:
    """Copy a file whose holes stay holes: Edge's pages are mostly empty."""
    with open(source, "rb") as old, open(target, "wb") as new:
        while block := old.read(_PART):
            if block.count(0) == len(block):
                new.seek(len(block), os.SEEK_CUR)
            else:
                new.write(block)
        new.truncate(old.tell())
