"""What stored tokens cost and what they keep: float32, float16, bfloat16 and int8 over a whole collection.

Encodes the documents once, takes cosine's top 100 for every judged question, and re-ranks them by DynaMax
over the same tokens in each storage: bytes, nDCG@10, the largest difference of a score, and milliseconds of
scoring a question's pool (the storages taking turns).

    python benchmarks/token_storage.py --dataset beir/scifact
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import click
import ir_measures
import numpy as np
from machine import describe
from rich.progress import Progress

from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.options import present, report_option
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.similarities.dynamax import DynaMax

STORAGES = ("float32", "float16", "bfloat16", "int8")


@click.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
@click.option("--split", help="Which judged questions.  [default: test]")
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--depth", default=100, show_default=True)
@report_option
def main(dataset: str, split: str | None, model: str, depth: int, reports: tuple[Path, ...]) -> None:
    """Print one line per storage and measure."""
    print(describe("torch", "numpy"))
    data, encoder = load_dataset(dataset, split), load_encoder(model)
    texts = [document.content for document in data.documents]
    names = [document.id for document in data.documents]
    with Progress() as bars:
        bar = bars.add_task("encoding documents", total=len(texts))
        encoded = encoder.encode(texts, on_progress=lambda count: bars.advance(bar, count))
    questions = encode_queries(encoder, list(data.queries.values()), list(data.queries))
    pools = []
    for question in questions:
        order = np.argsort(-(encoded.dense @ question.dense), kind="stable")[: depth + 1]
        pools.append([i for i in order if names[i] != question.id][:depth])
    batches: dict[str, TokenBatch] = {s: encoded.tokens.stored(s) for s in STORAGES}  # type: ignore[arg-type]
    rows: list[tuple[Cell, ...]] = []
    for label, similarity in (("inclusion", DynaMax()), ("DynaMax-Jaccard", DynaMax("jaccard", "joint"))):
        runs: dict[str, dict[str, dict[str, float]]] = {storage: {} for storage in STORAGES}
        seconds: dict[str, list[float]] = {storage: [] for storage in STORAGES}
        apart = dict.fromkeys(STORAGES, 0.0)
        for question, pool in zip(questions, pools, strict=True):
            exact = np.zeros(0)
            for storage, batch in batches.items():
                documents = batch.take(pool)
                start = time.perf_counter()
                scores = similarity.pool(question.tokens, documents)
                seconds[storage].append(time.perf_counter() - start)
                exact = scores if storage == "float32" else exact
                apart[storage] = max(apart[storage], float(np.abs(scores - exact).max(initial=0.0)))
                runs[storage][question.id] = {names[i]: float(s) for i, s in zip(pool, scores, strict=True)}
        whole = batches["float32"].nbytes
        best = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], data.qrels, runs["float32"])
        for storage, batch in batches.items():
            value = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], data.qrels, runs[storage])
            ndcg, reference = (next(iter(v.values())) for v in (value, best))
            size, share = batch.nbytes / 2**20, batch.nbytes / whole
            milliseconds = 1e3 * statistics.median(seconds[storage])
            rows.append((label, storage, size, share, ndcg, ndcg - reference, apart[storage], milliseconds))
    title = f"{data.name}, {len(names)} documents, {len(questions)} questions, pools of {depth} by cosine"
    columns = (
        Column("similarity"),
        Column("storage"),
        Column("MiB", digits=1),
        Column("of float32", digits=2),
        Column("nDCG@10"),
        Column("difference"),
        Column("largest difference of a score", digits=6),
        Column("ms a pool", digits=2),
    )
    present(Report(title, (Table("storage", title, columns, tuple(rows), keys=2),)), reports)


if __name__ == "__main__":
    main()
