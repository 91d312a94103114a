# ruff: noqa: RUF001 - letters of other scripts are what this is about
"""What an agent reads of a text: all that a reader would see, and nothing else."""

import sys
import unicodedata

import pytest

from surprise_rerank.connectors._context_window import cleaned

HIDDEN = (
    "\ufe00\ufe0f\U000e0100\U000e0041\u00ad\u180e\u180b\u3164\u115f\u1160\uffa0\u061c\u200b\u200c\u200d\u2060"
    "\u2064\u206a\ufeff\ufff9\u202e\u034f\u17b4\u2800\u2065\U0001d173\U000e0fff\x00\x7f\x85\ud800"
)
SEEN = {
    "Latin": "naïve café, 10 % — \u201cquoted\u201d\u2026",
    "decomposed": "nai\u0308ve",
    "Persian": "می\u200cخواهم کتاب\u200cها",
    "Hindi": "क्\u200dष क्\u200cष नमस्ते",
    "Arabic around numbers": "\u0600\u0661\u0662 \u06dd\u0663",
    "Chinese": "狗为什么叫？",
    "Thai": "ทำไมสุนัขเห่า",
    "Hebrew": "לָמָּה",
    "emoji": "🐕🎉",
    "of a later Unicode": "\U0001fae9",
    "lines": "one\ntwo",
}


@pytest.mark.parametrize("character", HIDDEN, ids=lambda sign: f"{ord(sign):04X}")
def test_what_nobody_sees_is_gone_wherever_it_stands(character):
    for text in (f"ab{character}cd", f"{character}abcd", f"abcd{character}", f"a{character * 5}bcd"):
        assert cleaned(text).replace("\ufffd", "") == "abcd"


@pytest.mark.parametrize("name", SEEN)
def test_what_is_seen_stays(name):
    assert cleaned(SEEN[name]) == SEEN[name]


def test_no_format_character_is_left_between_letters():
    formats = [
        c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Cc", "Cf", "Zs")
    ]
    left = {c for c in formats if cleaned(f"a{c}b") not in ("ab", "a b", "a\nb")}
    assert len(formats) > 200
    assert {unicodedata.bidirectional(c) for c in left} == {"AN"}


def test_joiners_carry_nothing_by_their_number_or_among_other_letters():
    assert cleaned("می\u200c\u200d\u200cخواهم") == "میخواهم"
    assert cleaned("f\u200da\u200cmily \U0001f468\u200d\U0001f469") == "family \U0001f468\U0001f469"


def test_kinds_of_spaces_are_one():
    assert cleaned("a\u2003b\u00a0\u3000c\td\u2028e\r\n\r\nf") == "a b c d\ne\nf"
