"""`search_many` beside `search` one by one: an embedder that answers after 50 ms, and one that is here.

    python benchmarks/many_questions.py --dataset cranfield

The first embedder is a function with random vectors: only its time is of interest. Each repetition asks the
same questions both ways, in turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from collections.abc import Sequence

import numpy as np

from surprise_rerank import DocumentIndex, FunctionEncoder, load_encoder
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

_DIMENSION, _QUESTIONS, _REPETITIONS = 384, 64, 3
SYSTEMS = ("cosine", "fusion", "auto")


def embedder(seconds: float) -> FunctionEncoder:
    """Answers after so many seconds, however many texts it is given."""

    def embed(texts: Sequence[str]) -> list[Float32Array]:
        time.sleep(seconds)
        seeds = (np.random.default_rng(zlib.crc32(text.encode())) for text in texts)
        return [seed.normal(size=_DIMENSION).astype(np.float32) for seed in seeds]

    return FunctionEncoder(embed, name="random", batch=_QUESTIONS)


def main() -> None:
    """Print a line for each embedder and system."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--documents", type=int, default=1000)
    given = parser.parse_args()
    data = load_dataset(given.dataset, None)
    documents = list(data.documents)[: given.documents]
    questions = list(data.queries.values())[:_QUESTIONS]
    print("| embedder | system | ms a question, one by one | many | times |\n|---|---|---|---|---|")
    encoders: dict[str, Encoder] = {"50 ms": embedder(0.05), "here": load_encoder()}
    for name, encoder in encoders.items():
        with tempfile.TemporaryDirectory() as folder, DocumentIndex.open(folder, encoder) as index:
            index.sync(documents)
            for system in SYSTEMS:
                pipeline = index.pipeline(system)
                pipeline.search_many(questions[:2])
                taken = np.zeros((_REPETITIONS, 2))
                for row in taken:
                    begun = time.perf_counter()
                    alone = [pipeline.search(question) for question in questions]
                    row[0], begun = time.perf_counter() - begun, time.perf_counter()
                    together = pipeline.search_many(questions)
                    row[1] = time.perf_counter() - begun
                    assert [own.ids for own in alone] == [own.ids for own in together]
                one, many = 1000 * np.median(taken, axis=0) / len(questions)
                print(f"| {name} | {system} | {one:.1f} | {many:.1f} | {one / many:.1f} |", flush=True)


if __name__ == "__main__":
    main()
