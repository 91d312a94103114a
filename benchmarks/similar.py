"""A job of `similar` over N vectors: seconds and memory beside a bare product with topk, in the same run.

    python benchmarks/similar.py --size 20000 --size 100000 --graph

`--graph` also asks the graph of an index that holds the vectors.
"""

from __future__ import annotations

import resource
import tempfile
import time

import click
import numpy as np
import pyarrow
import torch
from machine import describe

from surprise_rerank import Document, DocumentIndex, FunctionEncoder
from surprise_rerank.connectors.qdrant import IndexOptions
from surprise_rerank.connectors.similar import SimilaritySettings, similar_documents
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.linear_form import LinearForm, augmented_documents, augmented_query

_K, _BLOCK, _CLUSTERS = 10, 1024, 1000


def clustered(n: int, d: int) -> np.ndarray:
    """(n, d) unit vectors as a corpus has them: around topics, in a cone."""
    centres = np.random.default_rng(0).standard_normal((_CLUSTERS, d), dtype=np.float32)
    centres[:, 0] += 0.3 * d**0.5
    random = np.random.default_rng(1)
    noise = random.standard_normal((n, d), dtype=np.float32)
    return unit_rows(centres[random.integers(0, _CLUSTERS, n)] + noise)


def bare(vectors: np.ndarray) -> np.ndarray:
    """(n, k) rows of the best by surprise: everything in memory, float32, ties anyhow."""
    moments = Ensemble.from_vectors(vectors, sample_size=0).moments(vectors)
    keys = torch.from_numpy(augmented_documents(vectors, LinearForm.of(moments))).T
    nearest = []
    for start in range(0, len(vectors), _BLOCK):
        scores = torch.from_numpy(augmented_query(vectors[start : start + _BLOCK])) @ keys
        rows = torch.arange(len(scores))
        scores[rows, start + rows] = -torch.inf
        nearest.append(torch.topk(scores, _K, dim=1).indices)
    return torch.cat(nearest).numpy()


def recall_of(table: pyarrow.Table, expected: np.ndarray) -> float:
    """The share of the expected (n, k) rows that a job has found."""
    pairs = zip(table["document"].to_pylist(), table["neighbour"].to_pylist(), strict=True)
    wanted = {(i, int(j)) for i, row in enumerate(expected) for j in row}
    return sum((int(document), int(other)) in wanted for document, other in pairs) / len(wanted)


def by_graph(vectors: np.ndarray, expected: np.ndarray) -> None:
    """Print seconds and recall of a job that asks an index's graph."""
    encoder = FunctionEncoder(
        lambda texts: vectors[[int(text) for text in texts]], name="clustered", dimension=vectors.shape[1]
    )
    documents = [Document(str(i), str(i)) for i in range(len(vectors))]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with DocumentIndex.open(folder, encoder, options=IndexOptions(tokens=False, bm25=None)) as index:
            index.sync(documents, background=False)
        middle = time.perf_counter()
        settings = SimilaritySettings(k=_K, search="graph")
        table = similar_documents(None, settings, index=folder, encoder=encoder).table()
        end = time.perf_counter()
    print(
        f"{len(vectors):>9,} by the graph: job {end - middle:.1f} s, index {middle - begun:.1f} s, "
        f"recall@{_K} {recall_of(table, expected):.4f}",
        flush=True,
    )


@click.command()
@click.option("--size", "sizes", type=int, multiple=True, default=(20_000,), show_default=True)
@click.option("--dimension", default=384, show_default=True)
@click.option("--graph", is_flag=True, help="The job over an index on Qdrant Edge, too.")
def main(sizes: tuple[int, ...], dimension: int, *, graph: bool) -> None:
    """Print a line for each size."""
    print(describe())
    for n in sizes:
        vectors = clustered(n, dimension)
        begun = time.perf_counter()
        expected = bare(vectors)
        middle = time.perf_counter()
        table = similar_documents((range(n), vectors), SimilaritySettings(k=_K)).table()
        end = time.perf_counter()
        recall = recall_of(table, expected)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{n:>9,} documents: job {end - middle:.1f} s, bare product {middle - begun:.1f} s, "
            f"recall@{_K} {recall:.4f}, {memory:,} MiB",
            flush=True,
        )
        if graph:
            by_graph(vectors, expected)


if __name__ == "__main__":
    main()
