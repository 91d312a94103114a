"""Finished repeats, kept so that an interrupted evaluation goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.eval.cluster.runs import Run
from surprise_rerank.files import whole_file

# Part of every key: a repeat that was measured another way is not read.
_PROTOCOL = 1


class RunFolder:
    """The runs of repeats, by what they depend on.

    Args:
        cache: the folder that they are kept under.

    Raises:
        StoreError: if it cannot be made.
    """

    def __init__(self, cache: Path) -> None:
        self.path = cache / "cluster"
        with disk_errors(f"the results in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)

    def find(self, key: Mapping[str, str | int | None]) -> dict[str, Run]:
        """The runs of a repeat by assignment; none where none can be read.

        Args:
            key: what the repeat depends on.
        """
        try:
            stored = json.loads(self._file(key).read_bytes())
            if stored["key"] != _whole(key):
                return {}
            return {str(name): _run(values) for name, values in stored["runs"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def keep(self, key: Mapping[str, str | int | None], runs: Mapping[str, Run]) -> None:
        """Keep the runs of a repeat.

        Args:
            key: what it depends on.
            runs: by assignment, in place of the earlier ones.

        Raises:
            StoreError: if they cannot be written.
        """
        path = self._file(key)
        stored = {"key": _whole(key), "runs": {name: asdict(run) for name, run in runs.items()}}
        with disk_errors(f"the result {path}"), whole_file(path) as file:
            file.write(json.dumps(stored, indent=1).encode())

    def _file(self, key: Mapping[str, str | int | None]) -> Path:
        digits = hashlib.sha256(json.dumps(_whole(key), sort_keys=True).encode()).hexdigest()[:16]
        return self.path / f"{digits}.json"


def _run(values: Mapping[str, Any]) -> Run:
    if not all(isinstance(value, int | float) for value in values.values()):
        raise TypeError("a run consists of numbers")
    return Run(**values)


def _whole(key: Mapping[str, str | int | None]) -> dict[str, Any]:
    return {**key, "protocol": _PROTOCOL}
