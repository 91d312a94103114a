"""What other packages have that makes vectors, as encoders; their real classes where they are installed."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank import FunctionEncoder, as_encoder
from surprise_rerank.errors import DataError

TEXTS = ["red fish", "blue bird sings", ""]


def test_an_encoder_is_taken_as_it_is():
    own = WordEncoder()
    assert as_encoder(own) is own
    calls: list[list[str]] = []
    function = FunctionEncoder(lambda texts: calls.append(texts), name="never called")
    assert as_encoder(function) is function
    assert calls == []


def test_a_function_is_called_by_its_name():
    def own_model(texts: list[str]) -> np.ndarray:
        return WordEncoder().encode(texts).dense

    assert as_encoder(own_model).name == "own_model"
    assert as_encoder(own_model, name="v2").name == "v2"
    plain = type("Plain", (), {"model_name": "plain", "encode": lambda self, texts: own_model(texts)})()
    assert as_encoder(plain).name == "plain"
    np.testing.assert_allclose(as_encoder(plain).encode(TEXTS).dense, own_model(TEXTS))
    assert as_encoder(functools.partial(own_model), name="part").encode(TEXTS).dense.shape == (3, 16)
    for nameless in (lambda texts: texts, functools.partial(own_model)):
        with pytest.raises(DataError, match=r"give name=.*FunctionEncoder\(embed, name="):
            as_encoder(nameless)


def test_langchains_embeddings():
    embeddings = pytest.importorskip("langchain_core.embeddings")
    model = embeddings.DeterministicFakeEmbedding(size=12)
    own = as_encoder(model, name="fake")
    expected = np.array(model.embed_documents(TEXTS[:2]))
    found = own.encode(TEXTS).dense
    np.testing.assert_allclose(
        found[:2], expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5
    )
    query = np.array(model.embed_query("red"))
    np.testing.assert_allclose(
        own.encode(["red"], "query").dense[0], query / np.linalg.norm(query), rtol=1e-5
    )


def _llama_model() -> Any:
    base = pytest.importorskip("llama_index.core.embeddings")

    class Words(base.BaseEmbedding):  # type: ignore[misc, name-defined]
        def _get_text_embedding(self, text: str) -> list[float]:
            return WordEncoder().encode([text]).dense[0].tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return WordEncoder().encode([f"query {query}"]).dense[0].tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    return Words(model_name="llama-words")


def test_llama_indexes_base_embedding():
    own = as_encoder(_llama_model())
    assert own.name == "llama-words"
    np.testing.assert_allclose(own.encode(TEXTS).dense, WordEncoder().encode(TEXTS).dense, atol=1e-6)
    asked = own.encode(["red"], "query").dense
    np.testing.assert_allclose(asked, WordEncoder().encode(["query red"]).dense, atol=1e-6)


def test_haystacks_embedders_alone_and_as_a_pair():
    embedders = pytest.importorskip("haystack.components.embedders")
    documents, texts = embedders.MockDocumentEmbedder(), embedders.MockTextEmbedder()
    expected = as_encoder(texts).encode(TEXTS).dense
    assert expected.shape[0] == 3
    np.testing.assert_allclose(np.linalg.norm(expected[:2], axis=1), 1, rtol=1e-5)
    pair = as_encoder((documents, texts), name="pair")
    np.testing.assert_allclose(pair.encode(["red"], "query").dense, expected_of(texts, ["red"]), rtol=1e-5)
    np.testing.assert_allclose(pair.encode(TEXTS).dense, as_encoder(documents).encode(TEXTS).dense, rtol=1e-5)
    for wrong in ((texts, documents), (texts, texts), (documents, len)):
        with pytest.raises(DataError, match=r"tuple is no encoder; give .*the pair"):
            as_encoder(wrong)


def expected_of(embedder: Any, texts: list[str]) -> np.ndarray:
    vectors = np.array([embedder.run(text=text)["embedding"] for text in texts], np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_fastembeds_text_embedding_by_its_methods():
    class TextEmbedding:
        model_name = "tests/lookup"

        def passage_embed(self, texts: list[str]) -> Iterator[np.ndarray]:
            yield from WordEncoder().encode(texts).dense

        def query_embed(self, texts: list[str]) -> Iterator[np.ndarray]:
            yield from WordEncoder().encode([f"query {text}" for text in texts]).dense

    own = as_encoder(TextEmbedding())
    assert own.name == "tests/lookup"
    np.testing.assert_allclose(own.encode(TEXTS).dense, WordEncoder().encode(TEXTS).dense, atol=1e-6)
    asked = own.encode(["red"], "query").dense
    np.testing.assert_allclose(asked, WordEncoder().encode(["query red"]).dense, atol=1e-6)


@pytest.mark.parametrize("model", [3, None, object(), WordEncoder, ("a", "b", "c"), {"encode": 1}])
def test_anything_else_is_an_error_that_lists_what_is_possible(model: object):
    with pytest.raises(DataError, match=r"is no encoder; give an Encoder, .*LangChain's Embeddings"):
        as_encoder(model)
