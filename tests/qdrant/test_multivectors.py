"""Token vectors as Qdrant's multivectors: what goes in comes out, and Qdrant's MaxSim is our inclusion."""

from typing import Any

import numpy as np
import pybase64
import pytest
from qdrant_client import models

from surprise_rerank import DataError, DynaMax
from surprise_rerank.connectors.qdrant._engines.edge import EdgeEngine
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._multivectors import (
    TOKEN_COUNT,
    TOKEN_SHAPE,
    document_vectors,
    query_vectors,
    stored_tokens,
    token_payload,
)
from surprise_rerank.connectors.qdrant._schema import Point, point_id
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.tokens import TokenBatch, pooled_tokens

D = 8


def texts(*lengths: int, dimension: int = D) -> TokenBatch:
    """Tokens of lengths that differ; the first of a text is unknown to its model, a vector of zeros."""
    rng = np.random.default_rng(sum(lengths))
    made = [rng.normal(size=(n, dimension)) * rng.uniform(0.5, 3, (n, 1)) for n in lengths]
    for text in made:
        text[:1] = 0
    return TokenBatch.from_arrays(made, dimension)


def stored(tokens: TokenBatch) -> tuple[list[Float32Array], list[dict[str, Any]], list[str]]:
    """What is stored of a batch, and the names of its texts."""
    each = range(len(tokens))
    names = [f"of document {i}" for i in each]
    return [document_vectors(tokens, i) for i in each], [token_payload(tokens, i) for i in each], names


@pytest.mark.parametrize("factor", [1, 2.5])
@pytest.mark.parametrize("lengths", [(), (0,), (5, 0, 1, 40), (300, 2), (900, 0)], ids=str)
def test_tokens_come_back_as_they_were_stored(lengths, factor):
    tokens = pooled_tokens(texts(*lengths), factor, 1)
    vectors, payloads, names = stored(tokens)
    assert all(len(own) for own in vectors), "Qdrant refuses empty multivectors"
    back = stored_tokens([own.tolist() for own in vectors], payloads, D, names)
    assert (len(back), back.dimension) == (len(lengths), D)
    assert back.token_counts.tolist() == list(lengths)
    np.testing.assert_array_equal(back.offsets, tokens.offsets)
    np.testing.assert_array_equal(back.norms, tokens.norms)
    np.testing.assert_array_equal(back.weights, tokens.weights)
    np.testing.assert_allclose(back.directions, tokens.directions, atol=1e-6)
    np.testing.assert_array_equal(back.expanded().lengths, lengths)


def test_merged_tokens_take_a_byte_each_and_two_where_there_are_many_vectors():
    for length, width in ((500, 1), (1000, 2)):
        tokens = pooled_tokens(texts(length), 3, 1)
        shape = pybase64.b64decode(token_payload(tokens, 0)[TOKEN_SHAPE])
        assert len(shape) == 4 * len(tokens.norms) + width * length


@pytest.mark.parametrize("factor", [1, 2.5])
@pytest.mark.parametrize(
    "damage",
    [
        {TOKEN_COUNT: None},
        {TOKEN_COUNT: "many"},
        {TOKEN_COUNT: 0},
        {TOKEN_SHAPE: 7},
        {TOKEN_SHAPE: "no base64!"},
        {TOKEN_SHAPE: ""},
        {TOKEN_SHAPE: "AAAA"},
        {TOKEN_SHAPE: pybase64.b64encode(b"\xff" * 200).decode()},
    ],
    ids=str,
)
def test_damaged_payloads_are_told_with_their_text(damage, factor):
    vectors, payloads, names = stored(pooled_tokens(texts(9, 20), factor, 1))
    for wrong in ({**payloads[1], **damage}, {k: v for k, v in payloads[1].items() if k not in damage}):
        with pytest.raises(DataError, match="the token vectors of document 1 are damaged"):
            stored_tokens(vectors, [payloads[0], wrong], D, names)


def test_maxsim_of_qdrant_is_inclusion_but_for_the_rounding_of_its_codes(tmp_path):
    tokens = pooled_tokens(texts(40, 0, 90, 3, 300, dimension=384), 3.5, 16)
    query = texts(13, dimension=384)[0][1:] + tokens[2][:12]
    engine = EdgeEngine(tmp_path / "shard", Manifest("m", "f", 384))
    names = [point_id(str(i)) for i in range(5)]
    engine.upsert([Point(name, {"tokens": document_vectors(tokens, i)}, {}) for i, name in enumerate(names)])
    asked = models.NearestQuery(nearest=query_vectors(query).tolist())
    request = models.QueryRequest(query=asked, using="tokens", limit=5)
    found = {record.id: record.score for record in engine.query_batch([request])[0]}
    engine.close()
    scores = np.array([found[name] for name in names]) / 12
    expected = DynaMax().pool(query, tokens)
    assert np.ptp(expected) > 0.3
    np.testing.assert_allclose(scores, expected, atol=0.01)
    assert scores[1] == 0
