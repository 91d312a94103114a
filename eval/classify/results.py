"""Results of few-shot studies, kept so that an interrupted one goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.eval.classify.measures import Quality
from surprise_rerank.files import whole_file

ResultKey: TypeAlias = Mapping[str, str | int | float | bool]

# Part of every key: a result that was measured another way is not read.
_PROTOCOL = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What a system learnt from one draw of examples.

    Attributes:
        quality: of its answers about the tested texts.
        seconds: of training.
        epochs: of training; None for a system that counts none.
        reached: whether the training's loss became low enough; None likewise.
        weight: of surprise; None for a system that has none.
    """

    quality: Quality
    seconds: float
    epochs: int | None = None
    reached: bool | None = None
    weight: float | None = None


class ResultFolder:
    """Results by what they depend on.

    Args:
        cache: the folder that they are kept under.

    Raises:
        StoreError: if it cannot be made.
    """

    def __init__(self, cache: Path) -> None:
        self.path = cache / "few-shot"
        with disk_errors(f"the results in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)

    def find(self, key: ResultKey) -> Result | None:
        """A result; None where there is none, or one that cannot be read.

        Args:
            key: what the result depends on.
        """
        try:
            stored = json.loads(self._file(key).read_bytes())
            if stored["key"] != _whole(key):
                return None
            values = stored["result"]
            quality = {name: float(value) for name, value in values["quality"].items()}
            return Result(
                Quality(**quality),
                seconds=float(values["seconds"]),
                epochs=None if values["epochs"] is None else int(values["epochs"]),
                reached=None if values["reached"] is None else bool(values["reached"]),
                weight=None if values["weight"] is None else float(values["weight"]),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, key: ResultKey, result: Result) -> None:
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

    def _file(self, key: ResultKey) -> Path:
        digits = hashlib.sha256(json.dumps(_whole(key), sort_keys=True).encode()).hexdigest()[:16]
        return self.path / f"{key['system']}-{digits}.json"


def _whole(key: ResultKey) -> dict[str, Any]:
    return {**key, "protocol": _PROTOCOL}
