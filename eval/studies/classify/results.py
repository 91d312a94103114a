"""Results of few-shot studies, kept so that an interrupted one goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surprise_rerank.eval.studies.classify.measures import Quality
from surprise_rerank.eval.studies.result_cache import ResultCache

# A result that was measured another way is not read.
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


def result_cache(cache: Path) -> ResultCache[Result]:
    """The results that are kept under a cache folder, by system.

    Raises:
        StoreError: if their folder cannot be made.
    """
    return ResultCache(cache / "few-shot", _result, protocol=_PROTOCOL, named_by="system")


def _result(values: Mapping[str, Any]) -> Result:
    quality = {name: float(value) for name, value in values["quality"].items()}
    return Result(
        Quality(**quality),
        seconds=float(values["seconds"]),
        epochs=None if values["epochs"] is None else int(values["epochs"]),
        reached=None if values["reached"] is None else bool(values["reached"]),
        weight=None if values["weight"] is None else float(values["weight"]),
    )
