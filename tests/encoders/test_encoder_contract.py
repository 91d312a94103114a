"""What every encoder does, whatever computes its vectors: any text, in its order, alike in any batch."""

import numpy as np
import pytest
from helpers.tiny_models import native, tiny_bert
from helpers.words import WordEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from surprise_rerank import DataError, FunctionEncoder, PairedEncoder, TextSimilarity
from surprise_rerank._documents import encodable
from surprise_rerank.encoders.base import Encoded, Encoder, encode_queries, token_dimension
from surprise_rerank.encoders.multi_vector import MultiVectorEncoder
from surprise_rerank.encoders.static import StaticEncoder, WordVectors
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

WORDS = ["oil", "the", "chain", "tyres", "take", "bar", "brakes", "query", "passage", ":", "##s"]
TEXTS = ["oil the chain", "tyres take bar", "", "brakes", "oil " * 40, "the chains: oil!"]
TEXTS += ["\ud800 lone \udfff", "\0", "😀 take \n\t", "日本語 oil", "İ É", " \u3000 ", "a" * 3000]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Encoder]:
    folder = tmp_path_factory.mktemp("models")
    plain = SentenceTransformerEncoder(tiny_bert(folder, WORDS), "plain")
    projected = SentenceTransformer(modules=[*plain.model, Dense(16, 8), Normalize()], device="cpu")
    projected.prompts, projected.max_seq_length = {"query": "query : ", "document": "passage : "}, 12
    static = StaticEncoder(
        WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 6)), "static")
    )
    function = FunctionEncoder(lambda texts: WordEncoder().encode(texts).dense, name="function")
    return {
        "plain": plain,
        "prompted": SentenceTransformerEncoder(projected, "prompted"),
        "several": MultiVectorEncoder(native(folder / "several", WORDS), "several"),
        "static": static,
        "function": function,
        "paired": PairedEncoder(function, static),
    }


NAMES = ["plain", "prompted", "several", "static", "function", "paired"]
every_encoder = pytest.mark.parametrize("name", NAMES)
every_side = pytest.mark.parametrize("kind", ["query", "document"])
any_texts = st.lists(st.one_of(st.sampled_from(TEXTS), st.text(max_size=30)), max_size=4)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused_whatever_encoder_made_them(number):
    vectors = np.ones((3, 2), np.float32)
    vectors[1, 0] = number
    with pytest.raises(DataError, match="dense vectors must be finite, got NaN or infinite values in row 1;"):
        Encoded(vectors)


@every_encoder
@every_side
@settings(max_examples=15, deadline=None)
@given(texts=any_texts)
def test_vectors_words_and_places_belong_together(encoders, name, kind, texts):
    encoder = encoders[name]
    steps: list[int] = []
    encoded = encoder.encode(texts, kind, steps.append)
    assert sum(steps) == len(texts)
    assert encoded.dense.shape == (len(texts), encoder.dimension)
    assert encoded.dense.dtype == np.float32
    lengths = np.linalg.norm(encoded.dense, axis=1)
    assert np.isclose(lengths, 1, atol=1e-5)[lengths > 0].all()
    assert (encoded.tokens is None) == (token_dimension(encoder) is None)
    if encoded.tokens is not None:
        assert encoded.tokens.dimension == token_dimension(encoder)
        assert np.isfinite(encoded.tokens.directions).all()
        words = encoder.words(texts, kind)
        assert [len(own) for own in words] == encoded.tokens.lengths.tolist()
    spans = encoder.token_spans(texts, kind)
    assert len(spans) == len(texts)
    for text, own in zip(texts, spans, strict=True):
        assert (np.diff(own[:, 0]) >= 0).all()
        assert ((own >= 0) & (own <= len(encodable(text)))).all()


@every_encoder
@every_side
def test_a_text_has_the_same_vectors_alone_and_among_others(encoders, name, kind, monkeypatch):
    encoder = encoders[name]
    together = encoder.encode(TEXTS, kind)
    for attribute, small in (("batch_tokens", 24), ("_batch", 2)):
        if hasattr(encoder, attribute):
            monkeypatch.setattr(encoder, attribute, small)
    in_batches = encoder.encode(TEXTS, kind)
    for i, text in enumerate(TEXTS):
        alone = encoder.encode([text], kind)
        for other in (together, in_batches):
            np.testing.assert_allclose(other.dense[i], alone.dense[0], atol=1e-5)
            if alone.tokens is not None and other.tokens is not None:
                np.testing.assert_allclose(other.tokens[i], alone.tokens[0], atol=1e-4)
    again = encoder.encode(["\ufffd lone \ufffd"], kind)
    np.testing.assert_allclose(again.dense[0], together.dense[6], atol=1e-5, err_msg="of a lone surrogate")


@every_encoder
def test_the_window_is_what_is_read(encoders, name):
    encoder = encoders[name]
    if encoder.window is None:
        assert name in ("static", "function", "paired")
        return
    whole, cut = ("oil " * 200).strip(), ("oil " * encoder.window).strip()
    assert len(encoder.token_spans([whole])[0]) == 200
    assert len(encoder.token_spans([cut])[0]) == encoder.window
    read = encoder.encode([whole, cut, cut.removesuffix(" oil")]).dense
    np.testing.assert_allclose(read[0], read[1], atol=1e-6)
    assert not np.allclose(read[1], read[2], atol=1e-6)


def test_a_prompt_is_read_and_is_no_part_of_the_text(encoders):
    prompted = encoders["prompted"]
    for kind in ("query", "document"):
        assert prompted.words(["oil the"], kind) == [["oil", "the"]]
    assert not np.allclose(prompted.encode(["oil"], "query").dense, prompted.encode(["oil"]).dense)


@every_encoder
def test_questions_carry_their_vectors_and_names(encoders, name):
    encoded = encoders[name].encode(TEXTS[:2], "query")
    queries = encode_queries(encoders[name], TEXTS[:2], ["q1", "q2"])
    assert [(own.text, own.id) for own in queries] == [(TEXTS[0], "q1"), (TEXTS[1], "q2")]
    for i, query in enumerate(queries):
        np.testing.assert_array_equal(query.dense, encoded.dense[i])
        assert (query.tokens is None) == (encoded.tokens is None)
        if encoded.tokens is not None:
            np.testing.assert_array_equal(query.tokens, encoded.tokens[i])
    assert encode_queries(encoders[name], []) == []


def test_what_needs_tokens_says_where_to_get_them(encoders):
    dense = encoders["function"]
    with pytest.raises(DataError, match=r"token_encoder=load_encoder\(\)"):
        dense.encode(["red"]).require_tokens()
    for name in ("dynamax-jaccard", "set-jaccard"):
        with pytest.raises(DataError, match=r"token vectors.* must be there"):
            TextSimilarity(name, dense).scores("red", ["fish"])


def test_fingerprints_tell_models_apart(encoders, tmp_path):
    prints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    assert len(set(prints.values())) == len(prints)
    same = SentenceTransformerEncoder(tiny_bert(tmp_path, WORDS), "of another name")
    assert same.fingerprint == prints["plain"]
    next(iter(same.model.parameters())).data[0, 0] += 1
    assert SentenceTransformerEncoder(same.model, "plain").fingerprint != prints["plain"]
