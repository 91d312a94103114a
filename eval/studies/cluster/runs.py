"""One repeat: centres from one seed, and every assignment of the points to them, compared with labels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import (
    adjusted_rand_score,
    homogeneity_completeness_v_measure,
    normalized_mutual_info_score,
)

from surprise_rerank.classify.cluster import SurpriseAssignment, SurpriseKMeans
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.eval.studies.cluster.assignments import Assignment


@dataclass(frozen=True, slots=True)
class Run:
    """What an assignment makes of the centres of a repeat.

    Attributes:
        v_measure: harmonic mean of homogeneity and completeness.
        homogeneity: 1 where no cluster has points of two labels.
        completeness: 1 where no label has points in two clusters.
        ari: adjusted Rand index, 0 by chance.
        nmi: normalised mutual information, by the arithmetic mean of the entropies.
        moved: share of the points that are in another cluster than by the cosine.
        largest: points of the largest cluster.
        smallest: points of the smallest one that has any.
        empty: clusters that have none.
        mean_cosine: of the points to the centres of their clusters.
        centre_seconds: finding the centres.
        seconds: assigning the points, with the moments of the ensemble.
    """

    v_measure: float
    homogeneity: float
    completeness: float
    ari: float
    nmi: float
    moved: float
    largest: int
    smallest: int
    empty: int
    mean_cosine: float
    centre_seconds: float
    seconds: float


def measure(
    vectors: Float32Array,
    labels: Sequence[str],
    assignments: Sequence[Assignment],
    *,
    clusters: int,
    seed: int,
) -> dict[str, Run]:
    """Runs of the same centres, by the names of the assignments.

    Args:
        vectors: (n, d) of the texts.
        labels: (n,) what the clusters are compared with.
        assignments: at least one.
        clusters: k, at most n.
        seed: of the centres.

    Raises:
        DataError: if there are fewer vectors than clusters.
    """
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Fewer different texts than clusters: some stay empty, which is counted.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres = SurpriseKMeans(clusters, weight=0.0, random_state=seed).fit(vectors)
    centre_seconds = time.perf_counter() - start
    runs = {}
    for assignment in assignments:
        start = time.perf_counter()
        found = SurpriseAssignment(centres, model=assignment.model, weight=assignment.weight).fit(vectors)
        seconds = time.perf_counter() - start
        runs[assignment.name] = _run(labels, found, centres.labels_, centre_seconds, seconds)
    return runs


def _run(
    labels: Sequence[str],
    found: SurpriseAssignment,
    by_cosine: IntArray,
    centre_seconds: float,
    seconds: float,
) -> Run:
    sizes = np.bincount(found.labels_, minlength=len(found.cluster_centers_))
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(labels, found.labels_)
    return Run(
        v_measure=float(v_measure),
        homogeneity=float(homogeneity),
        completeness=float(completeness),
        ari=float(adjusted_rand_score(labels, found.labels_)),
        nmi=float(normalized_mutual_info_score(labels, found.labels_)),
        moved=float((found.labels_ != by_cosine).mean()),
        largest=int(sizes.max()),
        smallest=int(sizes[sizes > 0].min()),
        empty=int((sizes == 0).sum()),
        mean_cosine=found.mean_cosine_,
        centre_seconds=centre_seconds,
        seconds=seconds,
    )
