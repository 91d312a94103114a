"""How many questions a second callers get, who ask the next one as soon as they have an answer.

    python benchmarks/load.py server --seconds 60
    python benchmarks/load.py points --size 1000000 --url http://localhost:6343 --url http://localhost:6353

`server` asks `surprise-rerank serve` to re-rank 10 documents of 50 words, never the same, beside the bare
`TextReranker.rank` in a loop. `points` fills a collection on nodes of Qdrant with a data set's vectors,
repeated with noise that leaves a copy at cosine .9 of its original, so that neighbourhoods are as crowded as
real ones; the ensemble is the data set's questions. Callers share the machine with what they ask.
"""

from __future__ import annotations

import itertools
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
from qdrant_client import QdrantClient
from served import drop, serving, settle

from surprise_rerank import Document, DocumentIndex, FunctionEncoder, Query, TextReranker, load_encoder
from surprise_rerank.connectors.qdrant import DenseRetriever, IndexOptions, SurpriseRetriever
from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.encoders.base import Encoded, encode_queries
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.pipeline import Retriever
from surprise_rerank.surprise.ensemble import Ensemble

_TEXT = (
    "the of and to in is that was dogs bark cats sleep night house under wing lift river bridge old long "
    "people work years made first water small sun sunny rain rainy snow snowy wind windy"
)
_DOCUMENTS, _LENGTH = 10, 50
_BLOCK, _COSINE, _COLLECTION = 10_000, 0.9, "benchmark-points"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """How many questions a second callers get."""
    print(describe("torch", "fastapi", "uvicorn", "qdrant-client"))


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


@main.command()
@click.option("--seconds", default=60.0, show_default=True, help="Of each measurement.")
@click.option("--callers", multiple=True, type=int, default=(1, 8, 64), show_default=True)
@click.option("--workers", default=2, show_default=True)
def server(seconds: float, callers: tuple[int, ...], workers: int) -> None:
    """`surprise-rerank serve` under load: throughput, latency and memory."""
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


def copies(vectors: Float32Array, size: int) -> Iterator[Float32Array]:
    """Blocks of `size` unit vectors: the given ones, then copies of them with noise."""
    rng, d = np.random.default_rng(0), vectors.shape[1]
    noise = np.sqrt(1 / _COSINE**2 - 1) / np.sqrt(d)
    for start in range(0, size, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, size))
        moved = noise * rng.standard_normal((len(rows), d), np.float32) * (rows >= len(vectors))[:, None]
        yield unit_rows(vectors[rows % len(vectors)] + moved)


def retrievers(index: DocumentIndex, *, exact: bool) -> dict[str, Retriever]:
    """What is asked."""
    return {
        "cosine": DenseRetriever(index, exact=exact),
        "surprise, vector": SurpriseRetriever(index, mode="vector", exact=exact),
        "surprise, formula": SurpriseRetriever(index, mode="formula", pool=100, exact=exact),
    }


@main.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
@click.option("--url", "urls", multiple=True, required=True, help="Of each node.")
@click.option("--grpc", is_flag=True)
@click.option("--size", default=1_000_000, show_default=True)
@click.option("--shards", default=6, show_default=True)
@click.option("--replicas", default=1, show_default=True)
@click.option("--depth", default=10, show_default=True)
@click.option("--callers", multiple=True, type=int, default=(1, 64), show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="Of each measurement.")
def points(
    dataset: str,
    urls: tuple[str, ...],
    size: int,
    shards: int,
    replicas: int,
    depth: int,
    callers: tuple[int, ...],
    seconds: float,
    *,
    grpc: bool,
) -> None:
    """Many points on several nodes: documents a second, questions a second, and recall of the graphs."""
    encoder, data = load_encoder(), load_dataset(dataset, None)
    vectors = encoder.encode([document.content for document in data.documents]).dense
    queries = encode_queries(encoder, list(data.queries.values()))
    d = vectors.shape[1]
    stand_in = FunctionEncoder(lambda texts: np.zeros((len(texts), d)), name="copies", dimension=d)
    options = IndexOptions(passages=None, tokens=False, bm25=None, surprise_vector=True)
    client = QdrantClient(urls[0], check_compatibility=False)
    drop(client, _COLLECTION)
    try:
        with DocumentIndex.open(
            None,
            stand_in,
            url=list(urls),
            collection=_COLLECTION,
            prefer_grpc=grpc,
            options=options,
            collection_settings={"shard_number": shards, "replication_factor": replicas},
        ) as index:
            index.sync([Document("first", "")], encoded=Encoded(vectors[:1]), background=False)
            # So that points are stored with their moments.
            ensemble = Ensemble.from_vectors(np.array([one.dense for one in queries]), model="copies")
            index.set_ensemble(ensemble, source="questions")
            index.delete(["first"])
            stored, begun = 0, time.perf_counter()
            for block in copies(vectors, size):
                documents = [Document(f"d{stored + i}", f"document {stored + i}") for i in range(len(block))]
                index.sync(documents, encoded=Encoded(block), background=False)
                stored += len(block)
            filled = time.perf_counter()
            settle(client, f"{_COLLECTION}@1")
            rate, graphs = stored / (filled - begun), time.perf_counter() - filled
            print(f"{stored:,} documents, {rate:.0f} a second; graphs {graphs:.0f} s more", flush=True)
            for name, retriever in retrievers(index, exact=False).items():
                for number in callers:
                    met = under_load(partial(_asking, retriever, queries, depth), number, seconds)
                    print(f"{name}, {number} callers: {met}", flush=True)
                exact = retrievers(index, exact=True)[name]
                pairs = (
                    [{*by.retrieve(query, depth).ids} for by in (retriever, exact)] for query in queries[:50]
                )
                share = np.mean([len(hits & best) / depth for hits, best in pairs])
                print(f"{name}: {share:.3f} of the exact first {depth}", flush=True)
    finally:
        drop(client, _COLLECTION)


def _asking(retriever: Retriever, queries: list[Query], depth: int, number: int) -> Callable[[], str]:
    turn = itertools.cycle(queries[number % len(queries) :] + queries[: number % len(queries)])

    def one() -> str:
        retriever.retrieve(next(turn), depth)
        return ""

    return one


if __name__ == "__main__":
    main()
