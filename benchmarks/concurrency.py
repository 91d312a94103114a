"""One pipeline, many questions at once: threads and tasks, beside one question after the other.

    rerank-eval --dataset demo --systems cosine --set cache=CACHE
    python benchmarks/concurrency.py --dataset demo --cache CACHE

Every run answers the same questions, from text to re-ranked documents, with one `Pipeline` object; the ratio
is throughput over that of one caller in the same run of the program. Answers must be equal.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import machine
import numpy as np
from stored import documents_of

from surprise_rerank import Pipeline, load_encoder
from surprise_rerank.connectors.qdrant import Bm25, DocumentIndex, IndexOptions
from surprise_rerank.eval.retrieval.datasets import load_dataset

SYSTEMS: tuple[str, ...] = ("cosine", "dynamax", "fusion")
Answer = tuple[str, ...]


def in_threads(pipeline: Pipeline, questions: list[str], callers: int) -> tuple[list[float], list[Answer]]:
    """Seconds of every question, and its documents, asked by so many threads."""

    def ask(question: str) -> tuple[float, Answer]:
        begun = time.perf_counter()
        found = pipeline.search(question).ids
        return time.perf_counter() - begun, found

    with ThreadPoolExecutor(callers) as pool:
        answered = list(pool.map(ask, questions))
    return [seconds for seconds, _ in answered], [found for _, found in answered]


def in_tasks(pipeline: Pipeline, questions: list[str], callers: int) -> tuple[list[float], list[Answer]]:
    """The same, asked by so many tasks of one event loop."""

    async def run() -> list[tuple[float, Answer]]:
        gate = asyncio.Semaphore(callers)

        async def ask(question: str) -> tuple[float, Answer]:
            async with gate:
                begun = time.perf_counter()
                found = (await pipeline.asearch(question)).ids
                return time.perf_counter() - begun, found

        return await asyncio.gather(*map(ask, questions))

    answered = asyncio.run(run())
    return [seconds for seconds, _ in answered], [found for _, found in answered]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="demo")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=256)
    given = parser.parse_args()
    print(machine.describe("torch", "qdrant-edge-py"))
    encoder = load_encoder()
    folder = given.cache / f"concurrency-{given.dataset.replace('/', '-')}"
    with DocumentIndex.open(folder, encoder, options=IndexOptions(passages=None, bm25=Bm25())) as index:
        if not len(index):
            documents, encoded = documents_of(given.dataset, given.cache, encoder)
            index.sync(documents, encoded=encoded, show_progress=True, background=False)
        known = list(load_dataset(given.dataset, None).queries.values())
        questions = list(itertools.islice(itertools.cycle(known), given.questions))
        print(f"{len(index)} documents, {len(questions)} questions, pools of 100")
        for system in SYSTEMS:
            pipeline = index.pipeline(system)
            pipeline.search(questions[0])
            alone, expected = 0.0, None
            for callers in (1, 8, 64):
                ways: dict[str, Callable[..., tuple[list[float], list[Answer]]]] = {
                    "threads": in_threads,
                    "tasks": in_tasks,
                }
                for name, way in ways.items():
                    begun = time.perf_counter()
                    seconds, found = way(pipeline, questions, callers)
                    rate = len(questions) / (time.perf_counter() - begun)
                    alone = alone or rate
                    expected = expected or found
                    same = sum(own == other for own, other in zip(found, expected, strict=True))
                    median, slow = 1000 * np.quantile(seconds, [0.5, 0.99])
                    print(
                        f"{system:<8} {callers:>3} {name:<8} {rate:7.1f} questions/s "
                        f"{rate / alone:5.2f} times"
                        f"   median {median:7.1f} ms   99 % {slow:7.1f} ms   equal answers {same}"
                    )


if __name__ == "__main__":
    main()
