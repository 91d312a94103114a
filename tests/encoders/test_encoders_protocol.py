"""Encoders with and without token vectors, and indexes of both."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Opener
from words import WordEncoder

from surprise_rerank.connectors.qdrant import IndexOptions
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import (
    Encoded,
    Kind,
    Progress,
    require_token_encoder,
)
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.text_similarity import TextSimilarity

DOCUMENTS = [Document("a", "red fish"), Document("b", "blue bird sings"), Document("c", "")]


class DenseOnly:
    """An encoder that has what is compulsory, and no more."""

    name, dimension, fingerprint, window = "dense", 16, "1", None

    def __init__(self) -> None:
        self._words = WordEncoder()
        self.token_spans = self._words.token_spans

    def encode(
        self, texts: list[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        return Encoded(self._words.encode(texts, kind, on_progress).dense)


def test_what_needs_tokens_says_where_to_get_them():
    with pytest.raises(DataError, match=r"token_encoder=load_encoder\(\)"):
        DenseOnly().encode(["red"]).require_tokens()
    with pytest.raises(DataError, match=r"the encoder 'dense' has no token vectors"):
        require_token_encoder(DenseOnly())
    with pytest.raises(DataError, match="has no token vectors"):
        TextSimilarity("dynamax-jaccard", DenseOnly()).scores("red", ["fish"])
    with pytest.raises(DataError, match="has no token vectors"):
        TextSimilarity("set-jaccard", DenseOnly()).scores("red", ["fish"])


def test_an_index_that_must_store_tokens_refuses_an_encoder_without_them(open_index: Opener):
    with pytest.raises(DataError, match=r"'dense' has none.*token_encoder=.*tokens=False"):
        open_index(DenseOnly(), options=IndexOptions())


def test_given_tokens_must_fit(open_index: Opener):
    with open_index(WordEncoder(), options=IndexOptions(passages=None)) as index:
        dense = WordEncoder().encode(["red fish"]).dense
        with pytest.raises(DataError, match="has no token vectors"):
            index.sync(DOCUMENTS[:1], encoded=Encoded(dense))
        other = TokenBatch.from_arrays([np.ones((2, 8))])
        with pytest.raises(DataError, match="of dimension 16, got 1 of dimension 8"):
            index.sync(DOCUMENTS[:1], encoded=Encoded(dense, other))
