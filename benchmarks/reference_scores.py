"""The surprise score of the paper's program beside ours, at weights 0, .5 and 1.

    pip install surprise-similarity==0.0.4     # in an environment of its own
    python benchmarks/reference_scores.py

Over more than a million similarities the program's Psi_hat has two lines that meet at the mean, as ours has;
over fewer they meet at the median, as in `normalized_similarity_exact`.
"""

from __future__ import annotations

import numpy as np
import torch
from surprise_similarity import SurpriseSimilarity

from surprise_rerank import Ensemble
from surprise_rerank.core.arrays import Float64Array, unit_rows
from surprise_rerank.surprise.score import Surprise, normalized_similarity, normalized_similarity_exact

SIZES = ((1100, 1000), (300, 40))  # of keys, which are the ensemble, and of queries


def ours(
    similarities: Float64Array, keys: Float64Array, queries: Float64Array, weight: float
) -> Float64Array:
    """(n, l) Sigma_w of (4), with the program's Psi_hat for so many similarities."""
    ensemble = Ensemble.from_vectors(keys, similarity="cosine")
    surprise = Surprise(ensemble, "gaussian", 1.0)
    columns = [
        surprise.scores(similarities[:, [j]].ravel(), queries[[j]]).probability for j in range(len(queries))
    ]
    if similarities.size > 1_000_000:
        normalized = normalized_similarity(similarities, float(similarities.mean()))
    else:
        normalized = normalized_similarity_exact(similarities, similarities.ravel())
    return (1 - weight) * normalized + weight * np.stack(columns, axis=1)


def main() -> None:
    """Print the largest difference of each weight."""
    rng = np.random.default_rng(1)
    for sizes in SIZES:
        # A cone, in which no similarity is below 0: the program cuts those off, and ours keeps their order.
        keys, queries = (unit_rows(rng.normal(size=(n, 48)).astype(np.float32) + 1.5) for n in sizes)
        similarities = keys.astype(np.float64) @ queries.T.astype(np.float64)
        for weight in (0.0, 0.5, 1.0):
            theirs = SurpriseSimilarity().surprise_sim_score(
                torch.from_numpy(keys),
                torch.from_numpy(queries),
                ensemble=torch.from_numpy(keys),
                surprise_weight=weight,
                device="cpu",
            )
            difference = np.abs(ours(similarities, keys, queries, weight) - np.asarray(theirs)).max()
            print(f"{sizes[0]} keys, {sizes[1]} queries, w = {weight}: differs by at most {difference:.1e}")


if __name__ == "__main__":
    main()
