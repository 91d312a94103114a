"""Tables of Apache Arrow: Parquet files, and those that Hugging Face's `datasets` saves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.datasets.lines import EXTRA
from surprise_rerank.connectors.readers.fields import Columns, Fields, Row, documents_of
from surprise_rerank.connectors.readers.source import Refusals
from surprise_rerank.core.extras import import_extra
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError

_BATCH = 256  # rows that are Python objects at a time
_PAGE_BUFFER = 2**20


def read_arrow(path: Path, fields: Fields, refusals: Refusals, prefix: str = "") -> Iterator[Document]:
    """The documents of a Parquet or Arrow file, a few hundred rows at a time; see `read_table`."""
    with _opened(path) as (names, batches):
        columns = Columns.of_table(fields, names, path)
        rows = _rows(batches(columns.used(names)), path, prefix)
        yield from documents_of(rows, fields, refusals, columns=columns)


def count_rows(path: Path) -> int:
    """The rows of a Parquet or Arrow file; only heads are read."""
    if path.suffix.lower() == ".parquet":
        parquet = import_extra("pyarrow.parquet", EXTRA)
        with _reading(path):
            return int(parquet.read_metadata(path).num_rows)
    with _opened(path) as (names, batches):
        return sum(batch.num_rows for batch in batches(names[:1]))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], Any]]:
    """The columns of a file, and what gives batches of some of them."""
    pyarrow = import_extra("pyarrow", EXTRA)
    ipc, parquet = import_extra("pyarrow.ipc", EXTRA), import_extra("pyarrow.parquet", EXTRA)
    with ExitStack() as stack, _reading(path):
        if path.suffix.lower() == ".arrow":
            stream = stack.enter_context(ipc.open_stream(stack.enter_context(pyarrow.memory_map(str(path)))))
            names = stream.schema.names
            yield (
                names,
                lambda used: (
                    part.slice(start, _BATCH)
                    for part in (batch.select(used) for batch in stream)
                    for start in range(0, part.num_rows, _BATCH)
                ),
            )
        else:
            # Without pre-buffering, or a whole row group would be in memory.
            file = stack.enter_context(parquet.ParquetFile(path, buffer_size=_PAGE_BUFFER, pre_buffer=False))
            names = file.schema_arrow.names
            yield names, lambda used: file.iter_batches(batch_size=_BATCH, columns=used)


def _rows(batches: Iterable[Any], path: Path, prefix: str) -> Iterator[Row]:
    place = 0
    for batch in batches:
        for values in _in_microseconds(batch).to_pylist():
            place += 1
            yield Row(f"{path}, row {place}", f"{prefix}{place}", values)


def _in_microseconds(batch: Any) -> Any:
    """Python's dates have no nanoseconds; pyarrow refuses them where pandas is not installed."""
    pyarrow = import_extra("pyarrow", EXTRA)
    columns = []
    for column in batch.columns:
        kind = column.type
        if getattr(kind, "unit", None) == "ns" and pyarrow.types.is_timestamp(kind):
            column = column.cast(pyarrow.timestamp("us", kind.tz), safe=False)
        elif getattr(kind, "unit", None) == "ns":
            own = pyarrow.duration if pyarrow.types.is_duration(kind) else pyarrow.time64
            column = column.cast(own("us"), safe=False)
        columns.append(column)
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the errors of pyarrow and of the operating system into one line."""
    pyarrow = import_extra("pyarrow", EXTRA)
    try:
        yield
    except DataError:
        raise  # it is a ValueError, as pyarrow's are
    except OSError as error:
        if error.errno is not None:  # else pyarrow's own, about the content
            raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from error
        raise DataError(f"{path}: damaged, or of another format: {_one_line(error)}") from error
    except (pyarrow.ArrowException, EOFError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: damaged, or of another format: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
