"""Clusters whose members are assigned by surprise ('Taken by Surprise', arXiv 2308.09765).

    label(k) = argmax over centres c of Sigma_w(k, c | E),  E = the points that were clustered

The centre is q, the point is the key, and the points are the ensemble: every centre has its own mean and
deviation of the cosine over all points. A centre in the middle, which is near to all points, gets only those
points that are surprisingly near to it. The centres are those of k-means, or of any other clusterer.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray, unit_rows
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight

Assignment: TypeAlias = Literal["surprise", "cosine"]

# Chosen for the Gaussian model on tweets, under three encoders (MiniLM, multilingual-e5-small, GloVe): at 1
# the ARI falls below the cosine's with two of them.
DEFAULT_WEIGHT = 0.75
# Rows that are converted together, so that mapped vectors are never copied whole.
_BLOCK = 16_384
# Mini-batch passes end when centres move by less than this, as a mean square; points have length 1.
_SETTLED = 1e-3
# Rows, in batches, that the first centres of mini-batches are found among; as scikit-learn has it.
_INITIAL_BATCHES = 3


class _Assigned(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators share: points are assigned to `cluster_centers_` by `AnchorScores`."""

    model: SurpriseModel
    weight: Weight

    def predict(self, X: npt.ArrayLike) -> IntArray:  # noqa: N803 - as scikit-learn has it
        """Clusters of points, against the ensemble of `fit`; other points of the call make no difference.

        Args:
            X: (n, d) points.

        Returns:
            (n,) numbers of `cluster_centers_`; the first one of equals.

        Raises:
            DataError: if the shape is another one, or a value is NaN or infinite.
        """
        check_is_fitted(self)
        return self._scores.nearest(_points(self, X, reset=False))

    def transform(self, X: npt.ArrayLike) -> FloatArray:  # noqa: N803
        """Scores of points to every centre; a point is assigned to the highest.

        Args:
            X: (n, d) points.

        Returns:
            (n, k): z at weight 1 (the share in the empirical model), Sigma_w below it, cosines at weight 0;
            float32 for float32 points, float64 for others.

        Raises:
            DataError: as `predict`.
        """
        check_is_fitted(self)
        return self._scores.scores(_points(self, X, reset=False))

    def _assign(self, points: FloatArray, centres: FloatArray, weight: Weight) -> None:
        """Set the attributes that depend on the centres: ensemble, labels, mean cosine."""
        blocks = (points[rows] for rows in gen_batches(len(points), _BLOCK))
        self.ensemble_ = Ensemble.from_batches(blocks, similarity="cosine")
        population = Ensemble.from_vectors(centres, similarity="cosine") if self.model == "pooled" else None
        surprise = Surprise(self.ensemble_, self.model, weight, anchors=population)
        self._scores = AnchorScores(centres, surprise)
        self.cluster_centers_ = centres
        self.weight_ = self._scores.weight
        self.labels_ = self._scores.nearest(points)
        self.mean_cosine_ = _mean_cosine(points, centres, self.labels_)
        self._n_features_out = len(centres)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SurpriseKMeans(_Assigned):
    """k-means by the cosine, whose points are assigned to the centres by surprise.

    The centres come from scikit-learn's k-means++ and k-means on points of length 1. A cluster may end up
    without a point; its centre and its number stay.

    Args:
        n_clusters: k.
        assignment: `surprise`, or `cosine`, the nearest centre.
        model: of the surprise score. `pooled` gives all centres one deviation, so that they differ only in
            their means.
        weight: w of the score, from 0 (the cosine) to 1, or `crossover`, which depends on the number of
            points.
        batch_size: None for k-means over all points; a number for mini-batches of that many (at least k),
            which copy no more than a few batches at a time: for sets that are large, or mapped from a file.
        n_init: how many k-means++ beginnings are tried; `auto` is one.
        max_iter: passes over the points, at most.
        random_state: seed of the beginnings and the batches.

    Attributes:
        cluster_centers_: (k, d) means of the points, scaled to length 1, of each k-means cluster.
        labels_: (n,) clusters of the points of `fit`.
        ensemble_: the points; new points are compared with them, too.
        weight_: the number that was used; 0 where the points are all alike.
        mean_cosine_: mean cosine of the points to the centres of their clusters. It is highest for
            `assignment="cosine"`; compare numbers of clusters by it, not assignments.
        n_iter_: passes over the points.
        n_features_in_: d.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        assignment: Assignment = "surprise",
        model: SurpriseModel = "gaussian",
        weight: Weight = DEFAULT_WEIGHT,
        batch_size: int | None = None,
        n_init: int | Literal["auto"] = "auto",
        max_iter: int = 300,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.assignment = assignment
        self.model = model
        self.weight = weight
        self.batch_size = batch_size
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:  # noqa: N803
        """Find centres and assign the points.

        Args:
            X: (n, d) points of any length; vectors of zeros have the cosine 0 to every centre.
            y: not used.

        Raises:
            DataError: if the shape is another one, a value is NaN or infinite, there are fewer points than
                clusters, or a parameter is out of its range.
        """
        self._check_parameters()
        points = _points(self, X, reset=True)
        if len(points) < self.n_clusters:
            raise DataError(
                f"n_samples={len(points)} points for n_clusters={self.n_clusters}; give at least as many "
                "points, or ask for fewer clusters"
            )
        found = self._centres(points)
        self._assign(points, found.astype(points.dtype), 0.0 if self.assignment == "cosine" else self.weight)
        return self

    def _check_parameters(self) -> None:
        if self.assignment not in get_args(Assignment):
            choices = " or ".join(get_args(Assignment))
            raise DataError(f"assignment must be {choices}, got {self.assignment!r}")
        counts: dict[str, Any] = {"n_clusters": self.n_clusters, "max_iter": self.max_iter}
        if self.n_init != "auto":
            counts["n_init"] = self.n_init
        if self.batch_size is not None:
            counts["batch_size"] = self.batch_size
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise DataError(f"random_state: {error}") from None
        for name, value in counts.items():
            if not isinstance(value, Integral) or int(value) < 1:
                raise DataError(f"{name} must be a whole number from 1 on, got {value!r}")

    def _centres(self, points: FloatArray) -> Float32Array:
        random = check_random_state(self.random_state)
        if self.batch_size is not None:
            return self._centres_of_batches(points, max(self.batch_size, self.n_clusters), random)
        found = self._k_means(random).fit(unit_rows(points))
        self.n_iter_ = int(found.n_iter_)
        return np.asarray(found.cluster_centers_)

    def _k_means(self, random: np.random.RandomState) -> Any:
        return KMeans(self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=random)

    def _centres_of_batches(
        self, points: FloatArray, size: int, random: np.random.RandomState
    ) -> Float32Array:
        """Mini-batch k-means (Sculley, WWW 2010) over rows that are scaled batch by batch.

        scikit-learn's own `fit` would need all points scaled.
        """
        count = len(points)
        chosen = np.sort(random.permutation(count)[: _INITIAL_BATCHES * size])
        start = self._k_means(random).fit(unit_rows(points[chosen])).cluster_centers_
        # Centres that k-means found need no random replacements, which only disturb small clusters.
        batches = MiniBatchKMeans(
            self.n_clusters, init=start, n_init=1, batch_size=size, compute_labels=False, reassignment_ratio=0
        )
        last = start
        for passes in range(1, self.max_iter + 1):
            order = random.permutation(count)
            for rows in gen_batches(count, size, min_batch_size=size // 2):
                # Ascending, because neighbours in a file are read together.
                batches.partial_fit(unit_rows(points[np.sort(order[rows])]))
            self.n_iter_ = passes
            moved = float(((batches.cluster_centers_ - last) ** 2).sum(axis=1).mean())
            if moved < _SETTLED:
                break
            last = batches.cluster_centers_.copy()
        return np.asarray(batches.cluster_centers_)


class SurpriseAssignment(_Assigned):
    """Assignment by surprise to the centres of any clusterer: KMeans, BisectingKMeans, MeanShift and others.

    Args:
        clusterer: one that has `cluster_centers_`, in the space of the points, once it is fitted. A fitted
            one stays as it is; otherwise `fit` fits a clone on the points as they are given. A grid search
            or cross-validation clones estimators, which drops their centres: there, wrap the clusterer in
            scikit-learn's `FrozenEstimator`.
        model: as for `SurpriseKMeans`.
        weight: as for `SurpriseKMeans`; 0 is the nearest centre by the cosine.

    Attributes:
        clusterer_: the fitted clusterer.
        cluster_centers_: (k, d) its centres, whose lengths do not matter.
        labels_: (n,) clusters of the points of `fit`, by surprise.
        ensemble_: the points of `fit`.
        weight_: the number that was used.
        mean_cosine_: mean cosine of the points to the centres of their clusters.
        n_features_in_: d.
    """

    def __init__(
        self, clusterer: Any, *, model: SurpriseModel = "gaussian", weight: Weight = DEFAULT_WEIGHT
    ) -> None:
        self.clusterer = clusterer
        self.model = model
        self.weight = weight

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:  # noqa: N803
        """Take the points as the ensemble and assign them; find centres where the clusterer has none.

        Args:
            X: (n, d) points.
            y: not used.

        Raises:
            DataError: if the shape is another one, a value is NaN or infinite, or the clusterer has no
                centres of dimension d.
        """
        points = _points(self, X, reset=True)
        if not callable(getattr(self.clusterer, "fit", None)):
            raise DataError(f"clusterer must be a scikit-learn clusterer, got {self.clusterer!r:.60}")
        fitted = hasattr(self.clusterer, "cluster_centers_")
        self.clusterer_ = self.clusterer if fitted else clone(self.clusterer).fit(points)
        centres = np.asarray(getattr(self.clusterer_, "cluster_centers_", ()), dtype=points.dtype)
        if centres.ndim != 2 or not len(centres) or centres.shape[1] != points.shape[1]:
            raise DataError(
                f"{type(self.clusterer).__name__} has cluster_centers_ of shape {centres.shape}, expected "
                f"(k, {points.shape[1]}); give a clusterer of these points that has centres, such as KMeans"
            )
        self._assign(points, centres, self.weight)
        return self


def _points(estimator: _Assigned, given: npt.ArrayLike, *, reset: bool) -> FloatArray:
    """(n, d) float32 or float64 points, not copied where they are that already."""
    try:
        found: FloatArray = validate_data(estimator, given, reset=reset, dtype=[np.float64, np.float32])
    except ValueError as error:
        raise DataError(" ".join(str(error).split())) from error
    return found


def _mean_cosine(points: FloatArray, centres: FloatArray, labels: IntArray) -> float:
    directions = unit_rows(centres)
    total = 0.0
    for rows in gen_batches(len(points), _BLOCK):
        pairs = unit_rows(points[rows]), directions[labels[rows]]
        total += float(np.einsum("nd,nd->", *pairs, dtype=np.float64))
    return total / len(points)
