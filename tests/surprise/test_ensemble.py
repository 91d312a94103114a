"""Ensembles: exact moments that merge, an identity, a bounded sample, and a file that cannot bite."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from surprise_rerank import DataError, Ensemble, StoreError
from surprise_rerank.core.arrays import vector_similarities
from surprise_rerank.surprise import _ensemble as ensemble_module

elements = st.integers(-64, 64).map(lambda i: i / 16)


@st.composite
def members(draw: st.DrawFn, min_size: int = 0) -> np.ndarray:
    """Members on a grid, often alike, and sometimes a thousand deviations away from zero."""
    shape = draw(st.tuples(st.integers(min_size, 12), st.integers(1, 5)))
    offset = draw(st.sampled_from([0.0, 0.0, 1000.0, -4096.0]))
    return draw(hnp.arrays(np.float32, shape, elements=elements)) + np.float32(offset)


@st.composite
def split(draw: st.DrawFn, parts: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Members, and the same members in some order and in some parts (empty ones too)."""
    vectors = draw(members())
    order = draw(st.permutations(range(len(vectors))))
    cuts = sorted(draw(st.lists(st.integers(0, len(vectors)), min_size=parts - 1, max_size=parts - 1)))
    return vectors, np.split(vectors[np.array(order, dtype=int)], cuts)


def assert_same_moments(one: Ensemble, other: Ensemble) -> None:
    assert one.count == other.count
    for name in ("mean", "scatter"):
        got, expected = getattr(one, name), getattr(other, name)
        scale = max(float(np.abs(expected).max(initial=0.0)), 1e-3)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * scale, err_msg=name)


def assert_same_members(one: Ensemble, other: Ensemble) -> None:
    assert one.identity == other.identity
    assert one.checksum == other.checksum
    np.testing.assert_array_equal(one.priorities, other.priorities)
    np.testing.assert_array_equal(one.sample, other.sample)


@given(members(min_size=1), st.data())
def test_moments_equal_a_scan_over_all_members(vectors, data):
    d = vectors.shape[1]
    anchors = data.draw(hnp.arrays(np.float32, (3, d), elements=elements))
    ensemble = Ensemble.from_vectors(vectors)
    fast, scan = ensemble.moments(anchors), ensemble.moments_by_scan(anchors)
    naive = np.array([[float(np.dot(q.astype(float), e.astype(float))) for e in vectors] for q in anchors])
    scale = 1.0 + np.abs(naive).max()
    for moments in (fast, scan):
        np.testing.assert_allclose(moments.mean, naive.mean(axis=1), rtol=0, atol=1e-12 * scale)
        # The square root of a rounding error is the largest error that there is.
        np.testing.assert_allclose(moments.deviation, naive.std(axis=1), rtol=1e-9, atol=1e-7 * scale)


@given(split(4), st.integers(0, 6))
def test_streams_merges_and_updates_give_the_ensemble_of_all(parts, sample_size):
    vectors, batches = parts
    options = {"sample_size": sample_size, "model": "m"}
    whole = Ensemble.from_vectors(vectors, **options)
    assert len(whole.sample) == min(sample_size, len(vectors))
    single = [Ensemble.from_vectors(batch, **options) for batch in batches]
    before = [
        (ensemble.count, ensemble.identity, ensemble.mean.copy(), ensemble.scatter.copy())
        for ensemble in single
    ]
    for other in (
        Ensemble.from_batches(batches, **options),
        single[0].merge(single[1]).merge(single[2].merge(single[3])),
        single[0].update(np.concatenate(batches[1:])),
    ):
        assert other.identity == whole.identity
        assert_same_moments(other, whole)
        if len(np.unique(vectors, axis=0)) == len(vectors):  # copies in different parts are not told apart
            assert_same_members(other, whole)
    assert_same_members(Ensemble.from_batches(batches, **options), whole)
    for ensemble, (count, identity, mean, scatter) in zip(single, before, strict=True):
        assert (ensemble.count, ensemble.identity) == (count, identity)
        np.testing.assert_array_equal(ensemble.mean, mean)
        np.testing.assert_array_equal(ensemble.scatter, scatter)


def test_a_sample_holds_as_many_copies_of_a_member_as_the_ensemble():
    shares = []
    for seed in range(20):
        vectors = np.random.default_rng(seed).normal(size=(10_000, 4)).astype(np.float32)
        vectors[::2] = vectors[0]
        ensembles = (
            Ensemble.from_vectors(vectors, sample_size=2000),
            Ensemble.from_batches(np.array_split(vectors, 7), sample_size=2000),
        )
        assert_same_members(*ensembles)
        shares.append((ensembles[0].sample == vectors[0]).all(axis=1).mean())
    # A simple random sample of 2,000 of 10,000 has a standard deviation of .01.
    np.testing.assert_allclose(shares, 0.5, atol=0.04)
    assert 0.004 < np.std(shares) < 0.02


def test_merges_stay_exact_far_from_zero_and_over_many_batches():
    rng = np.random.default_rng(0)
    vectors = (1e4 + rng.normal(size=(600, 8))).astype(np.float32)
    one_by_one = Ensemble.from_batches(np.array_split(vectors, 200))
    exact = vectors.astype(np.longdouble)
    centred = exact - exact.mean(axis=0)
    np.testing.assert_allclose(one_by_one.mean, exact.mean(axis=0).astype(float), rtol=1e-13)
    scatter = (centred.T @ centred).astype(float)
    np.testing.assert_allclose(one_by_one.scatter, scatter, rtol=0, atol=1e-9 * scatter.max())


@given(members(min_size=1), st.data())
def test_identity_differs_when_one_number_of_one_member_differs(vectors, data):
    row = data.draw(st.integers(0, len(vectors) - 1))
    column = data.draw(st.integers(0, vectors.shape[1] - 1))
    changed = vectors.copy()
    changed[row, column] = np.nextafter(changed[row, column], np.float32(np.inf))
    assert Ensemble.from_vectors(changed).identity != Ensemble.from_vectors(vectors).identity


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((2, 2, 2)), r"shape \(n, d\), got \(2, 2, 2\)"),
        ([[1.0, np.nan]], "NaN or infinite"),
        ([[1.0, np.inf]], "NaN or infinite"),
    ],
)
def test_members_that_are_no_finite_matrix_are_refused(vectors, message):
    with pytest.raises(DataError, match=message):
        Ensemble.from_vectors(vectors)


# Other similarities, and the sample that they need


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "manhattan"])
def test_moments_of_a_distance_come_from_the_sample_and_those_of_cosine_are_exact(similarity):
    rng = np.random.default_rng(10)
    vectors, anchors = rng.normal(size=(5000, 4)) * 3, rng.normal(size=(40, 4)) * 7
    exact = vector_similarities(anchors, vectors, similarity)
    few = 2 if similarity == "cosine" else 400
    for size, within in ((5000, 1e-5), (few, 1e-5 if similarity == "cosine" else 0.05)):
        moments = Ensemble.from_vectors(vectors, similarity=similarity, sample_size=size).moments(anchors)
        np.testing.assert_allclose(moments.mean, exact.mean(axis=1), atol=within)
        np.testing.assert_allclose(moments.deviation, exact.std(axis=1), atol=within)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["dot", "cosine", "euclidean"]))
def test_pooled_moments_are_averages_over_all_anchors(seed, similarity):
    rng = np.random.default_rng(seed)
    ensemble = Ensemble.from_vectors(rng.normal(size=(30, 3)) + 0.5, similarity=similarity)
    anchors = Ensemble.from_vectors(rng.normal(size=(20, 3)), similarity=similarity)
    each = ensemble.moments(anchors.sample)
    pooled = ensemble.pooled(anchors)
    np.testing.assert_allclose(pooled.mean, each.mean.mean(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(pooled.deviation, np.sqrt((each.deviation**2).mean()), rtol=1e-6)


def test_ensembles_of_other_similarities_do_not_mix():
    one, other = (Ensemble.from_vectors(np.eye(3), similarity=s) for s in ("dot", "euclidean"))
    assert one.identity != other.identity
    with pytest.raises(DataError, match="the similarity of other must be 'dot', got 'euclidean'"):
        one.merge(other)
    with pytest.raises(DataError, match="the similarity of anchors must be 'dot', got 'euclidean'"):
        one.pooled(other)
    with pytest.raises(DataError, match="similarity='hamming' is not known"):
        Ensemble.from_vectors(np.eye(3), similarity="hamming")


def test_blocks_do_not_change_the_moments(monkeypatch):
    vectors = np.random.default_rng(12).normal(size=(50, 4))
    whole = Ensemble.from_vectors(vectors)
    monkeypatch.setattr(ensemble_module, "_BLOCK", 7)
    monkeypatch.setattr(ensemble_module, "_BLOCK_SIMILARITIES", 130)
    cut = Ensemble.from_vectors(vectors)
    assert_same_members(cut, whole)
    assert_same_moments(cut, whole)
    for name in ("moments", "moments_by_scan", "percentiles"):
        for field in ("mean", "deviation"):
            one, other = (getattr(getattr(e, name)(vectors), field) for e in (cut, whole))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=name)


# Files


@pytest.fixture
def ensemble() -> Ensemble:
    vectors = np.random.default_rng(6).normal(size=(20, 4))
    return Ensemble.from_vectors(vectors, sample_size=8, model="modèle/ü")


def assert_equal(one: Ensemble, other: Ensemble) -> None:
    for name in ("mean", "scatter", "sample", "priorities"):
        got, expected = getattr(one, name), getattr(other, name)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    for name in ("count", "sample_size", "checksum", "model", "identity"):
        assert getattr(one, name) == getattr(other, name)


def test_a_saved_ensemble_comes_back_bit_for_bit(tmp_path, ensemble):
    path = tmp_path / "new" / "folder" / "ensemble.npz"
    ensemble.save(path)
    assert_equal(Ensemble.load(path), ensemble)
    assert_equal(Ensemble.load(str(path)), ensemble)
    assert [p.name for p in path.parent.iterdir()] == ["ensemble.npz"]
    with pytest.raises(StoreError, match=r"nowhere\.npz: No such file"):
        Ensemble.load(tmp_path / "nowhere.npz")
    for use in (Ensemble.load, ensemble.save):
        with pytest.raises(StoreError, match="Is a directory; check the path"):
            use(tmp_path)


class Malice:
    """Unpickling this creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (self.marker,))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *((name, Malice) for name in ("format", "mean", "model")),
        ("format", np.int64(1)),
        ("mean", np.zeros(3)),
        ("mean", np.float64(0)),
        ("scatter", np.zeros((4, 3))),
        ("sample", np.zeros((8, 3), np.float32)),
        ("priorities", np.zeros(7, np.uint64)),
        ("count", np.str_("many")),
    ],
)
def test_files_that_contradict_themselves_are_refused(tmp_path, ensemble, member, value):
    path = tmp_path / "e.npz"
    ensemble.save(path)
    with np.load(path) as stored:
        arrays = dict(stored)
    marker = tmp_path / "executed"
    np.savez(path, **{**arrays, member: np.array([Malice(marker)]) if value is Malice else value})
    with pytest.raises(DataError, match=r"e\.npz"):
        Ensemble.load(path)
    assert not marker.exists()


def test_a_file_with_a_flipped_bit_is_refused_or_holds_the_same_numbers(tmp_path, ensemble):
    """A zip archive keeps things that no one reads, dates for one; a flip there does no harm."""
    path = tmp_path / "e.npz"
    ensemble.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(7)
    refused = 0
    for position in rng.choice(len(content), 300, replace=False):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = Ensemble.load(path)
        except DataError:
            refused += 1
        else:
            assert_equal(loaded, ensemble)
    assert refused > 100
