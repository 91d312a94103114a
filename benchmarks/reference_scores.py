"""The surprise score and the table of documents of the paper's program beside ours, at weights 0, .5 and 1.

    pip install surprise-similarity==0.0.4     # in an environment of its own
    python benchmarks/reference_scores.py

Over more than a million similarities the program's Psi_hat has two lines that meet at the mean, as ours has;
over fewer they meet at the median, as in `normalized_similarity_exact`.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from surprise_similarity import SurpriseSimilarity

from surprise_rerank import Ensemble, FunctionEncoder, rank_documents
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
    compare_tables(rng)


def compare_tables(rng: np.random.Generator) -> None:
    """Print how many documents the tables with thresholds and cutoffs share, and how far scores differ."""
    names = [*(f"d{i}" for i in range(250)), "q0", "q1", "c0", "c1"]
    rows = unit_rows((rng.normal(size=(254, 32)) + 1.2).astype(np.float32))
    vectors = dict(zip(names, rows, strict=True))

    def encode(texts: list[str], model_name: str = "") -> np.ndarray:
        return np.stack([vectors[text] for text in texts])

    theirs = SurpriseSimilarity()
    theirs.string_encoder = SimpleNamespace(
        model_name="rows", encode_string=lambda texts, model_name: torch.from_numpy(encode(texts))
    )
    encoder, questions = FunctionEncoder(encode, name="rows", dimension=32), ["q0", "q1"]
    for weight in (0.0, 0.5, 1.0):
        for above, below, cutoffs in (
            (None, None, None),
            ({"q1": 0.3}, {"q0": 0.9}, None),
            (None, None, ["c0", "c1"]),
        ):
            more = {"surprise_weight": weight, "sample_num_cutoff": None, "cutoffs": cutoffs, "device": "cpu"}
            frame = theirs.rank_documents(
                names[:250], questions, lower_thresholds=above, upper_thresholds=below, **more
            )
            table = rank_documents(
                names[:250],
                questions,
                encoder,
                weight=weight,
                above=above,
                below=below,
                cutoffs=cutoffs,
                top_k=None,
            )
            scores = dict(zip(frame["documents"], frame[questions].to_numpy(), strict=True))
            shared = [name for name in table.documents if name in scores]
            difference = max(
                np.abs(scores[name] - row).max()
                for name, row in zip(table.documents, table.scores, strict=True)
                if name in scores
            )
            print(
                f"table, w = {weight}, {above}, {below}, {cutoffs}: {len(shared)} of {len(scores)} and "
                f"{len(table.documents)} documents; differs by at most {difference:.1e}"
            )


if __name__ == "__main__":
    main()
