"""The surprise score: fast forms against definitions, tails, mixing, and what is not defined."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from surprise_rerank import DataError, Ensemble
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise.linear_form import LinearForm, augmented_documents, augmented_query
from surprise_rerank.surprise.sampled import SampledEnsemble
from surprise_rerank.surprise.score import (
    Surprise,
    empirical_probability,
    has_spread,
    normalized_similarity,
    normalized_similarity_exact,
    probability_by_definition,
    z_scores,
)

MODELS = ["gaussian", "pooled", "percentile", "empirical"]

seeds = st.integers(0, 2**32 - 1)
on_grid = st.integers(-8, 8).map(lambda i: i / 8)
fractions = st.integers(0, 1000).map(lambda i: i / 1000)


def scene(seed: int, members: int = 40, d: int = 5, n: int = 7) -> tuple[Ensemble, np.ndarray, np.ndarray]:
    """A random ensemble off the origin, and n pairs: similarities and anchors."""
    rng = np.random.default_rng(seed)
    ensemble = Ensemble.from_vectors(rng.normal(size=(members, d)) + 0.5)
    anchors = rng.normal(size=(n, d)).astype(np.float32)
    keys = rng.normal(size=(n, d)) + 0.5
    return ensemble, np.einsum("nd,nd->n", keys, anchors.astype(float)), anchors


# The definition


@given(st.lists(on_grid, max_size=6), st.lists(on_grid, max_size=8))
def test_the_fast_empirical_form_equals_the_definition_ties_included(psi, others):
    fast = empirical_probability(psi, np.tile(others, (len(psi), 1)).reshape(len(psi), len(others)))
    np.testing.assert_array_equal(fast, [probability_by_definition(value, others) for value in psi])


def test_members_that_differ_by_rounding_are_ties():
    assert empirical_probability([0.5], [[0.5 - 1e-9, 0.4]]).tolist() == [1.0]
    assert empirical_probability([0.5], [[0.5 - 1e-9, 0.4]], tolerance=1e-6).tolist() == [0.5]


def test_a_member_is_not_below_itself_whatever_the_rounding():
    """Its similarity was computed in float32, the ensemble's in float64."""
    vectors = unit_rows(np.random.default_rng(4).normal(size=(200, 32)))
    ensemble = Ensemble.from_vectors(vectors)
    anchor = vectors[:1]
    psi = (vectors @ anchor[0]).astype(np.float32)
    p = Surprise(ensemble, "empirical").scores(psi, anchor).probability
    order = (vectors.astype(float) @ anchor[0].astype(float)).argsort()
    np.testing.assert_allclose(p[order], np.arange(200) / 200)


# The models


@given(seeds, st.sampled_from(MODELS))
def test_each_model_is_its_formula_over_all_members(seed, model):
    ensemble, psi, anchors = scene(seed)
    population = np.random.default_rng(seed).normal(size=(30, 5)).astype(np.float32)
    surprise = Surprise(ensemble, model, weight=1, anchors=Ensemble.from_vectors(population))
    result = surprise.scores(psi, anchors)
    members = ensemble.sample.astype(float)
    assert len(members) == ensemble.count, "the sample holds all members"
    similarities, of_population = anchors.astype(float) @ members.T, population.astype(float) @ members.T
    middle, spread = similarities.mean(axis=1), similarities.std(axis=1)
    if model == "pooled":
        spread = np.sqrt(of_population.var(axis=1).mean())
        np.testing.assert_allclose(surprise.pooled.mean, of_population.mean(), rtol=1e-6, atol=1e-9)
    if model == "percentile":
        middle, upper = np.percentile(similarities, [50, 100 * stats.norm.cdf(1)], axis=1)
        spread = upper - middle
    z = (psi - middle) / spread
    np.testing.assert_allclose(result.z, z, rtol=1e-6, atol=1e-9)
    assert result.defined.all()
    if model == "empirical":
        expected = [probability_by_definition(p, row) for p, row in zip(psi, similarities, strict=True)]
        np.testing.assert_allclose(result.probability, expected)
        # The score may use the one gap that n members leave open, and nothing more.
        assert (np.abs(result.score - expected) <= 1 / (ensemble.count + 1) + 1e-12).all()
        return
    np.testing.assert_allclose(result.probability, stats.norm.cdf(z), rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(result.score, result.z)


def test_the_empirical_score_keeps_order_above_the_whole_sample():
    ensemble = Ensemble.from_vectors(np.random.default_rng(0).uniform(-1, 1, size=(50, 1)))
    psi = np.linspace(1.0, 90.0, 60)
    result = Surprise(ensemble, "empirical", weight=1).scores(psi, [[1.0]])
    assert (result.probability == 1.0).all()
    assert (np.diff(result.score) > 0).all()


# Pooled and shrunk statistics


@given(seeds, fractions, fractions, st.sampled_from(["gaussian", "percentile"]))
def test_shrinking_moves_each_mean_and_variance_towards_the_pooled_ones(seed, mean, deviation, model):
    ensemble, psi, anchors = scene(seed)
    surprise = Surprise(ensemble, model, 1, shrink_mean=mean, shrink_deviation=deviation)
    moments = ensemble.moments(anchors) if model == "gaussian" else ensemble.percentiles(anchors)
    mu = (1 - mean) * moments.mean + mean * surprise.pooled.mean
    variance = (1 - deviation) * moments.deviation**2 + deviation * surprise.pooled.deviation**2
    np.testing.assert_allclose(surprise.scores(psi, anchors).z, (psi - mu) / np.sqrt(variance), rtol=1e-9)


def test_a_population_of_anchors_of_another_kind_is_refused_when_the_score_is_made():
    ensemble = Ensemble.from_vectors(np.eye(3), similarity="cosine")
    for model in ("gaussian", "pooled", "percentile"):
        with pytest.raises(DataError, match="the similarity of anchors must be 'cosine', got 'dot'"):
            Surprise(ensemble, model, anchors=Ensemble.from_vectors(np.eye(3)))


def test_the_size_where_surprise_and_similarity_cross_is_an_argument():
    rng = np.random.default_rng(3)
    ensemble = Ensemble.from_vectors(rng.normal(size=(50, 4)), similarity="cosine")
    by_rule = Surprise(ensemble, crossover_size=100)
    assert by_rule.mixing_weight == pytest.approx(np.tanh(0.5))
    psi, anchors = [0.3], rng.normal(size=(1, 4))
    fixed = Surprise(ensemble, weight=float(np.tanh(0.5)))
    assert by_rule.scores(psi, anchors).score == pytest.approx(fixed.scores(psi, anchors).score)
    with pytest.raises(DataError, match="crossover_size"):
        Surprise(ensemble, crossover_size=0)


def test_the_crossover_has_no_jump_where_the_hyperbolic_tangent_reaches_1():
    rng = np.random.default_rng(16)
    vectors = rng.normal(size=(40_000, 2)).astype(np.float32)
    psi = np.array([0.2, 3.0, 12.0, 13.0])
    small, large = (
        Surprise(Ensemble.from_vectors(vectors[:n])).scores(psi, [[1.0, 0]]) for n in (18_000, 40_000)
    )
    np.testing.assert_allclose(small.score[:2], large.score[:2], atol=0.02)
    for result in (small, large):
        assert result.weight < 1
        assert (np.diff(result.score) > 0).all(), "12 and 13 sigma stay in order"


# Statistics computed before


@given(
    seeds, st.sampled_from(["gaussian", "pooled", "percentile"]), st.sampled_from([0, 0.4, 1, "crossover"])
)
def test_stored_moments_give_the_same_scores(seed, model, weight):
    ensemble, psi, anchors = scene(seed)
    surprise = Surprise(ensemble, model, weight)
    fresh, stored = surprise.scores(psi, anchors), surprise.scores_from(psi, surprise.moments(anchors))
    for field in ("score", "z", "probability", "defined"):
        np.testing.assert_array_equal(getattr(stored, field), getattr(fresh, field))


def test_stored_moments_must_fit():
    ensemble, psi, anchors = scene(0)
    with pytest.raises(DataError, match="the number of moments must be 6, got 7"):
        Surprise(ensemble).scores_from(psi[1:], ensemble.moments(anchors))
    with pytest.raises(DataError, match="needs the ensemble's sample"):
        Surprise(ensemble, "empirical").scores_from(psi, ensemble.moments(anchors))


# Similarities that are no dot products


@pytest.mark.parametrize(("model", "weight"), [("pooled", 1), ("gaussian", 0.5), ("empirical", "crossover")])
def test_what_all_anchors_share_needs_to_know_them(model, weight):
    ensemble, psi, anchors = scene(3)
    sampled = SampledEnsemble(ensemble.similarities, sampled=40, count=40)
    with pytest.raises(DataError, match="anchors must be there, got None"):
        Surprise(sampled, model, weight).scores(psi, anchors)
    assert Surprise(sampled, "gaussian", 1).scores(psi, anchors).defined.all()


# Tails


def unit_ensemble() -> Ensemble:
    """Similarities to the anchor [1] have mean 0 and deviation 1."""
    return Ensemble.from_vectors([[-1.0], [1.0]])


def test_order_holds_from_5_to_40_sigma_where_p_saturates():
    psi = np.linspace(5.0, 40.0, 400)
    result = Surprise(unit_ensemble(), weight=1.0).scores(psi, [[1.0]])
    np.testing.assert_allclose(result.z, psi)
    assert (np.diff(result.score) > 0).all()
    assert (result.probability == 1.0).sum() > 300, "p cannot tell these apart"
    assert (np.diff(result.probability) >= 0).all()


# Mixing


@given(seeds, st.sampled_from(MODELS), fractions)
def test_the_mixture_is_equation_4(seed, model, weight):
    assume(weight < 1)
    ensemble, psi, anchors = scene(seed)
    result = Surprise(ensemble, model, weight).scores(psi, anchors)
    hat = normalized_similarity(psi, mean_of_all(ensemble.sample, ensemble))
    expected = (1 - weight) * hat + weight * result.probability
    gap = weight / (ensemble.count + 1) if model == "empirical" else 0.0
    assert result.weight == weight
    assert (np.abs(result.score - expected) <= gap + 1e-9 * (1 + np.abs(expected))).all()


def mean_of_all(anchors: np.ndarray, ensemble: Ensemble) -> float:
    """The mean similarity of all anchors to all members, by a scan."""
    return float((anchors.astype(float) @ ensemble.sample.astype(float).T).mean())


@given(seeds, st.sampled_from(MODELS), st.lists(st.floats(-1.5, 1.5), min_size=7, max_size=7), st.booleans())
def test_at_weight_0_the_order_is_the_similaritys(seed, model, values, alike):
    """Also of pairs below 0, and of anchors that see no difference between the members."""
    ensemble, _, anchors = scene(seed)
    if alike:
        flat = ensemble.sample.copy()
        flat[:, 0] = 0.5
        ensemble, anchors[2:4] = Ensemble.from_vectors(flat), np.eye(5)[:1]
    psi = np.array(values)
    score = Surprise(ensemble, model, weight=0).scores(psi, anchors).score
    order = np.argsort(psi, kind="stable")
    assert (np.diff(score[order])[np.diff(psi[order]) > 1e-9] > 0).all()
    assert (np.diff(score[order]) >= 0).all()


@pytest.mark.parametrize("weight", [0, 0.5, "crossover"])
def test_a_pair_without_surprise_has_the_scale_of_the_others_below_weight_1(weight):
    """Members differ in the second coordinate alone, so the first anchor sees no difference between them."""
    ensemble = Ensemble.from_vectors([[0.5, 0.2], [0.5, 0.8]])
    result = Surprise(ensemble, weight=weight).scores([0.7, 0.7], np.eye(2))
    assert result.defined.tolist() == [False, True]
    np.testing.assert_allclose(result.score[0], normalized_similarity(0.7, 0.5))


# Psi_hat


@given(st.integers(1, 999).map(lambda i: i / 1000))
def test_psi_hat_maps_0_to_0_the_mean_to_a_half_and_1_to_1(mean):
    np.testing.assert_allclose(normalized_similarity([0.0, mean, 1.0], mean), [0.0, 0.5, 1.0], atol=1e-12)
    assert normalized_similarity([-0.3], mean).tolist() == [-0.3], "(4) does not define these"


@given(st.lists(fractions, min_size=1, max_size=12))
def test_exact_psi_hat_has_mean_a_half_over_the_ensemble(ensemble):
    assume(0 < np.median(ensemble) < 1)
    assert normalized_similarity_exact(ensemble, ensemble).mean() == pytest.approx(0.5, abs=1e-9)
    np.testing.assert_allclose(normalized_similarity_exact([0.0, 1.0], ensemble), [0.0, 1.0], atol=1e-12)
    rising = np.diff(normalized_similarity_exact(np.linspace(0, 1, 101), ensemble))
    assert (rising >= -1e-12).all()


@pytest.mark.parametrize(
    "ensemble", [[], [0.0, 0.0, 0.5], [1.0, 1.0], [-0.1, 0.5], [0.5, 1.1], [np.nan, 0.5]]
)
def test_exact_psi_hat_says_where_it_is_not_defined(ensemble):
    with pytest.raises(DataError, match="the ensemble"):
        normalized_similarity_exact([0.5], ensemble)


# Undefined


@pytest.mark.parametrize("members", [np.zeros((0, 3)), np.ones((1, 3)), np.ones((6, 3)), np.zeros((6, 3))])
def test_an_ensemble_without_spread_leaves_the_plain_similarity(members):
    """Or, where it is mixed in, its normalised form."""
    psi, ensemble = np.linspace(-1, 1, 3), Ensemble.from_vectors(members)
    for model in MODELS:
        for weight in (0, 0.5, 1, "crossover"):
            surprise = Surprise(ensemble, model, weight)
            result = surprise.scores(psi, np.eye(3, dtype=np.float32))
            mixed = weight != 1 and ensemble.count > 1
            expected = normalized_similarity(psi, surprise.split) if mixed else psi
            np.testing.assert_array_equal(result.score, expected)
            assert not result.defined.any()
            assert np.isnan([result.z, result.probability]).all()


@pytest.mark.parametrize(("share", "defined"), [(0.5e-7, False), (2e-7, True)])
@pytest.mark.parametrize("mean", [-0.8, 0.8, 30.0])
def test_a_deviation_counts_from_a_ten_millionth_of_the_mean_on(share, defined, mean):
    moments = Moments(np.array([mean]), np.array([share * abs(mean)]))
    assert has_spread(moments).tolist() == [defined]
    assert np.isnan(z_scores([1.0], moments)).tolist() == [not defined]
    form = LinearForm.of(moments)
    assert (form.slope[0] != 1.0) == defined
    assert (form.intercept[0] != 0.0) == defined


# Bad input


@pytest.mark.parametrize(
    ("similarity", "anchors", "message"),
    [
        ([0.1, 0.2], np.ones((3, 5)), "the number of anchors must be 2, got 3"),
        ([[0.1]], np.ones((1, 5)), r"similarity must be finite numbers of shape \(n,\), got \[\[0\.1\]\]"),
        (0.1, np.ones((1, 5)), r"similarity must be finite numbers of shape \(n,\), got 0\.1"),
        (
            [0.1, np.nan],
            np.ones((2, 5)),
            r"similarity must be finite numbers of shape \(n,\), got \[0\.1, nan\]",
        ),
        ([np.inf], np.ones((1, 5)), r"similarity must be finite numbers of shape \(n,\), got \[inf\]"),
        ([0.1], np.full((1, 5), np.nan), "anchors must be finite, got NaN or infinite values"),
        ([0.1], np.ones((1, 4)), r"anchors must be of shape \(n, 5\), got \(1, 4\)"),
    ],
)
def test_data_that_do_not_fit_are_refused(similarity, anchors, message):
    for model in MODELS:
        with pytest.raises(DataError, match=message):
            Surprise(scene(0)[0], model).scores(similarity, anchors)


@pytest.mark.parametrize("name", ["weight", "shrink_mean", "shrink_deviation"])
def test_shares_are_from_0_to_1(name):
    for value in (-0.1, 1.1, np.nan, np.inf, "half", None):
        with pytest.raises(DataError, match=rf"{name} must be .*a number from 0 to 1"):
            Surprise(unit_ensemble(), **{name: value})
    if name != "weight":
        with pytest.raises(DataError, match=f"{name} must be 0, got 0.5; the empirical model"):
            Surprise(unit_ensemble(), "empirical", **{name: 0.5})
        assert Surprise(unit_ensemble(), "empirical", **{name: 0}).scores([0.5], [[1.0]]).defined.all()


# Surprise inside an index gives what the client gives.


@given(st.integers(0, 2**32 - 1), st.sampled_from(["gaussian", "pooled", "percentile"]), st.integers(0, 40))
def test_formula_and_augmented_vectors_give_the_clients_z(seed, model, members):
    """Ensembles of 0 and 1 members too, where all three give the plain similarity."""
    rng = np.random.default_rng(seed)
    documents = unit_rows(rng.normal(size=(12, 6)) + 0.3)
    documents[3] = 0.0
    query = unit_rows(rng.normal(size=(1, 6)))[0]
    ensemble = Ensemble.from_vectors(unit_rows(rng.normal(size=(members, 6)) + 0.3))
    surprise = Surprise(ensemble, model, weight=1)
    cosine = documents.astype(float) @ query.astype(float)
    client = surprise.scores(cosine, documents).score
    moments = surprise.moments(documents)
    scale = np.abs(client).max() + 1
    np.testing.assert_allclose(LinearForm.of(moments).scores(cosine), client, atol=1e-9 * scale)
    augmented = augmented_documents(documents, LinearForm.of(moments)) @ augmented_query(query)
    np.testing.assert_allclose(augmented, client, atol=2e-6 * scale)


def test_shapes():
    ensemble = Ensemble.from_vectors(np.eye(3))
    augmented = augmented_documents(np.eye(3), LinearForm.of(ensemble.moments(np.eye(3))))
    assert (augmented.shape, augmented.dtype) == ((3, 4), np.float32)
    assert augmented_query([0.5, 0.5, 0]).tolist() == [0.5, 0.5, 0, 1]
    assert augmented_query(np.zeros((2, 3))).shape == (2, 4)
    with pytest.raises(DataError, match=r"the shape of the moments must be \(2,\), got \(3,\)"):
        augmented_documents(np.eye(3)[:2], LinearForm.of(ensemble.moments(np.eye(3))))
