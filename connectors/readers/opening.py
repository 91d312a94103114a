"""One way to open whatever holds documents."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from surprise_rerank.connectors.datasets.demo import DEMO
from surprise_rerank.connectors.datasets.sources import open_source
from surprise_rerank.connectors.readers.arrow import (
    SPLITS_FILE,
    STATE_FILE,
    count_parquet,
    count_saved_dataset,
    read_parquet,
    read_saved_dataset,
)
from surprise_rerank.connectors.readers.collection import from_collection
from surprise_rerank.connectors.readers.delimited import Dialect, read_delimited
from surprise_rerank.connectors.readers.fields import Columns, Fields
from surprise_rerank.connectors.readers.files import FileRules, is_document, read_file, read_folder, walk
from surprise_rerank.connectors.readers.iterables import from_iterable
from surprise_rerank.connectors.readers.jsonl import read_jsonl
from surprise_rerank.connectors.readers.source import DocumentSource, OnError, Refusals, RefusedError, Skipped
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from surprise_rerank.connectors.readers.iterables import Item

Format: TypeAlias = Literal[
    "jsonl", "csv", "tsv", "tsv-unquoted", "parquet", "dataset", "files", "beir", "ir_datasets"
]
Table: TypeAlias = Callable[[Path, Fields, Refusals, str], Iterator[Document]]

_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
# What `BeirFolder` reads of a corpus.
_BEIR_COLUMNS = Columns("column", "_id", "text", "title", frozenset({"metadata"}))
_COMPRESSED = ("jsonl", "csv", "tsv")
_NOT_CONTENT = ("readme", "license", "licence", "changelog")  # files that are often beside tables
_KINDS = (
    "JSONL, CSV, TSV, Parquet, text, Markdown, HTML and PDF files, folders of them, data sets saved by"
    " save_to_disk, BEIR folders, ids of ir_datasets, and urls of Qdrant servers"
)


def open_documents(
    spec: str | os.PathLike[str] | QdrantClient | Iterable[Item] | Callable[[], Iterable[Item]],
    *,
    format: Format | None = None,  # noqa: A002 (the usual name)
    fields: Fields | None = None,
    on_error: OnError = "raise",
    encoding: str | None = None,
    files: FileRules | None = None,
    collection: str | None = None,
    api_key: str | None = None,
) -> DocumentSource:
    """Open anything that holds documents.

    Args:
        spec: a file, a folder, `demo`, an id of ir_datasets, the url of a Qdrant server, a client of one, or
            Python objects (see `from_iterable`). An existing file or folder is preferred to an id.
        format: what it is, if its name or content does not show it.
        fields: the columns that are id, title, text and metadata, for what has columns.
        on_error: whether a malformed row is an error or skipped and counted. Files of a folder that cannot be
            used are always skipped and counted.
        encoding: of text that has no byte order mark and is not UTF-8; guessed by default.
        files: which files of a folder are read.
        collection: the collection of a Qdrant server or client.
        api_key: for the server; the environment variable QDRANT_API_KEY by default.

    Returns:
        The source; nothing of it has been read but names.

    Raises:
        DataError: if an argument is wrong or does not belong to this kind of source.
        DatasetError: if it does not exist, or its format cannot be recognised.
    """
    if format is not None and format not in get_args(Format):
        raise DataError(f"no format {format!r}; choose one of {', '.join(get_args(Format))}")
    if collection is not None:
        return from_collection(_server(spec), collection, fields=fields, api_key=api_key, on_error=on_error)
    if not isinstance(spec, str | os.PathLike):
        objects: Any = spec
        return from_iterable(objects, fields=fields, on_error=on_error)
    name = os.fspath(spec)
    if "://" in name:
        raise DataError("a url is that of a Qdrant server, with collection=...; download other things first")
    opening = _Opening(fields or Fields(), on_error, _known(encoding), files or FileRules())
    is_known_id = isinstance(spec, str) and (spec == DEMO or not spec.strip() or not _is_path(spec))
    if format == "ir_datasets" or (format is None and is_known_id):
        return opening.catalogue(name)
    path = Path(name).expanduser()
    if not os.path.exists(path):
        raise DatasetError(f"{path}: no such file or folder; documents are read from {_KINDS}")
    if not (os.path.isfile(path) or os.path.isdir(path)):
        # It is read from the beginning more than once.
        raise DatasetError(f"{path} is a pipe or a device; write it to a file first")
    return opening.path(path, format)


class _Opening:
    """The arguments of one call, and what they make of a place."""

    def __init__(self, fields: Fields, on_error: OnError, encoding: str | None, files: FileRules) -> None:
        self._fields = fields
        self._on_error = on_error
        self._encoding = encoding
        self._files = files

    def catalogue(self, name: str) -> DocumentSource:
        """The demo, a data set of ir_datasets, or a BEIR folder: their own readers know their fields."""
        self._refuse_fields(name)
        found = open_source(name)
        return self._source(found.name, lambda _: found.documents(), count=found.count)

    def path(self, path: Path, asked: Format | None) -> DocumentSource:
        """A file or folder."""
        kind = asked or (_folder_format(path, self._files) if path.is_dir() else _file_format(path.name))
        name = encodable(path.resolve().name)
        match kind:
            case "beir":
                return self._beir(path, name)
            case "dataset":
                return self._source(
                    name,
                    lambda refusals: read_saved_dataset(path, self._fields, refusals),
                    count=lambda: count_saved_dataset(path),
                )
            case "files":
                self._refuse_fields(str(path))
                read = self._folder if path.is_dir() else self._file
                return self._source(
                    name, lambda refusals: read(path, refusals), count=lambda: len(self._documents(path))
                )
            case None | "ir_datasets":
                raise DatasetError(
                    f"{path}: its format cannot be recognised; name it with format=..., one of"
                    f" {', '.join(get_args(Format))} ('files' reads it as text)"
                )
        reader = _table(kind, self._encoding)
        if kind == "parquet":
            return self._source(
                name,
                lambda refusals: self._tables(path, kind, reader, refusals),
                count=lambda: sum(map(count_parquet, self._tables_of(path, kind))),
            )
        return self._source(
            name,
            lambda refusals: self._tables(path, kind, reader, refusals),
            size=lambda: _bytes(self._tables_of(path, kind)),
        )

    def _beir(self, path: Path, name: str) -> DocumentSource:
        if self._on_error == "raise":
            return self.catalogue(str(path.resolve()))
        self._refuse_fields(str(path))
        # The reader of BEIR folders takes no malformed lines.
        corpus = _corpus(path)
        if corpus is None:
            raise DatasetError(f"{path}: no corpus.jsonl and no corpus.jsonl.gz; is it a BEIR folder?")
        return self._source(
            name,
            lambda refusals: read_jsonl(corpus, self._fields, refusals, columns=_BEIR_COLUMNS),
            size=lambda: _bytes([corpus]),
        )

    def _tables(self, path: Path, kind: Format, reader: Table, refusals: Refusals) -> Iterator[Document]:
        if not path.is_dir():
            yield from reader(path, self._fields, refusals, "")
            return
        for file, name in walk(path, self._files, refusals.skipped):
            if _table_format(name) == kind.removesuffix("-unquoted"):
                yield from reader(file, self._fields, refusals, f"{encodable(name)}:")
            else:
                refusals.skipped.add(encodable(name), f"not a {kind} file")

    def _tables_of(self, path: Path, kind: Format) -> list[Path]:
        """The files that `_tables` reads."""
        if not path.is_dir():
            return [path]
        found = walk(path, self._files, Skipped())
        return [file for file, name in found if _table_format(name) == kind.removesuffix("-unquoted")]

    def _documents(self, path: Path) -> list[Path]:
        """The files that `_folder` reads."""
        if not path.is_dir():
            return [path]
        named = walk(path, self._files, Skipped())
        return [file for file, name in named if self._files.include or is_document(name)]

    def _folder(self, path: Path, refusals: Refusals) -> Iterator[Document]:
        return read_folder(path, self._files, refusals.skipped, self._encoding)

    def _file(self, path: Path, refusals: Refusals) -> Iterator[Document]:
        name = encodable(path.name)
        try:
            yield read_file(path, name, max_bytes=self._files.max_bytes, encoding=self._encoding)
        except RefusedError as refused:
            refusals.refuse(str(path), refused)

    def _source(
        self, name: str, read: Callable[[Refusals], Iterator[Document]], **extent: Callable[[], Any]
    ) -> DocumentSource:
        return DocumentSource(name, read, on_error=self._on_error, may_be_empty=False, **extent)

    def _refuse_fields(self, name: str) -> None:
        if self._fields != Fields():
            raise DataError(
                f"{name}: fields are for tables and collections; this has its own, leave them out"
            )


def _bytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _server(spec: Any) -> Any:
    if isinstance(spec, str):
        if "://" not in spec:
            raise DataError(f"collection=... belongs to the url of a Qdrant server, got {spec!r}")
        return spec
    if not hasattr(spec, "scroll"):
        raise DataError(f"collection=... belongs to a Qdrant client or url, got {type(spec).__name__}")
    return spec


def _is_path(spec: str) -> bool:
    """Whether a name is that of a file or folder rather than an id of ir_datasets."""
    if spec.startswith((".", "/", "~")) or spec.endswith("/") or "\\" in spec:
        return True
    return os.path.exists(spec) or _file_format(spec) is not None


def _table(kind: Literal["jsonl", "parquet"] | Dialect, encoding: str | None) -> Table:
    if kind == "parquet":
        return read_parquet

    def read(path: Path, fields: Fields, refusals: Refusals, prefix: str) -> Iterator[Document]:
        if kind == "jsonl":
            return read_jsonl(path, fields, refusals, prefix, encoding)
        return read_delimited(path, kind, fields, refusals, prefix, encoding)

    return read


def _known(encoding: str | None) -> str | None:
    try:
        return codecs.lookup(encoding).name if encoding is not None else None
    except LookupError as error:
        raise DataError(f"no encoding {encoding!r}; give one such as 'cp1252' or 'shift_jis'") from error


def _table_format(name: str) -> Format | None:
    """The kind of table by a file's name."""
    path = PurePath(name.lower())
    if path.suffix == ".gz":
        kind = _SUFFIXES.get(PurePath(path.stem).suffix)
        return kind if kind in _COMPRESSED else None
    return _SUFFIXES.get(path.suffix)


def _file_format(name: str) -> Format | None:
    return _table_format(name) or ("files" if is_document(name) else None)


def _corpus(folder: Path) -> Path | None:
    paths = (folder / "corpus.jsonl", folder / "corpus.jsonl.gz")
    return next((path for path in paths if os.path.isfile(path)), None)


def _folder_format(folder: Path, rules: FileRules) -> Format:
    """What a folder holds: documents, unless there are only tables."""
    if os.path.isfile(folder / STATE_FILE) or os.path.isfile(folder / SPLITS_FILE):
        return "dataset"
    if _corpus(folder) is not None:
        return "beir"
    tables: set[Format] = set()
    for _, name in walk(folder, rules, Skipped()):
        kind = _table_format(name)
        if kind is not None:
            tables.add(kind)
        elif is_document(name) and PurePath(name).stem.lower() not in _NOT_CONTENT:
            return "files"
    if len(tables) > 1:
        raise DatasetError(
            f"{folder} holds {' and '.join(sorted(tables))} files; name one of them, or the format to read"
        )
    return tables.pop() if tables else "files"
