"""DynaMax: the pool's one matrix product against the paper's definition, and the family's identities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from surprise_rerank import DataError, DynaMax
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import TokenBatch

PROPERTY = settings(max_examples=40, deadline=None)
MEASURES = ["jaccard", "otsuka", "dice", "cosine", "tversky", "inclusion"]
UNIVERSES = ["joint", "query"]

seeds = st.integers(0, 2**32 - 1)
elements = st.integers(-64, 64).map(lambda i: i / 16)

similarities = st.builds(
    DynaMax,
    measure=st.sampled_from(MEASURES),
    universe=st.sampled_from(UNIVERSES),
    # Not near 0: a quotient of two rounding errors is any number, in the definition too.
    alpha=st.sampled_from([0.5, 1.0, 3.0]),
    beta=st.sampled_from([0.0, 0.5, 2.0]),
    unit_tokens=st.booleans(),
    # Over the query's universe, a document at right angles has the direction of a rounding error.
).filter(lambda similarity: (similarity.measure, similarity.universe) != ("cosine", "query"))


@st.composite
def grid_scene(draw: st.DrawFn) -> tuple[np.ndarray, list[np.ndarray]]:
    """A query and a ragged pool with empty texts, zero vectors, ties and right angles."""
    d = draw(st.integers(1, 5))
    text = st.integers(0, 4).flatmap(lambda n: hnp.arrays(np.float32, (n, d), elements=elements))
    return draw(text), draw(st.lists(text, max_size=5))


def random_scene(seed: int, d: int = 8, n: int = 6) -> tuple[np.ndarray, list[np.ndarray]]:
    """A random query and pool; the third text is empty, the fourth holds a zero vector."""
    rng = np.random.default_rng(seed)
    query = rng.normal(size=(rng.integers(2, 5), d)).astype(np.float32)
    pool = [rng.normal(size=(rng.integers(2, 9), d)).astype(np.float32) for _ in range(n)]
    pool[2] = np.zeros((0, d), np.float32)
    pool[3][0] = 0.0
    return query, pool


def assert_scores(similarity: DynaMax, got: object, expected: object) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    if similarity.measure == "otsuka":
        # |A n B| / sqrt(|A| |B|) takes the root of a rounding error where the texts share nothing.
        got, expected = got**2, expected**2
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


# The pool against the pair


@given(similarities, grid_scene())
@settings(PROPERTY, max_examples=150)
def test_the_pool_equals_the_pair(similarity, scene):
    query, texts = scene
    scores = similarity.pool(query, TokenBatch.from_arrays(texts, query.shape[1]))
    assert scores.shape == (len(texts),)
    assert_scores(similarity, scores, [similarity.pair(query, text) for text in texts])


# The definitions


@given(grid_scene())
@PROPERTY
def test_inclusion_of_the_query_is_maxsim_per_query_token(scene):
    query, texts = scene
    x = unit_rows(query)
    m = np.count_nonzero(query.any(axis=1))  # a zero vector says nothing and is not counted
    scores = DynaMax("inclusion", "query").pool(query, TokenBatch.from_arrays(texts, query.shape[1]))
    for score, text in zip(scores, texts, strict=True):
        y = unit_rows(text)
        maxsim = sum(max([0.0, *(float(np.dot(t, u)) for u in y)]) for t in x)
        assert score * m == pytest.approx(maxsim, abs=1e-5)


@pytest.mark.parametrize(
    ("alpha", "beta", "measure"), [(1.0, 1.0, "jaccard"), (0.5, 0.5, "dice"), (1.0, 0.0, "inclusion")]
)
@given(scene=grid_scene(), universe=st.sampled_from(UNIVERSES), unit_tokens=st.booleans())
@PROPERTY
def test_tversky_contains_its_relatives(alpha, beta, measure, scene, universe, unit_tokens):
    query, texts = scene
    tversky = DynaMax("tversky", universe, alpha, beta, unit_tokens)
    relative = DynaMax(measure, universe, unit_tokens=unit_tokens)
    batch = TokenBatch.from_arrays(texts, query.shape[1])
    np.testing.assert_allclose(tversky.pool(query, batch), relative.pool(query, batch), atol=1e-6)
    for text in texts:
        assert tversky.pair(query, text) == pytest.approx(relative.pair(query, text), abs=1e-6)


# Weights


@given(similarities, seeds)
@PROPERTY
def test_weighted_pools_equal_the_weighted_pair(similarity, seed):
    query, texts = random_scene(seed)
    rng = np.random.default_rng(seed)
    batch = TokenBatch.from_arrays(texts)
    ours, theirs = rng.uniform(0, 3, size=len(query)), rng.uniform(0, 3, size=len(batch.directions))
    scores = similarity.pool(query, batch, query_weights=ours, document_weights=theirs)
    parts = np.split(theirs, batch.offsets[1:-1])
    pairs = [
        similarity.pair(query, text, query_weights=ours, document_weights=weights)
        for text, weights in zip(texts, parts, strict=True)
    ]
    assert_scores(similarity, scores, pairs)


def test_weights_are_one_for_every_token():
    query, texts = random_scene(0)
    batch = TokenBatch.from_arrays(texts)
    similarity = DynaMax("jaccard", "joint")
    with pytest.raises(DataError, match=r"the shape of the weights must be \(\d+,\), got \(1,\)"):
        similarity.pool(query, batch, query_weights=np.ones(1))
    with pytest.raises(DataError, match=r"the shape of the weights must be \(\d+,\), got \(1,\)"):
        similarity.pool(query, batch, document_weights=np.ones(1))
    with pytest.raises(DataError, match=r"the shape of the weights must be \(6,\), got \(99,\)"):
        similarity.pair(query, texts[0], document_weights=np.ones(99))


# Nothing


@pytest.mark.parametrize("nothing", [np.zeros((0, 3), np.float32), np.zeros((2, 3), np.float32)])
@given(similarity=similarities)
@PROPERTY
def test_texts_without_tokens_are_similar_to_nothing(nothing, similarity):
    some = np.eye(3, dtype=np.float32)
    batch = TokenBatch.from_arrays([some, nothing])
    assert similarity.pool(nothing, batch).tolist() == [0.0, 0.0]
    assert similarity.pool(some, batch)[1] == 0.0
    assert similarity.pair(nothing, some) == similarity.pair(some, nothing) == 0.0
    assert similarity.pair(nothing, nothing) == 0.0


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"measure": "mean"},
            "measure='mean' is not known; there are: jaccard, otsuka, dice, cosine, tversky, inc",
        ),
        ({"universe": "document"}, "DynaMax.universe='document' is not known; there are: joint, query"),
        ({"alpha": -0.1}, "alpha must be a number of at least 0, got -0.1"),
        ({"beta": -1}, "beta must be a number of at least 0, got -1"),
        ({"alpha": float("nan")}, "alpha must be a number"),
        ({"beta": float("inf")}, "beta must be a number"),
    ],
)
def test_unknown_names_and_bad_weights_are_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        DynaMax(**arguments)


@pytest.mark.parametrize("similarity", [DynaMax(), DynaMax("jaccard", "joint", unit_tokens=False)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_questions_that_are_no_finite_numbers_are_refused(similarity, value):
    batch = TokenBatch.from_arrays([np.eye(3)])
    bad = np.full((2, 3), value)
    for call in (lambda: similarity.pool(bad, batch), lambda: similarity.pair(bad, np.eye(3))):
        with pytest.raises(
            DataError, match="the query's token vectors must be finite, got NaN or infinite values"
        ):
            call()
    with pytest.raises(
        DataError, match=r"the document's token vectors must be of shape \(n, d\), got \(3,\)"
    ):
        similarity.pair(np.eye(3), np.ones(3))
