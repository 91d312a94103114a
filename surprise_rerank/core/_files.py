"""The cache folder, files and folders that are written whole or not at all, and errors of the disk."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import sqlite3
import time
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from surprise_rerank._errors import StoreError

_ABANDONED = 7 * 24 * 3600  # seconds, after which a folder that was never finished is somebody's no longer

# What numpy and zipfile raise for .npz archives that are damaged or something else.
UNREADABLE_ARCHIVE = (
    *(EOFError, KeyError, OSError, RuntimeError, TypeError, ValueError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def cache_folder() -> Path:
    """The folder of indexes and converted files: SURPRISE_RERANK_CACHE, or the user's cache folder."""
    folder = os.environ.get("SURPRISE_RERANK_CACHE")
    return Path(folder) if folder else Path(platformdirs.user_cache_dir("surprise-rerank", appauthor=False))


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A draft that replaces the path if the block succeeds, and is removed if it does not.

    The draft is called `.NAME.*.part`; a killed process leaves it, and does not change the path. Of a
    `private` file only its owner may read either.
    """
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        mode = 0o600 if private else 0o666
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError of one line, which tells what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot use {what}: {explain(error)}") from error


@contextmanager
def database_errors(what: str) -> Iterator[None]:
    """Turn an error of SQLite into a StoreError of one line, as `disk_errors` does."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot use {what}: {error}; check its permissions and the free space, also of the folder for "
            "temporary files (TMPDIR)"
        ) from error


def explain(error: OSError) -> str:
    """What went wrong with a file, and what to do."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "the disk is full; free some space, or choose another folder (what is stored stays)"
        case errno.EROFS:
            return "the file system is read-only; choose another folder"
        case errno.EACCES | errno.EPERM:
            return "permission denied; choose a folder that you may write to"
        case _:
            return f"{error.strerror or error}; check the path, its permissions and the free space"


@contextmanager
def staged_folder(target: Path, marker: str, what: str) -> Iterator[Path]:
    """A new folder that replaces the target if the block succeeds, and is removed if it does not.

    A StoreError, which calls the target `what`, if it cannot be written, or if something is there that is no
    empty folder and lacks the file `marker`. What a killed process left behind goes when it is a week old.
    """
    target = target.absolute()
    folder = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    with disk_errors(what):
        _require_replaceable(target, marker, what)
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in target.parent.glob(f".{glob.escape(target.name)}.*.partial*"):
            if path.stat().st_mtime < time.time() - _ABANDONED:
                shutil.rmtree(path, ignore_errors=True)
        folder.mkdir()
    try:
        yield folder
        with disk_errors(what):
            _require_replaceable(target, marker, what)  # again: the block may have taken days
            _swap(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _require_replaceable(target: Path, marker: str, what: str) -> None:
    if (
        target.exists()
        and not (target / marker).is_file()
        and not (target.is_dir() and not any(target.iterdir()))
    ):
        raise StoreError(f"{what} cannot be written: something else is there; choose another folder")


def _swap(folder: Path, target: Path) -> None:
    """The old folder goes when the new one stands; it comes back if that fails."""
    old = folder.with_name(f"{folder.name}.old")
    if target.exists():
        target.rename(old)
    try:
        folder.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
