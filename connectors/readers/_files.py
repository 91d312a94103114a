"""Files as documents, one or a folder of them: which of them are read, and how they become documents."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from surprise_rerank import _border as border
from surprise_rerank._documents import Document, encodable
from surprise_rerank.connectors.readers._extraction import KINDS, MANUAL, Extractor
from surprise_rerank.connectors.readers._lines import open_bytes, uncompressed_name, unreadable
from surprise_rerank.connectors.readers._pages import plain_text, table_text
from surprise_rerank.connectors.readers._patterns import Patterns
from surprise_rerank.connectors.readers._source import BINARY, RefusedError, Skipped

MAX_BYTES = 32 * 2**20

_IGNORE_FILE = ".gitignore"
_IGNORE_BYTES = 2**20  # of a .gitignore
# What is read in this process: texts, settings, and programs whose functions are not told.
_PLAIN_NAMES = """
txt text log debian srcinfo typ textile wiki po bib ris nbib ics vcf diff patch
yaml yml toml ini cfg conf properties css scss less svelte cmake gradle tf graphql
bash zsh fish bat cmd awk clj dart el erl f f90 f95 groovy hs jl lisp lua m ml nim pas pl pm r scala sh sql
tcl v vb
"""
_PLAIN = frozenset(f".{suffix}" for suffix in _PLAIN_NAMES.split())
# Endings of one kind: templates, slide shows and files with macros are documents; so is a feed a file of XML.
_SAME_KIND = {
    **dict.fromkeys((".docm", ".dotx", ".dotm"), ".docx"),
    **dict.fromkeys((".xlsm", ".xltx", ".xltm"), ".xlsx"),
    **dict.fromkeys((".pptm", ".ppsx", ".ppsm", ".potx"), ".pptx"),
    **dict.fromkeys((".mkd", ".mdown", ".mdx", ".rmd", ".qmd"), ".md"),
    **dict.fromkeys((".rss", ".atom", ".opml", ".kml", ".gpx"), ".xml"),
    **dict.fromkeys((".geojson", ".jsonld"), ".json"),
}
_TABLES = (".csv", ".tsv")  # whose rows are no documents
_MAILBOXES = (".mbox", ".mbx")
_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp", ".heic", ".svg"})
_SECTION = re.compile(r"\.[1-9][a-z]{0,6}")  # of a manual: .1, .3perl
_IN_MAILDIR = re.compile(r"(?:^|/)(?:cur|new)/\d{6,}\.[^/]+$")


def kind_of(name: str) -> str:
    """The ending that tells what a file is, in small letters, also where it is compressed."""
    *_, before, suffix = ["", "", *PurePosixPath(uncompressed_name(name)).suffixes]
    if _IN_MAILDIR.search(name):
        return ".eml"
    if _SECTION.fullmatch(suffix.lower()):
        return ".log" if before == ".log" else MANUAL  # an older part of a log
    return _SAME_KIND.get(suffix.lower(), suffix.lower())


def is_document(name: str) -> bool:
    """Whether a file is one of text by its name; one without an ending may be."""
    return kind_of(name) in {"", *_PLAIN, *_MAILBOXES, *KINDS}


def unread(name: str) -> RefusedError:
    """Why a file is not read whose name is not that of a text or table."""
    reason = "an image, which needs OCR" if kind_of(name) in _IMAGES else "of no kind that is read"
    return RefusedError(reason, is_gone=True)


def read_file(path: Path, name: str, extractor: Extractor, *, max_bytes: int = MAX_BYTES) -> Document:
    """A file as a document. What is of no known kind by its name is taken for plain text.

    Returns:
        Its text; its own title, or else its name without the ending; as metadata `path` (the id), `bytes`,
        `modified` (in UTC), `encoding` where it is text other than UTF-8, and `pages` of a PDF.
    """
    raw = read_bytes(path, max_bytes)
    return _document(raw, name, path.stat(), extractor, kind_of(name))


def is_mailbox(name: str) -> bool:
    """Whether a file holds mails, one after the other, by its name."""
    return kind_of(name) in _MAILBOXES


def read_mailbox(
    path: Path, name: str, extractor: Extractor, skipped: Skipped, *, max_bytes: int = MAX_BYTES
) -> Iterator[Document]:
    """Yield a document for each mail of an mbox file; its id is the file's name with the mail's id."""
    status, number = path.stat(), 0
    with open_bytes(path) as stream:
        for number, raw in enumerate(_mails(stream, max_bytes), start=1):
            place = f"{name}#{number}"
            try:
                if len(raw) > max_bytes:
                    raise _too_large(max_bytes)
                mail = _document(raw, place, status, extractor, ".eml")
            except RefusedError as refused:
                skipped.add(place, refused, name)
                continue
            message_id = mail.metadata.get("message_id")
            skipped.place = place
            yield replace(mail, id=f"{name}#{message_id}" if message_id else place)
    if not number:
        raise RefusedError("empty")


def _mails(stream: IO[bytes], most: int) -> Iterator[bytes]:
    """The mails of an mbox file; of a larger one the beginning."""
    mail, is_begin = bytearray(), True
    for line in iter(partial(stream.readline, 2**20), b""):
        if is_begin and line.startswith(b"From "):
            if mail:
                yield bytes(mail)
            mail.clear()
        elif len(mail) <= most:
            mail += line
        is_begin = not line.strip()
    if mail:
        yield bytes(mail)


def _document(raw: bytes, name: str, status: os.stat_result, extractor: Extractor, kind: str) -> Document:
    try:
        if kind in KINDS:
            extracted = extractor.read(raw, kind)
        else:
            extracted = table_text(raw) if kind in _TABLES else plain_text(raw)
    except RefusedError as refused:  # README is a text; a program, or lib.so.1, is none
        raise unread(name) if refused.reason == BINARY and kind in ("", MANUAL) else refused from refused
    if not extracted.text.strip():
        raise RefusedError("no text", "holds no text; scanned pages need OCR first")
    try:
        modified = datetime.fromtimestamp(int(status.st_mtime), UTC)
    except (ValueError, OverflowError, OSError):
        modified = datetime.fromtimestamp(0, UTC)  # a date that Python does not have
    about = {"path": name, "bytes": status.st_size, "modified": modified.isoformat()}
    stem = PurePosixPath(uncompressed_name(name)).stem
    title = " ".join(extracted.title.split()) or ("" if kind == ".eml" else stem)
    metadata = {**about, **extracted.metadata}
    return Document(id=name, text=extracted.text, title=title, metadata=metadata, places=extracted.places)


def read_bytes(path: Path, most: int) -> bytes:
    """What a file holds, unless that is more bytes."""
    with open_bytes(path) as stream:
        raw = stream.read(most + 1)
    if len(raw) > most:
        raise _too_large(most)
    return raw


def _too_large(most: int) -> RefusedError:
    limit = f"{most // 2**20} MiB" if most >= 2**20 else f"{most} bytes"
    way_out = "raise the limit with FileRules(max_bytes=...) (--set max_bytes=...)"
    return RefusedError(f"larger than {limit}", f"is larger than {limit}; {way_out}")


@dataclass(frozen=True, slots=True)
class FileRules:
    """Which files of a folder are read. Patterns are those of `.gitignore`: `*.md`, `letters/`, `/drafts`."""

    # Files whose kind is not known by their name are read as plain text then. By default all tables, texts
    # and office documents.
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()  # files and folders to leave out
    max_bytes: int = MAX_BYTES  # larger files are skipped; a table may be of any size

    def __post_init__(self) -> None:
        border.fields(self, include=border.texts, exclude=border.texts, max_bytes=border.count)


def walk(folder: Path, rules: FileRules, skipped: Skipped) -> Iterator[tuple[Path, str]]:
    """The files of a folder and of those below it, in the order of their names, with their paths below it.

    Hidden files and folders are omitted, and what the folder's `.gitignore` files name is left out, as are
    `node_modules` and indexes. Links to folders are not followed, and links to files only if those are in
    the folder.
    """
    chosen = _ChosenEntries(os.path.realpath(folder), rules, skipped)
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
                raise unreadable(folder, error) from error
            skipped.add(encodable(name), unreadable(folder / name, error))
            continue
        if name and _is_index(entries):  # its files would be documents of it
            skipped.add(encodable(name), RefusedError("an index", is_gone=True))
            continue
        chosen.enter(folder / name, prefix, has_ignore_file=any(e.name == _IGNORE_FILE for e in entries))
        below = []
        for entry in entries:
            path_below = f"{prefix}{entry.name}"
            try:
                kind = chosen.is_folder(entry, path_below)
            except (OSError, RefusedError) as error:
                shown = encodable(path_below)
                skipped.add(shown, unreadable(folder / path_below, error), shown)
            else:
                below += [] if kind is None else [(path_below, kind)]
        pending.extend(reversed(below))


def _is_index(entries: Sequence[os.DirEntry[str]]) -> bool:
    """Whether a folder holds an index: each version of one is a folder with a number for its name."""
    versions = [Path(entry.path) for entry in entries if entry.name.isdecimal()]
    return any((v / "manifest.json").is_file() and (v / "edge").is_dir() for v in versions)


class _ChosenEntries:
    """Which entries of a folder are read."""

    def __init__(self, root: str, rules: FileRules, skipped: Skipped) -> None:
        self._root, self._skipped = root, skipped
        self._included = Patterns(rules.include, "include") if rules.include else None
        self._excluded = Patterns(rules.exclude, "exclude")
        self._ignored: list[tuple[str, Patterns]] = []  # what the folders with a .gitignore leave out

    def enter(self, folder: Path, prefix: str, *, has_ignore_file: bool) -> None:
        """Read a folder's `.gitignore`, which is counted where it cannot be used."""
        self._ignored = [entry for entry in self._ignored if prefix.startswith(entry[0])]
        if not has_ignore_file:
            return
        try:
            raw = read_bytes(folder / _IGNORE_FILE, _IGNORE_BYTES)
        except RefusedError as refused:
            self._refuse(prefix, refused.reason)
        else:
            self._ignored.append((prefix, Patterns(raw.decode("utf-8", "replace").splitlines())))

    def _refuse(self, prefix: str, reason: str) -> None:
        name = encodable(f"{prefix}{_IGNORE_FILE}")
        self._skipped.add(name, RefusedError(f"{_IGNORE_FILE} not respected: {reason}"), name)

    def _is_ignored(self, shown: str) -> bool:
        """Whether the nearest .gitignore that says something leaves this out."""
        for prefix, patterns in [*reversed(self._ignored)]:
            try:
                decision = patterns.decide(shown.removeprefix(prefix))
            except TimeoutError:
                self._ignored.remove((prefix, patterns))
                self._refuse(prefix, "its patterns take too long")
                continue
            if decision is not None:
                return decision
        return False

    def is_folder(self, entry: os.DirEntry[str], name: str) -> bool | None:
        """Whether an entry is a folder to go into; None if it is no part. What is left out is refused."""
        is_folder = entry.is_dir(follow_symlinks=False)
        shown = f"{name}/" if is_folder else name
        if entry.name.startswith(".") or self._excluded.takes(shown):
            return None
        reason = "node_modules" if entry.name == "node_modules" else ""
        if not reason and self._is_ignored(shown):
            reason = "ignored by .gitignore"
        if is_folder and not reason:
            return True
        if not reason and self._included is not None and not self._included.takes(name):
            return None
        reason = reason or self._why_unread(entry)
        if reason:
            raise RefusedError(reason, is_gone=True)
        return False

    def _why_unread(self, entry: os.DirEntry[str]) -> str:
        """Why something that is no folder is not opened; empty where it is a file."""
        if entry.is_symlink():
            target = os.path.realpath(entry.path, strict=True)
            if not Path(target).is_relative_to(self._root):
                return "a link out of the folder"
            if os.path.isdir(target):
                return "a link to a folder"
        # Opening a pipe would wait for a writer.
        return "" if stat.S_ISREG(entry.stat().st_mode) else "not a regular file"
