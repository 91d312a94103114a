"""What a question costs by `auto`, by the plain fusion and by the cosine alone: embedded, from text to texts.

    rerank-eval --dataset beir/scifact --systems cosine --set cache=CACHE
    python benchmarks/auto_latency.py --dataset beir/scifact --cache CACHE

Systems take turns at every question, in one process, so that what else the machine does hits all of them. The
index is the one that rerank-eval made, or any other (`--index`). `--threads 1` shows what
many callers at once would see each.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from stored import index_of

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

SYSTEMS = ("cosine", "dynamax", "fusion", "auto")
WARM = 10


def main() -> None:
    """Print a line for each system: milliseconds, and how many times the cosine's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--split")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--cache", type=Path)
    place.add_argument("--index", type=Path)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    encoder = load_encoder(given.model)
    questions = list(load_dataset(given.dataset, given.split).queries.values())[: given.questions]
    folder = given.index or index_of(given.dataset, given.cache, encoder)
    with DocumentIndex.open(folder, encoder) as index:
        pipelines = {name: index.pipeline(name, depth=given.depth) for name in SYSTEMS}
        taken: dict[str, list[float]] = {name: [] for name in SYSTEMS}
        for number, question in enumerate([*questions[:WARM], *questions]):
            for name, pipeline in pipelines.items():
                begun = time.perf_counter()
                pipeline.search(question, given.top)
                if number >= WARM:
                    taken[name].append(1000 * (time.perf_counter() - begun))
        base = float(np.median(taken["cosine"]))
        print(f"{given.dataset}, {len(index)} documents, {len(questions)} questions, pool {given.depth}")
        for name, own in taken.items():
            median, late = np.percentile(own, [50, 95])
            print(
                f"{name:8s} median {median:6.1f} ms, 95th {late:6.1f} ms, {median / base:4.1f} times cosine"
            )


if __name__ == "__main__":
    main()
