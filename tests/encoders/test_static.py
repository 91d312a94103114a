"""Static word vectors as an encoder: tokens are the words' vectors, unknown words follow the policy."""

import numpy as np
import pytest

from surprise_rerank.encoders.static import StaticEncoder, WordVectors, default_tokenize

WORDS = ["the", "wing", "lifts", "NASA", "😀", "of"]
VECTORS = np.float32([[1, 0, 0], [0, 2, 0], [0, 0, 4], [3, 4, 0], [1, 1, 1], [0, 0, -4]])


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    return WordVectors(WORDS, VECTORS, "toy")


# Tokens and dense vectors


def test_tokens_are_the_vectors_with_their_lengths(vectors):
    encoded = StaticEncoder(vectors).encode(["The wing lifts the wing.", "lifts"])
    assert encoded.tokens.lengths.tolist() == [5, 1]
    np.testing.assert_allclose(encoded.tokens[0], VECTORS[[0, 1, 2, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(encoded.tokens.norms, [1, 2, 4, 1, 2, 4], atol=1e-6)


def test_unknown_words_are_left_out(vectors):
    encoded = StaticEncoder(vectors).encode(["a wing stalls", "", "quite unknown"])
    assert encoded.tokens.lengths.tolist() == [1, 0, 0]
    np.testing.assert_allclose(encoded.tokens[0], VECTORS[[1]], atol=1e-6)
    np.testing.assert_allclose(encoded.dense, [[0, 1, 0], [0, 0, 0], [0, 0, 0]])


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
def test_the_tokenizer_gives_words_and_numbers(text, words):
    assert default_tokenize(text) == words
