"""One question end to end, embedded: re-ranked here or inside Qdrant, with the pool's documents or without.

    rerank-eval --dataset beir/scifact --systems cosine --set cache=CACHE
    python benchmarks/qdrant_serving.py --dataset beir/scifact --cache CACHE

Everything is of one process and one index; the questions' encoding is left out, as it is the same for all.
The ways take turns, ten questions each, so that a busy machine slows all of them; medians. Turns of single
questions would charge one way for torch's threads of the one before, which wait for more work in a loop.

Two indexes of the same documents: one stores merged tokens, as a new index does, the other every token.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
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
    SparseRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers import HybridRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.rerankers import Reranker

OPTIONS = IndexOptions(passages=None, surprise_vector=True, bm25=Bm25(), payload_indexes={})
EVERY_TOKEN = replace(OPTIONS, pooling=1.0, surprise_vector=False, bm25=None)
_TURN = 10
NATIVE = "DynaMax inside Qdrant, ids only"
CLIENT = "DynaMax on the client"
Way = Callable[[Query], object]


def reranked(retriever: Retriever, reranker: Reranker, depth: int) -> Way:
    """Retrieve and re-rank."""
    return lambda query: reranker.rerank(query, retriever.retrieve(query, depth, reranker.needs))


def retrieved(retriever: Retriever, depth: int, *, documents: bool = False) -> Callable[[Query], Candidates]:
    """Retrieve."""
    fields = frozenset({"documents"}) if documents else frozenset()
    return lambda query: retriever.retrieve(query, depth, fields)


def inside_qdrant(index: DocumentIndex, depth: int) -> Way:
    """The system `dynamax`."""
    built = build_system("dynamax", index, NO_OPTIONS.exactly())
    assert built.reranker is not None
    return reranked(built.retriever, built.reranker, depth)


def opened(folder: Path, options: IndexOptions, given: argparse.Namespace, encoder: Encoder) -> DocumentIndex:
    """An index of the data set, made from the vectors of another where it is not there yet."""
    fresh = not folder.exists()
    index = DocumentIndex.open(folder, encoder, options=options)
    if fresh:
        documents, encoded = documents_of(given.dataset, given.cache, encoder)
        # The tokens of the other index are merged.
        kept = None if options.pooling == 1 else encoded
        index.sync(documents, encoded=kept, show_progress=True, background=False)
        if options.surprise_vector:
            index.set_ensemble(index.ensemble(), source="documents", show_progress=True)
    return index


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--questions", type=int, default=100)
    given = parser.parse_args()
    encoder = load_encoder()
    with ExitStack() as stack:
        folder = given.cache / f"serving-{given.dataset.replace('/', '-')}"
        index = stack.enter_context(opened(folder, OPTIONS, given, encoder))
        every = stack.enter_context(opened(folder.with_suffix(".every-token"), EVERY_TOKEN, given, encoder))
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
            NATIVE: inside_qdrant(index, depth),
            f"{NATIVE}, every token": inside_qdrant(every, depth),
            CLIENT: reranked(dense, DynaMaxReranker(), depth),
            f"{CLIENT}, every token": reranked(DenseRetriever(every, exact=True), DynaMaxReranker(), depth),
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
    for name, own in seconds.items():
        median, late = 1000 * np.percentile(own, [50, 95])
        print(f"{name:<45} {median:8.2f} ms   95 %: {late:8.2f} ms")


if __name__ == "__main__":
    main()
