"""The top 10 of every document, side by side with surprise-similarity's `rank_documents`, in one run.

Both are given the same vectors; surprise-similarity's encoder is a table from texts to vectors. Its surprise
has the document that is ranked as the anchor, as ours does, over the ensemble of a batch: on a processor it
takes at most 512 documents and queries together, so that every call ranks all documents for 250 queries. It
mixes in the cosine by default; here it ranks by surprise alone. Then what depends on the batch: ours in
blocks of several sizes and orders, bit by bit; and how much of its top 10 changes when it shuffles the
documents anew, which every call with other documents does, and with batches half as large.

    python benchmarks/similar_peer.py
"""

from __future__ import annotations

import random
import time
import warnings
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import torch
from clustered import clustered
from machine import describe

from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.neighbours import KEY_BLOCK, QUERY_BLOCK, Keys, Neighbours, NeighbourSearch


def ours(
    vectors: np.ndarray, k: int, queries: int = QUERY_BLOCK, keys: int = KEY_BLOCK, seed: int | None = None
) -> Neighbours:
    """The top k of every document, in blocks; in another order of the blocks with a seed."""
    n = len(vectors)
    moments = Ensemble.from_vectors(vectors, sample_size=0).moments(vectors)
    firsts = list(range(0, n, keys))
    if seed is not None:
        random.Random(seed).shuffle(firsts)
    parts = []
    for start in range(0, n, queries):
        rows = np.arange(start, min(start + queries, n))
        search = NeighbourSearch(vectors[rows], k=k, own=rows)
        for first in firsts:
            block = slice(first, first + keys)
            own = Moments(moments.mean[block], moments.deviation[block])
            search.add(Keys(vectors[block], own, first))
        part = search.found()
        parts.append(Neighbours(part.query + start, part.key, part.similarity, part.z))
    names = ("query", "key", "similarity", "z")
    return Neighbours(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class Theirs:
    """surprise-similarity over known vectors; the texts are the documents' numbers."""

    def __init__(self, vectors: np.ndarray) -> None:
        from surprise_similarity import SurpriseSimilarity
        from surprise_similarity.surprise_similarity import cosine_similarity

        table = torch.from_numpy(vectors)
        scorer: Any = SurpriseSimilarity.__new__(SurpriseSimilarity)  # whose constructor downloads a model
        warnings.filterwarnings("ignore", message="DataFrame is highly fragmented")
        scorer.score_functions = {"cosine": cosine_similarity}
        scorer.string_encoder = SimpleNamespace(
            model_name="", encode_string=lambda texts, model_name: table[[int(text) for text in texts]]
        )
        self._scorer, self._names = scorer, [str(row) for row in range(len(vectors))]

    def top(
        self,
        k: int,
        seed: int = 0,
        batch: int = 512,
        queries_of_a_call: int = 250,
        last: int | None = None,
    ) -> np.ndarray:
        """(last, k) the best documents of the first documents, or of all, without the document itself.

        It shuffles the documents, here by the seed.
        """
        random.seed(seed)
        self._scorer._clear_cache()
        best = []
        asked = self._names[:last]
        for start in range(0, len(asked), queries_of_a_call):
            queries = asked[start : start + queries_of_a_call]
            ranked = self._scorer.rank_documents(
                self._names,
                queries,
                surprise_weight=1.0,
                batch_size=batch,
                show_progress_bar=False,
                device="cpu",
            )
            scores, rows = ranked[queries].to_numpy().T.copy(), ranked["documents"].to_numpy().astype(int)
            scores[rows == np.array(queries, int)[:, None]] = -np.inf
            best.append(rows[np.argsort(-scores, axis=1, kind="stable")[:, :k]])
        return np.concatenate(best)


def changed(one: np.ndarray, other: np.ndarray) -> float:
    """The share of one top k that is not in the other."""
    return float(np.mean([len(set(a) - set(b)) / len(a) for a, b in zip(one, other, strict=True)]))


def same_bits(one: Neighbours, other: Neighbours) -> bool:
    """Whether rows, similarities and surprises are equal."""
    names = ("query", "key", "similarity", "z")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@click.command()
@click.option("--size", default=5000, show_default=True, help="Documents.")
@click.option("--dimension", default=384, show_default=True)
@click.option("--vectors", type=click.Path(exists=True), help="An .npy file of at least as many vectors.")
@click.option("-k", default=10, show_default=True)
@click.option("--stability", default=1000, show_default=True, help="Queries that are ranked again.")
@click.option("--rounds", default=1, show_default=True, help="Of some minutes each.")
def main(size: int, dimension: int, vectors: str | None, k: int, stability: int, rounds: int) -> None:
    """Print the ratio of times, and what the batch changes."""
    print(describe("numpy", "torch", "surprise-similarity"))
    given = np.load(vectors, mmap_mode="r")[:size] if vectors else clustered(0, size, dimension)
    x = unit_rows(np.array(given))
    peer = Theirs(x)
    peer.top(k, last=1)  # lazy imports
    found, seconds = [], []
    for _ in range(rounds):
        for work in (lambda: ours(x, k), lambda: peer.top(k)):
            begun = time.perf_counter()
            found.append(work())
            seconds.append(time.perf_counter() - begun)
    mine, other = min(seconds[::2]), min(seconds[1::2])
    print(
        f"top {k} of all {len(x):,} x {x.shape[1]}: ours {mine:.2f} s, surprise-similarity {other:.1f} s, "
        f"{other / mine:.0f} times as long (best of {rounds} rounds)",
        flush=True,
    )
    whole = found[0]
    exact = whole.key.reshape(len(x), k)
    for block in (64, 1000, 5000):
        again = ours(x, k, block, block, seed=block)
        print(f"  ours in blocks of {block}, in another order: the same bits {same_bits(whole, again)}")
    first, second = (peer.top(k, seed, last=stability) for seed in (0, 1))
    smaller = peer.top(k, batch=256, queries_of_a_call=100, last=stability)
    print(
        f"  surprise-similarity: {changed(first, second):.1%} of its top {k} change when it shuffles anew, "
        f"{changed(first, smaller):.1%} with batches half as large; {changed(first, exact[:stability]):.1%} "
        f"are not in the exact top {k}"
    )


if __name__ == "__main__":
    main()
