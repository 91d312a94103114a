"""Documents and augmented vectors from Ray Data into Qdrant, by many tasks at once.

`DocumentSink` stores all that an index keeps of a document, in several points and vectors of several kinds,
and only of what is new. `fill` stores one dense vector a row under a number: for that there is `ray_qdrant`.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.connectors.qdrant.engines import retries
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.location import RetryPolicy, shown_url
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest
from surprise_rerank.connectors.qdrant.schema import SURPRISE
from surprise_rerank.connectors.qdrant.writing.indexing import SyncReport
from surprise_rerank.connectors.ray.pipeline import (
    EXTRA,
    Actors,
    RowSource,
    collected,
    error_row,
    first_line,
    quiet_context,
    raise_error,
    ray_errors,
)
from surprise_rerank.connectors.readers import Fields, from_iterable
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.encoding import Model
from surprise_rerank.connectors.similar.index.augmented import AugmentedIndex
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.core.arrays import FloatArray, matrix, unit_rows
from surprise_rerank.core.extras import import_extra, pip_line
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoded
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.errors import DataError, MissingExtraError, StoreError, SurpriseRerankError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import augmented_documents

try:
    import ray.data
    from ray.data.block import BlockAccessor
    from ray.data.datasource import Datasink
    from ray_qdrant import QdrantDatasink
except ImportError as error:
    raise MissingExtraError(f"ray_qdrant is not installed: run {pip_line(EXTRA)}") from error

# Documents that a worker is given at a time.
_ROWS = 4096
# Tasks that fill an index, for each that runs at the same time; what one of them has begun is lost with it.
_SHARES = 4
# Augmented vectors of a request, and their bytes in a block of Ray.
_BATCH, _BLOCK_BYTES = 512, 16 * 2**20


@dataclass(frozen=True, slots=True, repr=False)
class IndexTarget:
    """An index on a Qdrant server or cluster, and what rows of a dataset are in it.

    Rows have an id and a text; a title and metadata where they like. Columns are found, and other columns
    become metadata, as everywhere (`readers.Fields`).

    Attributes:
        url: of the server; several, with commas between, for the nodes of a cluster.
        collection: the collection's name.
        model: encodes; a name, or what every worker loads.
        options: what a new index stores. One that exists keeps its own, and must have these where given.
        api_key: for the server; QDRANT_API_KEY of the environment of this process by default.
        fields: which columns make a document.
        vectors: a column with the dense vector of each document, where they are known.
        token_vectors: a column with its (m, d) token vectors, where the index stores some.
        settings: more for `DocumentIndex.open`, such as `prefer_grpc`, `timeout` or `collection_settings`.

    Raises:
        DataError: if token vectors are given without dense ones.
    """

    url: str
    collection: str = "documents"
    model: str | Model = DEFAULT_MODEL
    options: IndexOptions | None = None
    api_key: str | None = None
    fields: Fields | None = None
    vectors: str | None = None
    token_vectors: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.token_vectors is not None and self.vectors is None:
            raise DataError(
                "token vectors are given with the dense ones of the same texts; name both columns"
            )
        # Workers may have another environment.
        object.__setattr__(self, "api_key", self.api_key or os.environ.get("QDRANT_API_KEY"))

    def __repr__(self) -> str:  # without the key, or a password in the url
        return f"IndexTarget({shown_url(self.url)!r}, collection={self.collection!r})"

    def open(self, options: IndexOptions | None = None) -> QdrantIndex:
        """The index, made if it is not there.

        Raises:
            StoreError: if the server cannot be used.
            IndexMismatchError: if the index is of another model, or has other options.
        """
        encoder = (
            load_encoder(self.model, backend="auto") if isinstance(self.model, str) else self.model.load()
        )
        return QdrantIndex.open(
            None,
            encoder,
            url=self.url,
            collection=self.collection,
            api_key=self.api_key,
            options=options,
            **self.settings,
        )

    def create(self) -> None:
        """Make the index, unless it is there; see `open`."""
        self.open(self.options).close()

    def documents(self, table: Any) -> list[Document]:
        """The documents of an Arrow table.

        Raises:
            DataError: if a row is no document, or a column is missing.
        """
        given = [name for name in (self.vectors, self.token_vectors) if name is not None]
        missing = [name for name in given if name not in table.column_names]
        if missing:
            raise DataError(f"there is no column {missing[0]!r} among {', '.join(table.column_names)}")
        rows = table.drop_columns(given).to_pylist()
        return list(from_iterable(rows, name="a block of rows", fields=self.fields))

    def encoded(self, table: Any, manifest: Manifest) -> Encoded | None:
        """The vectors of an Arrow table, where they are given.

        Raises:
            DataError: if they do not fit, or the index needs token vectors and there are none.
        """
        if self.vectors is None:
            return None
        options = manifest.options
        if self.token_vectors is None and options.tokens:
            raise DataError(
                "the index stores token vectors; name their column, too (token_vectors=...), or make it with "
                "tokens=False"
            )
        dense = [np.asarray(row) for row in _column(table, self.vectors)]
        rows = unit_rows(matrix(_rows(dense, manifest.dimension), f"the column {self.vectors!r}"))
        if self.token_vectors is None:
            return Encoded(rows)
        d = manifest.token_dimension
        tokens = [_rows(text, d) for text in _column(table, self.token_vectors)]
        return Encoded(rows, TokenBatch.from_arrays(tokens, d))


class IndexWriter:
    """Brings an index up to date with tables; its model and its connection serve all of them.

    Args:
        target: which index, and what rows are.
    """

    def __init__(self, target: IndexTarget) -> None:
        self.target = target

    def __call__(self, table: Any) -> Any:
        """Store an Arrow table; the answer is one of one row: what was done, or an error."""
        try:
            done = asdict(self.write(table))
        except SurpriseRerankError as error:
            done = error_row(error)
        return import_extra("pyarrow", EXTRA).Table.from_pylist([{"error": None, **done}])

    def write(self, table: Any) -> SyncReport:
        """Store an Arrow table.

        Raises:
            DataError: if a row is no document, or vectors do not fit.
            StoreError: if the server cannot be used, or documents cannot be stored.
        """
        documents = self.target.documents(table)
        return self._index.sync(documents, encoded=self.target.encoded(table, self._index.manifest))

    @cached_property
    def _index(self) -> QdrantIndex:
        return self.target.open()


class DocumentSink(Datasink[SyncReport]):
    """Brings an index up to date with the rows of a dataset: `dataset.write_datasink(DocumentSink(url=...))`.

    Every write task loads the model; `index_documents` keeps it in actors. Documents that are stored already
    are not encoded, and a task that Ray runs again changes nothing. Ids must be unique in the dataset, and
    nothing else may change the index meanwhile, or give it statistics.

    Args:
        rows_per_write: how many documents a write task is given at least.
        target: of `IndexTarget`: url, collection, model, options, ...

    Raises:
        DataError: as `IndexTarget`.

    Attributes:
        report: what was done, when the dataset is written.
    """

    def __init__(self, *, rows_per_write: int = _ROWS, **target: Any) -> None:
        self.report = SyncReport(0, 0, 0, 0)
        self.target, self._rows_per_write = IndexTarget(**target), rows_per_write

    @property
    def min_rows_per_write(self) -> int:
        """How many documents a write task is given at least."""
        return self._rows_per_write

    def on_write_start(self, schema: Any = None) -> None:
        """Make the index, unless it is there; see `IndexTarget.open`."""
        self.target.create()

    def write(self, blocks: Iterable[Any], ctx: Any) -> SyncReport:
        """Store the documents of some blocks; see `IndexWriter.write`."""
        writer = IndexWriter(self.target)
        return _total(writer.write(BlockAccessor.for_block(block).to_arrow()) for block in blocks)

    def on_write_complete(self, write_result: Any) -> None:
        """Add up what the tasks have done."""
        self.report = _total(write_result.write_returns)


def index_documents(
    dataset: Any, *, concurrency: int = 2, num_cpus: float = 1, num_gpus: float = 0, **target: Any
) -> SyncReport:
    """Bring an index up to date with a dataset, by actors that load the model once.

    Args:
        dataset: a `ray.data.Dataset` of documents; ids must be unique.
        concurrency: how many actors.
        num_cpus: cores of each.
        num_gpus: graphics processors of each; cores are not counted then.
        target: of `IndexTarget`: url, collection, model, options, ...

    Returns:
        What was done. Documents that are not in the dataset are left as they are.

    Raises:
        DataError: if a row is no document, vectors do not fit, or as `IndexTarget`.
        StoreError: if the server cannot be used, or documents cannot be stored; the others are.
        IndexMismatchError: if the index is of another model, or has other options.
    """
    where = IndexTarget(**target)
    where.create()
    done = dataset.map_batches(
        IndexWriter,
        fn_constructor_args=(where,),
        batch_size=_ROWS,
        batch_format="pyarrow",
        **Actors(concurrency, num_cpus, num_gpus).arguments,
    )
    names = [part.name for part in fields(SyncReport)]
    return _total(SyncReport(*(row[name] for name in names)) for row in collected(done))


class _VectorSink(QdrantDatasink):
    """Augmented vectors under their rows' numbers; an error is a result, raised when all tasks have ended."""

    def write(self, blocks: Iterable[Any], ctx: Any) -> Any:
        """Store the vectors of some blocks."""
        try:
            # The sink has tried again already.
            once = RetryPolicy(attempts=1)
            retries.call(lambda: super(_VectorSink, self).write(blocks, ctx), shown_url(self.url), once)
        except SurpriseRerankError as error:
            return error_row(error)
        except RuntimeError as error:  # one of gRPC, which could not pass to the driver
            return error_row(StoreError(f"{shown_url(self.url)}: {first_line(error)}"))
        return {"error": None}

    def on_write_complete(self, write_result: Any) -> None:
        """Raise the first error."""
        for result in write_result.write_returns:
            raise_error(result)


def fill(location: IndexLocation, corpus: EncodedCorpus, ensemble: Path, actors: Actors) -> None:
    """Store the augmented vectors that are missing in the collection of a job.

    Each task computes the vectors of some blocks and sends them: they do not pass through Ray's object store.

    Args:
        location: on a server.
        corpus: the documents that may be neighbours.
        ensemble: file of their ensemble.
        actors: how many tasks run at the same time.

    Raises:
        StoreError: if the corpus cannot be read, or the server not be used.
    """
    with AugmentedIndex(location, corpus, Ensemble.load(ensemble)) as index:
        missing = index.missing()
        url = index.url
    shares = min(len(missing), _SHARES * actors.concurrency)
    if not shares:
        return
    reads = [
        partial(_augmented, corpus.folder.absolute(), ensemble.absolute(), missing[i::shares])
        for i in range(shares)
    ]
    sink = _VectorSink(
        location.name(corpus),
        url=url,
        api_key=location.api_key,
        vector_name=SURPRISE,
        batch_size=_BATCH,
        distance="Dot",
        client_kwargs={
            "prefer_grpc": location.prefer_grpc,
            "grpc_port": location.grpc_port,
            "timeout": math.ceil(location.timeout),
            "check_compatibility": False,
        },
    )
    context = quiet_context()
    context.target_max_block_size = _BLOCK_BYTES
    # With equal settings Ray makes one task of reading and writing.
    concurrency = min(shares, actors.concurrency)
    with ray.data.DataContext.current(context):
        vectors = ray.data.read_datasource(
            RowSource(reads), override_num_blocks=shares, concurrency=concurrency
        )
    with ray_errors():
        vectors.write_datasink(sink, concurrency=concurrency)


def _augmented(folder: Path, ensemble: Path, blocks: Sequence[int]) -> Iterator[Any]:
    """Tables of row numbers and augmented vectors."""
    pyarrow = import_extra("pyarrow", EXTRA)
    corpus, members = EncodedCorpus.open(folder), Ensemble.load(ensemble)
    for first in blocks:
        keys = corpus.keys(members, first)
        vectors = augmented_documents(keys.vectors, keys.moments)
        numbers = pyarrow.array(np.arange(first, first + len(vectors)))
        rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
        yield pyarrow.table({"id": numbers, "vector": rows})


def _total(reports: Iterable[SyncReport]) -> SyncReport:
    sums = Counter[str]()
    for report in reports:
        sums.update(asdict(report))
    return SyncReport(**{part.name: sums[part.name] for part in fields(SyncReport)})


def _column(table: Any, name: str) -> Any:
    """The values of a column of lists or tensors, as arrays."""
    return BlockAccessor.for_block(table).to_numpy(name)


def _rows(values: Any, d: int) -> FloatArray:
    """(m, d) what a list of lists, or a tensor, holds.

    Raises:
        DataError: if that is something else.
    """
    try:
        rows = np.array([np.asarray(row, np.float32) for row in values], np.float32)
        return rows.reshape(-1, d) if not len(rows) else rows.reshape(len(rows), d)
    except (TypeError, ValueError) as error:
        raise DataError(f"a column of vectors must hold rows of {d} numbers, as the model's are") from error
