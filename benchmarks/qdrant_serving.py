"""One question end to end, embedded: re-ranked here or inside Qdrant, with the pool's documents or without.

    rerank-eval --dataset beir/scifact --systems cosine --cache CACHE
    python benchmarks/qdrant_serving.py --dataset beir/scifact --cache CACHE

Everything is of one process and one index; the questions' encoding is left out, as it is the same for all.
The ways take turns, ten questions each, so that a busy machine slows all of them; medians. Turns of single
questions would charge one way for torch's threads of the one before, which wait for more work in a loop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from stored import documents_of

from surprise_rerank import DynaMaxReranker, Query, SurpriseReranker
from surprise_rerank.candidates import Candidates
from surprise_rerank.connectors.qdrant import (
    Bm25,
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    MaxSimRetriever,
    SparseRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.rerankers import Reranker

OPTIONS = IndexOptions(
    passages=None, surprise_vector=True, token_vectors="float16", bm25=Bm25(), payload_indexes={}
)
_TURN = 10
Way = Callable[[Query], object]


def reranked(retriever: Retriever, reranker: Reranker, depth: int) -> Way:
    """Retrieve and re-rank."""
    return lambda query: reranker.rerank(query, retriever.retrieve(query, depth, reranker.needs))


def retrieved(retriever: Retriever, depth: int, *, documents: bool = False) -> Callable[[Query], Candidates]:
    """Retrieve."""
    fields = frozenset({"documents"}) if documents else frozenset()
    return lambda query: retriever.retrieve(query, depth, fields)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--questions", type=int, default=100)
    given = parser.parse_args()
    encoder = load_encoder()
    folder = given.cache / f"serving-{given.dataset.replace('/', '-')}"
    fresh = not folder.exists()
    with DocumentIndex.open(folder, encoder, options=OPTIONS) as index:
        if fresh:
            documents, encoded = documents_of(given.dataset, given.cache, encoder)
            index.sync(documents, encoded=encoded, show_progress=True)
            index.set_ensemble(index.ensemble(), source="documents", show_progress=True)
        questions = list(load_dataset(given.dataset, None).queries.values())[: given.questions]
        queries = encode_queries(encoder, questions)
        depth = given.depth
        dense = DenseRetriever(index, exact=True)
        ways: dict[str, Way] = {
            "cosine, ids only": retrieved(dense, depth),
            "cosine, documents": retrieved(dense, depth, documents=True),
            "surprise by formula, ids only": retrieved(SurpriseRetriever(index, exact=True), depth),
            "surprise by formula, documents": retrieved(
                SurpriseRetriever(index, exact=True), depth, documents=True
            ),
            "surprise by augmented vectors, ids only": retrieved(
                SurpriseRetriever(index, mode="vector", exact=True), depth
            ),
            "surprise on the client, from the ensemble": reranked(
                dense, SurpriseReranker(index.ensemble(), weight=1.0), depth
            ),
            "MaxSim inside Qdrant (float16), ids only": retrieved(MaxSimRetriever(index, exact=True), depth),
            "DynaMax on the client, packed tokens": reranked(dense, DynaMaxReranker(), depth),
            "BM25 inside Qdrant, ids only": retrieved(SparseRetriever(index), depth),
            "BM25 + cosine, both scores, no JVM": retrieved(
                HybridRetriever(index, SparseRetriever(index), exact=True), depth
            ),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for way in ways.values():
            way(queries[0])
        for start in range(0, len(queries), _TURN):
            for name, way in ways.items():
                time.sleep(0.05)
                way(queries[start])
                for query in queries[start : start + _TURN]:
                    begun = time.perf_counter()
                    way(query)
                    seconds[name].append(time.perf_counter() - begun)
    medians = {name: 1000 * float(np.median(own)) for name, own in seconds.items()}
    for name, own in seconds.items():
        print(f"{name:<45} {medians[name]:8.2f} ms   95 %: {1000 * float(np.quantile(own, 0.95)):8.2f} ms")
    client, native = (
        medians[n]
        for n in ("DynaMax on the client, packed tokens", "MaxSim inside Qdrant (float16), ids only")
    )
    print(f"DynaMax on the client / MaxSim inside Qdrant: {client / native:.2f}")
    for suffix in ("ids only", "documents"):
        ratio = medians[f"surprise by formula, {suffix}"] / medians[f"cosine, {suffix}"]
        print(f"formula / plain search, {suffix}: {ratio:.2f}")


if __name__ == "__main__":
    main()
