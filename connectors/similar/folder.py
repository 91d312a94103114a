"""The folder of a job: one run at a time works in it, and one that belongs to a result goes with success."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from surprise_rerank.connectors.similar import corpus as corpora
from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import StoreError

if sys.platform != "win32":  # where nothing is locked
    import fcntl

MARKER = "similar.job"  # by which a folder is known that may be removed; it holds what that is made of
LOCK = "similar.lock"  # of a folder that stays
# Where what is made of a corpus lies, and how it is called; groups are the digits of the corpora.
_DIGITS = "([0-9a-f]{12})"
_MADE = (
    (".", re.compile(rf"ensemble-{_DIGITS}\.npz")),
    (".", re.compile(rf"parts-[0-9a-f]{{12}}-{_DIGITS}(?:-{_DIGITS})?")),
    ("index", re.compile(rf"similar-{_DIGITS}")),
    *((f"{name}/moments", re.compile(rf"(?:dynamax-\d+-)?{_DIGITS}-\w+\.npy")) for name in corpora.NAMES),
)
_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}\.part")  # see `files.py`
_OLD = 3600.0  # seconds; a younger draft may be another worker's
_TAKEN = frozenset({errno.EAGAIN, errno.EACCES})  # of a lock; other errors are of file systems without any


@contextmanager
def kept_folder(path: Path) -> Iterator[Path]:
    """A folder of the user's for a job, for this run alone.

    Raises:
        StoreError: if another run works in it, or it cannot be made.
    """
    with _locked(path, LOCK):
        yield path


@contextmanager
def temporary_folder(path: Path, made_of: Mapping[str, Any]) -> Iterator[Path]:
    """A folder for a job, removed where the block succeeds; what is there of the same job is gone on with.

    Where the block fails, what was encoded stays for the next run. A folder in which nothing was, goes.

    Args:
        path: nothing, an empty folder, or one that an earlier run has left.
        made_of: JSON: sources and model.

    Raises:
        StoreError: if something else is there, an unfinished job of something else, or another run; if it
            cannot be made or removed.
    """
    with disk_errors(str(path)):
        shutil.rmtree(_done(path), ignore_errors=True)
        if path.exists() and not (path / MARKER).is_file() and any(path.iterdir()):
            raise StoreError(
                f"{path} was not made by surprise-rerank; choose another folder for what is computed"
            )
    with _locked(path, MARKER):
        with disk_errors(str(path)):
            _begin(path, dict(made_of))
        try:
            yield path
        except BaseException:
            if not holds_documents(path):
                shutil.rmtree(path, ignore_errors=True)
            raise
        with disk_errors(str(path)):
            # In one step, so that a kill leaves no half of a folder that looks whole.
            path.rename(_done(path))
            shutil.rmtree(_done(path), ignore_errors=True)


def holds_documents(path: Path) -> bool:
    """Whether a chunk of documents is stored in the folder of a job."""
    return any(path.glob("*/chunk-*"))


def _begin(path: Path, made_of: dict[str, Any]) -> None:
    """Go on with the same job; with another one where nothing is lost."""
    if not holds_documents(path):
        for other in path.iterdir():
            if other.is_dir():
                shutil.rmtree(other)
            elif other.name != MARKER:
                other.unlink()
    elif (before := _made_of(path)) not in (None, made_of):
        differing = sorted(key for key in {**before, **made_of} if before.get(key) != made_of.get(key))
        raise StoreError(
            f"{path} holds the unfinished work of another command (not the same {', '.join(differing)}); "
            "delete it, or give --work"
        )
    (path / MARKER).write_text(json.dumps(made_of), encoding="utf-8")


def _made_of(path: Path) -> Any:
    """What the marker says; None for one that a killed run has not written."""
    try:
        return json.loads((path / MARKER).read_text(encoding="utf-8"))
    except ValueError:
        return None


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """Have a folder, made where there is none, for this run alone; a lock goes with its process."""
    with disk_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / name).open("ab")
    with file:
        if sys.platform == "win32":
            file.close()  # what is open cannot be renamed there
        elif not _lock(file, folder / name):
            raise StoreError(f"another run works in {folder}; wait for it, or give --work")
        yield


def _lock(file: IO[bytes], path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _TAKEN
    # Another run may have removed the folder between the opening and the lock.
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _done(path: Path) -> Path:
    return path.with_name(f".{path.name}.done")


def delete_stale_files(folder: Path) -> None:
    """Delete what belongs to no corpus that is there now.

    Args:
        folder: of the job; its corpora are complete.

    Raises:
        StoreError: if the folder cannot be read.
    """
    with disk_errors(str(folder)):
        found = [corpora.read_metadata(folder / name) for name in corpora.NAMES]
        current = {about["content"] for about in found if about is not None and "content" in about}
        for place, pattern in _MADE:
            for path in (folder / place).glob("*"):
                match = pattern.fullmatch(path.name)
                if (match and not set(filter(None, match.groups())) <= current) or _is_old_draft(path):
                    _remove(path)
        for name in corpora.NAMES:
            for path in filter(_is_old_draft, (folder / name).glob(".*.part")):
                _remove(path)


def _is_old_draft(path: Path) -> bool:
    return bool(_DRAFT.fullmatch(path.name)) and time.time() - path.stat().st_mtime > _OLD


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
