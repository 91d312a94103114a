"""EvalRank's ranks: against one pair at a time, as published, and the machine's limit.

Pseudo-random vectors of the benchmark's sizes, all different: 5,514 pairs among 22,207 words, 6,989 pairs
among 24,957 sentences, every first item another one. In one process, taking turns:

limit      the bare float32 matrix product of the first items and the background, in blocks
ours       the ranks of all pairs: products in float64, counts, and what they leave open pair by pair
one pair   as published: similarities of the whole background to one item, sorted, and the pair's place found;
           timed over some pairs, reported for all of them

    python benchmarks/evalrank.py
"""

from __future__ import annotations

from collections.abc import Callable

import click
import numpy as np
import torch
from machine import describe, interleaved

from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.eval.studies.evalrank.measures import DenseMeasure, dense_measure
from surprise_rerank.eval.studies.evalrank.ranks import Items, ranks

# Name, pairs, background, dimension.
SIZES = (("words", 5514, 22_207, 50), ("words", 5514, 22_207, 300), ("sentences", 6989, 24_957, 384))
# First items whose products with the background are in memory together.
BLOCK = 336
# Pairs that are timed one at a time.
SAMPLE = 50


def limit(first: np.ndarray, background: np.ndarray) -> None:
    """The bare product, forgotten block by block."""
    out = np.empty((BLOCK, len(background)), np.float32)
    for start in range(0, len(first), BLOCK):
        block = first[start : start + BLOCK]
        np.matmul(block, background.T, out=out[: len(block)])


def cosine_rank(a: np.ndarray, b: np.ndarray, background: np.ndarray) -> int:
    """One pair, by sorted cosines."""
    scores = np.sort(background @ a)
    return max(1, len(scores) - int(np.searchsorted(scores, a @ b, side="right")))


def l2_rank(a: np.ndarray, b: np.ndarray, background: np.ndarray) -> int:
    """One pair, by sorted 1 / (1 + distance)."""
    scores = np.sort(1 / (1 + np.linalg.norm(background - a, axis=1)))
    return max(1, len(scores) - int(np.searchsorted(scores, 1 / (1 + np.linalg.norm(a - b)), side="right")))


ONE_PAIR: dict[DenseMeasure, Callable[[np.ndarray, np.ndarray, np.ndarray], int]] = {
    "cosine": cosine_rank,
    "l2": l2_rank,
}


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Times that each is run.")
def main(rounds: int) -> None:
    """Print seconds and ratios."""
    print(describe("numpy", "torch"))
    print(f"threads: {torch.get_num_threads()}; best (median) of {rounds} rounds")
    rng = np.random.default_rng(0)
    for name, n, m, d in SIZES:
        plain = rng.standard_normal((m, d), dtype=np.float32)
        items, _ = Items.of(plain, unit_rows(plain), m)
        pairs = np.stack([np.arange(n), rng.permutation(m)[:n]], axis=1)
        print(f"\n{name}: {n} pairs among {m}, dimension {d}")
        for kind, one_pair in ONE_PAIR.items():
            vectors = items.unit if kind == "cosine" else items.plain

            def ours(kind: DenseMeasure = kind, items: Items = items, pairs: np.ndarray = pairs) -> object:
                return ranks(dense_measure(kind, items), pairs, items.counts)

            def theirs(
                one_pair: Callable[..., int] = one_pair, x: np.ndarray = vectors, pairs: np.ndarray = pairs
            ) -> object:
                return [one_pair(x[a], x[b], x) for a, b in pairs[:SAMPLE]]

            works = [lambda x=vectors, n=n: limit(x[:n], x), ours, theirs]
            (bare, _), (best, median), (sample, _) = interleaved(works, rounds)
            alone = sample * n / SAMPLE
            print(
                f"  {kind:<7} limit {bare:5.2f} s   ours {best:5.2f} s ({median:.2f}), {best / bare:4.2f} x "
                f"limit   one pair at a time {alone:6.1f} s, {alone / best:5.1f} times as long"
            )


if __name__ == "__main__":
    main()
