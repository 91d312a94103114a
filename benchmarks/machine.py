"""What the benchmarks ran on, and how they time: works take turns in one process."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Question = TypeVar("Question")


def describe(*packages: str) -> str:
    """One line: processor, cores, Python, and the versions of packages."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    versions = [f"{name} {_version(name)}" for name in packages]
    processor = names[0] if names else platform.processor() or platform.machine()
    return ", ".join(
        [f"{processor}, {os.cpu_count()} cores", f"Python {platform.python_version()}", *versions]
    )


def by_turns(
    ways: Mapping[str, Callable[[Question], object]], questions: Sequence[Question], turn: int = 1
) -> dict[str, list[float]]:
    """Milliseconds of each way for every question, some questions a turn.

    Each turn begins with a question that does not count: threads of the way before still wait for work.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for start in range(0, len(questions), turn):
        for name, way in ways.items():
            way(questions[start])
            for question in questions[start : start + turn]:
                begun = time.perf_counter()
                way(question)
                taken[name].append(1000 * (time.perf_counter() - begun))
    return taken


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
