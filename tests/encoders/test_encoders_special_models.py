"""Models of sentence-transformers that are not the usual kind: tiny random ones of each."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_models import tiny_bert
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaModel, PreTrainedTokenizerFast

from surprise_rerank import Document, Passages
from surprise_rerank.connectors.qdrant import IndexOptions
from surprise_rerank.encoders.base import Kind
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

VOCABULARY = ["red", "fish", "blue", "bird", "sings", "query", "passage", ":", "a", "."]
TEXTS = ["red fish", "blue bird sings .", "a", "", "red red red blue bird sings a fish . . a"]


@pytest.fixture(autouse=True)
def _same_weights() -> None:
    torch.manual_seed(0)


@pytest.fixture
def bert(tmp_path: Path) -> SentenceTransformer:
    return tiny_bert(tmp_path, VOCABULARY)


@pytest.fixture
def decoder(tmp_path: Path) -> SentenceTransformer:
    """A decoder that pads on the left and pools the last token."""
    words = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(["<pad>", "<unk>", *VOCABULARY])}, "<unk>")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", padding_side="left", model_max_length=32
    )
    config = LlamaConfig(
        vocab_size=len(VOCABULARY) + 2,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
    )
    LlamaModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return SentenceTransformer(modules=[Transformer(str(tmp_path)), Pooling(16, "lasttoken")], device="cpu")


def own_dense(model: SentenceTransformer, texts: Sequence[str], kind: Kind = "document") -> np.ndarray:
    """What the library itself computes."""
    encode = model.encode_query if kind == "query" else model.encode_document
    return encode(list(texts), normalize_embeddings=True)


def require_aligned(encoder: SentenceTransformerEncoder, texts: Sequence[str], kind: Kind) -> None:
    tokens = encoder.encode(texts, kind).require_tokens()
    words, spans = encoder.words(texts, kind), encoder.token_spans(texts, kind)
    assert tokens.lengths.tolist() == [len(own) for own in words] == [len(own) for own in spans]
    for text, own, places in zip(texts, words, spans, strict=True):
        assert own == [text[start:end] for start, end in places]


# Another dimension


def test_a_projection_of_the_pooled_vector_leaves_tokens_their_dimension(bert, open_index):
    bert.append(Dense(16, 8))
    encoder = SentenceTransformerEncoder(bert, "projected")
    assert (encoder.dimension, encoder.token_dimension) == (8, 16)
    encoded = encoder.encode(TEXTS)
    np.testing.assert_allclose(encoded.dense, own_dense(bert, TEXTS), atol=1e-6)
    assert encoded.require_tokens().dimension == 16
    assert encoder.encode([]).require_tokens().dimension == 16
    documents = [Document(str(i), text) for i, text in enumerate(TEXTS)]
    with open_index(encoder, options=IndexOptions(Passages(overlap=2))) as index:
        index.sync(documents)
        for system in ("cosine", "dynamax", "fusion", "auto"):
            assert len(index.pipeline(system).search("blue bird")) == 5
        stored = index.fetch(["1"], frozenset({"tokens"})).require_tokens()
        np.testing.assert_allclose(stored[0], encoded.require_tokens()[1], atol=0.02)


def test_truncate_dim_cuts_dense_vectors_and_not_tokens(bert):
    whole = SentenceTransformerEncoder(bert, "whole").encode(TEXTS)
    bert.truncate_dim = 6
    encoder = SentenceTransformerEncoder(bert, "cut")
    assert (encoder.dimension, encoder.token_dimension) == (6, 16)
    encoded = encoder.encode(TEXTS)
    np.testing.assert_allclose(encoded.dense, own_dense(bert, TEXTS), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(encoded.dense, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(encoded.require_tokens().directions, whole.require_tokens().directions)


# Decoders


def test_a_decoder_that_pads_on_the_left_gives_each_text_its_own_tokens(decoder):
    encoder = SentenceTransformerEncoder(decoder, "decoder")
    together = encoder.encode(TEXTS[:3] + TEXTS[4:])
    np.testing.assert_allclose(together.dense, own_dense(decoder, TEXTS[:3] + TEXTS[4:]), atol=1e-6)
    for i, text in enumerate(TEXTS[:3] + TEXTS[4:]):
        alone = encoder.encode([text])
        np.testing.assert_allclose(together.require_tokens()[i], alone.require_tokens()[0], atol=1e-5)
        np.testing.assert_allclose(together.dense[i], alone.dense[0], atol=1e-5)
        # The last token's vector is the pooled one: nothing was taken from the padding.
        last = alone.require_tokens().text(0, unit=True)[-1]
        np.testing.assert_allclose(together.dense[i], last, atol=1e-5)
    require_aligned(encoder, TEXTS, "document")


def test_a_decoders_prompt_stays_out_of_its_tokens(decoder):
    decoder.prompts = {"query": "query : ", "document": ""}
    encoder = SentenceTransformerEncoder(decoder, "decoder")
    texts = TEXTS[:3] + TEXTS[4:]
    require_aligned(encoder, texts, "query")
    asked = encoder.encode(texts, "query")
    np.testing.assert_allclose(asked.dense, own_dense(decoder, texts, "query"), atol=1e-6)
    whole = SentenceTransformerEncoder(decoder, "decoder", prompt_tokens=True).encode(texts, "query")
    for i in range(len(texts)):
        np.testing.assert_allclose(asked.require_tokens()[i], whole.require_tokens()[i][2:], atol=1e-6)
