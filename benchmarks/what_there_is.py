"""`auto` with what there is: dense vectors, dense vectors and words, all; nDCG@10 beside cosine and BM25.

    python -m benchmarks.what_there_is DATASET[@SPLIT] ... [--questions N] [--cache FOLDER]

This is what an attached collection, or an index of an API's vectors, ranks by. With the cache of
`rerank-eval` nothing is encoded but the questions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import ir_measures

from benchmarks.stored import index_of
from surprise_rerank import AutoReranker, load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.retrievers.dense import DenseRetriever
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.connectors.systems.inputs import BuiltSystem
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.eval.cli.options import present
from surprise_rerank.eval.reports.report import Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.pipeline import ranked

MEASURE = ir_measures.nDCG @ 10
DEPTH = 100


def systems(index: DocumentIndex) -> Mapping[str, BuiltSystem]:
    """What is compared, by name."""
    whole = build_system("auto", index)
    assert isinstance(whole.reranker, AutoReranker)
    words = replace(whole, reranker=replace(whole.reranker, sample=None))
    dense = replace(whole.reranker, sample=None, words=None)
    return {
        "cosine": build_system("cosine", index),
        "auto, dense": replace(whole, retriever=DenseRetriever(index), reranker=dense),
        "bm25": build_system("bm25", index),
        "auto, dense and words": words,
        "auto": whole,
    }


def measured(name: str, questions: int | None, cache: Path, encoder: Encoder) -> dict[str, float]:
    """System -> nDCG@10 over judged questions."""
    spec, _, split = name.partition("@")
    dataset = load_dataset(spec, split or None)
    ids = list(dataset.queries)[:questions]
    runs: dict[str, list[ir_measures.ScoredDoc]] = {}
    with DocumentIndex.open(index_of(spec, cache, encoder), encoder) as index:
        if not len(index):
            index.sync(dataset.documents, background=False)
        compared = systems(index)
        for query in encode_queries(encoder, [dataset.queries[own] for own in ids], ids):
            for system, built in compared.items():
                known = query if system == "auto" else replace(query, tokens=None)
                pool = built.retriever.retrieve(known, DEPTH, built.needs)
                ranking = ranked(known, pool, built.reranker)
                runs.setdefault(system, []).extend(
                    ir_measures.ScoredDoc(query.id, name, -place) for place, name in enumerate(ranking.ids)
                )
    judged = {own: {d: int(gain) for d, gain in dataset.qrels[own].items()} for own in ids}
    return {own: ir_measures.calc_aggregate([MEASURE], judged, run)[MEASURE] for own, run in runs.items()}


def main() -> None:
    """A row for each data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--questions", type=int, help="the first ones only")
    parser.add_argument("--cache", type=Path, help="folder of indexes; a temporary one by default")
    parser.add_argument("--report", type=Path, action="append", default=[])
    asked = parser.parse_args()
    encoder = load_encoder(asked.model)
    with tempfile.TemporaryDirectory() as folder:
        scores = {
            Path(name).name: measured(name, asked.questions, asked.cache or Path(folder), encoder)
            for name in asked.datasets
        }
    columns = (Column("dataset"), *(Column(name) for name in next(iter(scores.values()))))
    rows = tuple((name, *own.values()) for name, own in scores.items())
    title = f"nDCG@10 with what there is, {asked.model}"
    present(Report(title, (Table("parts", title, columns, rows),)), tuple(asked.report))


if __name__ == "__main__":
    main()
