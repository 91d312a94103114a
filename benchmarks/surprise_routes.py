"""Surprise on the client, by formula and by augmented vectors: one order, and what each costs.

    rerank-eval --dataset beir/scifact --systems cosine --set cache=CACHE
    python benchmarks/surprise_routes.py --dataset beir/scifact --cache CACHE

The documents' vectors are those of the index that rerank-eval made, and the ensemble is of the documents.
With `--url URL` a server is asked, too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from stored import documents_of

from surprise_rerank import Query
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SurpriseRetriever
from surprise_rerank.encoders.base import Encoded, Encoder, encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

OPTIONS = IndexOptions(passages=None, tokens=False, surprise_vector=True, bm25=None)
MODES = ("client", "formula", "vector")


@contextmanager
def opened(encoder: Encoder, url: str | None) -> Iterator[DocumentIndex]:
    """A new index on a server, or in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = None if url else Path(folder) / "index"
        with DocumentIndex.open(place, encoder, url=url, collection="routes", options=OPTIONS) as index:
            yield index


def agreeing(index: DocumentIndex, queries: list[Query], pool: int, depth: int) -> tuple[int, list[float]]:
    """How many questions have one order in all modes, and the median milliseconds of each mode."""
    retrievers = [SurpriseRetriever(index, mode=mode, pool=pool, exact=True) for mode in MODES]
    same = 0
    seconds: list[list[float]] = [[] for _ in MODES]
    for query in queries:
        found = []
        for retriever, own in zip(retrievers, seconds, strict=True):
            begun = time.perf_counter()
            found.append(retriever.retrieve(query, depth))
            own.append(time.perf_counter() - begun)
        equal = all(
            f.ids == found[0].ids and (f.scores["surprise"] == found[0].scores["surprise"]).all()
            for f in found
        )
        same += equal
    return same, [1000 * float(np.median(own)) for own in seconds]


def main() -> None:
    """Print a line for each engine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--split")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question only")
    given = parser.parse_args()
    encoder = load_encoder()
    dataset = load_dataset(given.dataset, given.split)
    documents, encoded = documents_of(given.dataset, given.cache, encoder)
    queries = encode_queries(encoder, list(dataset.queries.values()))[:: given.every]
    plain = Encoded(encoded.dense, encoded.tokens)
    for url in dict.fromkeys((None, given.url)):
        with opened(encoder, url) as index:
            index.sync(documents, encoded=plain, background=False)
            index.set_ensemble(index.ensemble(), source="documents")
            everything = len(documents)
            same, times = agreeing(index, queries, pool=everything, depth=100)
            shown = ", ".join(f"{mode} {ms:.1f} ms" for mode, ms in zip(MODES, times, strict=True))
            print(
                f"{given.dataset}, {index.engine}: {same} of {len(queries)} questions in one order, equal "
                f"scores (100 best, pool of all {everything}); {shown}",
                flush=True,
            )


if __name__ == "__main__":
    main()
