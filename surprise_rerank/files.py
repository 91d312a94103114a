"""Where the user's files are kept, and files and folders that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs


def cache_folder() -> Path:
    """Where indexes and converted files are kept: SURPRISE_RERANK_CACHE, or the user's cache folder."""
    given = os.environ.get("SURPRISE_RERANK_CACHE")
    return Path(given) if given else Path(platformdirs.user_cache_dir("surprise-rerank", appauthor=False))


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A draft that takes the path's place on disk if the block succeeds, and vanishes if it does not.

    The draft is called `.NAME.*.part`; a killed process leaves it behind, and the path as it was.

    Raises:
        OSError: if it cannot be written.
    """
    draft = _draft(path)
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A draft folder that takes the path's place if the block succeeds, and vanishes if it does not.

    Args:
        path: where nothing is, or an empty folder.

    Raises:
        OSError: if it cannot be written.
    """
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


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
