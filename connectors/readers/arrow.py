"""Tables of Apache Arrow: Parquet files, and data sets that Hugging Face's `datasets` saved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.readers.fields import Columns, Fields, Row, documents_of
from surprise_rerank.connectors.readers.source import EXTRA, Refusals
from surprise_rerank.core.extras import import_extra
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError

STATE_FILE = "state.json"  # lists the Arrow files of a saved data set
SPLITS_FILE = "dataset_dict.json"  # lists the folders of its splits

_BATCH = 256  # rows that are Python objects at a time
_PAGE_BUFFER = 2**20


def read_parquet(path: Path, fields: Fields, refusals: Refusals, prefix: str = "") -> Iterator[Document]:
    """The documents of a Parquet file, in its order, a few hundred rows at a time.

    Args:
        path: the file.
        fields: the columns that were named.
        refusals: what happens to malformed rows.
        prefix: comes before the numbers of rows, if those are ids.

    Raises:
        DataError: if the file is damaged, or the id or the text cannot be found; if a row is malformed,
            unless such rows are skipped.
        DatasetError: if the file cannot be read.
        MissingExtraError: if pyarrow is not installed.
    """
    parquet = import_extra("pyarrow.parquet", EXTRA)
    with _reading(path):
        # Without pre-buffering, or a whole row group would be in memory.
        file = parquet.ParquetFile(path, buffer_size=_PAGE_BUFFER, pre_buffer=False)
        with file:
            columns = Columns.of_table(fields, file.schema_arrow.names, path)
            used = columns.used(file.schema_arrow.names)
            batches = file.iter_batches(batch_size=_BATCH, columns=used)
            yield from documents_of(_rows(batches, path, prefix, 0), fields, refusals, columns=columns)


def count_parquet(path: Path) -> int:
    """The rows of a Parquet file, which its end tells.

    Raises:
        DataError: if the file is damaged.
        DatasetError: if the file cannot be read.
        MissingExtraError: if pyarrow is not installed.
    """
    parquet = import_extra("pyarrow.parquet", EXTRA)
    with _reading(path):
        return int(parquet.read_metadata(path).num_rows)


def count_saved_dataset(folder: Path) -> int:
    """The rows of a data set that `save_to_disk` wrote; only the heads of its batches are read.

    Raises:
        DataError: if a file is damaged.
        DatasetError: if there are several splits, or something cannot be read.
        MissingExtraError: if pyarrow is not installed.
    """
    rows = 0
    for path, stream in _streams(folder):
        with _reading(path):
            rows += sum(batch.num_rows for batch in stream)
    return rows


def read_saved_dataset(folder: Path, fields: Fields, refusals: Refusals) -> Iterator[Document]:
    """The documents of a data set that `save_to_disk` of `datasets` wrote, without that library.

    Args:
        folder: the data set, or one split of it.
        fields: the columns that were named.
        refusals: what happens to malformed rows.

    Raises:
        DataError: if a file is damaged, or the id or the text cannot be found; if a row is malformed,
            unless such rows are skipped.
        DatasetError: if there are several splits, or something cannot be read.
        MissingExtraError: if pyarrow is not installed.
    """
    number = 0
    for path, stream in _streams(folder):
        with _reading(path):
            columns = Columns.of_table(fields, stream.schema.names, path)
            counted = CountedBatches(stream)
            rows = _rows(_slices(counted, columns.used(stream.schema.names)), path, "", number)
            yield from documents_of(rows, fields, refusals, columns=columns)
        number += counted.rows


def _streams(folder: Path) -> Iterator[tuple[Path, Any]]:
    """The Arrow files of a saved data set, and the batches of each."""
    pyarrow = import_extra("pyarrow", EXTRA)
    ipc = import_extra("pyarrow.ipc", EXTRA)
    folder = _split_of(folder)
    for name in _listed(folder / STATE_FILE, "_data_files", "filename"):
        path = folder / name
        with _reading(path), pyarrow.memory_map(str(path)) as source, ipc.open_stream(source) as stream:
            yield path, stream


def _slices(batches: CountedBatches, used: list[str]) -> Iterator[Any]:
    for batch in batches:
        chosen = batch.select(used)
        for start in range(0, chosen.num_rows, _BATCH):
            yield chosen.slice(start, _BATCH)


def _rows(batches: Any, path: Path, prefix: str, number: int) -> Iterator[Row]:
    """Rows as Python objects.

    Args:
        batches: of Arrow.
        path: of the file, for messages.
        prefix: of the numbers, where those are ids.
        number: rows in the files before.
    """
    place = 0
    for batch in batches:
        for values in _in_microseconds(batch).to_pylist():
            place += 1
            yield Row(f"{path}, row {place}", f"{prefix}{number + place}", values)


def _in_microseconds(batch: Any) -> Any:
    """Python's dates have no nanoseconds; pyarrow refuses them where pandas is not installed."""
    pyarrow = import_extra("pyarrow", EXTRA)
    columns = []
    for column in batch.columns:
        match str(column.type).partition("[")[0], getattr(column.type, "unit", None):
            case "timestamp", "ns":
                columns.append(column.cast(pyarrow.timestamp("us", column.type.tz), safe=False))
            case "duration", "ns":
                columns.append(column.cast(pyarrow.duration("us"), safe=False))
            case "time64", "ns":
                columns.append(column.cast(pyarrow.time64("us"), safe=False))
            case _:
                columns.append(column)
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _split_of(folder: Path) -> Path:
    """The folder itself, or that of its only split."""
    if not os.path.isfile(folder / SPLITS_FILE):
        return folder
    splits = _listed(folder / SPLITS_FILE, "splits", None)
    if len(splits) == 1:
        return folder / splits[0]
    raise DatasetError(
        f"{folder} has the splits {', '.join(splits) or '(none)'}; name the folder of one, such as"
        f" {folder / (splits or ['train'])[0]}"
    )


def _listed(path: Path, key: str, inner: str | None) -> list[str]:
    """The names in a list of a JSON file; only names, so that a file cannot point out of its folder."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))[key]
        return [Path(value[inner] if inner else value).name for value in values]
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path}: does not list {key}, as a data set saved by save_to_disk does;"
            " save it again, or name the folder's format with format=..."
        ) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the errors of pyarrow and of the operating system into one line."""
    pyarrow = import_extra("pyarrow", EXTRA)
    try:
        yield
    except DataError:
        raise  # it is a ValueError, as pyarrow's are
    except pyarrow.ArrowNotImplementedError as error:
        raise DataError(f"{path}: cannot be read: {_one_line(error)}; write it with other types") from error
    except (pyarrow.ArrowException, EOFError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: damaged, or of another format: {_one_line(error)}") from error
    except OSError as error:
        if error.errno is None:  # pyarrow's own, about the content
            raise DataError(f"{path}: damaged, or of another format: {_one_line(error)}") from error
        raise DatasetError(f"{path}: cannot be read: {error.strerror or _one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


class CountedBatches:
    """Batches, and how many rows have passed.

    Attributes:
        rows: so far.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch
