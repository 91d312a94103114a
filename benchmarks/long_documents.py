"""What cutting long documents costs: a corpus of documents joined ten at a time, cut and in passages.

    python benchmarks/long_documents.py --dataset beir/scifact --cache CACHE

Documents are joined in the order of a hash of their ids. A joined document is relevant to a question if one
of its parts is; the systems get neither the part nor its place.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import click

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.eval.cli.options import present, report_option
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
    judged = ["query-id\tcorpus-id\tscore"]
    for name, gains in dataset.qrels.items():
        best: dict[str, int] = {}
        for document, gain in gains.items():
            if (group := group_of.get(document)) is not None:
                best[group] = max(gain, best.get(group, 0))
        judged += [f"{name}\t{group}\t{gain}" for group, gain in best.items()]
    texts = enumerate("\n\n".join(document.content for document in group) for group in groups)
    files = {
        "corpus.jsonl": [json.dumps({"_id": f"g{n}", "title": "", "text": own}) for n, own in texts],
        "queries.jsonl": [json.dumps({"_id": name, "text": text}) for name, text in dataset.queries.items()],
        "qrels/test.tsv": judged,
    }
    for name, lines in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@click.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
@click.option("--split")
@click.option("--joined", default=10, show_default=True, help="Documents in one.")
@click.option("--systems", default="bm25-lucene,cosine,dynamax,fusion-lucene", show_default=True)
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option(
    "--cache", type=click.Path(path_type=Path), required=True, help="Of the joined documents and indexes."
)
@report_option
def main(
    dataset: str,
    split: str | None,
    joined: int,
    systems: str,
    model: str,
    cache: Path,
    reports: tuple[Path, ...],
) -> None:
    """Print a table for each way."""
    data = load_dataset(dataset, split)
    folder = cache / f"joined-{joined}-{dataset.replace('/', '-')}-{data.split}"
    write_joined(data, joined, folder)
    tables: list[Table] = []
    for passages, name in ((False, "cut"), (True, "in passages")):
        settings = RetrievalSettings(
            dataset=str(folder),
            systems=tuple(systems.split(",")),
            model=model,
            cache=cache,
            passages=passages,
        )
        tables += compare([replace(evaluate(settings, Terminal()), name=name)]).tables
    present(Report("Long documents, cut and in passages", tuple(tables)), reports)


if __name__ == "__main__":
    main()
