"""A job of `similar` over N vectors: seconds and memory beside a bare product with topk, in the same run.

python benchmarks/similar.py --size 20000 --size 100000
"""

from __future__ import annotations

import resource
import time

import click
import numpy as np
import torch
from clustered import clustered
from machine import describe

from surprise_rerank.connectors.similar import SimilaritySettings, similar_documents
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import LinearForm, augmented_documents, augmented_query

_K, _BLOCK = 10, 1024


def bare(vectors: np.ndarray) -> np.ndarray:
    """(n, k) rows of the best by surprise: everything in memory, float32, ties anyhow."""
    moments = Ensemble.from_vectors(vectors, sample_size=0).moments(vectors)
    keys = torch.from_numpy(augmented_documents(vectors, LinearForm.of(moments))).T
    found = []
    for start in range(0, len(vectors), _BLOCK):
        scores = torch.from_numpy(augmented_query(vectors[start : start + _BLOCK])) @ keys
        rows = torch.arange(len(scores))
        scores[rows, start + rows] = -torch.inf
        found.append(torch.topk(scores, _K, dim=1).indices)
    return torch.cat(found).numpy()


@click.command()
@click.option("--size", "sizes", type=int, multiple=True, default=(20_000,), show_default=True)
@click.option("--dimension", default=384, show_default=True)
def main(sizes: tuple[int, ...], dimension: int) -> None:
    """Print a line for each size."""
    print(describe())
    for n in sizes:
        vectors = clustered(0, n, dimension)
        begun = time.perf_counter()
        expected = bare(vectors)
        middle = time.perf_counter()
        table = similar_documents((range(n), vectors), SimilaritySettings(k=_K)).table()
        end = time.perf_counter()
        found = np.array(table["neighbour"].to_pylist(), np.int64).reshape(n, _K)
        recall = np.mean([len(set(a) & set(b)) / _K for a, b in zip(found, expected, strict=True)])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{n:>9,} documents: job {end - middle:.1f} s, bare product {middle - begun:.1f} s, "
            f"recall@{_K} {recall:.4f}, {memory:,} MiB"
        )


if __name__ == "__main__":
    main()
