"""Who has a shard open: several programs that read it, or one that changes it.

Edge locks the folder of a shard's log (`wal`) while the shard is open, and lets nobody else in. A reader
needs no log. It opens the segments through a folder of its own, whose configuration names no log, and locks
Edge's log for reading. So readers and writers exclude each other, and the system releases the lock of a
program that was killed.

A killed writer may leave changes that only the log holds. While a list of the shard's files is beside it
there are none; else the first reader opens it as a writer does, once. The list has every file's size and a
checksum of its first bytes, and the number of points. A shard that differs is refused before Edge has seen
it, which would replace what is lost by something empty. Bytes that were changed behind the first ones are not
noticed here.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import qdrant_edge

from surprise_rerank.core.files import whole_file
from surprise_rerank.errors import MADE_ANEW, UnreadableIndexError

if sys.platform != "win32":
    import fcntl

# Whether folders can be locked and linked; elsewhere a shard is open once, as Edge alone has it.
CAN_SHARE = sys.platform != "win32"

_PATIENCE = 2.0  # seconds; a search from the command line is over by then
_PAUSE = 0.02
_CONFIG, _SEGMENTS, _LOG = "edge_config.json", "segments", "wal"
_BLOCK = 2**20
_HEAD = 4096  # bytes of a file that its checksum is of

T = TypeVar("T")


class FolderLock:
    """A lock on a folder, which ends with the process; others may have it, too, if it is shared.

    Raises:
        BlockingIOError: if others have one that excludes it.
        OSError: if the folder cannot be opened.
    """

    def __init__(self, folder: Path, *, shared: bool) -> None:
        self._file: int | None = None
        if sys.platform != "win32":
            self._file = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(self._file, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Release it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def open_to_read(folder: Path) -> tuple[qdrant_edge.EdgeShard, FolderLock]:
    """A shard for reading, and the lock that is to be closed after it; the shard is dropped, not closed.

    In a folder that may not be written to, it is a copy, as Edge opens files for writing.

    Raises:
        BlockingIOError: if another program changes the shard.
        OSError: if there is no room for a copy.
        UnreadableIndexError: if it is damaged.
    """
    lock, is_settled = _patiently(lambda: _locked_to_read(folder))
    try:
        points = _points_of_whole(folder)
        if is_settled:
            with suppress(_ReadOnlyError):
                return _with_all(_linked(folder), points, folder), lock
        return _with_all(_copied(folder), points, folder), lock
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
        points = _points_of_whole(folder)
        shard = _with_all(_patiently(lambda: _loaded(folder)), points, folder)
        _list_of_files(folder).unlink(missing_ok=True)
    except BaseException:
        lock.close()
        raise
    return shard, lock


def settle(folder: Path) -> None:
    """After a shard was closed: write what opening it would write, so that readers write nothing.

    Who calls it has the folder locked: the list is of files that nobody writes meanwhile.
    """
    with closing(_loaded(folder)) as shard:
        points = _count(shard)
    is_private = not folder.parent.stat().st_mode & 0o077  # unless its owner has opened it to others
    for path in (folder, *folder.rglob("*")) if is_private else ():
        path.chmod(0o700 if path.is_dir() else 0o600)
    files = {
        path.relative_to(folder).as_posix(): _size_and_head(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    with whole_file(_list_of_files(folder), private=is_private) as file:
        file.write(json.dumps({"points": points, "files": files}).encode())


class _ReadOnlyError(Exception):
    """A shard's files may not be written to."""


def _locked_to_read(folder: Path) -> tuple[FolderLock, bool]:
    """The lock, and whether the log holds nothing more than the segments."""
    mark = _list_of_files(folder)
    if not mark.exists():
        with suppress(_ReadOnlyError, PermissionError), closing(FolderLock(folder, shared=False)):
            if not mark.exists():  # nobody else did it meanwhile
                with closing(_loaded(folder)) as shard:
                    shard.flush()
                settle(folder)
    lock = FolderLock(folder / _LOG, shared=True)
    if mark.exists() or not os.access(folder, os.W_OK):
        return lock, mark.exists()
    lock.close()
    raise BlockingIOError(f"{folder} was changed in between")


def _patiently(attempt: Callable[[], T]) -> T:
    """What an attempt returns, which may have to wait for a program that is about to end."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return attempt()
        except BlockingIOError:
            if time.monotonic() > end:
                raise
        time.sleep(_PAUSE)


def _loaded(folder: Path) -> qdrant_edge.EdgeShard:
    try:
        return qdrant_edge.EdgeShard.load(str(folder))
    except Exception as error:  # Edge raises nothing more precise
        text = str(error)
        if "WouldBlock" in text:
            raise BlockingIOError(text) from error
        if "os error 13" in text or "os error 30" in text:
            raise _ReadOnlyError(text) from error
        raise


def _linked(folder: Path) -> qdrant_edge.EdgeShard:
    """The shard without its log. Edge has its files open, so that the folder of links can go at once."""
    with tempfile.TemporaryDirectory(prefix="surprise-rerank-") as links:
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        Path(links, _CONFIG).write_text(json.dumps({**config, "wal_enabled": False}), encoding="utf-8")
        Path(links, _SEGMENTS).symlink_to((folder / _SEGMENTS).absolute(), target_is_directory=True)
        return _loaded(Path(links))


def _copied(folder: Path) -> qdrant_edge.EdgeShard:
    with tempfile.TemporaryDirectory(prefix="surprise-rerank-") as copy:
        shutil.copytree(folder, copy, copy_function=_copy_file, dirs_exist_ok=True)
        shard = _loaded(Path(copy))
        shard.flush()
        return shard


def _copy_file(source: str, target: str) -> None:
    """A file whose holes stay holes: Edge's pages are mostly empty."""
    with open(source, "rb") as old, open(target, "wb") as new:
        while block := old.read(_BLOCK):
            if block.count(0) == len(block):
                new.seek(len(block), os.SEEK_CUR)
            else:
                new.write(block)
        new.truncate(old.tell())


def _list_of_files(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.files.json")


def _size_and_head(path: Path) -> list[int]:
    is_json = path.suffix == ".json"
    with path.open("rb") as file:
        head = file.read() if is_json else file.read(_HEAD)
    if is_json:  # Edge writes some whenever it loads or closes a shard, their keys in any order
        with suppress(ValueError):  # it is damaged: its bytes are compared
            head = json.dumps(json.loads(head), sort_keys=True).encode()
    return [path.stat().st_size, zlib.crc32(head)]


def _count(shard: qdrant_edge.EdgeShard) -> int:
    return int(shard.count(qdrant_edge.CountRequest(exact=True)))


def _points_of_whole(folder: Path) -> int | None:
    """How many points a shard must have whose files are all there; None where there is no list."""
    path = _list_of_files(folder)
    if not path.exists():
        return None
    try:
        listed = json.loads(path.read_bytes())
        points, files = int(listed["points"]), dict(listed["files"])
    except (ValueError, LookupError, TypeError) as error:
        raise UnreadableIndexError(f"{path} is damaged; {MADE_ANEW}") from error
    for name, before in files.items():
        own = folder / name
        if not own.is_file():
            raise UnreadableIndexError(f"{own} is missing; {MADE_ANEW}")
        if _size_and_head(own) != before:
            raise UnreadableIndexError(f"{own} is damaged: it is not what was written; {MADE_ANEW}")
    return points


def _with_all(shard: qdrant_edge.EdgeShard, points: int | None, folder: Path) -> qdrant_edge.EdgeShard:
    """The shard, if it has as many points as it must have."""
    if points is not None and _count(shard) != points:
        raise UnreadableIndexError(
            f"{folder} is damaged: {_count(shard)} points are left of {points}; {MADE_ANEW}"
        )
    return shard
