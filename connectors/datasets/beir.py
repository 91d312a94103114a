"""BEIR folders on disk: `corpus.jsonl[.gz]`, `queries.jsonl[.gz]` and `qrels/<split>.tsv`."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError

DEFAULT_SPLIT = "test"

_LAYOUT = "a BEIR folder holds corpus.jsonl[.gz], queries.jsonl[.gz] and qrels/<split>.tsv"
_HEADER = ["query-id", "corpus-id", "score"]
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class BeirFolder:
    """A data set in a BEIR folder.

    Nothing is read before it is asked for, so a folder without judgements serves for indexing.

    Attributes:
        path: the folder.
        asked_split: the split to judge by; None means `test`, or the only split that there is.
    """

    path: Path
    asked_split: str | None = None

    @property
    def name(self) -> str:
        """The folder's own name."""
        return encodable(self.path.resolve().name)

    def splits(self) -> tuple[str, ...]:
        """The splits that have judgements, in alphabetical order.

        Raises:
            DatasetError: if there is no such folder.
        """
        _check_folder(self.path)
        return tuple(sorted(file.stem for file in (self.path / "qrels").glob("*.tsv")))

    @cached_property
    def split(self) -> str:
        """The split that is judged by.

        Raises:
            DatasetError: if there is no such split, or none was asked for and there are several.
        """
        splits = self.splits()
        if not splits:
            missing = f"qrels/{self.asked_split or DEFAULT_SPLIT}.tsv"
            raise DatasetError(f"{self.path}: no judgements: {missing} is missing; {_LAYOUT}")
        asked = self.asked_split
        if asked is None:
            asked = splits[0] if len(splits) == 1 else DEFAULT_SPLIT
        if asked not in splits:
            raise DatasetError(
                f"{self.path}: no split {asked!r}: qrels/{asked}.tsv is missing; there is {', '.join(splits)}"
            )
        return asked

    def at(self, split: str) -> BeirFolder:
        """The same documents with the questions of another split."""
        return BeirFolder(self.path, split)

    def documents(self) -> Iterator[Document]:
        """Read the corpus, in the file's order.

        Raises:
            DatasetError: if the corpus is missing, unreadable or empty.
            DataError: if a line is no document or an id comes twice; names the file and line.
        """
        return _documents(_find(self.path, "corpus.jsonl"))

    def count(self) -> int:
        """How many lines the corpus has.

        Raises:
            DatasetError: if the corpus is missing or unreadable.
        """
        return sum(1 for _ in _raw_lines(_find(self.path, "corpus.jsonl")))

    def queries(self) -> dict[str, str]:
        """Read all questions, judged in this split or not: id -> text, in the file's order.

        Raises:
            DatasetError: if the file is missing or unreadable.
            DataError: if a line is no question or an id comes twice; names the file and line.
        """
        return read_queries(_find(self.path, "queries.jsonl"))

    def qrels(self) -> dict[str, dict[str, int]]:
        """Read the split's judgements: question id -> document id -> relevance.

        Raises:
            DatasetError: if the split is missing or unreadable.
            DataError: if a row is no judgement or contradicts another; names the file and line.
        """
        return read_qrels(self.path / "qrels" / f"{self.split}.tsv")


def _check_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    problem = "is not a folder" if folder.exists() else "no such folder"
    raise DatasetError(f"{folder}: {problem}; {_LAYOUT}")


def _find(folder: Path, name: str) -> Path:
    _check_folder(folder)
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise DatasetError(f"{folder}: no {name} and no {name}.gz; {_LAYOUT}")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is not blank."""
    for number, raw in enumerate(_raw_lines(path), start=1):
        text = _decode(raw, f"{path}:{number}")
        if number == 1:
            text = text.removeprefix("\ufeff")
        if text.strip():
            yield number, text


def _raw_lines(path: Path) -> Iterator[bytes]:
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for raw in stream:
                number += 1
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}:{number + 1}: the gzip stream is damaged or cut short ({error}); fetch the file again"
        ) from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from error


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: not valid UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1};"
            " save the file as UTF-8"
        ) from error


def _documents(path: Path) -> Iterator[Document]:
    empty = True
    for where, record in _records(path):
        empty = False
        title = record.get("title")
        metadata = record.get("metadata")
        if title is not None:
            _require(where, "title", title, str, "a string")
        if metadata is not None:
            _require(where, "metadata", metadata, dict, "an object")
        yield Document(id=record["_id"], text=record["text"], title=title or "", metadata=metadata or {})
    if empty:
        raise DatasetError(f"{path}: the corpus is empty: no line holds a document")


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (file:line) and content of every record, with a unique `_id` and a `text`."""
    line_of: dict[str, int] = {}
    for number, text in _lines(path):
        where = f"{path}:{number}"
        record = _parse(text, where)
        for key in ("_id", "text"):
            if key not in record:
                raise DataError(f"{where}: `{key}` is missing; there is {', '.join(record) or 'nothing'}")
            _require(where, key, record[key], str, "a string")
        name = record["_id"]
        if not name:
            raise DataError(f"{where}: `_id` is empty")
        if line_of.setdefault(name, number) != number:
            raise DataError(
                f"{where}: `_id` {name!r} is that of line {line_of[name]} too; ids must be unique"
            )
        yield where, record


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        # Not strict: control characters inside strings are bad JSON, but they do no harm and they do occur.
        record = json.loads(text, strict=False)
        # A lone surrogate can only come from an escape, so most lines are spared the second pass.
        if "\\ud" in text.lower():
            record = _without_surrogates(record)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not valid JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON: {error}") from error
    if not isinstance(record, dict):
        raise DataError(f"{where}: must be a JSON object, got {_shown(record)}")
    return record


def _without_surrogates(record: Any) -> Any:
    """The same JSON value with U+FFFD for every lone surrogate, in keys and metadata as well."""
    written = json.dumps(record, ensure_ascii=False)
    return json.loads(encodable(written)) if _SURROGATE.search(written) else record


def _require(where: str, key: str, value: object, kind: type, expected: str) -> None:
    if not isinstance(value, kind):
        raise DataError(f"{where}: `{key}` must be {expected}, got {_shown(value)}")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def read_queries(path: Path) -> dict[str, str]:
    """The questions of a file of JSON lines with `_id` and `text`: id -> text, in the file's order.

    Raises:
        DatasetError: if the file is unreadable.
        DataError: if a line is no question or an id comes twice; names the file and line.
    """
    return {record["_id"]: record["text"] for _, record in _records(path)}


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """The judgements of a file of three columns between tabs: question id -> document id -> relevance.

    Raises:
        DatasetError: if the file is unreadable.
        DataError: if a row is no judgement or contradicts another; names the file and line.
    """
    qrels: dict[str, dict[str, int]] = {}
    line_of: dict[tuple[str, str], int] = {}
    first = True
    for number, text in _lines(path):
        columns = text.rstrip("\r\n").split("\t")
        is_header = first and [column.strip() for column in columns] == _HEADER
        first = False
        if is_header:
            continue
        query, document, relevance = _judgement(columns, f"{path}:{number}")
        earlier = line_of.setdefault((query, document), number)
        if qrels.setdefault(query, {}).setdefault(document, relevance) != relevance:
            raise DataError(
                f"{path}:{number}: question {query!r} and document {document!r} are judged {relevance} here"
                f" and {qrels[query][document]} in line {earlier}"
            )
    return qrels


def _judgement(columns: list[str], where: str) -> tuple[str, str, int]:
    if len(columns) != 3:
        raise DataError(
            f"{where}: expected 3 columns between tabs ({', '.join(_HEADER)}), got {len(columns)}:"
            f" {_shown(' | '.join(columns))}"
        )
    query, document, score = columns[0], columns[1], columns[2].strip()
    if not query or not document:
        raise DataError(f"{where}: the {_HEADER[0] if not query else _HEADER[1]} is empty")
    if not _INTEGER.fullmatch(score):
        raise DataError(f"{where}: the score must be an integer, got {_shown(score)}")
    return query, document, int(score)
