"""What `auto` is worth over retrieved texts that no index knows: cosine's pool, re-ranked, nDCG@10.

    python -m benchmarks.texts_without_index DATASET ... [--cache FOLDER]

Stored vectors stand for what `TextReranker` would encode; nothing else of the index is read. With the cache
of `rerank-eval` nothing is encoded but the questions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import ir_measures

from benchmarks.stored import index_of
from surprise_rerank import load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.eval.cli.options import present
from surprise_rerank.eval.reports.report import Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.rerank import CosineReranker, DynaMaxReranker, PoolAutoReranker, Reranker

MEASURE = ir_measures.nDCG @ 10
RERANKERS: Mapping[str, Reranker] = {
    "cosine": CosineReranker(),
    "dynamax": DynaMaxReranker(),
    "auto": PoolAutoReranker(),
}


def measured(name: str, cache: Path, encoder: Encoder, depth: int) -> dict[str, float]:
    """Re-ranker -> nDCG@10 over the judged questions."""
    dataset = load_dataset(name, None)
    folder, ids = index_of(name, cache, encoder), list(dataset.queries)
    options = None if folder.exists() else IndexOptions(passages=None, bm25=None)
    runs: dict[str, dict[str, dict[str, float]]] = {reranker: {} for reranker in RERANKERS}
    with DocumentIndex.open(folder, encoder, options=options) as index:
        if not len(index):
            index.sync(dataset.documents, background=False)
        for query in encode_queries(encoder, [dataset.queries[own] for own in ids], ids):
            pool = replace(index.search(query, depth, frozenset({"dense", "tokens"})), scores={})
            for reranker, made in RERANKERS.items():
                ranking = made.rerank(query, pool)
                runs[reranker][query.id] = dict(zip(ranking.ids, ranking.scores.tolist(), strict=True))
    judged = {own: {d: int(gain) for d, gain in found.items()} for own, found in dataset.qrels.items()}
    return {own: ir_measures.calc_aggregate([MEASURE], judged, run)[MEASURE] for own, run in runs.items()}


def main() -> None:
    """A row for each data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--cache", type=Path, help="folder of indexes; a temporary one by default")
    parser.add_argument("--report", type=Path, action="append", default=[])
    asked = parser.parse_args()
    encoder = load_encoder(asked.model)
    with tempfile.TemporaryDirectory() as folder:
        scores = {
            Path(name).name: measured(name, asked.cache or Path(folder), encoder, asked.depth)
            for name in asked.datasets
        }
    columns = (Column("dataset"), *(Column(name) for name in RERANKERS))
    rows = tuple((name, *own.values()) for name, own in scores.items())
    title = f"nDCG@10 of cosine's {asked.depth}, without an index, {asked.model}"
    present(Report(title, (Table("texts", title, columns, rows),)), tuple(asked.report))


if __name__ == "__main__":
    main()
