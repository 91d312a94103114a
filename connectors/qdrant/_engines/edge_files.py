"""The list of a shard's files, by which damage is noticed before Edge sees it.

Edge replaces what is lost by something empty, and takes changed bytes for what they now say. Beside a shard
that is closed is a list of its files: of each the size, a checksum of its first bytes, and one of all bytes.
Opening compares sizes and first bytes; `require_unchanged` reads everything. While a shard is open for
changes there is no list. After each change a note has the number of points, so that a killed writer
cannot leave fewer of them without a word.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from surprise_rerank._errors import MADE_ANEW, UnreadableIndexError
from surprise_rerank.core._files import whole_file

_HEAD = 4096  # bytes of a file that are compared when it is opened
_BLOCK = 2**16
_ZEROS = bytes(_BLOCK)
_DATA: int | None = getattr(os, "SEEK_DATA", None)  # which passes over holes, where the system can


class ListedFile(NamedTuple):
    """A file as it was written: bytes, and checksums of its head and of all of it."""

    size: int
    head: int
    whole: int


def list_of_files(folder: Path) -> Path:
    """Return the list beside a shard that is closed."""
    return folder.with_name(f"{folder.name}.files.json")


def _note_of_points(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.points")


def write_list(folder: Path, points: int, *, private: bool) -> None:
    """List the files of a closed shard, which has so many points."""
    files = {
        path.relative_to(folder).as_posix(): ListedFile(path.stat().st_size, _head(path), _whole(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    with whole_file(list_of_files(folder), private=private) as file:
        file.write(json.dumps({"points": points, "files": files}).encode())
    note_points(folder, None)


def note_points(folder: Path, points: int | None) -> None:
    """Keep how many points a shard has whose changes are on disk; None while it is being changed."""
    if points is None:
        _note_of_points(folder).unlink(missing_ok=True)
    else:
        with whole_file(_note_of_points(folder), private=True) as file:
            file.write(str(points).encode())


def points_of_whole(folder: Path) -> int | None:
    """Return how many points a shard must have whose files are all there; None where nothing tells.

    Raises:
        UnreadableIndexError: if a file is missing, or its size or first bytes are others.
    """
    path = list_of_files(folder)
    if not path.exists():
        note = _note_of_points(folder)
        with suppress(FileNotFoundError, ValueError):
            return int(note.read_bytes())
        return None
    points, files = _read_list(path)
    for name, listed in files.items():
        file = folder / name
        if not file.is_file():
            raise UnreadableIndexError(f"{file} is missing; {MADE_ANEW}")
        if (file.stat().st_size, _head(file)) != (listed.size, listed.head):
            raise _damaged(file)
    return points


def require_unchanged(folder: Path) -> int:
    """Compare all bytes of a shard's files with its list, and return how many bytes these are.

    Raises:
        UnreadableIndexError: names a file that is missing or damaged.
    """
    if not list_of_files(folder).exists():
        return 0
    points_of_whole(folder)
    _, files = _read_list(list_of_files(folder))
    for name, listed in files.items():
        if not name.endswith(".json") and _whole(folder / name) != listed.whole:
            raise _damaged(folder / name)
    return sum(listed.size for listed in files.values())


def _damaged(file: Path) -> UnreadableIndexError:
    return UnreadableIndexError(f"{file} is damaged: it is not what was written; {MADE_ANEW}")


def _read_list(path: Path) -> tuple[int, dict[str, ListedFile]]:
    try:
        listed = json.loads(path.read_bytes())
        return int(listed["points"]), {name: ListedFile(*file) for name, file in listed["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableIndexError(f"{path} is damaged; {MADE_ANEW}") from error


def _head(path: Path) -> int:
    """The checksum of a file's first bytes; of JSON, of all that it says."""
    is_json = path.suffix == ".json"
    with path.open("rb") as file:
        head = file.read() if is_json else file.read(_HEAD)
    if is_json:  # Edge writes some whenever it loads or closes a shard, their keys in any order
        with suppress(ValueError):  # it is damaged: its bytes are compared
            head = json.dumps(json.loads(head), sort_keys=True).encode()
    return zlib.crc32(head)


def _whole(path: Path) -> int:
    """The checksum of all bytes that are not 0: most of Edge's pages are holes."""
    checksum, place = 0, 0
    with path.open("rb", buffering=0) as file:
        while True:
            if _DATA is not None:
                try:
                    place = os.lseek(file.fileno(), place, _DATA) // _BLOCK * _BLOCK
                except OSError:  # there is none behind
                    return checksum
            file.seek(place)
            if not (block := file.read(_BLOCK)):
                return checksum
            if block != _ZEROS[: len(block)]:  # ten times as fast as to count them
                checksum = zlib.crc32(block, zlib.crc32(str(place).encode(), checksum))
            place += _BLOCK
