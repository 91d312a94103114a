"""The folder of a job: one run at a time uses it. A temporary one is deleted after success."""

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

MARKER = "similar.job"  # marks a folder that may be deleted; it contains what the job is made of
LOCK = "similar.lock"  # of a folder that stays
# Folder and name of everything that is made of a corpus; groups are the digits of the corpora.
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
    """A folder of the user for a job, locked for this run.

    Raises:
        StoreError: if another run works in it, or it cannot be made.
    """
    with _locked(path, LOCK):
        yield path


@contextmanager
def temporary_folder(path: Path, made_of: Mapping[str, Any]) -> Iterator[Path]:
    """A folder for a job, deleted if the block succeeds. An earlier run of the same job is continued.

    If the block fails, encoded documents stay for the next run. A folder without any is deleted.

    Args:
        path: where there is nothing, an empty folder, or the folder of an earlier run.
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
            # In one step, so that a kill leaves no folder that is half deleted and looks complete.
            path.rename(_done(path))
            shutil.rmtree(_done(path), ignore_errors=True)


def holds_documents(path: Path) -> bool:
    """Whether a chunk of documents is stored in the folder of a job."""
    return any(path.glob("*/chunk-*"))


def _begin(path: Path, made_of: dict[str, Any]) -> None:
    """Continue the same job; begin another one where nothing is lost."""
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
    """The content of the marker; None if a killed run has not written it."""
    try:
        return json.loads((path / MARKER).read_text(encoding="utf-8"))
    except ValueError:
        return None


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """Lock a folder for this run, and make it where there is none; the lock ends with the process."""
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
    """Delete what belongs to none of the present corpora.

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
