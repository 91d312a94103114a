import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN, AffinityPropagation, BisectingKMeans, KMeans, MeanShift, MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from surprise_rerank import DataError, SurpriseAssignment, SurpriseKMeans
from surprise_rerank.classify._cluster import DEFAULT_WEIGHT
from surprise_rerank.core.arrays import vector_similarities

MODELS = ("gaussian", "pooled", "percentile", "empirical")


def blobs(n: int = 300, k: int = 4, d: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points around k directions, of any length, and the direction of each."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    points = rng.normal(size=(k, d))[labels] + 0.4 * rng.normal(size=(n, d))
    return (points * rng.uniform(0.1, 10, size=(n, 1))).astype(np.float32), labels


@parametrize_with_checks(
    [
        SurpriseKMeans(),
        SurpriseKMeans(model="empirical", weight="crossover"),
        SurpriseAssignment(KMeans(3, random_state=0)),
    ]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


# What is computed


def plain_scores(points: np.ndarray, centres: np.ndarray, model: str) -> np.ndarray:
    """z of every point and centre, as the paper has it: centre by centre over all points."""
    cosines = vector_similarities(points, centres, "cosine")
    deviations = cosines.std(axis=0)
    if model == "pooled":
        deviations[:] = np.sqrt(np.mean(deviations**2))
    return (cosines - cosines.mean(axis=0)) / deviations


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(5, 60), st.integers(2, 5), st.sampled_from(["gaussian", "pooled"]))
def test_points_go_to_the_centre_that_is_most_surprising(seed, n, k, model):
    points = np.random.default_rng(seed).normal(size=(n, 4))
    found = SurpriseKMeans(k, model=model, weight=1.0, random_state=seed).fit(points)
    expected = plain_scores(points, found.cluster_centers_, model)
    np.testing.assert_allclose(found.transform(points), expected, atol=1e-4)
    chosen = expected[np.arange(n), found.labels_]
    np.testing.assert_allclose(chosen, expected.max(axis=1), atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_directions_that_lie_apart_are_found(model):
    points, labels = blobs()
    found = SurpriseKMeans(4, model=model, n_init=3, random_state=0)
    assert adjusted_rand_score(labels, found.fit_predict(points)) > 0.95
    assert found.cluster_centers_.shape == (4, 12)
    assert found.n_features_in_ == 12
    assert found.n_iter_ >= 1
    assert found.ensemble_.count == 300


def test_the_centre_in_the_middle_must_be_surprisingly_near():
    # Two clear groups, and points between: near to all, the middle wins more by the cosine than by surprise.
    rng = np.random.default_rng(0)
    sides = np.array([[1, 0, 0.5], [-1, 0, 0.5], [0, 0, 1]])[np.repeat([0, 1, 2], [40, 40, 120])]
    points = sides + 0.35 * rng.normal(size=sides.shape)
    centres = SurpriseKMeans(3, weight=0.0, n_init=5, random_state=0).fit(points)
    middle = int(vector_similarities(centres.cluster_centers_, points.mean(axis=0), "cosine").argmax())
    surprised = SurpriseAssignment(centres, weight=1.0).fit(points)
    assert (surprised.labels_ == middle).sum() < (centres.labels_ == middle).sum()


def test_weights():
    points, _ = blobs(n=1000)
    assert SurpriseKMeans().weight == SurpriseAssignment(KMeans()).weight == DEFAULT_WEIGHT
    assert SurpriseKMeans(4).fit(points).weight_ == DEFAULT_WEIGHT
    assert SurpriseKMeans(4, weight="crossover").fit(points).weight_ == pytest.approx(np.tanh(1))
    # Five points say nothing: crossover is the cosine.
    assert SurpriseKMeans(2, weight="crossover").fit(points[:5]).weight_ == 0


# New points


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_a_new_point_is_compared_with_the_ensemble_alone(model, weight):
    points, _ = blobs()
    found = SurpriseKMeans(4, model=model, weight=weight, random_state=0).fit(points[:200])
    together = found.predict(points[200:])
    assert [found.predict(point[None])[0] for point in points[200:]] == together.tolist()
    assert (found.predict(points[:200]) == found.labels_).all()
    assert (found.transform(points[200:]).argmax(axis=1) == together).all()


# On top of other clusterers


@pytest.mark.parametrize(
    "clusterer",
    [
        KMeans(4, n_init=3, random_state=0),
        MiniBatchKMeans(4, n_init=3, random_state=0),
        BisectingKMeans(4, random_state=0),
        MeanShift(bandwidth=0.6),
        AffinityPropagation(random_state=0),
    ],
    ids=lambda clusterer: type(clusterer).__name__,
)
def test_any_clusterer_with_centres_will_do(clusterer):
    points, labels = blobs(n=120)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found = SurpriseAssignment(clusterer, weight=1.0).fit(points)
    assert not hasattr(clusterer, "cluster_centers_")
    assert (found.cluster_centers_ == found.clusterer_.cluster_centers_).all()
    assert adjusted_rand_score(labels, found.labels_) > 0.8
    expected = plain_scores(points, found.cluster_centers_, "gaussian")
    np.testing.assert_allclose(found.transform(points), expected, atol=1e-3)


def test_clusterers_without_centres_of_these_points_are_refused():
    points, _ = blobs()
    with pytest.raises(DataError, match=r"DBSCAN has cluster_centers_ of shape \(0,\), expected \(k, 12\)"):
        SurpriseAssignment(DBSCAN()).fit(points)
    with pytest.raises(DataError, match=r"KMeans has cluster_centers_ of shape \(2, 3\), expected \(k, 12\)"):
        SurpriseAssignment(KMeans(2).fit(points[:, :3])).fit(points)
