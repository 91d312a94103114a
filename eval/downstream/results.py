"""Results of downstream tasks, kept so that an interrupted evaluation goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.eval.downstream.classification import Outcome
from surprise_rerank.files import whole_file

# Part of every key: a result that was measured another way is not read.
_PROTOCOL = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of a task.

    Attributes:
        outcome: what the classifier made of it.
        texts: how many different ones the task has.
        seconds: encoding of texts that no task before it had, and classification.
    """

    outcome: Outcome
    texts: int
    seconds: float


class ResultFolder:
    """Results by what they depend on.

    Args:
        cache: the folder that they are kept under.

    Raises:
        StoreError: if it cannot be made.
    """

    def __init__(self, cache: Path) -> None:
        self.path = cache / "downstream"
        with disk_errors(f"the results in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)

    def find(self, key: Mapping[str, str | int | bool]) -> Result | None:
        """A result; None where there is none, or one that cannot be read.

        Args:
            key: what the result depends on.
        """
        try:
            stored = json.loads(self._file(key).read_bytes())
            if stored["key"] != _whole(key):
                return None
            values = stored["result"]
            outcome = values["outcome"]
            return Result(
                Outcome(
                    accuracies=tuple(map(float, outcome["accuracies"])),
                    dev_accuracy=float(outcome["dev_accuracy"]),
                    chosen=tuple(map(float, outcome["chosen"])),
                    f1=None if outcome["f1"] is None else float(outcome["f1"]),
                ),
                texts=int(values["texts"]),
                seconds=float(values["seconds"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: Mapping[str, str | int | bool], result: Result) -> None:
        """Keep a result.

        Args:
            key: what it depends on.
            result: in place of an earlier one.

        Raises:
            StoreError: if it cannot be written.
        """
        path = self._file(key)
        content = json.dumps({"key": _whole(key), "result": asdict(result)}, indent=1)
        with disk_errors(f"the result {path}"), whole_file(path) as file:
            file.write(content.encode())

    def _file(self, key: Mapping[str, str | int | bool]) -> Path:
        digits = hashlib.sha256(json.dumps(_whole(key), sort_keys=True).encode()).hexdigest()[:16]
        return self.path / f"{key['task']}-{digits}.json"


def _whole(key: Mapping[str, str | int | bool]) -> dict[str, Any]:
    return {**key, "protocol": _PROTOCOL}
