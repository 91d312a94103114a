"""DynaMax of a question over a candidate pool: against the published form, MaxSim, and the machine's limit.

A question of 32 tokens, documents of 100 to 300: pseudo-random unit vectors, since the time does not depend
on them. In one process, taking turns:

limit        the bare matrix product of question and pool, float32, the best of four ways to ask for it
dynamax      DynaMax-Jaccard over the joint universe: row and column maxima, twice what MaxSim needs
inclusion    over the query's universe: MaxSim
one pair     DynaMax-Jaccard of one pair at a time as published: stack the universe, multiply twice
maxsim-cpu   its MaxSim of float32 lists, where it is installed and gives right numbers

    python benchmarks/pool_scoring.py
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import click
import numpy as np
import torch
from machine import describe, interleaved

from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities.dynamax import DynaMax

Work = Callable[[], object]


def one_pair(x: np.ndarray, y: np.ndarray) -> float:
    """DynaMax-Jaccard, algorithm 1 of the paper, in float32."""
    universe = np.concatenate([x, y])
    a = np.maximum((x @ universe.T).max(axis=0), 0)
    b = np.maximum((y @ universe.T).max(axis=0), 0)
    return float(np.minimum(a, b).sum() / np.maximum(a, b).sum())


def limits(query: np.ndarray, documents: np.ndarray) -> dict[str, Work]:
    """The bare product, asked for in four ways."""
    q, y = torch.from_numpy(query), torch.from_numpy(documents)
    return {
        "torch, documents first": lambda: y @ q.T,
        "torch, query first": lambda: q @ y.T,
        "numpy, documents first": lambda: documents @ query.T,
        "numpy, query first": lambda: query @ documents.T,
    }


def maxsim_cpu(query: np.ndarray, texts: list[np.ndarray]) -> Work | None:
    """Its call, or None where it is missing or wrong."""
    if importlib.util.find_spec("maxsim_cpu") is None:
        return None
    import maxsim_cpu

    expected = [(query @ text.T).max(axis=1).sum() for text in texts]
    try:
        found = np.asarray(maxsim_cpu.maxsim_scores_variable(query, texts))
    except BaseException as error:  # noqa: BLE001 - it panics, which is no Exception
        print(f"    maxsim-cpu fails: {type(error).__name__}")
        return None
    if not np.allclose(found, expected, rtol=1e-3):
        print(f"    maxsim-cpu is wrong by up to {np.abs(found - expected).max():.3g}: not timed")
        return None
    return lambda: maxsim_cpu.maxsim_scores_variable(query, texts)


def works(query: np.ndarray, texts: list[np.ndarray]) -> dict[str, Work]:
    """Everything that is timed beside the limit."""
    batch = TokenBatch.from_arrays(texts)
    jaccard, inclusion = DynaMax("jaccard", "joint"), DynaMax("inclusion", "query")
    chosen: dict[str, Work] = {"one pair at a time": lambda: [one_pair(query, text) for text in texts]}
    theirs = maxsim_cpu(query, texts)
    if theirs is not None:
        chosen["maxsim-cpu, MaxSim"] = theirs
    chosen["inclusion"] = lambda: inclusion.pool(query, batch)
    chosen["dynamax"] = lambda: jaccard.pool(query, batch)
    scores = jaccard.pool(query, batch)
    assert np.allclose(scores, [one_pair(query, text) for text in texts], atol=1e-5)
    return chosen


@click.command()
@click.option("--rounds", default=15, show_default=True, help="Times that each is run.")
@click.option("--documents", "sizes", default="100,1000", show_default=True)
@click.option("--dimensions", default="128,384", show_default=True)
def main(rounds: int, sizes: str, dimensions: str) -> None:
    """Print milliseconds and ratios."""
    print(describe("torch", "numpy", "maxsim-cpu"))
    print(f"threads: {torch.get_num_threads()}; best (median) of {rounds} rounds")
    rng = np.random.default_rng(0)
    for d in map(int, dimensions.split(",")):
        for n in map(int, sizes.split(",")):
            texts = [
                unit_rows(rng.standard_normal((int(k), d), dtype=np.float32))
                for k in rng.integers(100, 301, size=n)
            ]
            query = unit_rows(rng.standard_normal((32, d), dtype=np.float32))
            together = np.concatenate(texts)
            print(f"\n32 x {d} over {n} documents, {len(together)} tokens")
            bare = limits(query, together)
            ours = works(query, texts)
            times = interleaved([*bare.values(), *ours.values()], rounds)
            limit = min(best for best, _ in times[: len(bare)])
            flops = 2 * 32 * together.size / limit / 1e9
            print(f"  {'limit: bare float32 product':<30} {1e3 * limit:9.2f} ms  {flops:.0f} GFlop/s")
            pair = times[len(bare)][0]
            for name, (best, median) in zip(ours, times[len(bare) :], strict=True):
                print(
                    f"  {name:<30} {1e3 * best:9.2f} ms ({1e3 * median:9.2f})  {best / limit:6.2f} x limit"
                    f"  {pair / best:6.1f} times as fast as one pair at a time"
                )


if __name__ == "__main__":
    main()
