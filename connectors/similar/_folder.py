"""The folder of a job: parts that are there whole or not at all, of one input and one setting.

job.json                      what is computed; another job is refused
documents/texts-00000.parquet, vectors-00000.npy, tokens-00000-*.npy      and the same in against/
pairs-00000.parquet           the result
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank._errors import StoreError
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core._files import disk_errors, whole_file

EXTRA = "similar"
_JOB = "job.json"

# Makes, where the work is done, the function that does a part by its number.
Make: TypeAlias = Callable[[], Callable[[int], None]]
# Does the missing parts: a loop here, or Ray's workers. The last argument is called for each that is done.
Run: TypeAlias = Callable[[Make, Iterable[int], Callable[[int], None]], None]


def run_here(make: Make, numbers: Iterable[int], advance: Callable[[int], None]) -> None:
    """Do parts one after another in this process."""
    step = make()
    for number in numbers:
        step(number)
        advance(number)


def open_folder(folder: Path, job: Mapping[str, Any]) -> None:
    """Begin a job in a folder, or go on with the same one.

    Raises:
        StoreError: if the folder holds another job or something else, or cannot be used.
    """
    with disk_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker = folder / _JOB
        if not marker.exists():
            if any(path for path in folder.iterdir() if not path.name.startswith(".")):
                raise StoreError(f"{folder} holds something else than a job; choose another folder")
            with whole_file(marker, private=True) as file:
                file.write(json.dumps(job).encode())
            return None
        if not any(folder.glob("*/vectors-*")):  # nothing is lost
            shutil.rmtree(folder)
            return open_folder(folder, job)
        before = json.loads(marker.read_bytes())
    differing = [name for name in {**before, **job} if before.get(name) != job.get(name)]
    if differing:
        differences = "; ".join(
            f"{name} was {before.get(name)!r}, now {job.get(name)!r}" for name in differing
        )
        raise other_job(folder, differences)
    return None


@contextmanager
def no_empty_folder(folder: Path) -> Iterator[None]:
    """Delete the folder of a job that fails before it has encoded anything."""
    try:
        yield
    except BaseException:
        if not any(folder.glob("*/vectors-*")):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def other_job(folder: Path, what: str) -> StoreError:
    """The error of a folder that holds the work of another job."""
    return StoreError(
        f"{folder} holds the unfinished work of another job ({what}); delete it, or run that job again"
    )


def close_folder(folder: Path) -> None:
    """Delete a job's folder: in one step, so that a kill leaves none that is half there."""
    gone = folder.with_name(f".{folder.name}.gone")
    with disk_errors(str(folder)):
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def part(folder: Path, kind: str, number: int, suffix: str) -> Path:
    """The file of a part."""
    return folder / f"{kind}-{number:05d}{suffix}"


def write_table(path: Path, table: Any) -> None:
    """Write an Arrow table, whole or not at all, for its owner only."""
    with disk_errors(str(path)), whole_file(path, private=True) as file:
        import_extra("pyarrow.parquet", EXTRA).write_table(table, file)


def read_table(path: Path, columns: list[str] | None = None) -> Any:
    """Read what `write_table` wrote."""
    with disk_errors(str(path)):
        return import_extra("pyarrow.parquet", EXTRA).read_table(path, columns=columns)


def write_array(path: Path, values: npt.NDArray[Any]) -> None:
    """Write an array, whole or not at all, for its owner only."""
    with disk_errors(str(path)), whole_file(path, private=True) as file:
        np.save(file, values, allow_pickle=False)


def read_array(path: Path) -> npt.NDArray[Any]:
    """An array that is read from the file as it is used."""
    with disk_errors(str(path)):
        values: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return values
