"""Every named similarity: DynaMax's fast form against the definition, and what all of them promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import DataError
from surprise_rerank.core._extras import is_installed
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities._bags import Bag, Texts
from surprise_rerank.similarities.definitions import Similarity, WordStatistics
from surprise_rerank.similarities.table import (
    SIMILARITIES,
    CorpusStatistics,
    find_similarity,
    similarity_names,
    with_raw,
)

PROPERTY = settings(max_examples=10, deadline=None)
D = 6
VOCABULARY = [f"w{i}" for i in range(12)]
UNKNOWN = "w0"  # its vector is zero

AVAILABLE = [
    name
    for name in with_raw()
    for named in (find_similarity(name),)
    if (not named.module or is_installed(named.module)) and "embedding" not in named.fitted_on
]
OF_VECTORS = [name for name in AVAILABLE if name not in ("set-jaccard", "bag-jaccard")]
ASYMMETRIC = ("dynamax", "dynamax-idf", "dynamax-sif", "dynamax-inclusion", "dynamax-tversky")
SYMMETRIC = [name for name in AVAILABLE if name.removesuffix("-raw") not in ASYMMETRIC]
# Their sums have terms of either sign, which can cancel: they lie anywhere.
SIGNED = [name for name in AVAILABLE if "avg-jaccard" in name or "sum-jaccard" in name]
# A text can have no members at all in these.
PERHAPS_EMPTY = [
    *SIGNED,
    *(name for name in AVAILABLE if name.startswith(("min-jaccard", "dynamin", "max-", "fbow"))),
]
seeds = st.integers(0, 2**32 - 1)


def vectors_of_words(rng: np.random.Generator) -> dict[str, np.ndarray]:
    vectors = {word: rng.normal(size=D).astype(np.float32) for word in VOCABULARY}
    vectors[UNKNOWN] = np.zeros(D, np.float32)
    return vectors


def draw_texts(rng: np.random.Generator, n: int, *, in_context: bool) -> Texts:
    """Texts of words that repeat; word vectors, or vectors that differ with every use of a word."""
    meanings = vectors_of_words(rng)
    words = [tuple(rng.choice(VOCABULARY, size=rng.integers(1, 7)).tolist()) for _ in range(n)]
    arrays = [np.stack([meanings[w] for w in text]) for text in words]
    if in_context:
        arrays = [a + 0.3 * (a != 0) * rng.normal(size=a.shape).astype(np.float32) for a in arrays]
    return Texts(TokenBatch.from_arrays(arrays, D), tuple(words))


def with_odd_texts(texts: Texts) -> Texts:
    """The same and an empty text, one of an unknown word, one of a single word."""
    some = texts[0].vectors[:1] + 1
    odd = TokenBatch.from_arrays([np.zeros((0, D)), np.zeros((2, D)), some], D)
    return Texts(
        TokenBatch.concatenate([texts.batch, odd]), (*texts.names, (), (UNKNOWN, UNKNOWN), ("alone",))
    )


CORPUS = draw_texts(np.random.default_rng(7), 30, in_context=False)


def build(name: str) -> Similarity:
    return find_similarity(name).build(CorpusStatistics(D, CORPUS, WordStatistics.of(CORPUS.names)))


BUILT = {name: build(name) for name in AVAILABLE}
FAST = [name for name in AVAILABLE if BUILT[name].fast is not None]


def assert_scores(name: str, got: object, expected: object, tolerance: float = 2e-5) -> None:
    if name in SIGNED:
        tolerance = 1e-2  # relative, of a quotient whose denominator can be a difference of near numbers
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def score(name: str, query: Bag, document: Bag) -> float:
    """The score of a pair, by both forms."""
    pool = Texts(TokenBatch.from_arrays([document.vectors], D), (document.names,))
    fast = BUILT[name].pool(query, pool)
    assert fast.shape == (1,)
    slow = BUILT[name].pair(query, document)
    assert_scores(name, fast, [slow])
    return slow


def bag(*words: str) -> Bag:
    meanings = vectors_of_words(np.random.default_rng(3))
    vectors = [meanings[word] for word in words]
    return Bag(np.array(vectors, np.float32).reshape(len(words), D), words)


@pytest.mark.parametrize("name", FAST)
@given(seed=seeds, in_context=st.booleans())
@PROPERTY
def test_the_pool_equals_the_pair(name, seed, in_context):
    texts = with_odd_texts(draw_texts(np.random.default_rng(seed), 5, in_context=in_context))
    similarity = BUILT[name]
    for i in (0, 1, 7):
        scores = similarity.pool(texts[i], texts)
        assert scores.shape == (len(texts),)
        assert scores.dtype == np.float64
        assert_scores(name, scores, [similarity.pair(texts[i], texts[j]) for j in range(len(texts))])


@pytest.mark.parametrize("name", SYMMETRIC)
@given(seed=seeds, in_context=st.booleans())
@PROPERTY
def test_symmetric_similarities_are_symmetric(name, seed, in_context):
    texts = draw_texts(np.random.default_rng(seed), 2, in_context=in_context)
    assert_scores(name, score(name, texts[0], texts[1]), score(name, texts[1], texts[0]), 1e-6)


@pytest.mark.parametrize("name", AVAILABLE)
@given(seed=seeds, in_context=st.booleans())
@PROPERTY
def test_a_text_is_fully_similar_to_itself(name, seed, in_context):
    text = draw_texts(np.random.default_rng(seed), 1, in_context=in_context)[0]
    if name in OF_VECTORS and not text.vectors.any():
        assert score(name, text, text) == 0.0
        return
    value = score(name, text, text)
    if name not in PERHAPS_EMPTY or value != 0:
        assert value == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", OF_VECTORS)
def test_texts_of_unknown_words_are_similar_to_nothing(name):
    unknown, some = bag(UNKNOWN, UNKNOWN), bag("w1", "w2")
    for pair in ((unknown, some), (some, unknown), (unknown, unknown)):
        assert score(name, *pair) == 0.0


@pytest.mark.parametrize("name", OF_VECTORS)
@given(seed=seeds)
@PROPERTY
def test_an_unknown_word_changes_nothing(name, seed):
    texts = draw_texts(np.random.default_rng(seed), 2, in_context=False)
    zero = np.zeros((1, D), np.float32)
    longer = [Bag(np.concatenate([t.vectors, zero]), (*t.names, "never seen")) for t in (texts[0], texts[1])]
    assert_scores(name, score(name, *longer), score(name, texts[0], texts[1]), 1e-6)


@pytest.mark.parametrize("name", [n for n in AVAILABLE if "-set" in n or n == "set-jaccard"])
def test_sets_count_a_word_once(name):
    once, twice, other = bag("w1", "w2"), bag("w1", "w2", "w2"), bag("w1", "w3", "w4")
    assert score(name, twice, other) == pytest.approx(score(name, once, other))
    assert score(name, other, twice) == pytest.approx(score(name, other, once))


# Bad input


@pytest.mark.parametrize("name", ["fbow-axes", "fbow-kmeans", "sif-pc-cosine", "abtt-cosine"])
def test_what_was_fitted_in_another_dimension_is_refused(name):
    wide = Bag(np.ones((2, D + 1), np.float32), ("w1", "w2"))
    with pytest.raises(DataError, match=f"dimension must be {D + 1}, got {D}"):
        BUILT[name].pair(wide, wide)
    with pytest.raises(DataError, match=f"dimension must be {D + 1}, got {D}"):
        BUILT[name].pool(wide, Texts(TokenBatch.from_arrays([wide.vectors]), (wide.names,)))


@pytest.mark.parametrize("name", AVAILABLE)
def test_what_is_missing_is_named(name):
    inputs = BUILT[name].inputs
    full, texts = bag("w1"), Texts(TokenBatch.from_arrays([np.ones((1, D))]), (("w1",),))
    if "vectors" in inputs:
        with pytest.raises(DataError, match="the text's token vectors must be there, got None"):
            BUILT[name].pool(Bag(words=("w1",)), texts)
    if inputs & {"words", "query words"}:
        with pytest.raises(DataError, match=r"text('s|s') words must be there, got None"):
            BUILT[name].pool(Bag(full.tokens), texts)
    if "words" in inputs:
        with pytest.raises(DataError, match=r"text('s|s') words must be there, got None"):
            BUILT[name].pool(full, Texts(texts.tokens))


def test_words_and_vectors_have_to_be_aligned():
    batch = TokenBatch.from_arrays([np.ones((2, D)), np.ones((1, D))])
    with pytest.raises(DataError, match="the number of words must be 2, got 3"):
        Bag(np.ones((2, D)), ("a", "b", "c"))
    with pytest.raises(DataError, match=r"the numbers of words of texts must be \[2, 1\], got \[2, 2\]"):
        Texts(batch, (("a", "b"), ("c", "d")))
    with pytest.raises(DataError, match="the number of texts with words must be 2, got 1"):
        Texts(batch, (("a", "b"),))
    with pytest.raises(DataError, match=r"token vectors must be of shape \(n, d\), got \(3,\)"):
        Bag(np.ones(3))


# The registry


def test_names_are_told_and_mistakes_are_met_with_the_nearest():
    assert similarity_names() == tuple(SIMILARITIES)
    with pytest.raises(DataError, match="similarity='dynamax-jacard' is not known"):
        find_similarity("dynamax-jacard")


@pytest.mark.parametrize("name", AVAILABLE)
def test_what_a_similarity_is_fitted_on_is_what_it_says(name):
    fitted_on = find_similarity(name).fitted_on
    partial = CorpusStatistics(
        D,
        CORPUS if "texts" in fitted_on else Texts(),
        WordStatistics.of(CORPUS.names) if "statistics" in fitted_on else WordStatistics(),
    )
    texts = draw_texts(np.random.default_rng(5), 4, in_context=True)
    scores = find_similarity(name).build(partial).pool(texts[0], texts)
    np.testing.assert_array_equal(scores, BUILT[name].pool(texts[0], texts))


@pytest.mark.parametrize("name", ["dynamax-jaccard", "dynamax", "bag-jaccard", "soft-jaccard", "avg-cosine"])
def test_bags_count_a_word_as_often_as_it_occurs(name):
    once, twice, other = bag("w1", "w2"), bag("w1", "w2", "w2"), bag("w1", "w3", "w4")
    assert abs(score(name, twice, other) - score(name, once, other)) > 1e-3
