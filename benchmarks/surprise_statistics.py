"""Surprise statistics: exact without a scan, against the scan, and against surprise-similarity.

The statistics of a million anchors against a million members: seconds, peak memory, and how many
multiplications a scan would need instead. The same statistics by surprise-similarity 0.0.4, at a size that it
can do, in turns with ours. Agreement: the scores of both for the same pairs, and what its treatment of the
tail does. And the most surprising of some labels for each of many vectors, by both.

    python benchmarks/surprise_statistics.py
"""

from __future__ import annotations

import importlib.util
import resource
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
from surprise_rerank.surprise.score import Surprise, SurpriseModel


def vectors(n: int, d: int, seed: int) -> np.ndarray:
    """(n, d) unit vectors in a cone, as encoders make them."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, d), np.float32)
    for start in range(0, n, 50_000):
        part = rng.standard_normal((len(rows[start : start + 50_000]), d), dtype=np.float32)
        part[:, 0] += 0.3 * d**0.5
        rows[start : start + 50_000] = unit_rows(part)
    return rows


def peak_gib() -> float:
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def million(n: int, d: int) -> None:
    """Statistics of n anchors against an ensemble of n members, the anchors being other vectors."""
    members = vectors(n, d, 0)
    start = time.perf_counter()
    ensemble = Ensemble.from_vectors(members)
    built = time.perf_counter() - start
    del members
    anchors = vectors(n, d, 1)
    start = time.perf_counter()
    moments = ensemble.moments(anchors)
    seen = time.perf_counter() - start
    assert len(moments.mean) == n
    # Ours: d^2 a member for the covariance, d^2 + d an anchor. A scan: d for each of n * n pairs.
    ours, scan = 2 * n * d * d + n * d, n * n * d
    print(
        f"{n:,} anchors against {n:,} members, d = {d}: {built:.1f} s for the ensemble (its sample of "
        f"{ensemble.sampled} included), {seen:.1f} s for the anchors"
    )
    print(
        f"  {ours:.3g} multiplications instead of the {scan:.3g} of a scan: {scan / ours:,.0f} times fewer; "
        f"peak memory {peak_gib():.2f} GiB, {4 * n * d / 2**30:.2f} of it one list of vectors"
    )
    double = np.ones((4096, d))
    square = np.ones((d, d))
    ((best, _),) = interleaved([lambda: double @ square], 50)
    limit = 2 * n * best / 4096
    print(f"  the bare float64 products take {limit:.1f} s: {(built + seen) / limit:.2f} times that")


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
    scorer = theirs()
    members, anchors = vectors(n, d, 2), vectors(n, d, 3)
    m, a = torch.from_numpy(members), torch.from_numpy(anchors)
    found = scorer.compute_ensemble_query_median_1sigma(m, a).numpy()
    ours = Ensemble.from_vectors(members).moments(anchors)
    means, deviations = (np.abs(found.T - [ours.mean, ours.deviation])).max(axis=1)
    print(
        f"\n{n:,} anchors against {n:,} members: means differ by at most {means:.1e}, deviations by "
        f"{deviations:.1e}"
    )
    (best, _), (other, _) = interleaved(
        [
            lambda: Ensemble.from_vectors(members).moments(anchors),
            lambda: scorer.compute_ensemble_query_median_1sigma(m, a),
        ],
        rounds,
    )
    print(f"  ours {best:.3f} s, surprise-similarity {other:.3f} s: {other / best:.1f} times as fast")


def agreement(n: int, d: int) -> None:
    """Scores of n documents for 40 anchors, theirs and ours."""
    scorer = theirs()
    keys, queries = vectors(n, d, 4), vectors(40, d, 5)
    keys[:40] = unit_rows(queries + 1.5 * keys[:40])  # some pairs far in the tail
    psi = queries.astype(float) @ keys.T.astype(float)
    k, q = torch.from_numpy(keys), torch.from_numpy(queries)
    ensemble = Ensemble.from_vectors(keys, sample_size=n)

    def ours(model: SurpriseModel, chosen: np.ndarray, field: str) -> np.ndarray:
        surprise = Surprise(ensemble, model, weight=1)
        each = zip(psi[:, chosen], queries, strict=True)
        return np.stack([getattr(surprise.scores(row, anchor[None]), field) for row, anchor in each])

    def other(chosen: np.ndarray, **settings: bool) -> np.ndarray:
        chosen_keys = torch.from_numpy(keys[chosen])
        scores = scorer.surprise_sim_score(
            chosen_keys, q, ensemble=k, surprise_weight=1, device="cpu", **settings
        )
        return np.asarray(scores.numpy().T)

    everything = np.arange(n)
    print(f"\nagreement over {psi.size:,} pairs, weight 1:")
    models: tuple[SurpriseModel, SurpriseModel] = ("gaussian", "percentile")
    for model in models:
        z, p = ours(model, everything, "z"), ours(model, everything, "probability")
        percentile = model == "percentile"
        plain = other(everything, use_percentile=percentile, preserve_surprise_ordering_at_high_sigma=False)
        squeezed = other(everything, use_percentile=percentile)
        changed, tail = np.abs(squeezed - p) > 1e-5, z >= 4.5
        print(f"  {model}, largest z {z.max():.1f}:")
        print(f"    below 4.5 sigma the scores differ by at most {np.abs(plain - p)[~tail].max():.1e}")
        print(
            f"    its treatment of tails, on by default, moves {changed.sum()} scores by more than 1e-5, "
            f"from {z[changed].min(initial=np.inf):.2f} sigma on"
        )
        print(
            f"    beyond 4.5 sigma {tail.sum()} pairs have {len(np.unique(plain[tail]))} different scores "
            f"without it, and {len(np.unique(z[tail]))} different z here"
        )
    # The same pairs in two batches against one ensemble: all documents, and all but the most surprising.
    z = ours("gaussian", everything, "z")
    rest = np.delete(everything, z.max(axis=0).argmax())
    there = np.abs(other(everything)[:, rest] - other(rest)).max()
    here = np.abs(z[:, rest] - ours("gaussian", rest, "z")).max()
    print(
        f"  with one document less in the batch, the others' scores move by up to {there:.1e} there and by "
        f"{here:.1e} here"
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
        found = scorer.surprise_sim_score(k, q, ensemble=k, surprise_weight=1.0, device="cpu")
        return np.asarray(found.argmax(dim=1).numpy())

    kept, anew, whole = (best for best, _ in interleaved([lambda: ours(stored), ours, other], rounds))
    same = float((ours(stored) == other()).mean())
    print(f"\nthe best of {count} labels for {n:,} vectors, {same:.4%} the same: ours with a stored ensemble")
    print(f"  {kept:.2f} s, with one made anew {anew:.2f} s; surprise-similarity {whole:.2f} s")


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
        print("surprise-similarity is not installed: pip install -r benchmarks/requirements.txt")
        return
    side_by_side(beside, dimension, rounds)
    agreement(5_000, dimension)
    labels(size, dimension, 100, rounds)


if __name__ == "__main__":
    main()
