"""Finished repeats, kept so that an interrupted evaluation goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surprise_rerank.eval.studies.cluster.runs import Run
from surprise_rerank.eval.studies.result_cache import ResultCache

# A repeat that was measured another way is not read.
_PROTOCOL = 1


def run_cache(cache: Path) -> ResultCache[dict[str, Run]]:
    """The runs of repeats, by assignment, that are kept under a cache folder.

    Raises:
        StoreError: if their folder cannot be made.
    """
    return ResultCache(cache / "cluster", _runs, protocol=_PROTOCOL)


def _runs(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Run]:
    return {str(name): _run(run) for name, run in values.items()}


def _run(values: Mapping[str, Any]) -> Run:
    if not all(isinstance(value, int | float) for value in values.values()):
        raise TypeError("a run consists of numbers")
    return Run(**values)
