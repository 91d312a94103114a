"""Files of ensembles: .npz archives of plain arrays, written whole or not at all; nothing is executed."""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from surprise_rerank.core.files import whole_file
from surprise_rerank.errors import DataError

_FORMAT = 2
# What numpy and zipfile raise for files that are damaged or something else.
UNREADABLE = (
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

# Field of an ensemble -> what numpy stores it as.
FIELDS: Mapping[str, Callable[..., Any]] = {
    "count": np.int64,
    "mean": np.asarray,
    "scatter": np.asarray,
    "sample": np.asarray,
    "priorities": np.asarray,
    "sample_size": np.int64,
    "checksum": np.uint64,
    "model": np.str_,
    "similarity": np.str_,
}
_PYTHON_TYPES: Mapping[Any, Callable[..., Any]] = {np.int64: int, np.uint64: int, np.str_: str}


def save(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write an ensemble's fields to a .npz file, whole or not at all."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as file:
        write(file, fields)


def write(file: IO[bytes], fields: Mapping[str, Any]) -> None:
    """Write an ensemble's fields to an open file."""
    stored = {name: as_array(fields[name]) for name, as_array in FIELDS.items()}
    np.savez(file, format=np.int64(_FORMAT), **stored)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields that `save` wrote.

    Raises:
        DataError: if the file is not an ensemble, is damaged, or is of another format.
    """
    return read(path, str(path))


def read(source: str | os.PathLike[str] | IO[bytes], path: str) -> dict[str, Any]:
    """The fields that `write` wrote.

    Args:
        source: a path or an open file.
        path: what to call it in an error.

    Raises:
        DataError: if it is not an ensemble, is damaged, or is of another format.
    """
    try:
        with np.load(source, allow_pickle=False) as stored:
            if int(stored["format"]) != _FORMAT:
                raise DataError(f"{path}: ensemble of another format; make it again with Ensemble.save")
            fields = {name: _PYTHON_TYPES.get(t, np.asarray)(stored[name]) for name, t in FIELDS.items()}
        d, s = len(fields["mean"]), len(fields["priorities"])
        if fields["scatter"].shape != (d, d) or fields["sample"].shape != (s, d):
            raise DataError(f"{path}: its arrays do not fit together; make it again with Ensemble.save")
        return fields
    except FileNotFoundError:
        raise DataError(f"{path}: no such ensemble file") from None
    except DataError:
        raise
    except UNREADABLE as error:
        raise DataError(f"{path}: not an ensemble file; make one with Ensemble.save") from error
