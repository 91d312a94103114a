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
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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


def main() -> None:
    """Print a line for each system and number of busy programs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--programs", type=int, nargs="+", default=[0, 2, 6])
    parser.add_argument("--questions", type=int, default=25, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(machine.describe("torch", "numpy", "qdrant-edge-py"))
    questions = itertools.cycle(load_dataset(given.dataset).queries.values())
    milliseconds: dict[tuple[int, str], list[float]] = {}
    with DocumentIndex.open(given.index, load_encoder()) as index:
        works: dict[str, Callable[[str], object]] = {LOOP: lambda _: loop()}
        works |= {name: index.pipeline(name).search for name in SYSTEMS}
        for question in itertools.islice(questions, WARM):
            for work in works.values():
                work(question)
        for _ in range(given.rounds):
            asked = list(itertools.islice(questions, given.questions))
            for programs in given.programs:
                with busy(programs):
                    for question, (name, work) in itertools.product(asked, works.items()):
                        begun = time.perf_counter()
                        work(question)
                        took = 1000 * (time.perf_counter() - begun)
                        milliseconds.setdefault((programs, name), []).append(took)
    medians = {key: float(np.median(own)) for key, own in milliseconds.items()}
    alone = {name: medians[given.programs[0], name] for name in works}
    for (programs, name), median in medians.items():
        times, explained = median / alone[name], medians[programs, LOOP] / alone[LOOP]
        print(
            f"beside {programs}  {name:8s} median {median:7.1f} ms, {times:5.2f} times alone, "
            f"explained {explained:5.2f}, factor {times / explained:4.2f}"
        )


if __name__ == "__main__":
    main()
