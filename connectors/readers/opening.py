"""One way to open whatever holds documents."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from surprise_rerank.connectors.datasets.beir import jsonl_in
from surprise_rerank.connectors.datasets.demo import DEMO
from surprise_rerank.connectors.datasets.lines import RefusedError
from surprise_rerank.connectors.datasets.sources import open_source
from surprise_rerank.connectors.progress import Expected
from surprise_rerank.connectors.readers.collection import from_collection
from surprise_rerank.connectors.readers.extraction import Extractor
from surprise_rerank.connectors.readers.fields import Fields, NoColumnError
from surprise_rerank.connectors.readers.files import FileRules, is_document, read_file, walk
from surprise_rerank.connectors.readers.iterables import from_iterable
from surprise_rerank.connectors.readers.source import DocumentSource, OnError, Refusals, Skipped
from surprise_rerank.connectors.readers.tables import Table, count_table, read_table, table_format
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from surprise_rerank.connectors.readers.iterables import Item

Format: TypeAlias = Literal["jsonl", "csv", "tsv", "tsv-unquoted", "parquet", "text"]

_BEIR_FIELDS = Fields(id="_id", text="text", metadata=["metadata"])


def open_documents(
    spec: str | os.PathLike[str] | QdrantClient | Iterable[Item] | Callable[[], Iterable[Item]],
    *,
    format: Format | None = None,  # noqa: A002 (the usual name)
    fields: Fields | None = None,
    on_error: OnError = "raise",
    files: FileRules | None = None,
    collection: str | None = None,
    api_key: str | None = None,
) -> DocumentSource:
    """Open anything that holds documents.

    Args:
        spec: a file, a folder, `demo`, an id of ir_datasets, the url of a Qdrant server, a client of one, or
            Python objects (see `from_iterable`). An existing file or folder is preferred to an id.
        format: what a file is, if its name does not show it.
        fields: the columns that are id, title, text and metadata, for what has columns.
        on_error: whether a malformed row is an error or skipped and counted. Files of a folder that cannot be
            used are always skipped and counted.
        files: which files of a folder are read.
        collection: the collection of a Qdrant server or client.
        api_key: for the server; the environment variable QDRANT_API_KEY by default.

    Returns:
        The source; nothing of it has been read but names.

    Raises:
        DataError: if an argument is wrong or does not belong to this kind of source.
        DatasetError: if it does not exist, or its format cannot be recognised.
    """
    formats = get_args(Format)
    if format is not None and format not in formats:
        raise DataError(f"no format {format!r}; choose one of {', '.join(formats)}")
    if collection is not None:
        return from_collection(spec, collection, fields=fields, api_key=api_key, on_error=on_error)  # type: ignore[arg-type]  # it checks
    if not isinstance(spec, str | os.PathLike):
        objects: Any = spec
        return from_iterable(objects, fields=fields, on_error=on_error)
    name = os.fspath(spec)
    if "://" in name:
        raise DataError("a url is that of a Qdrant server, with collection=...; download other things first")
    if isinstance(spec, str) and format is None and not _is_path(spec):
        _refuse_fields(name, fields)
        return _of_catalogue(name, on_error)
    place = _place(Path(name).expanduser(), format, fields, files or FileRules())
    return DocumentSource(
        encodable(Path(name).expanduser().resolve().name),
        place.documents,
        on_error=on_error,
        may_be_empty=False,
        count=place.expected,
        origin=encodable(str(Path(name).expanduser().resolve())),
    )


def _of_catalogue(name: str, on_error: OnError) -> DocumentSource:
    """The demo, or a data set of ir_datasets."""
    found = open_source(name)

    def expected() -> Expected | None:
        count = found.count()
        return None if count is None else Expected(count)

    return DocumentSource(
        found.name,
        lambda _: found.documents(),
        on_error=on_error,
        may_be_empty=False,
        count=expected,
        origin=name,
    )


def _place(path: Path, form: Format | None, fields: Fields | None, rules: FileRules) -> _Place:
    """What is read at a path."""
    if path.is_dir():
        if form is not None:
            raise DataError(f"{path}: a format is for a file; FileRules(include=...) chooses of a folder")
        corpus = jsonl_in(path, "corpus")
        if corpus is None:
            return _Place(path, fields or Fields(), rules, None)
        _refuse_fields(str(path), fields)
        return _Place(corpus, _BEIR_FIELDS, rules, "jsonl")
    if not os.path.exists(path):
        there = f"expected a path, `{DEMO}`, an id of ir_datasets, or the url of a Qdrant server"
        raise DatasetError(f"{path}: no such file or folder; {there}")
    if not os.path.isfile(path):  # it is read from the beginning more than once
        raise DatasetError(f"{path} is a pipe or a device; write it to a file first")
    kind = form or _file_format(path.name)
    if kind is None:
        raise DatasetError(
            f"{path}: its format cannot be recognised; name it with format=..., one of"
            f" {', '.join(get_args(Format))}"
        )
    return _Place(path, fields or Fields(), rules, kind)


@dataclass(frozen=True, slots=True)
class _Place:
    """A file or a folder of files."""

    path: Path
    fields: Fields
    rules: FileRules
    kind: Table | Literal["text"] | None

    def documents(self, refusals: Refusals) -> Iterator[Document]:
        with contextlib.closing(Extractor()) as extractor:
            if self.kind is None:
                yield from self._of_folder(extractor, refusals)
            elif self.kind != "text":
                yield from read_table(self.path, self.kind, self.fields, refusals)
            else:
                try:
                    name = encodable(self.path.name)
                    yield read_file(self.path, name, extractor, max_bytes=self.rules.max_bytes)
                except RefusedError as refused:
                    refusals.refuse(str(self.path), refused)

    def expected(self) -> Expected | None:
        if self.kind is None:
            found = [(path, _file_format(name)) for path, name in walk(self.path, self.rules, Skipped())]
        else:
            found = [(self.path, self.kind)]
        count = sum(
            int(kind is not None) if kind is None or kind == "text" else count_table(path, kind)
            for path, kind in found
        )
        return Expected(count, exact=all(kind in (None, "parquet", "text") for _, kind in found))

    def _of_folder(self, extractor: Extractor, refusals: Refusals) -> Iterator[Document]:
        for path, found in walk(self.path, self.rules, refusals.skipped):
            name, kind = encodable(found), _file_format(found)
            try:
                if kind is None and not self.rules.include:
                    raise RefusedError("of no kind that is read")
                if kind is None or kind == "text":
                    yield read_file(path, name, extractor, max_bytes=self.rules.max_bytes)
                else:
                    yield from self._of_table(path, kind, name, refusals)
            except RefusedError as refused:
                refusals.skipped.add(name, refused.reason, unreadable=refused.unreadable)

    def _of_table(self, path: Path, kind: Table, name: str, refusals: Refusals) -> Iterator[Document]:
        """The documents of a table among other files: one that is none of documents is left out."""
        given = False
        try:
            for document in read_table(path, kind, self.fields, refusals, f"{name}:"):
                given = True
                yield document
        except (DataError, DatasetError) as error:
            refused = error.__cause__
            if given or not (isinstance(error, DatasetError) or isinstance(refused, NoColumnError)):
                raise
            is_other = isinstance(refused, NoColumnError)
            reason = refused.reason if isinstance(refused, NoColumnError) else "cannot be read"
            raise RefusedError(reason, unreadable=not is_other) from error


def _refuse_fields(name: str, fields: Fields | None) -> None:
    if fields not in (None, Fields()):
        raise DataError(f"{name}: fields are for tables and collections; this has its own, leave them out")


def _is_path(spec: str) -> bool:
    """Whether a name is that of a file or folder rather than an id of ir_datasets."""
    if spec == DEMO or not spec.strip():
        return False
    if spec.startswith((".", "/", "~")) or spec.endswith("/") or "\\" in spec:
        return True
    return os.path.exists(spec) or _file_format(spec) is not None


def _file_format(name: str) -> Table | Literal["text"] | None:
    return table_format(name) or ("text" if is_document(name) else None)
