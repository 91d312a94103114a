"""One way to open whatever holds documents."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from surprise_rerank import _border as border
from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import DataError, DatasetError
from surprise_rerank.connectors.qdrant._location import Location
from surprise_rerank.connectors.readers._beir import jsonl_in, read_corpus
from surprise_rerank.connectors.readers._collection import from_collection
from surprise_rerank.connectors.readers._datasets import is_path, open_source
from surprise_rerank.connectors.readers._demo import DEMO
from surprise_rerank.connectors.readers._extraction import Extractor
from surprise_rerank.connectors.readers._fields import Fields, NoColumnError, from_iterable
from surprise_rerank.connectors.readers._files import (
    FileRules,
    is_document,
    is_mailbox,
    kind_of,
    read_bytes,
    read_file,
    read_mailbox,
    unread,
    walk,
)
from surprise_rerank.connectors.readers._lines import unreadable
from surprise_rerank.connectors.readers._source import DocumentSource, OnError, RefusedError, Skipped
from surprise_rerank.connectors.readers._tables import Table, count_table, read_json, read_table, table_format

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from surprise_rerank.connectors.readers._fields import Item

Format: TypeAlias = Literal["jsonl", "csv", "tsv", "tsv-unquoted", "parquet", "text"]

_Read: TypeAlias = Callable[[Skipped], Iterator[Document]]
_Count: TypeAlias = Callable[[], int | None]


def open_documents(
    spec: str | os.PathLike[str] | QdrantClient | Iterable[Item] | Callable[[], Iterable[Item]],
    *,
    format: Format | None = None,  # noqa: A002 (the usual name) - of a file whose name does not show it
    fields: Fields | None = None,  # the columns that are id, title, text and metadata
    on_error: OnError = "raise",  # or skip and count malformed rows, as those of a folder's files always are
    files: FileRules | None = None,  # which files of a folder are read
    collection: str | None = None,  # that of a client
    api_key: str | None = None,  # for a server; QDRANT_API_KEY of the environment by default
) -> DocumentSource:
    """Open anything that holds documents; nothing is read yet but names.

    `spec` is a file, a folder, `demo`, an id of ir_datasets, a collection of a Qdrant server as
    http://localhost:6333/papers, a client of one, or Python objects (see `from_iterable`). An existing file
    or folder is preferred to an id.
    """
    border.optional(border.choice, "format", format, get_args(Format))
    if collection is not None:
        if not hasattr(spec, "scroll"):
            advice = "of a server give http://localhost:6333/papers"
            raise DataError(f"collection=... belongs to a client; {advice}")
        return from_collection(cast("QdrantClient", spec), collection, fields=fields, on_error=on_error)
    if not isinstance(spec, str | os.PathLike):
        return from_iterable(cast(Any, spec), fields=fields, on_error=on_error)
    name = os.fspath(spec)
    if "://" in name:
        if kind_of(name) and _file_format(name) is not None:
            raise DataError(f"{name} is a file of a web server; download it first")
        place = Location.at(name)
        urls = ",".join(place.urls)
        return from_collection(urls, place.collection, fields=fields, api_key=api_key, on_error=on_error)
    if isinstance(spec, str) and format is None and not _is_path(spec):
        _refuse_fields(name, fields)
        dataset = open_source(name)
        shown, origin, read, count = dataset.name, name, lambda _: dataset.documents(), dataset.count
    else:
        path = Path(name).expanduser()
        origin = encodable(str(path.resolve()))
        shown = encodable(path.resolve().name)
        read, count = _opened(path, format, fields, files or FileRules())
        on_error = "skip" if path.is_dir() and jsonl_in(path, "corpus") is None else on_error
    return DocumentSource(shown, read, on_error=on_error, may_be_empty=False, count=count, origin=origin)


def _opened(path: Path, form: Format | None, fields: Fields | None, rules: FileRules) -> tuple[_Read, _Count]:
    """How a path is read, and how many documents it has."""
    if path.is_dir():
        if form is not None:
            raise DataError(f"{path}: a format is for a file; FileRules(include=...) chooses of a folder")
        corpus = jsonl_in(path, "corpus")
        if corpus is None:
            return partial(_read_files, path, fields or Fields(), rules), partial(_count_folder, path, rules)
        _refuse_fields(str(path), fields)
        return partial(read_corpus, corpus), partial(count_table, corpus, "jsonl")
    kind = form or _file_format(path.name)
    if kind is None or not path.is_file():
        problem = f"its format cannot be recognised; give the format, one of {', '.join(get_args(Format))}"
        if not path.exists():
            expected = f"expected a path, `{DEMO}`, an id of ir_datasets, or the url of a Qdrant server"
            problem = f"no such file or folder; {expected}"
        elif not path.is_file():  # it is read from the beginning more than once
            problem = "a pipe or a device; write it to a file first"
        raise DatasetError(f"{path}: {problem}")
    if kind == "text":
        return partial(_read_files, path, fields or Fields(), rules), lambda: 1
    return partial(read_table, path, kind, fields or Fields()), partial(count_table, path, kind)


def _read_files(path: Path, fields: Fields, rules: FileRules, skipped: Skipped) -> Iterator[Document]:
    """The documents of a text, or of a folder's files, of which what cannot be used is counted."""
    is_folder = path.is_dir()
    files = walk(path, rules, skipped) if is_folder else iter([(path, path.name)])
    with contextlib.closing(Extractor()) as extractor:
        for file, path_below in files:
            name, kind = encodable(path_below), _file_format(path_below) if is_folder else "text"
            skipped.place = str(file)
            try:
                if kind is None and not rules.include:
                    raise unread(name)
                if kind is None or kind == "text":
                    yield from _of_file(file, name, fields, rules, extractor, skipped)
                elif file.stat().st_size:
                    yield from _of_table(file, name, kind, fields, rules, extractor, skipped)
                else:
                    raise RefusedError("empty")
            except (OSError, RefusedError) as error:
                place = name if is_folder else str(file)
                skipped.refuse(place, unreadable(file, error), name if kind == "text" else None)


def _of_table(
    path: Path,
    name: str,
    kind: Table,
    fields: Fields,
    rules: FileRules,
    extractor: Extractor,
    skipped: Skipped,
) -> Iterator[Document]:
    """The rows of a folder's table; of one whose head names no column of texts the document that it is."""
    try:
        yield from read_table(path, kind, fields, skipped, f"{name}:")
    except NoColumnError:
        if kind == "jsonl":
            return  # each of its rows is counted
        if kind not in ("csv", "tsv") or fields != Fields():
            raise
        yield read_file(path, name, extractor, max_bytes=rules.max_bytes)


def _of_file(
    path: Path, name: str, fields: Fields, rules: FileRules, extractor: Extractor, skipped: Skipped
) -> Iterator[Document]:
    """The document that a file is, or those of a mailbox or of JSON."""
    if is_mailbox(name):
        yield from read_mailbox(path, name, extractor, skipped, max_bytes=rules.max_bytes)
        return
    if kind_of(name) == ".json":
        documents = read_json(read_bytes(path, rules.max_bytes), path, name, fields, skipped)
        if documents is not None:
            yield from documents
            return
    yield read_file(path, name, extractor, max_bytes=rules.max_bytes)


def _count_folder(path: Path, rules: FileRules) -> int:
    """How many documents its files have at most."""
    files = [(file, _file_format(name)) for file, name in walk(path, rules, Skipped())]
    return sum(1 if kind == "text" else count_table(file, kind) for file, kind in files if kind is not None)


def _refuse_fields(name: str, fields: Fields | None) -> None:
    if fields not in (None, Fields()):
        raise DataError(f"{name}: fields are for tables and collections; this has its own, leave them out")


def _is_path(spec: str) -> bool:
    """Whether a name is that of a file or folder rather than an id of ir_datasets."""
    if spec == DEMO or not spec.strip():
        return False
    return is_path(spec) or os.path.exists(spec) or bool(kind_of(spec) and _file_format(spec))


def _file_format(name: str) -> Table | Literal["text"] | None:
    return table_format(name) or ("text" if is_document(name) else None)
