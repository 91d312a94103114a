"""The server under load: throughput, latency and memory with 1, 8 and 64 callers at once.

    python benchmarks/serving_load.py --seconds 60
    python benchmarks/serving_load.py --seconds 10 --dataset beir/scifact --index FOLDER --system dynamax

The server is a process of its own; a request has 10 documents of 50 words, never the same. Beside it stands
the bare `TextReranker.rank`, in a loop in this process, on such requests. All of it shares the machine.

With an index, requests are searches with a data set's questions.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import numpy as np
from machine import describe

from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.eval.retrieval.datasets import load_dataset

Asked: TypeAlias = tuple[str, dict[str, Any]]  # a route, and what is sent there

_TEXT = (
    "the of and to in is that was dogs bark cats sleep night house under wing lift river bridge old long "
    "people work years made first water small sun sunny rain rainy snow snowy wind windy"
)
_WORDS = _TEXT.split()
_DOCUMENTS, _LENGTH = 10, 50


@dataclass
class Load:
    """What some callers met.

    Attributes:
        milliseconds: of every answer.
        statuses: how many answers had which, and what failed otherwise.
        memory: of the server in MiB, at the beginning, in the middle and at the end.
        seconds: it took.
    """

    milliseconds: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    memory: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, status: str) -> None:
        """One more answer of this kind."""
        self.statuses[status] = self.statuses.get(status, 0) + 1

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return self.statuses.get("200", 0) / self.seconds

    @property
    def errors(self) -> dict[str, int]:
        """How many answers were none, by their kind."""
        return {status: count for status, count in self.statuses.items() if status != "200"}


def requests(seed: int) -> Iterator[tuple[str, list[str]]]:
    """Questions with documents, without end."""
    choices = random.Random(seed).choices
    while True:
        yield (
            " ".join(choices(_WORDS, k=8)),
            [" ".join(choices(_WORDS, k=_LENGTH)) for _ in range(_DOCUMENTS)],
        )


def bare(model: str | None, seconds: float) -> tuple[float, float]:
    """Requests a second without a server, and the median in milliseconds."""
    reranker = PipelineSettings(model=model).text_reranker()
    asked = requests(0)
    for _ in range(3):
        reranker.rank(*next(asked))
    times = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        reranker.rank(*next(asked))
        times.append(time.perf_counter() - start)
    return len(times) / sum(times), 1000 * float(np.median(times))


def reranking(seed: int) -> Iterator[Asked]:
    """Requests of texts, without end."""
    for question, documents in requests(seed):
        yield "/v1/rerank", {"query": question, "documents": documents}


async def load(url: str, callers: int, seconds: float, asking: Callable[[int], Iterator[Asked]]) -> Load:
    """Callers that ask again as soon as they have an answer.

    Args:
        url: of the server.
        callers: how many.
        seconds: for which they ask.
        asking: a caller's number -> its requests.
    """
    met = Load()
    limits = httpx.Limits(max_connections=callers + 1)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:

        async def call(seed: int, end: float) -> None:
            asked = asking(seed)
            while (start := time.perf_counter()) < end:
                route, body = next(asked)
                try:
                    answer = await client.post(route, json=body)
                except httpx.HTTPError as error:
                    met.count(type(error).__name__)
                    continue
                met.milliseconds.append(1000 * (time.perf_counter() - start))
                met.count(str(answer.status_code))

        async def remember() -> None:
            for wait in (0.0, seconds / 2, seconds / 2):
                await asyncio.sleep(wait)
                met.memory.append(await memory(client))

        start = time.perf_counter()
        await asyncio.gather(remember(), *(call(seed, start + seconds) for seed in range(callers)))
        met.seconds = time.perf_counter() - start
    return met


async def memory(client: httpx.AsyncClient) -> float:
    """MiB that the server has resident."""
    lines = (await client.get("/metrics")).text.splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith("process_resident_memory_bytes "))
    return float(value) / 2**20


@contextlib.contextmanager
def served(settings: dict[str, Any], *options: str) -> Iterator[str]:
    """The address of a server with this table [server] and these options of the command, once it is ready."""
    code = "from surprise_rerank.eval.cli.surprise_rerank.serve import serve; serve()"
    environment = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    with (
        tempfile.NamedTemporaryFile("w+", suffix=".toml") as config,
        tempfile.TemporaryFile("w+") as log,  # a pipe that nobody reads would stop it
    ):
        config.write(
            "\n".join(["[server]", *(f"{own} = {json.dumps(value)}" for own, value in settings.items())])
        )
        config.flush()
        server = subprocess.Popen(
            [sys.executable, "-c", code, "--port", "0", "--config", config.name, *options],
            stderr=log,
            env=environment,
        )
        try:
            url = ""
            while not url:
                time.sleep(0.2)
                log.seek(0)
                events = [json.loads(line) for line in log.read().splitlines() if line.startswith("{")]
                if any(event["event"] == "ready" for event in events):
                    url = events[0]["url"]
                elif server.poll() is not None:
                    raise SystemExit("the server did not start")
            yield url
        finally:
            server.terminate()
            print(f"the server left with {server.wait(120)}")


# They would have the command serve an index, or ask for a token.
_OTHERS = ("SURPRISE_RERANK_INDEX", "QDRANT_URL", "SURPRISE_RERANK_TOKEN")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--index", type=Path, help="to search, of the data set")
    parser.add_argument("--dataset", default="demo")
    parser.add_argument("--system", default="dynamax")
    given = parser.parse_args()
    print(describe("torch", "fastapi", "uvicorn"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server goes too
    settings = {"workers": given.workers} | ({} if given.model is None else {"model": given.model})
    if given.index is not None:
        questions = list(load_dataset(given.dataset, None).queries.values())

        def asking(seed: int) -> Iterator[Asked]:
            order = random.Random(seed).sample(questions, len(questions))
            return (("/v1/search", {"query": question}) for question in itertools.cycle(order))

        with served({**settings, "system": given.system}, "--index", str(given.index)) as url:
            measure(given, url, asking)
        return
    alone, median = bare(given.model, given.seconds)
    print(f"bare TextReranker.rank: {alone:.1f} requests a second, median {median:.1f} ms")
    with served(settings) as url:
        measure(given, url, reranking)


def measure(given: argparse.Namespace, url: str, asking: Callable[[int], Iterator[Asked]]) -> None:
    """Print a line for each number of callers."""
    asyncio.run(load(url, max(given.callers), min(3.0, given.seconds), asking))  # threads, buffers
    for callers in given.callers:
        met = asyncio.run(load(url, callers, given.seconds, asking))
        low, high = np.quantile(met.milliseconds, (0.5, 0.99)) if met.milliseconds else (np.nan, np.nan)
        print(
            f"{callers:3d} callers: {met.rate:6.1f} a second, median {low:.0f} ms, 99 % {high:.0f} ms, "
            f"errors {met.errors or 'none'}, memory {' '.join(f'{own:.0f}' for own in met.memory)} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
