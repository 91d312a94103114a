"""Documents of equal scores: their order is that of their ids, however they were indexed."""

import random
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import Document, FunctionEncoder
from surprise_rerank.connectors.qdrant._schema import Record
from surprise_rerank.connectors.qdrant._search.finding import settled
from surprise_rerank.core.arrays import Float32Array

COPIES = [Document(f"c{i:02d}", "w1 w2 w3 w4 w5") for i in range(12)]
OTHERS = [Document(f"x{i}", f"w{i} w{i + 1} w{i + 2} w{9 * i}") for i in range(30)]


def _dense(texts: Sequence[str]) -> Float32Array:
    """Vectors whose products are no round numbers, so that their order decides the last digit."""
    generators = [np.random.default_rng(zlib.crc32(text.encode())) for text in texts]
    return np.stack([generator.normal(size=384) for generator in generators]).astype(np.float32)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("has_tokens", [True, False])
def test_copies_of_a_text_come_in_the_order_of_their_ids(open_index, seed, has_tokens):
    documents = [*COPIES, *OTHERS]
    random.Random(seed).shuffle(documents)
    encoder = WordEncoder() if has_tokens else FunctionEncoder(_dense, name="hash", dimension=384)
    systems = ["bm25", "cosine", "fusion", "auto", *["dynamax"] * has_tokens]
    with open_index(encoder) as index:
        for part in (documents[:20], documents[20:]):
            index.sync(part, background=False)
        for system in systems:
            ranking = index.pipeline(system).search("w1 w2 w3 w4 w5", top_k=12)
            assert list(ranking.ids) == [document.id for document in COPIES], system
            assert len({hit.score for hit in ranking}) == 1, system
        # What Qdrant computes is float32, in whatever form it comes back.
        scores = index.pipeline("cosine").search("w1 w2 w9").scores
        assert scores.tolist() == scores.astype(np.float32).tolist()


def test_scores_that_differ_by_rounding_are_equals():
    scores = {"d": 39.370674, "b": 39.370670, "c": 39.3, "e": 2.0, "a": 1.9999999, "f": 0.0}
    records = [Record(name, {}, {}, score) for name, score in scores.items()]
    assert [record.id for record in settled(records)] == [*"bdcaef"]
    assert settled([]) == []
