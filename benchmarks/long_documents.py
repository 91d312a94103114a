"""What cutting long documents costs: a corpus of documents joined ten at a time, cut and in passages.

    python benchmarks/long_documents.py --dataset beir/scifact --cache CACHE

Documents are joined in the order of a hash of their ids. A joined document is relevant to a question if one
of its parts is; the systems get neither the part nor its place.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.eval.cli.options import present
from surprise_rerank.eval.reports.report import Report, Table
from surprise_rerank.eval.retrieval.comparison import compare
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.evaluation import evaluate
from surprise_rerank.eval.retrieval.settings import RetrievalSettings


def write_joined(dataset: RetrievalDataset, size: int, folder: Path) -> None:
    """A BEIR folder of documents joined `size` at a time."""
    documents = sorted(dataset.documents, key=lambda d: hashlib.sha256(d.id.encode()).digest())
    groups = [documents[i : i + size] for i in range(0, len(documents), size)]
    group_of = {document.id: f"g{n}" for n, group in enumerate(groups) for document in group}
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with (folder / "corpus.jsonl").open("w") as file:
        for n, group in enumerate(groups):
            text = "\n\n".join(document.content for document in group)
            file.write(json.dumps({"_id": f"g{n}", "title": "", "text": text}) + "\n")
    with (folder / "queries.jsonl").open("w") as file:
        for name, text in dataset.queries.items():
            file.write(json.dumps({"_id": name, "text": text}) + "\n")
    with (folder / "qrels" / "test.tsv").open("w") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for name, judged in dataset.qrels.items():
            best: dict[str, int] = {}
            for document, gain in judged.items():
                group = group_of.get(document)
                if group is not None:
                    best[group] = max(gain, best.get(group, 0))
            file.writelines(f"{name}\t{group}\t{gain}\n" for group, gain in best.items())


def main() -> None:
    """Print a table for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--split")
    parser.add_argument("--joined", type=int, default=10, help="documents in one")
    parser.add_argument("--systems", default="bm25-lucene,cosine,dynamax,fusion-lucene")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--report", type=Path, action="append", default=[], help="also write the tables here")
    given = parser.parse_args()
    dataset = load_dataset(given.dataset, given.split)
    base = given.cache or Path(tempfile.mkdtemp())
    folder = base / f"joined-{given.joined}-{given.dataset.replace('/', '-')}-{dataset.split}"
    write_joined(dataset, given.joined, folder)
    tables: list[Table] = []
    for passages, name in ((False, "cut"), (True, "in passages")):
        settings = RetrievalSettings(
            dataset=str(folder),
            systems=tuple(given.systems.split(",")),
            model=given.model,
            cache=given.cache,
            passages=passages,
        )
        tables += compare([replace(evaluate(settings, Terminal()), name=name)]).tables
    present(Report("Long documents, cut and in passages", tuple(tables)), tuple(given.report))


if __name__ == "__main__":
    main()
