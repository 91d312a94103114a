"""What other packages have that makes vectors, as encoders; their real classes where they are installed."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, FunctionEncoder, as_encoder
from surprise_rerank.core.arrays import unit_rows

TEXTS = ["red fish", "blue bird sings"]


def vectors(texts: list[str]) -> np.ndarray:
    return WordEncoder().encode(texts).dense


def of_questions(texts: list[str]) -> np.ndarray:
    return vectors([f"query {text}" for text in texts])


def test_an_encoder_is_taken_as_it_is():
    function = FunctionEncoder(lambda texts: pytest.fail("never called"), name="function")
    for own in (WordEncoder(), function):
        assert as_encoder(own) is own


def test_a_function_is_called_by_its_name():
    assert as_encoder(vectors).name == "vectors"
    assert as_encoder(vectors, name="v2").name == "v2"
    for nameless in (lambda texts: texts, functools.partial(vectors)):
        with pytest.raises(DataError, match=r"give name=.*FunctionEncoder\(embed, name="):
            as_encoder(nameless)


def langchain() -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    model = pytest.importorskip("langchain_core.embeddings").DeterministicFakeEmbedding(size=12)
    return model, model.embed_documents, lambda texts: [model.embed_query(text) for text in texts]


def llama_index() -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    base = pytest.importorskip("llama_index.core.embeddings")

    class Words(base.BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return vectors([text])[0].tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return of_questions([query])[0].tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    return Words(model_name="llama-words"), vectors, of_questions


def haystack() -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    embedders = pytest.importorskip("haystack.components.embedders")
    pair = embedders.MockDocumentEmbedder(), embedders.MockTextEmbedder()
    for wrong in (pair[::-1], (pair[1], pair[1]), (pair[0], len)):
        with pytest.raises(DataError, match=r"tuple is no encoder; give .*the pair"):
            as_encoder(wrong)
    alone = as_encoder(pair[0], name="alone").encode(TEXTS).dense
    return pair, lambda texts: alone, lambda texts: [pair[1].run(text=text)["embedding"] for text in texts]


def fastembed() -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    class TextEmbedding:
        model_name = "tests/lookup"

        def passage_embed(self, texts: list[str]) -> Iterator[np.ndarray]:
            yield from vectors(texts)

        def query_embed(self, texts: list[str]) -> Iterator[np.ndarray]:
            yield from of_questions(texts)

    return TextEmbedding(), vectors, of_questions


@pytest.mark.parametrize("make", [langchain, llama_index, haystack, fastembed])
def test_each_side_is_what_the_package_makes_of_it(make):
    model, of_documents, of_query = make()
    name = getattr(model, "model_name", None)
    own = as_encoder(model) if name else as_encoder(model, name="given")
    assert own.name == (name or "given")
    for kind, expected in (("document", of_documents), ("query", of_query)):
        found = own.encode(TEXTS, kind).dense
        np.testing.assert_allclose(found, unit_rows(np.array(expected(TEXTS))), atol=1e-5)


@pytest.mark.parametrize("model", [3, None, object(), WordEncoder, ("a", "b", "c"), {"encode": 1}])
def test_anything_else_is_an_error_that_lists_what_is_possible(model):
    with pytest.raises(DataError, match=r"is no encoder; give an Encoder, .*LangChain's Embeddings"):
        as_encoder(model)
