"""What `auto` is worth over retrieved texts that no index knows: cosine's pool, re-ranked, nDCG@10.

    python benchmarks/texts_without_index.py DATASET ... --folder FOLDER

Stored vectors stand for what `TextReranker` would encode; nothing else of the index is read. FOLDER keeps the
indexes for another run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import ir_measures

from surprise_rerank import DocumentIndex, load_encoder
from surprise_rerank.connectors.qdrant import IndexOptions
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.rerank import CosineScorer, DynaMaxScorer
from surprise_rerank.rerank.auto import auto_of_texts

RERANKERS = {"cosine": CosineScorer(), "dynamax": DynaMaxScorer(), "auto": auto_of_texts()}


@click.command()
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET...")
@click.option("--folder", type=click.Path(path_type=Path), required=True)
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--depth", default=20, show_default=True)
def main(datasets: tuple[str, ...], folder: Path, model: str, depth: int) -> None:
    """A row for each data set."""
    encoder, options = load_encoder(model), IndexOptions(passages=None, bm25=None)
    print(f"| nDCG@10 of cosine's {depth} | {' | '.join(RERANKERS)} |\n|{'---|' * (len(RERANKERS) + 1)}")
    for name in datasets:
        data = load_dataset(name, None)
        runs: dict[str, list[ir_measures.ScoredDoc]] = {own: [] for own in RERANKERS}
        place = folder / data.name.replace("/", "-")
        with DocumentIndex.open(place, encoder, options=options) as index:
            if not len(index):
                index.sync(data.documents, show_progress=True, background=False)
            for query in encode_queries(encoder, [*data.queries.values()], [*data.queries]):
                pool = replace(index.search(query, depth, frozenset({"dense", "tokens"})), scores={})
                for own, reranker in RERANKERS.items():
                    ranking = reranker.rerank(query, pool)
                    scored = zip(ranking.ids, ranking.scores.tolist(), strict=True)
                    runs[own] += [ir_measures.ScoredDoc(query.id, *pair) for pair in scored]
        measure = ir_measures.nDCG @ 10
        values = (ir_measures.calc_aggregate([measure], data.qrels, run)[measure] for run in runs.values())
        print(f"| {data.name} | {' | '.join(f'{value:.4f}' for value in values)} |", flush=True)


if __name__ == "__main__":
    main()
