"""Where a text may be divided: between sentences, and between characters as a reader sees them."""

from __future__ import annotations

import re

import regex

# A point after one of these words ends no sentence. "etc." and "Co." often end one, and are omitted.
_ABBREVIATIONS = re.compile(
    r"al|approx|bzw|ca|capt|cf|dr|eqs?|esp|figs?|gov|incl|mlle|mme|mrs?|ms|prof|refs?|rev|sgt|st|vgl|viz|vs",
    re.IGNORECASE,
)
# Nor does a point after one of these, before a number. Otherwise it may: "They said no. She left."
_NUMBERED = re.compile(r"abb|art|chap|ch|col|ed|nos?|nr|op|pp|pt|sect?|tab|vols?", re.IGNORECASE)
_LINE_ENDS = "\n\r\x85\u2028\u2029"
_OPENING = "\"'([{«„“‘‹¿¡"  # noqa: RUF001 - what may stand before the first word of a sentence
_CLOSING = "\"')\\]}»”’›」』）】》〉"  # noqa: RUF001
# Of scripts that need no space after them: Chinese and Japanese, Arabic, Devanagari, Armenian, Ethiopic,
# Burmese and Khmer.
_WIDE_STOPS = "。．！？｡؟۔।॥։።፧။។"  # noqa: RUF001
# A run of stops is matched from its first one only, without backtracking: linear for any text.
_BOUNDARY = re.compile(
    rf"(?P<wide>[{_WIDE_STOPS}]++[{_CLOSING}]*+\s*+)"
    rf"|(?<![.!?…])(?P<stop>[.!?…]++)[{_CLOSING}]*+\s++"
    rf"|[{_LINE_ENDS}]\s*+"
)
_TWO_LINE_ENDS = re.compile(rf"(?:\r\n|[{_LINE_ENDS}])\s*[{_LINE_ENDS}]")
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*$")
_LONGEST_ABBREVIATION = 24
_LONGEST_CHARACTER = 64  # code points of what a reader sees as one character


def sentence_starts(text: str) -> list[int]:
    r"""Where the second and every later sentence of a text begins, ascending.

    A sentence begins after a blank line; after a line, or `.!?…` with what closes there and white space,
    unless a small letter follows; and after a stop of a script that needs no space (`。`, `؟`, `।`). A point
    after an abbreviation, English or German, or an initial (`J.`) ends none.

    >>> text = "Dr. Prandtl saw it. Who else? “No one,” e.g. Blasius, said.\nNext line"
    >>> [text[i:].split()[0] for i in sentence_starts(text)]
    ['Who', '“No', 'Next']
    """
    return [m.end() for m in _BOUNDARY.finditer(text) if m.end() < len(text) and _is_boundary(m, text)]


def within_character(text: str, position: int) -> bool:
    """Whether the code points before and at a position, from 1 on, are one character (UAX #29)."""
    before = text[max(0, position - _LONGEST_CHARACTER) : position]
    characters = regex.findall(r"\X", before + text[position])
    return len(characters[-1]) > 1


def _is_boundary(match: re.Match[str], text: str) -> bool:
    if match["wide"] or _TWO_LINE_ENDS.search(match[0]):
        return True
    following = text[match.end() : match.end() + 4].lstrip(_OPENING)[:1]
    if following.islower():
        return False
    if match["stop"] != ".":
        return True
    point = match.start()
    last_word = _LAST_WORD.search(text[max(0, point - _LONGEST_ABBREVIATION) : point])
    word = last_word[0] if last_word else "  "
    if "." in word or len(word) == 1 or _ABBREVIATIONS.fullmatch(word):
        return False
    return not (following.isdigit() and _NUMBERED.fullmatch(word))
