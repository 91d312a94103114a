"""Foreign text on one line, without what moves a cursor; rows of it for other programs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Direction marks, with which a text can look like another one.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def one_line(text: str) -> str:
    r"""A text in one line in which nothing moves a cursor or turns the direction of writing.

    >>> one_line("a\n b\x1b[31mc\u202e")
    'a b\\x1b[31mc\\u202e'
    """
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """A text whose characters of control, of direction and of no meaning are escaped; lines stay one."""
    return "".join(map(_shown, text))


def tab_separated(cells: Iterable[str]) -> str:
    r"""A row of a table for other programs, such as `cut -f`: as many fields as cells, in one line.

    >>> tab_separated(["a", "b\tc\nd", ""])
    'a\tb c d\t'
    """
    return "\t".join(map(one_line, cells))


def _shown(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cs") or character in _DIRECTIONS:
        return character.encode("unicode_escape").decode("ascii")
    return character
