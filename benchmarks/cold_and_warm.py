"""How long `rerank-eval` takes, cold and warm, against the bare encoding of the same documents.

Three whole processes, one after the other on the same machine:
  bare   sentence-transformers' own `encode` over the documents, default settings, dense vectors only
  cold   rerank-eval with an empty cache: encodes, indexes (Qdrant and BM25), evaluates all default systems
  warm   the same command again

    python benchmarks/cold_and_warm.py --dataset beir/scifact
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import click

_BARE = """
import json, sys, time
from surprise_rerank.encoders.base import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset
texts = [document.content for document in load_dataset(sys.argv[1]).documents]
model = load_encoder()._model
start = time.perf_counter()
model.encode(texts, show_progress_bar=False)
print(json.dumps({"documents": len(texts), "seconds": time.perf_counter() - start}))
"""


def _timed(command: list[str]) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - start, done.stdout


@click.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
def main(dataset: str) -> None:
    """Print the three times and their ratios."""
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    bare_process, output = _timed([sys.executable, "-P", "-c", _BARE, dataset])
    bare = json.loads(output)
    print(
        f"bare encoding of {bare['documents']} documents: {bare['seconds']:.1f} s "
        f"({bare_process:.1f} s for the process)"
    )
    with tempfile.TemporaryDirectory() as cache:
        evaluate = [
            sys.executable,
            "-P",
            "-c",
            "from surprise_rerank.eval.cli.rerank_eval.main import main; main()",
        ]
        evaluate += ["--dataset", dataset, "--set", f"cache={cache}", "--quiet"]
        cold, table = _timed(evaluate)
        warm, _ = _timed(evaluate)
    print(f"cold: {cold:.1f} s, {cold / bare['seconds']:.3f} times the bare encoding")
    print(f"warm: {warm:.1f} s, {warm / bare['seconds']:.3f} times the bare encoding")
    print(table)


if __name__ == "__main__":
    main()
