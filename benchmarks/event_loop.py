"""Many callers of one event loop ask a server: a thread for each question, and none.

    python benchmarks/event_loop.py --url http://localhost:6333 --delay 50

The demo's documents are indexed, and the server's answers come late by some milliseconds, as over a network.
As many callers as are given ask question after question, each by the pool of threads (`in_thread(search)`)
and by `asearch`, whose client waits without a thread, by turns; questions a second of each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import click
import numpy as np
from machine import describe
from qdrant_client import QdrantClient
from served import Relay, drop

from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.core.workers import in_thread
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

_COLLECTION = "event-loop"
_ROUNDS = 3
Ask = Callable[[str], Awaitable[object]]


async def rate(ask: Ask, questions: list[str], callers: int) -> float:
    """Questions a second of so many callers."""
    waiting = iter(questions)

    async def caller() -> None:
        for question in waiting:
            await ask(question)

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return len(questions) / (time.perf_counter() - begun)


@click.command()
@click.option("--url", required=True)
@click.option("--grpc-port", default=6334, show_default=True)
@click.option("--delay", default=50.0, show_default=True, help="Milliseconds.")
@click.option("--callers", default="1,8,64", show_default=True)
@click.option("--questions", default=256, show_default=True)
@click.option("--system", default="bm25", show_default=True)
def main(url: str, grpc_port: int, delay: float, callers: str, questions: int, system: str) -> None:
    """Print a line for each number of callers."""
    print(describe("qdrant-client"))
    data, encoder = load_dataset("demo", None), load_encoder(backend="auto")
    asked = [text for _, text in zip(range(questions), list(data.queries.values()) * questions, strict=False)]
    place = Location(url=url, collection=_COLLECTION, grpc_port=grpc_port)
    client = QdrantClient(url, check_compatibility=False)
    try:
        with DocumentIndex.open(place, encoder, options=IndexOptions(packed_tokens=False)) as index:
            index.sync(data.documents, background=False)
        with Relay(url, grpc_port, delay / 1000) as relay:
            for grpc in (False, True):
                far = Location(
                    url=relay.url, collection=_COLLECTION, prefer_grpc=grpc, grpc_port=relay.grpc_port
                )
                with DocumentIndex.open(far, encoder) as index:
                    pipeline = index.pipeline(system)
                    ways: dict[str, Ask] = {
                        "threads": lambda question, own=pipeline: in_thread(own.search, question),  # type: ignore[misc]
                        "asearch": pipeline.asearch,
                    }
                    for count in map(int, callers.split(",")):
                        rates: dict[str, list[float]] = {name: [] for name in ways}
                        for _ in range(_ROUNDS):
                            for name, ask in ways.items():
                                rates[name].append(asyncio.run(rate(ask, asked, count)))
                        found = {name: float(np.median(own)) for name, own in rates.items()}
                        print(
                            f"{'gRPC' if grpc else 'REST'}, {count} callers: "
                            + ", ".join(f"{name} {own:.0f}/s" for name, own in found.items())
                            + f", {found['asearch'] / found['threads']:.2f} times"
                        )
    finally:
        drop(client, _COLLECTION)


if __name__ == "__main__":
    main()
