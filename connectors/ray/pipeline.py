"""Pipelines of Ray Data: tasks read rows, actors process them, and the driver takes the results.

Every row is a block of its own, so that any free actor can take it. An error of ours is a row, too: Ray would
wrap an exception, log its stack, and add advice to its message.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, TypeAlias, TypeVar

from surprise_rerank import errors
from surprise_rerank.connectors.lucene.signal_handlers import kept_handlers
from surprise_rerank.core.extras import import_extra, pip_line
from surprise_rerank.errors import DataError, MissingExtraError, StoreError, SurpriseRerankError

EXTRA = "ray"

try:
    import ray
    import ray.data
    from ray.cloudpickle import PicklingError  # type: ignore[attr-defined]
    from ray.data.block import BlockMetadata
except ImportError as error:
    raise MissingExtraError(f"ray is not installed: run {pip_line(EXTRA)}") from error

T = TypeVar("T")
Row: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[], Iterator[Any]]
Make: TypeAlias = Callable[..., Callable[[Row], Row]]

# Rows that wait at an actor while it processes one.
_AHEAD = 2
_PATIENCE = 10.0  # seconds, with an address


def connect(address: str | None, options: Mapping[str, Any]) -> bool:
    """Start Ray, or connect to it; returns whether this did, or false where this process has it already.

    Args:
        address: of a cluster; see `ray.init`.
        options: more for `ray.init`.

    Raises:
        StoreError: if there is no cluster at the address.
    """
    if ray.is_initialized():
        return False
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, **options}
    try:
        _require_listening(where)
        with kept_handlers():
            ray.init(address=where, **given)  # for None it would take any that runs on this machine
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise StoreError(
            f"Ray cannot be reached at {where!r} ({first_line(error)}); start a cluster there with "
            "`ray start --head`, or give 'local' for one of this machine's own"
        ) from error
    return True


def _require_listening(address: str) -> None:
    """Refuse an address without a server; Ray would try for minutes.

    Raises:
        OSError: if no server answers there.
    """
    found = re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address)
    if found:
        socket.create_connection((found[1], int(found[2])), timeout=_PATIENCE).close()


def disconnect() -> None:
    """Shut Ray down, or leave the cluster that it was connected to."""
    with kept_handlers():
        ray.shutdown()


class RowWorker:
    """What an actor does: it processes rows, one at a time.

    Args:
        make: makes the function that processes a row; it is called in the actor, for the first row.
        arguments: of `make`.
    """

    def __init__(self, make: Make, *arguments: Any) -> None:
        self._process = cache(lambda: make(*arguments))

    def __call__(self, rows: Any) -> Any:
        """Turn a table of one row into another one."""
        (row,) = rows.to_pylist()
        if row["error"] is not None:
            return rows
        try:
            return table_of(**self._process()(row))
        except SurpriseRerankError as error:
            return table_of(**error_row(error))


@dataclass(frozen=True, slots=True)
class Actors:
    """The actors of a pipeline.

    Attributes:
        concurrency: how many there are at most; fewer where the cluster has no room for all.
        num_cpus: cores of each.
        num_gpus: graphics processors of each, or parts of one; cores are not counted then.

    Raises:
        DataError: if there are none, or one has neither cores nor graphics processors.
    """

    concurrency: int = 2
    num_cpus: float = 1
    num_gpus: float = 0

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise DataError(f"concurrency must be at least 1, got {self.concurrency}")
        if self.num_gpus < 0 or self.num_cpus <= 0:
            raise DataError(
                "a worker needs more than 0 num_cpus and at least 0 num_gpus, "
                f"got {self.num_cpus} and {self.num_gpus}"
            )

    @property
    def arguments(self) -> dict[str, Any]:
        """For `Dataset.map_batches`."""
        # All are asked for at once, and none is waited for.
        pool = ray.data.ActorPoolStrategy(
            min_size=1,
            max_size=self.concurrency,
            initial_size=self.concurrency,
            max_tasks_in_flight_per_actor=_AHEAD,
        )
        resources = {"num_gpus": self.num_gpus} if self.num_gpus else {"num_cpus": self.num_cpus}
        return {"compute": pool, **resources}


def quiet_context() -> Any:
    """The settings of Ray Data, without its own progress bars."""
    context = ray.data.DataContext.get_current().copy()
    context.enable_progress_bars = context.print_on_execution_start = False
    return context


def map_rows(
    reads: Sequence[Read],
    actors: Actors,
    make: Make | None = None,
    arguments: tuple[Any, ...] = (),
    *,
    ordered: bool = False,
) -> Iterator[Row]:
    """Rows that actors have processed, as they come.

    Args:
        reads: each gives tables of one row, and is called by a task of its own.
        actors: how many, with what.
        make: makes the function that processes rows, in every actor; None takes the rows as they are.
        arguments: of `make`.
        ordered: whether rows come in the order in which they were read.

    Raises:
        SurpriseRerankError: the error of a reader or an actor.
        StoreError: if Ray gives up.
    """
    context = quiet_context()
    context.target_max_block_size = 1
    context.execution_options.preserve_order = ordered
    with ray.data.DataContext.current(context):
        # Readers wait for files, and take no core from an actor. As they have other resources than an actor,
        # Ray does not let the actors read, where one source would be one actor's.
        rows = ray.data.read_datasource(
            RowSource([partial(_rows_or_error, read) for read in reads]),
            override_num_blocks=len(reads),
            num_cpus=0,
            concurrency=min(len(reads), 2 * actors.concurrency),
        )
        if make is not None:
            # Ray shows the name of the class for its actors.
            rows = rows.map_batches(
                type(make.__name__, (RowWorker,), {}),
                fn_constructor_args=(make, *arguments),
                batch_size=1,
                batch_format="pyarrow",
                **actors.arguments,
            )
    yield from collected(rows)


def collected(dataset: Any) -> Iterator[Row]:
    """The rows of a dataset, as they come; an error among them is raised.

    Raises:
        SurpriseRerankError: that a row holds.
        StoreError: if Ray gives up.
    """
    with ray_errors():
        for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for row in batch.to_pylist():
                raise_error(row)
                yield row


def _rows_or_error(read: Read) -> Iterator[Any]:
    """The tables that a function reads; an error of ours is the last one."""
    try:
        yield from read()
    except SurpriseRerankError as error:
        yield table_of(**error_row(error))


class RowSource(ray.data.Datasource):
    """What functions read, each in one task.

    Args:
        reads: give tables.
    """

    def __init__(self, reads: Sequence[Read]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reads = reads

    def estimate_inmemory_data_size(self) -> int | None:
        """It is not known."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[Any]:
        """One for each function."""
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ray.data.ReadTask(read, unknown) for read in self._reads]


def number_rows(numbers: Iterable[int]) -> Iterator[Any]:
    """A table of one row for each number."""
    return (table_of(number=number) for number in numbers)


@cache
def _schema() -> Any:
    pyarrow = import_extra("pyarrow", EXTRA)
    strings = pyarrow.large_list(pyarrow.large_string())
    return pyarrow.schema(
        {
            "number": pyarrow.int64(),
            "name": pyarrow.string(),
            "ids": strings,
            "titles": strings,
            "texts": strings,
            "count": pyarrow.int64(),
            "skipped": pyarrow.string(),
            "content": pyarrow.large_binary(),
            "error": pyarrow.string(),
            "message": pyarrow.string(),
        }
    )


def table_of(**row: Any) -> Any:
    """A table of one row, of the columns that pipelines have; what is not given is null."""
    return import_extra("pyarrow", EXTRA).Table.from_pylist([row], schema=_schema())


_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.DataError,
        errors.DatasetError,
        errors.ModelError,
        errors.IndexMismatchError,
        errors.MissingExtraError,
        errors.StoreError,
        errors.SurpriseRerankError,
    )
}


def error_row(error: SurpriseRerankError) -> Row:
    """An error as a row."""
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _KINDS)
    return {"error": kind, "message": str(error)}


def raise_error(row: Row) -> None:
    """Raise the error that a row holds.

    Raises:
        SurpriseRerankError: if it holds one.
    """
    if row["error"] is not None:
        raise _KINDS[row["error"]](row["message"])


@contextmanager
def ray_errors() -> Iterator[None]:
    """Keep Ray's log of a pipeline in its files, and put the reason why it gives up into one line."""
    log = logging.getLogger("ray.data")
    quieted: list[tuple[logging.Handler | logging.Logger, int]] = [
        # It reports that there are no bars of Ray's.
        (log.getChild("_internal.progress"), logging.ERROR),
        *((h, logging.WARNING) for h in log.handlers if isinstance(h, logging.StreamHandler)),
    ]
    levels = [place.level for place, _ in quieted]
    for place, level in quieted:
        place.setLevel(level)
    try:
        yield
    except ray.exceptions.RayTaskError:
        raise  # an unexpected error of ours, with its traceback
    except ray.exceptions.RayError as error:
        raise StoreError(
            f"Ray gave up ({first_line(error)}); what is done stays, run it again to go on"
        ) from error
    finally:
        for (place, _), level in zip(quieted, levels, strict=True):
            place.setLevel(level)


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()


class SharedObject(Generic[T]):
    """An object in Ray's object store, which is sent once, however many workers there are.

    Args:
        thing: to send.
        what: it is, for the error.

    Raises:
        DataError: if it cannot be pickled.
    """

    def __init__(self, thing: T, what: str) -> None:
        try:
            self._reference = ray.put(thing)
        except (TypeError, AttributeError, PicklingError) as error:
            raise DataError(
                f"{what} cannot pass to Ray's workers (it holds an open file, a connection or an iterator); "
                "give something that every worker opens for itself, such as a path, a url or a function"
            ) from error

    def get(self) -> T:
        """The thing, in a worker."""
        thing: T = ray.get(self._reference)
        return thing
