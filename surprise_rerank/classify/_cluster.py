"""Clusters whose members are assigned by surprise ('Taken by Surprise', arXiv 2308.09765).

    label(k) = argmax over centres c of Sigma_w(k, c | E),  E = the points that were clustered

The centre is q, the point is the key, and the points are the ensemble: every centre has its own mean and
deviation of the cosine over all points. A centre in the middle, which is near to all points, gets only those
points that are surprisingly near to it. The centres are those of k-means, or of any other clusterer.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted, validate_data

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import FloatArray, IntArray, unit_rows
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight

# Chosen for the Gaussian model on tweets, under three encoders (MiniLM, multilingual-e5-small, GloVe): at 1
# the ARI falls below the cosine's with two of them.
DEFAULT_WEIGHT = 0.75


class _Assigned(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators share: points are assigned to `cluster_centers_` by `AnchorScores`."""

    model: SurpriseModel
    weight: Weight

    def predict(self, X: npt.ArrayLike) -> IntArray:  # noqa: N803 - as scikit-learn has it
        """(n,) numbers of the centres of (n, d) points, against the ensemble of `fit`."""
        check_is_fitted(self)
        return self._scores.nearest(_points(self, X, reset=False))

    def transform(self, X: npt.ArrayLike) -> FloatArray:  # noqa: N803
        """(n, k) scores of (n, d) points to every centre; a point is assigned to the highest.

        They are z at weight 1 (the share in the empirical model), Sigma_w below it, cosines at weight 0;
        float32 for float32 points, float64 for others.
        """
        check_is_fitted(self)
        return self._scores.scores(_points(self, X, reset=False))

    def _assign(self, points: FloatArray, centres: FloatArray) -> None:
        """Set the attributes that depend on the centres."""
        self.ensemble_ = Ensemble.from_vectors(points, similarity="cosine")
        population = Ensemble.from_vectors(centres, similarity="cosine") if self.model == "pooled" else None
        surprise = Surprise(self.ensemble_, self.model, self.weight, anchors=population)
        self._scores = AnchorScores(centres, surprise)
        self.cluster_centers_ = centres
        self.weight_ = self._scores.weight
        self.labels_ = self._scores.nearest(points)
        unit = unit_rows(points), unit_rows(centres)[self.labels_]
        self.mean_cosine_ = float(np.einsum("nd,nd->", *unit, dtype=np.float64)) / len(points)
        self._n_features_out = len(centres)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SurpriseKMeans(_Assigned):
    """scikit-learn's k-means on points of length 1, whose points are assigned to the centres by surprise.

    A cluster may end up without a point; its centre and its number stay.

    Args:
        n_clusters: k.
        model: of the surprise score. `pooled` gives all centres one deviation, so that they differ only in
            their means.
        weight: w of the score, from 0 (the nearest centre by the cosine) to 1, or `crossover`, which depends
            on the number of points.
        n_init: how many k-means++ beginnings are tried; `auto` is one.
        random_state: seed of the beginnings.

    Attributes:
        cluster_centers_: (k, d) means of the points, scaled to length 1, of each k-means cluster.
        labels_: (n,) clusters of the points of `fit`.
        ensemble_: the points; new points are compared with them, too.
        weight_: the number that was used; 0 where the points are all alike.
        mean_cosine_: mean cosine of the points to the centres of their clusters. It is highest at weight 0;
            compare numbers of clusters by it, not assignments.
        n_iter_: passes over the points.
        n_features_in_: d.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        model: SurpriseModel = "gaussian",
        weight: Weight = DEFAULT_WEIGHT,
        n_init: int | Literal["auto"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.model = model
        self.weight = weight
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:  # noqa: N803
        """Find centres and assign (n, d) points of any length; those of zeros have the cosine 0 to all."""
        points = _points(self, X, reset=True)
        clusterer = KMeans(self.n_clusters, n_init=self.n_init, random_state=self.random_state)
        clusterer.fit(unit_rows(points))
        self.n_iter_ = int(clusterer.n_iter_)
        self._assign(points, clusterer.cluster_centers_.astype(points.dtype))
        return self


class SurpriseAssignment(_Assigned):
    """Assignment by surprise to the centres of any clusterer: MiniBatchKMeans, MeanShift and others.

    Args:
        clusterer: one that has `cluster_centers_`, in the space of the points, once it is fitted. A fitted
            one stays as it is; otherwise `fit` fits a clone on the points as they are given. A grid search
            or cross-validation clones estimators, which drops their centres: there, wrap the clusterer in
            scikit-learn's `FrozenEstimator`.
        model: as for `SurpriseKMeans`.
        weight: as for `SurpriseKMeans`.

    `clusterer_` is the fitted clusterer; the other attributes are those of `SurpriseKMeans`.
    """

    def __init__(
        self, clusterer: Any, *, model: SurpriseModel = "gaussian", weight: Weight = DEFAULT_WEIGHT
    ) -> None:
        self.clusterer = clusterer
        self.model = model
        self.weight = weight

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:  # noqa: N803
        """Take (n, d) points as the ensemble and assign them; find centres where there are none."""
        points = _points(self, X, reset=True)
        border.able("clusterer", self.clusterer, "fit", "a clusterer of scikit-learn")
        fitted = hasattr(self.clusterer, "cluster_centers_")
        self.clusterer_ = self.clusterer if fitted else clone(self.clusterer).fit(points)
        centres = np.asarray(getattr(self.clusterer_, "cluster_centers_", ()), dtype=points.dtype)
        if centres.ndim != 2 or not len(centres) or centres.shape[1] != points.shape[1]:
            raise DataError(
                f"{type(self.clusterer).__name__} has cluster_centers_ of shape {centres.shape}, expected "
                f"(k, {points.shape[1]}); give a clusterer of these points that has centres, such as KMeans"
            )
        self._assign(points, centres)
        return self


def _points(estimator: _Assigned, rows: npt.ArrayLike, *, reset: bool) -> FloatArray:
    """(n, d) float32 or float64 points, not copied where they are that already."""
    try:
        points: FloatArray = validate_data(estimator, rows, reset=reset, dtype=[np.float64, np.float32])
    except ValueError as error:
        raise DataError(" ".join(str(error).split())) from error
    return points
