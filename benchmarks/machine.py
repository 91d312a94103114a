"""What the benchmarks ran on, and how they time: the best and the median of several rounds in one process."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def describe(*packages: str) -> str:
    """One line: processor, cores, Python, and the versions of packages."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = [f"{name} {_version(name)}" for name in packages]
    processor = names[0] if names else platform.processor() or platform.machine()
    return ", ".join([f"{processor}, {cores} cores", f"Python {platform.python_version()}", *versions])


def interleaved(works: Sequence[Callable[[], object]], rounds: int) -> list[tuple[float, float]]:
    """(best, median) seconds of each work.

    They take turns in changing order: a noisy moment hits all of them, and threads that a library leaves
    waiting in a loop disturb each of the others now and then.
    """
    for work in works:
        work()  # caches, lazy imports and pages of memory
    seconds: list[list[float]] = [[] for _ in works]
    order = list(range(len(works)))
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for i in order:
            start = time.perf_counter()
            works[i]()
            seconds[i].append(time.perf_counter() - start)
    return [(min(times), statistics.median(times)) for times in seconds]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
