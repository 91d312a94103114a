"""Texts as plots show them: measured, shortened or folded to the room that there is."""

from __future__ import annotations

import functools
import re

from surprise_rerank.core.extras import import_extra
from surprise_rerank.eval.reports.one_line import one_line

_ELLIPSIS = "…"
_MISSING = 1.25  # width of the box that stands for a character that the font lacks, as Chinese ones
# No characters of XML.
_NO_XML = re.compile("[\ufffe\uffff]")


def clean(text: str) -> str:
    """A text in one line, of characters that XML has."""
    return _NO_XML.sub("\ufffd", one_line(text))


def shown(text: str, size: float, room: float) -> str:
    """A text in one line that fits.

    Args:
        text: may be hostile.
        size: of its letters, in points.
        room: in points.
    """
    return _laid_out(_fitted(clean(text), size, room))


def folded(text: str, size: float, room: float, lines: int) -> str:
    """A text in several lines that fit, at most so many; a word that is longer than a line is broken.

    Args:
        text: may be hostile.
        size: of its letters, in points.
        room: in points.
        lines: at most.
    """
    found: list[str] = []
    rest = clean(text)
    while rest and len(found) < lines - 1:
        if width(rest, size) <= room:
            break
        cut = _longest(rest, size, room)
        space = rest.rfind(" ", 0, cut + 1)
        # A word that would leave half of the line empty is broken.
        cut = space if space > cut / 2 else cut
        found.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    found.append(_fitted(rest, size, room))
    return "\n".join(map(_laid_out, found))


def width(text: str, size: float) -> float:
    """About how wide a text is, in points."""
    return size * sum(map(_advance, text))


def _fitted(text: str, size: float, room: float) -> str:
    if width(text, size) <= room:
        return text
    return text[: _longest(text, size, room - width(_ELLIPSIS, size))].rstrip() + _ELLIPSIS


def _longest(text: str, size: float, room: float) -> int:
    """How many of a text's first characters fit; at least one."""
    taken = 0.0
    for count, character in enumerate(text):
        taken += size * _advance(character)
        if taken > room:
            return max(count, 1)
    return len(text)


def _laid_out(text: str) -> str:
    # matplotlib hides names that begin with an underscore.
    return f"\u200b{text}" if text.startswith("_") else text


@functools.lru_cache(4096)
def _advance(character: str) -> float:
    """The width of a character, in its size."""
    fonts = import_extra("matplotlib.font_manager", "report")
    font = fonts.get_font(fonts.findfont("DejaVu Sans"))
    if not font.get_char_index(ord(character)):
        return _MISSING
    font.set_size(100, 72)
    # Hinting and rounding to pixels make texts a little wider.
    return 1.05 * float(font.load_char(ord(character)).linearHoriAdvance) / 65536 / 100
