"""What commands cost from the shell: seconds of the processor, and by the clock until the first output.

    python benchmarks/start_up.py

Each command is the best of some rounds, over an index of some documents of the built-in demo. An empty Python
and `import torch` are the floor. The model's threads are held to one, as two would be counted twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import click
from machine import describe
from served import COMMAND, free_port, is_ready

from surprise_rerank import load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.readers.demo import DemoDocumentation


def cost(code: str, *arguments: object, port: int | None = None) -> tuple[float, float]:
    """Seconds of the processor, and until the first output; what serves at a port is ended then."""
    line = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    start = time.perf_counter()
    running = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert running.stdout is not None
    if port is None:
        running.stdout.read(1)
    else:
        while not is_ready(f"http://127.0.0.1:{port}"):
            time.sleep(0.02)
    first = time.perf_counter() - start
    if port is not None:
        running.send_signal(signal.SIGTERM)
    running.stdout.read()
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))} ended with {running.returncode}")
    return used.ru_utime + used.ru_stime, first


def commands(index: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Names, and what runs them."""
    place = ("--index", index)
    yield "an empty Python", ("print()",)
    yield "`import torch`", ("import torch; print()",)
    yield "`--help`", (COMMAND, "--help")
    yield "`status`", (COMMAND, "status", *place)
    for system in ("bm25", "cosine", "dynamax", "auto"):
        search = ("search", "test whether two samples differ", *place, "--system", system)
        yield f"`search --system {system}`", (COMMAND, *search)
    yield "`similar`", (COMMAND, "similar", *place, "--out", _Fresh(index.parent))
    yield "`serve`, until it is ready", (COMMAND, "serve", *place)


class _Fresh:
    """A file that is not there yet, each time."""

    def __init__(self, folder: Path) -> None:
        self._names = (str(folder / f"neighbours-{number}.csv") for number in count())

    def __str__(self) -> str:
        return next(self._names)


@click.command()
@click.option("--documents", default=300, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--only", default="", help="Commands that contain this.")
def main(documents: int, rounds: int, only: str) -> None:
    """Print the table: of each command the best of some rounds, after one for caches."""
    print(describe("torch", "sentence-transformers", "qdrant-client", "qdrant-edge-py"))
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        with DocumentIndex.open(index, load_encoder(), options=IndexOptions(passages=None)) as opened:
            opened.sync(islice(DemoDocumentation().documents(), documents), background=False)
        print("| command | processor seconds | first output |\n|---|---|---|")
        for name, (code, *arguments) in commands(index):
            if only in name:
                port = free_port() if "serve" in arguments else None
                more = () if port is None else ("--port", port)
                costs = [cost(str(code), *arguments, *more, port=port) for _ in range(rounds + 1)][1:]
                processor, first = (min(values) for values in zip(*costs, strict=True))
                print(f"| {name} | {processor:.2f} | {first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
