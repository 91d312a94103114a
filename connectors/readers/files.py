"""Files as documents, one or a folder of them: plain text, Markdown, HTML or PDF."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from surprise_rerank.connectors.readers.html_text import html_text
from surprise_rerank.connectors.readers.markdown_text import markdown_text
from surprise_rerank.connectors.readers.pdf_text import pdf_text
from surprise_rerank.connectors.readers.source import RefusedError, Skipped
from surprise_rerank.connectors.readers.text_streams import Extracted, plain_text
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError

MAX_BYTES = 32 * 2**20

_PLAIN = (".txt", ".text", ".rst")
_READERS: dict[str, Callable[[bytes, str | None], Extracted]] = {
    **dict.fromkeys(_PLAIN, plain_text),
    **dict.fromkeys((".md", ".markdown"), markdown_text),
    **dict.fromkeys((".html", ".htm", ".xhtml"), html_text),
    ".pdf": lambda raw, _: pdf_text(raw),
}


def is_document(name: str) -> bool:
    """Whether a file is text, Markdown, HTML or PDF by its name."""
    return PurePosixPath(name).suffix.lower() in _READERS


def read_file(path: Path, name: str, *, max_bytes: int = MAX_BYTES, encoding: str | None = None) -> Document:
    """A file as a document. What is of no known kind by its name is taken for plain text.

    Args:
        path: where it is.
        name: its id.
        max_bytes: larger files are refused.
        encoding: of text that is not UTF-8; guessed by default.

    Returns:
        Its text; its own title, or else its name without the ending; as metadata `path` (the id), `bytes`,
        `modified` (in UTC), `encoding` where it is text other than UTF-8, and `pages` of a PDF.

    Raises:
        RefusedError: if it cannot be read, is too large, holds no text, or is not of the kind of its name.
        MissingExtraError: if its reader is not installed.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
        modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RefusedError(reason, f"cannot be read: {reason}", unreadable=True) from error
    except (ValueError, OverflowError):
        modified = datetime.fromtimestamp(0, UTC)  # a date that Python does not have
    if len(raw) > max_bytes:
        raise RefusedError(f"larger than {_size(max_bytes)}", f"is larger than {_size(max_bytes)}")
    extracted = _READERS.get(path.suffix.lower(), plain_text)(raw, encoding)
    if not extracted.text.strip():
        raise RefusedError("no text", "holds no text")
    metadata: dict[str, Any] = {
        "path": name,
        "bytes": len(raw),
        "modified": modified.isoformat(),
        **extracted.metadata,
    }
    title = " ".join(extracted.title.split()) or encodable(path.stem)
    return Document(id=name, text=extracted.text, title=title, metadata=metadata)


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count} bytes"


@dataclass(frozen=True, slots=True)
class FileRules:
    """Which files of a folder are read.

    A pattern is compared with a file's path below the folder and with its name, with case; `*` matches
    slashes, too: `*.md`, `letters/*`, `2024-??.txt`.

    Attributes:
        include: patterns of the files to read. Files whose kind is not known by their name are read as plain
            text then. By default all text, Markdown, HTML and PDF files.
        exclude: patterns of files and folders to leave out.
        max_bytes: larger files are skipped.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            if isinstance(getattr(self, name), str):
                raise DataError(f"FileRules.{name} must be a list of patterns, got {getattr(self, name)!r}")
        if self.max_bytes < 1:
            raise DataError(f"FileRules.max_bytes must be positive, got {self.max_bytes}")


class Found(NamedTuple):
    """A file of a folder.

    Attributes:
        path: where it is.
        name: its path below the folder, with slashes.
    """

    path: Path
    name: str


def read_folder(
    folder: Path, rules: FileRules, skipped: Skipped, encoding: str | None = None
) -> Iterator[Document]:
    """The documents of a folder: a file each, its path below the folder the id.

    Args:
        folder: searched with all that is below it.
        rules: which files are read.
        skipped: where the others are counted.
        encoding: of text that is not UTF-8; guessed by default.

    Raises:
        DatasetError: if there is no such folder, or it may not be read.
        MissingExtraError: if a reader is not installed.
    """
    for path, name in walk(folder, rules, skipped):
        try:
            if not rules.include and not is_document(name):
                raise RefusedError("not a text, Markdown, HTML or PDF file")
            yield read_file(path, encodable(name), max_bytes=rules.max_bytes, encoding=encoding)
        except RefusedError as refused:
            skipped.add(encodable(name), refused.reason, unreadable=refused.unreadable)


def walk(folder: Path, rules: FileRules, skipped: Skipped) -> Iterator[Found]:
    """The files of a folder and of those below it, in the order of their names.

    Hidden files and folders are omitted. Links to folders are not followed, and links to files only if
    those are in the folder.

    Args:
        folder: the folder.
        rules: which files count.
        skipped: where links, pipes and unreadable folders are counted.

    Raises:
        DatasetError: if the folder cannot be read.
    """
    root = os.path.realpath(folder)
    pending = [("", True)]
    while pending:
        name, is_folder = pending.pop()
        if not is_folder:
            yield Found(folder / name, name)
            continue
        try:
            entries = sorted(os.scandir(folder / name), key=lambda entry: entry.name)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            if not name:
                raise DatasetError(f"{folder}: cannot be read: {reason}") from error
            skipped.add(encodable(name), reason, unreadable=True)
            continue
        below = []
        for entry in entries:
            path = f"{name}/{entry.name}" if name else entry.name
            is_folder_below = _is_folder(entry, path, root, rules, skipped)
            if is_folder_below is not None:
                below.append((path, is_folder_below))
        pending.extend(reversed(below))


def _is_folder(
    entry: os.DirEntry[str], name: str, root: str, rules: FileRules, skipped: Skipped
) -> bool | None:
    """Whether an entry is a folder to go into; None if it is to be left out."""
    if entry.name.startswith(".") or _matches(name, rules.exclude):
        return None
    try:
        if entry.is_dir(follow_symlinks=False):
            return True
        if rules.include and not _matches(name, rules.include):
            return None
        _check_kind(entry, root)
    except RefusedError as refused:
        skipped.add(encodable(name), refused.reason)
        return None
    except OSError as error:
        skipped.add(encodable(name), (error.strerror or str(error)).lower(), unreadable=True)
        return None
    return False


def _check_kind(entry: os.DirEntry[str], root: str) -> None:
    """Check that an entry is a file of this folder.

    Raises:
        RefusedError: if it is a pipe or a device, or a link to something else than a file of the folder.
        OSError: if that cannot be checked.
    """
    if entry.is_symlink():
        target = os.path.realpath(entry.path, strict=True)
        if not Path(target).is_relative_to(root):
            raise RefusedError("a link out of the folder")
        if os.path.isdir(target):
            raise RefusedError("a link to a folder")
    # Opening a pipe would wait for a writer.
    if not stat.S_ISREG(entry.stat().st_mode):
        raise RefusedError("not a regular file")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    last = name.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) or fnmatchcase(last, pattern) for pattern in patterns)
