"""Files as documents, one or a folder of them: which of them are read, and how they become documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from surprise_rerank.connectors.readers.extraction import KINDS, Extractor
from surprise_rerank.connectors.readers.pages import plain_text
from surprise_rerank.connectors.readers.source import RefusedError, Skipped
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError

MAX_BYTES = 32 * 2**20

# What is read in this process.
_PLAIN = dict.fromkeys((".txt", ".text", ".rst"), plain_text)


def is_document(name: str) -> bool:
    """Whether a file is one of text by its name."""
    return PurePosixPath(name).suffix.lower() in {*_PLAIN, *KINDS}


def read_file(path: Path, name: str, extractor: Extractor, *, max_bytes: int = MAX_BYTES) -> Document:
    """A file as a document. What is of no known kind by its name is taken for plain text.

    Returns:
        Its text; its own title, or else its name without the ending; as metadata `path` (the id), `bytes`,
        `modified` (in UTC), `encoding` where it is text other than UTF-8, and `pages` of a PDF.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size > max_bytes:
                limit = f"{max_bytes // 2**20} MiB" if max_bytes >= 2**20 else f"{max_bytes} bytes"
                raise RefusedError(f"larger than {limit}", f"is larger than {limit}")
            is_plain = path.suffix.lower() not in KINDS
            raw = file.read(max_bytes) if is_plain else b""
    except OSError as error:
        raise RefusedError(_reason(error), f"cannot be read: {_reason(error)}", unreadable=True) from error
    extracted = _PLAIN.get(path.suffix.lower(), plain_text)(raw) if is_plain else extractor.read(path)
    if not extracted.text.strip():
        raise RefusedError("no text", "holds no text; scanned pages need OCR first")
    try:
        modified = datetime.fromtimestamp(int(found.st_mtime), UTC)
    except (ValueError, OverflowError, OSError):
        modified = datetime.fromtimestamp(0, UTC)  # a date that Python does not have
    known = {"path": name, "bytes": found.st_size, "modified": modified.isoformat()}
    title = " ".join(extracted.title.split()) or encodable(path.stem)
    metadata = {**known, **extracted.metadata}
    return Document(id=name, text=extracted.text, title=title, metadata=metadata, places=extracted.places)


@dataclass(frozen=True, slots=True)
class FileRules:
    """Which files of a folder are read. Patterns are those of `.gitignore`: `*.md`, `letters/`, `/drafts`."""

    # Files whose kind is not known by their name are read as plain text then. By default all tables, texts
    # and office documents.
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()  # files and folders to leave out
    max_bytes: int = MAX_BYTES  # larger files are skipped; a table may be of any size

    def __post_init__(self) -> None:
        if isinstance(self.include, str) or isinstance(self.exclude, str):
            given = f"include={self.include!r}, exclude={self.exclude!r}"
            raise DataError(f"FileRules must have lists of patterns, got {given}")
        if self.max_bytes < 1:
            raise DataError(f"FileRules.max_bytes must be positive, got {self.max_bytes}")


def walk(folder: Path, rules: FileRules, skipped: Skipped) -> Iterator[tuple[Path, str]]:
    """The files of a folder and of those below it, in the order of their names, with their paths below it.

    Hidden files and folders are omitted, and what the folder's `.gitignore` files name is left out, as are
    `node_modules`. Links to folders are not followed, and links to files only if those are in the folder.
    """
    chosen = _Chosen(os.path.realpath(folder), rules)
    pending = [("", True)]
    while pending:
        name, is_folder = pending.pop()
        if not is_folder:
            yield folder / name, name
            continue
        prefix = f"{name}/" if name else ""
        try:
            entries = sorted(os.scandir(folder / name), key=lambda entry: entry.name)
        except OSError as error:
            if not name:
                raise DatasetError(f"{folder}: cannot be read: {_reason(error)}") from error
            skipped.add(encodable(name), RefusedError(_reason(error), unreadable=True))
            continue
        chosen.enter(folder / name, prefix, {entry.name for entry in entries})
        below = []
        for entry in entries:
            try:
                kind = chosen.is_folder(entry, f"{prefix}{entry.name}")
            except RefusedError as refused:
                skipped.add(encodable(f"{prefix}{entry.name}"), refused)
            except OSError as error:
                skipped.add(encodable(f"{prefix}{entry.name}"), RefusedError(_reason(error), unreadable=True))
            else:
                below += [] if kind is None else [(f"{prefix}{entry.name}", kind)]
        pending.extend(reversed(below))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


class _Chosen:
    """Which entries of a folder are read."""

    def __init__(self, root: str, rules: FileRules) -> None:
        self._root = root
        self._all = not rules.include
        self._included = GitIgnoreSpec.from_lines(rules.include)
        self._excluded = GitIgnoreSpec.from_lines(rules.exclude)
        self._ignored: list[tuple[str, GitIgnoreSpec]] = []  # what the folders with a .gitignore leave out

    def enter(self, folder: Path, prefix: str, names: set[str]) -> None:
        self._ignored = [own for own in self._ignored if prefix.startswith(own[0])]
        if ".gitignore" in names:
            lines = (folder / ".gitignore").read_text("utf-8", "replace").splitlines()
            self._ignored.append((prefix, GitIgnoreSpec.from_lines(lines)))

    def is_folder(self, entry: os.DirEntry[str], name: str) -> bool | None:
        """Whether an entry is a folder to go into; None if it is no part. What is left out is refused."""
        is_folder = entry.is_dir(follow_symlinks=False)
        shown = f"{name}/" if is_folder else name
        if entry.name.startswith(".") or self._excluded.match_file(shown):
            return None
        if entry.name == "node_modules":
            raise RefusedError("node_modules")
        # The nearest .gitignore that says something decides.
        said = (
            spec.check_file(shown.removeprefix(prefix)).include for prefix, spec in reversed(self._ignored)
        )
        if next((decision for decision in said if decision is not None), False):
            raise RefusedError("ignored by .gitignore")
        if is_folder:
            return True
        if not self._all and not self._included.match_file(name):
            return None
        if entry.is_symlink():
            target = os.path.realpath(entry.path, strict=True)
            if not Path(target).is_relative_to(self._root):
                raise RefusedError("a link out of the folder")
            if os.path.isdir(target):
                raise RefusedError("a link to a folder")
        # Opening a pipe would wait for a writer.
        if not stat.S_ISREG(entry.stat().st_mode):
            raise RefusedError("not a regular file")
        return False
