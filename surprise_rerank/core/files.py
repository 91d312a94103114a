"""The cache folder, files and folders that are written whole or not at all, and errors of the disk."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from surprise_rerank.errors import StoreError

# Differs from that of a killed process of the same number, as in a container that starts again.
_TOKEN = uuid.uuid4().hex[:8]

# What numpy and zipfile raise for .npz archives that are damaged or something else.
UNREADABLE_ARCHIVE = (
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def cache_folder() -> Path:
    """The folder of indexes and converted files: SURPRISE_RERANK_CACHE, or the user's cache folder."""
    given = os.environ.get("SURPRISE_RERANK_CACHE")
    return Path(given) if given else Path(platformdirs.user_cache_dir("surprise-rerank", appauthor=False))


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A draft that replaces the path if the block succeeds, and is removed if it does not.

    The draft is called `.NAME.*.part`; a killed process leaves it, and does not change the path.

    Args:
        path: of the file.
        private: only its owner may read it.
    """
    draft = _draft(path)
    try:
        with open(draft, "xb", opener=_for_owner if private else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A draft folder that replaces none or an empty one if the block succeeds; removed if it does not."""
    target = path.absolute()
    draft = _draft(target)
    try:
        draft.mkdir(parents=True)
        yield draft
        if target.exists():
            target.rmdir()  # only an empty one goes; Windows does not rename onto it
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError of one line, which tells what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot use {what}: {explain(error)}") from error


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
def staged_folder(
    target: Path, marker: str, what: str, contents: re.Pattern[str] | None = None
) -> Iterator[Path]:
    """A new folder that replaces the target if the block succeeds, and is removed if it does not.

    What a killed process left behind is removed when the same target is written the next time. The target is
    an absolute path; errors call it `what`, and `require_replaceable` has the other arguments.

    Raises:
        StoreError: if something that may not be replaced is there, or the target cannot be written.
    """
    folder = target.with_name(f".{target.name}.{os.getpid()}-{_TOKEN}-{uuid.uuid4().hex[:8]}.partial")
    with disk_errors(what):
        require_replaceable(target, marker, what, contents)
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        folder.mkdir()
    try:
        yield folder
        with disk_errors(what):
            require_replaceable(target, marker, what, contents)  # again: the block may have taken days
            _swap(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_replaceable(
    target: Path, marker: str, what: str, contents: re.Pattern[str] | None = None
) -> None:
    """Refuse, by a StoreError, to replace what is no empty folder and lacks the file `marker`.

    Where `contents` is given, it is also refused to replace a folder with anything but files of such names.
    """
    if target.is_dir():
        paths = list(target.iterdir())
        foreign = [p for p in paths if contents and not (contents.fullmatch(p.name) and p.is_file())]
        if not paths or ((target / marker).is_file() and not foreign):
            return
    elif not target.exists():
        return
    raise StoreError(f"{what} cannot be written: something else is there; choose another folder")


def _swap(folder: Path, target: Path) -> None:
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


def _remove_leftovers(target: Path) -> None:
    """Remove drafts of this folder whose process was killed."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.(\d+)-([0-9a-f]+)-[0-9a-f]+\.partial(\.old)?")
    for path in target.parent.iterdir():
        match = pattern.fullmatch(path.name)
        if match and not _is_running(int(match[1]), match[2]):
            shutil.rmtree(path, ignore_errors=True)


def _is_running(process: int, token: str) -> bool:
    if process == os.getpid():
        return token == _TOKEN
    if os.name == "nt":
        # Signal 0 would end the process there; but there the files of a running build cannot be removed.
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, and is somebody else's
        pass
    return True
