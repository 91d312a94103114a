"""Several data sets asked at once: what is found where each question belongs to one of them.

    python benchmarks/federation.py --folder FOLDER --datasets DATA/cranfield,DATA/cacm,beir/nfcorpus:dev

Every data set is an index of its own. A question is asked of all, and the ten best of all are judged by the
data set that it is from: nDCG@10, and the share of the ten that is from there. RRF of disjoint collections is
round-robin: the first of each, then the second. FOLDER keeps the indexes for another run.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import ir_measures
import numpy as np

from surprise_rerank import DocumentIndex, Federation, load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

_BEST = 10


def orders(both: Federation, question: str) -> dict[str, list[tuple[str, str]]]:
    """Way of merging -> (collection, document) of the ten best."""
    lines: dict[str, list[Any]] = defaultdict(list)
    for name, own in both.pipelines.items():
        ranking = own.search(question, _BEST)
        for place, (found, score) in enumerate(zip(ranking.ids, ranking.scores, strict=True)):
            lines["scores"].append((-score, name, found))
            lines["round-robin, RRF"].append((place, name, found))
    merged = {way: [line[1:] for line in sorted(own)[:_BEST]] for way, own in lines.items()}
    return {"percentile": [(hit.collection, hit.id) for hit in both.search(question, _BEST)], **merged}


@click.command()
@click.option("--datasets", required=True, help="Names or folders, with commas; SPLIT after a colon.")
@click.option("--folder", type=click.Path(path_type=Path), required=True)
@click.option("--systems", default="auto,cosine", show_default=True)
@click.option("--questions", default=60, show_default=True, help="Of each data set.")
def main(datasets: str, folder: Path, systems: str, questions: int) -> None:
    """Print a table for each system."""
    encoder, chosen = load_encoder(), random.Random(0)
    parts = [own.partition(":") for own in datasets.split(",")]
    sets = {name.rpartition("/")[2]: load_dataset(name, split or None) for name, _, split in parts}
    opened = {name: DocumentIndex.open(folder / name, encoder) for name in sets}
    for name, index in opened.items():
        index.sync(sets[name].documents)
    for system in systems.split(","):
        both = Federation(opened, system)
        found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
        for name, data in sets.items():
            judged = [
                own for own in data.queries if any(gain > 0 for gain in data.qrels.get(own, {}).values())
            ]
            for asked in chosen.sample(judged, min(questions, len(judged))):
                gains = {asked: {f"{name}/{own}": gain for own, gain in data.qrels[asked].items()}}
                for way, best in orders(both, data.queries[asked]).items():
                    run = {asked: {f"{a}/{b}": float(-i) for i, (a, b) in enumerate(best)}}
                    (ndcg,) = ir_measures.calc_aggregate([ir_measures.nDCG @ _BEST], gains, run).values()
                    found[way][name].append((ndcg, sum(place == name for place, _ in best) / _BEST))
        print(f"| {system}, merged by | {' | '.join(sets)} | mean nDCG@10 | of the ten from its own |")
        for way, by_set in found.items():
            means = np.array([np.mean(by_set[name], axis=0) for name in sets])
            cells = " | ".join(f"{value:.4f}" for value in means[:, 0])
            print(f"| {way} | {cells} | {means[:, 0].mean():.4f} | {means[:, 1].mean():.3f} |")


if __name__ == "__main__":
    main()
