"""What a question costs beside other busy programs, and how much of that its share of the processor explains.

    surprise-rerank index beir/scifact --index INDEX
    python benchmarks/busy_machine.py --index INDEX --dataset beir/scifact

Systems take turns at every question, in one process. A loop of fixed work in one thread takes its turn, too:
how much slower it is than alone is what a fair share of the processor explains, whatever else the machine
does. On c cores with k busy programs that is max(1, (k + 1) / c). The factor beside it is a question's own
slow-down over the loop's. The rounds alternate, so that a noisy moment hits every row.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import machine
import numpy as np

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

SYSTEMS = ("cosine", "dynamax", "auto", "fusion")
LOOP = "loop"
WARM = 5
# Steps of the loop: about as long as a question.
STEPS = 400_000


def loop() -> int:
    """Work of one thread that shares nothing with others."""
    total = 0
    for step in range(STEPS):
        total ^= step
    return total


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """So many other programs that never wait."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for program in running:
            program.kill()
            program.wait()


def taken(
    works: dict[str, Callable[[str], object]], questions: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """Work -> milliseconds of every question, and of processor that all threads used for it."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for question in questions:
        for name, work in works.items():
            begun, used = time.perf_counter(), time.process_time()
            work(question)
            found[name].append((1000 * (time.perf_counter() - begun), 1000 * (time.process_time() - used)))
    return found


def main() -> None:
    """Print a line for each system and number of busy programs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--split")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--programs", type=int, nargs="+", default=[0, 2, 6])
    parser.add_argument("--questions", type=int, default=25, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--top", type=int, default=10)
    given = parser.parse_args()
    print(machine.describe("torch", "numpy", "qdrant-edge-py"))
    encoder = load_encoder(given.model)
    questions = list(load_dataset(given.dataset, given.split).queries.values())
    with DocumentIndex.open(given.index, encoder) as index:
        pipelines = {name: index.pipeline(name) for name in SYSTEMS}
        works: dict[str, Callable[[str], object]] = {LOOP: lambda _: loop()}
        for name, pipeline in pipelines.items():
            works[name] = lambda question, pipeline=pipeline: pipeline.search(question, given.top)
        taken(works, questions[:WARM])
        measured: dict[int, dict[str, list[tuple[float, float]]]] = {k: {} for k in given.programs}
        for number in range(given.rounds):
            begin = number * given.questions
            asked = [questions[i % len(questions)] for i in range(begin, begin + given.questions)]
            for programs in given.programs:
                with busy(programs):
                    for name, times in taken(works, asked).items():
                        measured[programs].setdefault(name, []).extend(times)
    print(f"{given.dataset}, {given.rounds} rounds of {given.questions} questions; milliseconds")
    alone = {name: np.median(times, axis=0)[0] for name, times in measured[given.programs[0]].items()}
    for programs, rows in measured.items():
        explained = np.median(rows[LOOP], axis=0)[0] / alone[LOOP]
        for name, times in rows.items():
            (middle, used), late = np.median(times, axis=0), np.percentile(times, 95, axis=0)[0]
            print(
                f"beside {programs}  {name:8s} median {middle:7.1f}  95th {late:7.1f}  processor {used:6.1f}"
                f"  {middle / alone[name]:5.2f} times alone, explained {explained:5.2f}, "
                f"factor {middle / alone[name] / explained:4.2f}"
            )


if __name__ == "__main__":
    main()
