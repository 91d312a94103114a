"""Results of downstream tasks, kept so that an interrupted evaluation goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surprise_rerank.eval.studies.downstream.classification import Outcome
from surprise_rerank.eval.studies.result_cache import ResultCache

# A result that was measured another way is not read.
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


def result_cache(cache: Path) -> ResultCache[Result]:
    """The results that are kept under a cache folder, by task.

    Raises:
        StoreError: if their folder cannot be made.
    """
    return ResultCache(cache / "downstream", _result, protocol=_PROTOCOL, named_by="task")


def _result(values: Mapping[str, Any]) -> Result:
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
