"""An index of many documents of usual length: its size, and a question's time, cold and warm, in two forms.

    python -m benchmarks.token_scale --dataset DATA/beir/cranfield --cache CACHE --documents 100000

The documents of a data set are repeated, each time with other noise on all dense vectors and on all token
vectors (after they were merged), from an index of `rerank-eval --token-storage int8`. Cosine's 100, searched
exactly, are re-ranked by DynaMax; the question is encoded before. Cold: the system has forgotten the index'
files, and every question is a new one.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from benchmarks.machine import describe
from benchmarks.stored import documents_of
from surprise_rerank import Document, DynaMaxReranker, Query
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import TokenForm, pooled_tokens
from surprise_rerank.encoders.base import Encoded, Encoder, encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.options import present, report_option
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset

DEPTH = 100
# Of a noise vector, beside a vector of length 1.
NOISE = 0.3
_NOISE_ROWS = 1 << 16
_ASKED = 40


def repeated(
    documents: list[Document], encoded: Encoded, form: TokenForm, count: int
) -> Iterator[tuple[list[Document], Encoded]]:
    """Parts of a collection of `count` documents, each document with vectors of its own."""
    random = np.random.default_rng(0)
    dense, tokens = encoded.dense, pooled_tokens(encoded.require_tokens(), form.pooling, form.least)
    unit, d = tokens.estimates(), tokens.dimension
    noise = random.standard_normal((_NOISE_ROWS, d), dtype=np.float32) * np.float32(NOISE / np.sqrt(d))
    for copy, start in enumerate(range(0, count, len(documents))):
        size = min(len(documents), count - start)
        rows = (np.arange(len(unit)) + random.integers(_NOISE_ROWS)) % _NOISE_ROWS
        ones = np.ones(len(unit), np.float32)
        own = replace(tokens, directions=unit_rows(unit + noise[rows]), scales=ones, own=None)
        near = unit_rows(dense + random.normal(scale=NOISE / np.sqrt(dense.shape[1]), size=dense.shape))
        copies = [replace(document, id=f"{copy}-{document.id}") for document in documents[:size]]
        yield copies, Encoded(near[:size].astype(np.float32), own.between(0, size))


def forget(folder: Path) -> None:
    """Write a folder's files to the disk, and let the system forget what they hold."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def milliseconds(folder: Path, encoder: Encoder, queries: list[Query]) -> list[float]:
    """Of opening an index, and then of each question."""
    start = time.perf_counter()
    with DocumentIndex.open(folder, encoder) as index:
        retriever, reranker = DenseRetriever(index, options=NO_OPTIONS.exactly()), DynaMaxReranker()
        found = [1e3 * (time.perf_counter() - start)]
        for query in queries:
            start = time.perf_counter()
            reranker.rerank(query, retriever.retrieve(query, DEPTH, reranker.needs))
            found.append(1e3 * (time.perf_counter() - start))
    return found


@click.command()
@click.option("--dataset", required=True, help="As for rerank-eval, with an index in the cache.")
@click.option("--cache", type=click.Path(path_type=Path), required=True, help="Of rerank-eval.")
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--documents", "counts", type=int, multiple=True, default=(100_000,), show_default=True)
@click.option("--storage", "storages", multiple=True, default=("1bit", "int8"), show_default=True)
@click.option("--scratch", type=click.Path(path_type=Path), help="Where the indexes are made for a while.")
@report_option
def main(
    dataset: str,
    cache: Path,
    model: str,
    counts: tuple[int, ...],
    storages: tuple[str, ...],
    scratch: Path | None,
    reports: tuple[Path, ...],
) -> None:
    """Print a row for each form and number of documents."""
    print(describe("qdrant-edge-py", "torch"))
    encoder, data = load_encoder(model, cache=cache), load_dataset(dataset, None)
    queries = encode_queries(encoder, list(data.queries.values())[:_ASKED])
    documents, encoded = documents_of(dataset, cache, encoder)
    rows: list[tuple[Cell, ...]] = []
    for storage in storages:
        for count in counts:
            with tempfile.TemporaryDirectory(dir=scratch) as place:
                folder = Path(place)
                start = time.perf_counter()
                options = IndexOptions(token_storage=storage, passages=None)  # type: ignore[arg-type]
                with DocumentIndex.open(folder, encoder, options=options) as index:
                    for own, vectors in repeated(documents, encoded, options.token_form, count):
                        index.sync(own, encoded=vectors, background=False)
                built = time.perf_counter() - start
                size = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
                milliseconds(folder, encoder, queries[:1])  # what is imported late
                forget(folder)
                cold = milliseconds(folder, encoder, queries)
                warm = milliseconds(folder, encoder, queries)
                middle = [statistics.median(own[1:]) for own in (cold, warm)]
                rows.append((storage, count, size / 2**20, size / count, *middle, cold[1], cold[0], built))
                print(rows[-1], flush=True)
    columns = (
        *(Column("storage"), Column("documents"), Column("MiB on disk", 0), Column("bytes a document", 0)),
        *(Column("cold, ms", 1), Column("warm, ms", 1), Column("the first, ms", 1)),
        *(Column("opened, ms", 0), Column("built in, s", 0)),
    )
    title = f"Documents of {data.name}, repeated with noise; DynaMax over cosine's {DEPTH}, medians"
    present(Report(title, (Table("token-scale", title, columns, tuple(rows), keys=2),)), reports)


if __name__ == "__main__":
    main()
