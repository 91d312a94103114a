"""How many questions a second callers get, who ask the next one as soon as they have an answer.

    python benchmarks/load.py --seconds 60

`surprise-rerank serve` re-ranks 10 documents of 50 words, never the same, beside the bare `TextReranker.rank`
in a loop. Callers share the machine with the server.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import click
import httpx
import numpy as np
from machine import describe
from served import serving

from surprise_rerank import TextReranker, load_encoder

_TEXT = (
    "the of and to in is that was dogs bark cats sleep night house under wing lift river bridge old long "
    "people work years made first water small sun sunny rain rainy snow snowy wind windy"
)
_DOCUMENTS, _LENGTH = 10, 50


@dataclass
class Load:
    """Milliseconds of every answer, how many answers failed in which way, and how long it took."""

    milliseconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def __str__(self) -> str:
        median, late = np.quantile(self.milliseconds, (0.5, 0.99)) if self.milliseconds else (np.nan, np.nan)
        rate = len(self.milliseconds) / self.seconds
        errors = dict(self.errors) or "none"
        return f"{rate:.1f} a second, median {median:.1f} ms, 99 % {late:.1f} ms, errors {errors}"


def under_load(ask: Callable[[int], Callable[[], str]], callers: int, seconds: float) -> Load:
    """What some callers meet.

    Args:
        ask: a caller's number -> what asks its next question, and says what went wrong, or nothing.
        callers: how many.
        seconds: for which they ask.
    """
    met, lock, begun = Load(), threading.Lock(), time.perf_counter()

    def call(number: int) -> None:
        asking, taken, failed = ask(number), [], []
        while (start := time.perf_counter()) < begun + seconds:
            if wrong := asking():
                failed.append(wrong)
            else:
                taken.append(1000 * (time.perf_counter() - start))
        with lock:
            met.milliseconds += taken
            met.errors.update(failed)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    met.seconds = time.perf_counter() - begun
    return met


def texts(seed: int) -> Iterator[tuple[str, list[str]]]:
    """Questions with documents, without end."""
    words, choices = _TEXT.split(), random.Random(seed).choices
    while True:
        documents = [" ".join(choices(words, k=_LENGTH)) for _ in range(_DOCUMENTS)]
        yield " ".join(choices(words, k=8)), documents


def memory(url: str) -> float:
    """MiB that the server has resident."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith("process_resident_memory_bytes "))
    return float(value) / 2**20


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="Of each measurement.")
@click.option("--callers", multiple=True, type=int, default=(1, 8, 64), show_default=True)
@click.option("--workers", default=2, show_default=True)
def main(seconds: float, callers: tuple[int, ...], workers: int) -> None:
    """`surprise-rerank serve` under load: throughput, latency and memory."""
    print(describe("torch", "fastapi", "uvicorn"))
    reranker = TextReranker(load_encoder())

    def ranking(number: int) -> Callable[[], str]:
        drawn = texts(number)
        return lambda: "" if reranker.rank(*next(drawn)) else "nothing"

    def posting(url: str, number: int) -> Callable[[], str]:
        drawn, client = texts(number), httpx.Client(base_url=url, timeout=120)

        def post() -> str:
            question, documents = next(drawn)
            try:
                answer = client.post("/v1/rerank", json={"query": question, "documents": documents})
            except httpx.HTTPError as error:
                return type(error).__name__
            return "" if answer.status_code == 200 else str(answer.status_code)

        return post

    under_load(ranking, 1, min(3.0, seconds))  # caches
    print(f"bare TextReranker.rank: {under_load(ranking, 1, seconds)}", flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(f"[server]\nworkers = {workers}\n")
        config.flush()
        with serving("--config", config.name) as url:
            by_http = partial(posting, url)
            under_load(by_http, max(callers), min(3.0, seconds))  # threads, buffers
            for number in callers:
                before, met = memory(url), under_load(by_http, number, seconds)
                print(f"{number:3d} callers: {met}, memory {before:.0f} to {memory(url):.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
