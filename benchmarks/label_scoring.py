"""Scoring many vectors against some labels: ours, the bare product, and surprise-similarity.

The best label of a million vectors by surprise: the statistics of the ensemble (all of the vectors), the
scores and the choice, in turns with surprise-similarity 0.0.4 on the same arrays, weight 1 and mixed. Then
how often both choose the same label.

    python benchmarks/label_scoring.py
"""

from __future__ import annotations

import importlib.util

import click
import numpy as np
import torch
from machine import describe, interleaved
from surprise_statistics import peak_gib, theirs, vectors

from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise


def scorer_of(ensemble: Ensemble, labels: np.ndarray, weight: float) -> AnchorScores:
    """Moments of the labels, and what scores come of them."""
    return AnchorScores(labels, Surprise(ensemble, weight=weight))


def alone(keys: np.ndarray, labels: np.ndarray, rounds: int) -> None:
    """Parts of our time beside the bare product."""
    ensemble = Ensemble.from_vectors(keys, similarity="cosine")
    pure, mixed = (scorer_of(ensemble, labels, weight) for weight in (1.0, 0.5))
    across = np.ascontiguousarray(labels.T)
    product = np.empty((len(keys), len(labels)), np.float32)
    works = {
        "the bare float32 product": lambda: np.matmul(keys, across, out=product),
        "the product and its rows' largest": lambda: np.matmul(keys, across, out=product).argmax(axis=1),
        "the best label by cosine": lambda: scorer_of(ensemble, labels, 0.0).nearest(keys),
        "the best label by surprise": lambda: pure.nearest(keys),
        "the best label, weight .5": lambda: mixed.nearest(keys),
        "all scores by surprise": lambda: pure.scores(keys),
        "the ensemble's moments, float64": lambda: Ensemble.from_vectors(keys, similarity="cosine"),
    }
    print(f"{len(keys):,} vectors of {keys.shape[1]} against {len(labels)} labels, best of {rounds} rounds:")
    times = interleaved(list(works.values()), rounds)
    limit = times[0][0]
    for name, (best, median) in zip(works, times, strict=True):
        print(f"  {name:<42} {best:6.2f} s (median {median:6.2f})  {best / limit:5.2f} times the product")
    print(f"  peak memory so far {peak_gib():.2f} GiB, {keys.nbytes / 2**30:.2f} of it the vectors")


def side_by_side(keys: np.ndarray, labels: np.ndarray, rounds: int) -> None:
    """The best label by both libraries.

    surprise-similarity cannot be given statistics that are known: it asserts another shape than it reads.
    """
    scorer = theirs()
    k, q = torch.from_numpy(keys), torch.from_numpy(labels)
    ensemble = Ensemble.from_vectors(keys, similarity="cosine")

    def other(weight: float, **settings: bool) -> np.ndarray:
        found = scorer.surprise_sim_score(k, q, ensemble=k, surprise_weight=weight, device="cpu", **settings)
        return np.asarray(found.argmax(dim=1).numpy())

    def ours(weight: float, ensemble: Ensemble | None = None) -> np.ndarray:
        compared = ensemble or Ensemble.from_vectors(keys, similarity="cosine")
        return scorer_of(compared, labels, weight).nearest(keys)

    for weight in (1.0, 0.5):
        works = [
            lambda w=weight: ours(w, ensemble),
            lambda w=weight: ours(w),
            lambda w=weight: other(w),
        ]
        stored, whole, theirs_whole = (best for best, _ in interleaved(works, rounds))
        same = float((ours(weight, ensemble) == other(weight)).mean())
        plain = other(weight, preserve_surprise_ordering_at_high_sigma=False)
        print(f"\nweight {weight:g}, the best label, surprise-similarity {theirs_whole:.2f} s:")
        print(f"  ours with a stored ensemble {stored:.2f} s: {theirs_whole / stored:.1f} times as fast")
        print(f"  ours with the ensemble made anew {whole:.2f} s: {theirs_whole / whole:.2f} times as fast")
        print(
            f"  the same label for {same:.4%}; {float((ours(weight, ensemble) == plain).mean()):.4%} without "
            "its treatment of tails"
        )
    print(f"  peak memory of both {peak_gib():.2f} GiB")


@click.command()
@click.option("--size", default=1_000_000, show_default=True, help="Vectors.")
@click.option("--dimension", default=384, show_default=True)
@click.option("--labels", default=100, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(size: int, dimension: int, labels: int, rounds: int) -> None:
    """Print seconds and ratios."""
    print(describe("numpy", "torch", "surprise-similarity"))
    keys, anchors = vectors(size, dimension, 0), vectors(labels, dimension, 1)
    alone(keys, anchors, rounds)
    if importlib.util.find_spec("surprise_similarity") is None:
        print("surprise-similarity is not installed: pip install -r benchmarks/requirements.txt")
        return
    side_by_side(keys, anchors, rounds)


if __name__ == "__main__":
    main()
