"""Dense vectors of one model, tokens of another."""

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, FunctionEncoder, IndexMismatchError, PairedEncoder
from surprise_rerank.encoders.base import encode_queries, token_dimension

DOCUMENTS = [Document("a", "red fish"), Document("b", "blue bird sings"), Document("c", "green tree")]
TEXTS = [document.text for document in DOCUMENTS]


def api(**options: object) -> FunctionEncoder:
    """Vectors of 40 dimensions, as an API has them."""
    words = WordEncoder(40)
    return FunctionEncoder(lambda texts: words.encode(texts).dense, **{"name": "api", **options})


def test_each_part_comes_from_its_encoder():
    words = WordEncoder(12)
    pair = PairedEncoder(api(), words)
    done: list[int] = []
    encoded = pair.encode(TEXTS, on_progress=done.append)
    np.testing.assert_allclose(encoded.dense, WordEncoder(40).encode(TEXTS).dense, atol=1e-6)
    tokens = encoded.require_tokens()
    np.testing.assert_array_equal(tokens.directions, words.encode(TEXTS).tokens.directions)
    assert (pair.dimension, pair.token_dimension, token_dimension(pair)) == (40, 12, 12)
    assert pair.name == "api + tokens of words"
    assert pair.words(TEXTS) == words.words(TEXTS)
    for own, theirs in zip(pair.token_spans(TEXTS), words.token_spans(TEXTS), strict=True):
        np.testing.assert_array_equal(own, theirs)
    assert sum(done) == 3
    (query,) = encode_queries(pair, ["red fish"])
    assert (query.dense.shape, query.tokens.shape) == ((40,), (2, 12))


@pytest.mark.parametrize(
    ("dense", "tokens", "expected"),
    [(None, None, None), (None, 8, 8), (20, None, 20), (20, 8, 8), (8, 20, 8)],
)
def test_the_window_is_the_smaller_one(dense, tokens, expected):
    assert PairedEncoder(api(window=dense), WordEncoder(window=tokens)).window == expected


def test_an_index_of_two_models(open_index):
    with open_index(api(), token_encoder=WordEncoder(12)) as index:
        index.sync(DOCUMENTS)
        assert (index.manifest.dimension, index.manifest.token_dimension) == (40, 12)
        for system in ("cosine", "dynamax", "fusion", "auto"):
            assert index.pipeline(system).search("blue bird").ids[0] == "b"
    with open_index(PairedEncoder(api(), WordEncoder(12))) as index:
        assert index.sync(DOCUMENTS).unchanged == 3
    with pytest.raises(IndexMismatchError, match=r"'api \+ tokens of words'.*'api'"):
        open_index(api())


def test_mixtures_that_make_no_sense_are_errors(open_index):
    with pytest.raises(DataError, match="token vectors of the encoder 'api' must be there, got None"):
        PairedEncoder(WordEncoder(), api())
    pair = PairedEncoder(api(), WordEncoder())
    for one, other in ((pair, WordEncoder()), (WordEncoder(), pair)):
        with pytest.raises(
            DataError, match="an encoder must be one that is no pair already, got a PairedEncoder"
        ):
            PairedEncoder(one, other)
    with pytest.raises(DataError, match="encoder must be there, got None"):
        open_index(None, token_encoder=WordEncoder())
