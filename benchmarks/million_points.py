"""Many points on several nodes: how fast they are stored, and how many questions a second callers get.

    rerank-eval --dataset beir/scifact --systems cosine --set cache=CACHE
    python benchmarks/million_points.py --cache CACHE --size 100000 --qdrant-url http://localhost:6343
        --qdrant-url http://localhost:6353 --qdrant-url http://localhost:6363

The vectors are those of a collection's documents, repeated with noise that leaves a copy at cosine .9 of its
original, so that neighbourhoods are as crowded as real ones. The ensemble is the collection's questions. The
graphs are complete before questions are asked, and their time is told apart. Callers are threads of this
process, each of which asks the next question as soon as it has an answer; client and server share the machine
where both run on one, so that figures of 64 callers are of the machine, not of the network.
"""

from __future__ import annotations

import argparse
import itertools
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe
from qdrant_client import QdrantClient
from served import drop, settle

from surprise_rerank import Document, Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, IndexOptions, SurpriseRetriever
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.encoders.base import Encoded, Encoder, encode_queries
from surprise_rerank.encoders.function import FunctionEncoder
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.pipeline import Retriever
from surprise_rerank.surprise.ensemble import Ensemble

COSINE_OF_COPIES = 0.9
_BLOCK = 10_000
_SEED = 20261124


def originals(dataset: str, cache: Path, encoder: Encoder) -> tuple[Float32Array, list[str]]:
    """The vectors of a data set's documents, from the index that rerank-eval made, and its questions."""
    loaded = load_dataset(dataset, None)
    workspace = Workspace(cache, index_key(dataset, loaded), encoder, None, Terminal(quiet=True))
    with DocumentIndex.open(cache / workspace.name / "qdrant", encoder) as index:
        found = index.fetch([document.id for document in loaded.documents], frozenset({"dense"}))
    return found.require_dense(), list(loaded.queries.values())


def copies(vectors: Float32Array, size: int) -> Iterator[Float32Array]:
    """Blocks of `size` unit vectors: the given ones, then copies of them with noise."""
    rng, d = np.random.default_rng(_SEED), vectors.shape[1]
    noise = np.sqrt(1 / COSINE_OF_COPIES**2 - 1) / np.sqrt(d)
    for start in range(0, size, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, size))
        block = vectors[rows % len(vectors)]
        moved = (
            block
            + noise * rng.standard_normal(block.shape).astype(np.float32) * (rows >= len(vectors))[:, None]
        )
        yield unit_rows(moved)


def fill(index: DocumentIndex, vectors: Float32Array, size: int) -> float:
    """Store the points; documents a second, moments of surprise and augmented vectors included."""
    begun, stored = time.perf_counter(), 0
    for block in copies(vectors, size):
        documents = [Document(f"d{stored + i}", f"document {stored + i}") for i in range(len(block))]
        index.sync(documents, encoded=Encoded(block), background=False)
        stored += len(block)
        rate = stored / (time.perf_counter() - begun)
        print(f"  {stored:,} stored, {rate:.0f} a second", flush=True)
    return stored / (time.perf_counter() - begun)


def throughput(
    retriever: Retriever, queries: list[Query], callers: int, seconds: float, depth: int
) -> tuple[float, float, float]:
    """Questions a second of all callers together, and the median and 95 % quantile of their milliseconds."""
    turn = itertools.cycle(queries)
    lock, end = threading.Lock(), time.perf_counter() + seconds
    taken: list[float] = []

    def ask() -> None:
        own = []
        while (begun := time.perf_counter()) < end:
            with lock:
                query = next(turn)
            retriever.retrieve(query, depth)
            own.append(time.perf_counter() - begun)
        with lock:
            taken.extend(own)

    for query in queries[:5]:
        retriever.retrieve(query, depth)
    begun, threads = time.perf_counter(), [threading.Thread(target=ask) for _ in range(callers)]
    end = begun + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(taken) / (time.perf_counter() - begun)
    return rate, 1000 * float(np.median(taken)), 1000 * float(np.quantile(taken, 0.95))


def recall(found: Retriever, exact: Retriever, queries: list[Query], depth: int) -> float:
    """The mean share of the first documents of an exact search that an approximate one finds."""
    shares = [
        len({*found.retrieve(query, depth).ids} & {*exact.retrieve(query, depth).ids}) / depth
        for query in queries
    ]
    return float(np.mean(shares))


def main() -> None:
    """Print rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--qdrant-url", action="append", required=True)
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=6)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    given = parser.parse_args()
    print(describe("qdrant-client"))
    encoder = load_encoder()
    vectors, questions = originals(given.dataset, given.cache, encoder)
    queries = encode_queries(encoder, questions)
    ensemble = Ensemble.from_vectors(np.array([query.dense for query in queries]), model="copies")
    d = vectors.shape[1]
    name = f"million-{uuid.uuid4().hex[:8]}"
    options = IndexOptions(passages=None, tokens=False, bm25=None, surprise_vector=True)
    place: dict[str, Any] = {"url": given.qdrant_url, "collection": name, "prefer_grpc": given.grpc}
    stand_in = FunctionEncoder(lambda texts: np.zeros((len(texts), d)), name="copies", dimension=d)
    settings = {"shard_number": given.shards, "replication_factor": given.replicas}
    try:
        with DocumentIndex.open(
            None, stand_in, options=options, collection_settings=settings, **place
        ) as index:
            index.sync([Document("first", "")], encoded=Encoded(vectors[:1]), background=False)
            index.set_ensemble(ensemble, source="questions")  # so that points are stored with their moments
            index.delete(["first"])
            rate = fill(index, vectors, given.size)
            begun = time.perf_counter()
            if isinstance(index.storage.engine, ClientEngine):
                settle(index.storage.engine.nodes.nodes[0].client, index.storage.engine.collection)
            print(f"index rate {rate:.0f} documents/s; graphs {time.perf_counter() - begun:.0f} s more")
            ways = {
                "cosine": DenseRetriever(index),
                "surprise, vector": SurpriseRetriever(index, mode="vector"),
                "surprise, formula": SurpriseRetriever(index, mode="formula", pool=100),
            }
            exact = {
                "cosine": DenseRetriever(index, exact=True),
                "surprise, vector": SurpriseRetriever(index, mode="vector", exact=True),
                "surprise, formula": SurpriseRetriever(index, mode="formula", pool=100, exact=True),
            }
            print(f"{'':<20}{'callers':>8}{'questions/s':>13}{'median ms':>11}{'95 % ms':>9}")
            for way, callers in itertools.product(ways, given.callers):
                found = throughput(ways[way], queries, callers, given.seconds, given.depth)
                print(f"{way:<20}{callers:>8}{found[0]:>13.1f}{found[1]:>11.1f}{found[2]:>9.1f}", flush=True)
            for way, retriever in ways.items():
                share = recall(retriever, exact[way], queries[:50], given.depth)
                print(f"{way}: {share:.3f} of the exact first {given.depth}", flush=True)
    finally:
        drop(QdrantClient(given.qdrant_url, check_compatibility=False), name)


if __name__ == "__main__":
    main()
