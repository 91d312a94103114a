"""What a background costs: milliseconds added to a search, and seconds added to indexing.

    python benchmarks/verdict_cost.py --dataset beir/scifact

Searches with and without a background alternate in one process, so that both meet the same load; processor
time is beside the clock's. The seconds of 300 questions and of the near ones are set against those that
indexing the collection takes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

SYSTEMS = ("cosine", "dynamax", "fusion", "auto")


def clocks() -> np.ndarray:
    """Seconds of the clock, and of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


def main() -> None:
    """Index the data set, ask the background questions, and search with and without."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--index", type=Path, help="one that exists; then indexing is not timed")
    given = parser.parse_args()
    encoder, dataset = load_encoder(given.model), load_dataset(given.dataset)
    with (
        tempfile.TemporaryDirectory() as folder,
        DocumentIndex.open(given.index or Path(folder) / "index", encoder) as index,
    ):
        if given.index is None:
            begun = clocks()
            index.sync(dataset.documents, background=False)
            print(f"indexing {len(index)} documents: {clocks()[0] - begun[0]:.1f} s")
        queries = encode_queries(encoder, list(dataset.queries.values())[: given.questions])
        print("system   background   search without      with          added (clock, processor)")
        for name in SYSTEMS:
            begun = clocks()
            index.store_background(system=name)
            asked = clocks() - begun
            told = index.pipeline(name)
            plain = replace(told, background=None)
            times = np.zeros((2, len(queries), 2))
            for i, query in enumerate(queries):
                for j, pipeline in enumerate((plain, told)):
                    pipeline.rank(query)
                    begun = clocks()
                    pipeline.rank(query)
                    times[j, i] = clocks() - begun
            ms = 1000 * np.median(times, axis=1)
            added = 1000 * np.median(times[1] - times[0], axis=0)
            print(
                f"{name:8} {asked[0]:5.1f} s ({asked[1]:.1f})   {ms[0, 0]:6.1f} ms   "
                f"{ms[1, 0]:10.1f} ms   {added[0]:8.2f} ms, {added[1]:.2f} ms"
            )


if __name__ == "__main__":
    main()
