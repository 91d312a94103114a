"""Surprise statistics: exact without a scan, and against surprise-similarity.

    python benchmarks/surprise_statistics.py

The statistics of a million anchors against a million members beside the bare products; the same by
surprise-similarity 0.0.4, at a size that it can do, in turns with ours; and the most surprising of some
labels for each of many vectors, by both.
"""

from __future__ import annotations

import importlib.util
import time
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import torch
from machine import describe, interleaved

from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise


def vectors(n: int, d: int, seed: int) -> np.ndarray:
    """(n, d) unit vectors in a cone, as encoders make them."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, d), np.float32)
    for start in range(0, n, 50_000):
        part = rng.standard_normal((len(rows[start : start + 50_000]), d), dtype=np.float32)
        part[:, 0] += 0.3 * d**0.5
        rows[start : start + 50_000] = unit_rows(part)
    return rows


def million(n: int, d: int) -> None:
    """Statistics of n anchors against an ensemble of n members, the anchors being other vectors."""
    members = vectors(n, d, 0)
    start = time.perf_counter()
    ensemble = Ensemble.from_vectors(members)
    built = time.perf_counter() - start
    del members
    anchors = vectors(n, d, 1)
    start = time.perf_counter()
    ensemble.moments(anchors)
    seen = time.perf_counter() - start
    double, square = np.ones((4096, d)), np.ones((d, d))
    ((best, _),) = interleaved([lambda: double @ square], 50)
    # d^2 a member for the covariance, d^2 an anchor; a scan would take d for each of n * n pairs.
    limit = 2 * n * best / 4096
    print(
        f"{n:,} anchors against {n:,} members, d = {d}: {built:.1f} s for the ensemble, {seen:.1f} s for the "
        f"anchors, {(built + seen) / limit:.2f} times the bare float64 products"
    )


def theirs() -> Any:
    """surprise-similarity's object, without the model that its constructor would download."""
    from surprise_similarity import SurpriseSimilarity
    from surprise_similarity.surprise_similarity import cosine_similarity

    scorer = SurpriseSimilarity.__new__(SurpriseSimilarity)
    scorer.score_functions = {"cosine": cosine_similarity}
    scorer.string_encoder = SimpleNamespace(model_name="", encode_string=lambda vectors, model_name: vectors)
    return scorer


def side_by_side(n: int, d: int, rounds: int) -> None:
    """Both libraries' statistics of n anchors against n members."""
    scorer, members, anchors = theirs(), vectors(n, d, 2), vectors(n, d, 3)
    m, a = torch.from_numpy(members), torch.from_numpy(anchors)
    moments = scorer.compute_ensemble_query_median_1sigma(m, a).numpy()
    ours = Ensemble.from_vectors(members).moments(anchors)
    means, deviations = (np.abs(moments.T - [ours.mean, ours.deviation])).max(axis=1)
    works = [
        lambda: Ensemble.from_vectors(members).moments(anchors),
        lambda: scorer.compute_ensemble_query_median_1sigma(m, a),
    ]
    (best, _), (other, _) = interleaved(works, rounds)
    print(
        f"{n:,} and {n:,}: ours {best:.3f} s, surprise-similarity {other:.3f} s; means differ by at most "
        f"{means:.1e}, deviations by {deviations:.1e}"
    )


def labels(n: int, d: int, count: int, rounds: int) -> None:
    """The most surprising of some labels for n vectors, which are the ensemble, too.

    surprise-similarity cannot be given statistics that are known: it asserts another shape than it reads.
    """
    scorer, keys, anchors = theirs(), vectors(n, d, 0), vectors(count, d, 1)
    k, q = torch.from_numpy(keys), torch.from_numpy(anchors)
    stored = Ensemble.from_vectors(keys, similarity="cosine")

    def ours(ensemble: Ensemble | None = None) -> np.ndarray:
        compared = ensemble or Ensemble.from_vectors(keys, similarity="cosine")
        return AnchorScores(anchors, Surprise(compared, weight=1.0)).nearest(keys)

    def other() -> np.ndarray:
        scores = scorer.surprise_sim_score(k, q, ensemble=k, surprise_weight=1.0, device="cpu")
        return np.asarray(scores.argmax(dim=1).numpy())

    kept, anew, whole = (best for best, _ in interleaved([lambda: ours(stored), ours, other], rounds))
    same = float((ours(stored) == other()).mean())
    print(
        f"the best of {count} labels for {n:,} vectors, {same:.4%} the same: ours with a stored ensemble "
        f"{kept:.2f} s, with one made anew {anew:.2f} s; surprise-similarity {whole:.2f} s"
    )


@click.command()
@click.option("--size", default=1_000_000, show_default=True, help="Anchors and members of the first part.")
@click.option("--dimension", default=384, show_default=True)
@click.option("--beside", default=10_000, show_default=True, help="The same, side by side.")
@click.option("--rounds", default=3, show_default=True)
def main(size: int, dimension: int, beside: int, rounds: int) -> None:
    """Print seconds, ratios and differences."""
    print(describe("numpy", "torch", "surprise-similarity"))
    million(size, dimension)
    if importlib.util.find_spec("surprise_similarity") is None:
        print("surprise-similarity is not installed: pip install surprise-similarity==0.0.4")
        return
    side_by_side(beside, dimension, rounds)
    labels(size, dimension, 100, rounds)


if __name__ == "__main__":
    main()
