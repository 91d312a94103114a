# ruff: noqa: RUF001 - the texts are in the scripts that the rule is for
"""Where texts may be parted: sentences by a small rule, characters as readers see them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.encoders._sentence_boundaries import sentence_starts, within_character


def sentences(text: str) -> list[str]:
    borders = [0, *sentence_starts(text), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(borders)]


@pytest.mark.parametrize(
    "parts",
    [
        ["One. ", "Two! ", "Three?! ", "Four… ", "Five"],
        ["They said no. ", "He said “No.” ", "(She agreed.) ", "‘Why?’ ", "Because."],
        ["See Fig. 3, eq. 4 and Dr. J. Smith's U.S. patent, e.g. No. 7. ", "Then stop."],
        ["vgl. Abb. 3, z.B. hier, bzw. Dr. Müller. ", "Über alles."],
        ["It costs 3.5 dollars at 1.000. ", "So what?"],
        ["and so on... perhaps. ", "“Really?” she asked. ", "Yes"],
        ["A title\n", "Another line goes on\nhere and is wrapped\n\n", "even if small\r\n\r\n", "end"],
        ["- one\n", "- two\n", "3. three"],
        ["これは文です。", "次は「文です。」", "本当？", "はい！！", "終わり"],
        ["你好。 ", "再见！"],
        ["هل هذا؟ ", "نعم۔ ", "طيب"],
        ["यह है। ", "और॥ ", "अंत"],
        ["no.stop.in.a.name and 3.14 too"],
        ["." * 50],
        [""],
        ["word " * 20],
    ],
)
def test_sentences_begin_where_a_reader_would_say(parts):
    assert sentences("".join(parts)) == parts


@given(st.text(st.sampled_from("aB .!?…\n\r\u2028。」)\"'1 \u3000\ud800"), max_size=60))
def test_borders_ascend_lie_within_and_follow_white_space_or_a_stop(text):
    starts = sentence_starts(text)
    assert starts == sorted(set(starts))
    assert all(0 < start < len(text) for start in starts)
    assert all(text[i - 1].isspace() or text[i - 1] in "。」)\"'" for i in starts)
    assert not any(text[i].isspace() for i in starts)


@pytest.mark.timeout(20)
def test_runs_of_stops_and_white_space_take_no_longer_than_other_text():
    for text in ("." * 200_000, ".)" * 100_000, " " * 200_000, "\n" * 200_000, "a.\n" * 70_000):
        assert len(sentence_starts(text)) <= len(text)


CHARACTERS = [
    *(
        "e\u0301",
        "👩\u200d👩\u200d👧\u200d👦",
        "👍🏽",
        "🇫🇷",
        "\u2764\ufe0f",
        "\u1112\u1161\u11ab",
        "각\u11a8",
        "हि",
    ),
    *("\r\n", "🏴\U000e0067\U000e0062\U000e007f"),
]


@pytest.mark.parametrize("character", CHARACTERS)
def test_a_character_of_several_code_points_is_one(character):
    text = f"a{character}{character}b"
    size = len(character)
    borders = [i for i in range(1, len(text)) if not within_character(text, i)]
    assert borders == [1, 1 + size, 1 + 2 * size]
