"""Vectors of questions that were asked before, so that an API is not asked twice."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.files import UNREADABLE_ARCHIVE, disk_errors, whole_file
from surprise_rerank.errors import DataError

_IN_MEMORY = 1000


class QuestionCache:
    """The latest vectors in memory, and all in a folder where one is given. Threads may share it.

    Args:
        kept: how many are in memory; or a folder, which has them for other processes as well.

    Raises:
        DataError: if it is a number below 1.
    """

    def __init__(self, kept: int | str | os.PathLike[str]) -> None:
        if isinstance(kept, bool) or (isinstance(kept, int) and kept < 1):
            raise DataError(f"cache={kept!r}: give how many questions to keep, 1 or more, or a folder")
        self._folder = None if isinstance(kept, int) else Path(kept)
        self._most = kept if isinstance(kept, int) else _IN_MEMORY
        self._found: OrderedDict[str, Float32Array] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, model: str, question: str) -> Float32Array | None:
        """(d,) what `put` was given; None where it was not, or the file is damaged."""
        key = _key(model, question)
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        if self._folder is None:
            return None
        try:
            vector: Float32Array = np.load(self._folder / f"{key}.npy", allow_pickle=False)
        except UNREADABLE_ARCHIVE:
            return None
        self._keep(key, vector)
        return vector

    def put(self, model: str, vectors: Mapping[str, Float32Array]) -> None:
        """Keep (d,) the vector of each question."""
        for question, vector in vectors.items():
            key = _key(model, question)
            self._keep(key, vector)
            if self._folder is not None:
                with disk_errors(str(self._folder)):
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    with whole_file(self._folder / f"{key}.npy", private=True) as file:
                        np.save(file, vector, allow_pickle=False)

    def _keep(self, key: str, vector: Float32Array) -> None:
        with self._lock:
            self._found[key] = vector
            while len(self._found) > self._most:
                self._found.popitem(last=False)


def _key(model: str, question: str) -> str:
    return hashlib.sha256(f"{model}\0{question}".encode()).hexdigest()[:32]
