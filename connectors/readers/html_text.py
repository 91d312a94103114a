"""The visible text of HTML pages."""

from __future__ import annotations

import re
import warnings
from typing import Any

from surprise_rerank.connectors.readers.source import EXTRA, RefusedError
from surprise_rerank.connectors.readers.text_streams import Extracted, decoded, encoding_metadata
from surprise_rerank.core.extras import import_extra

# Not <head>: its end may be omitted, and then the body is inside it.
_NOT_SHOWN = frozenset(
    {"canvas", "iframe", "nav", "noscript", "object", "script", "style", "svg", "template", "title"}
)
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd"),
        *(
            "details",
            "dialog",
            "dir",
            "div",
            "dl",
            "dt",
            "fieldset",
            "figcaption",
            "figure",
            "footer",
            "form",
        ),
        *("h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "legend", "li", "main", "menu", "ol"),
        *("option", "p", "pre", "search", "section", "select", "summary", "table", "tbody", "textarea"),
        *("tfoot", "thead", "tr", "ul"),
    }
)
_CELLS = frozenset({"td", "th"})
_SPACES = re.compile(r"[ \t\n\f\r]+")
_GAPS = re.compile(r"\n{3,}")


def html_text(raw: bytes, encoding: str | None = None) -> Extracted:
    """The shown text of a page without its navigation, blocks on lines of their own; its <title>.

    Args:
        raw: the file.
        encoding: of a file that is not UTF-8; what the page declares, or a guess, by default.

    Raises:
        RefusedError: if it is no text.
        MissingExtraError: if Beautiful Soup is not installed.
    """
    dammit = import_extra("bs4.dammit", EXTRA)
    declared = dammit.EncodingDetector.find_declared_encoding(raw, is_html=True)
    text, found = decoded(raw, encoding, declared)
    soup = parsed(text)
    title = soup.find("title")
    return Extracted(
        shown_text(soup), _SPACES.sub(" ", title.get_text()) if title else "", encoding_metadata(found)
    )


def parsed(text: str) -> Any:
    """A page or a piece of one, as Beautiful Soup's tree."""
    soup = import_extra("bs4", EXTRA)
    with warnings.catch_warnings():
        # Of text that looks like the name of a file, or like XML.
        warnings.simplefilter("ignore")
        try:
            return soup.BeautifulSoup(text, "html.parser")
        except (soup.ParserRejectedMarkup, AssertionError, RecursionError) as error:
            raise RefusedError("not HTML", "is not HTML") from error


def shown_text(soup: Any) -> str:
    """The text of a tree, without scripts, styles and navigation."""
    bs4 = import_extra("bs4", EXTRA)
    texts = (bs4.NavigableString, bs4.CData)  # not their subclasses: comments, scripts
    pieces: list[str] = []
    # Not recursive: pages nest as deeply as they like. A tag and whether it is in a <pre>.
    pending: list[tuple[Any, bool]] = [(soup, False)]
    while pending:
        node, is_kept = pending.pop()
        if not isinstance(node, bs4.Tag):
            if type(node) in (str, *texts):
                shown = str(node) if is_kept else _flowing(node, pieces)
                pieces.extend([shown] if shown else [])
            continue
        if node.name in _NOT_SHOWN:
            continue
        if node.name in _BLOCKS:
            pieces.append("\n")
            pending.append(("\n", True))
        elif node.name in _CELLS:
            pending.append((" ", False))
        is_kept = is_kept or node.name in ("pre", "textarea")
        pending.extend((child, is_kept) for child in reversed(node.contents))
    return tidy("".join(pieces))


def _flowing(text: str, pieces: list[str]) -> str:
    """Text in which a line's end is a space, and a space at a line's beginning nothing."""
    text = _SPACES.sub(" ", text)
    return text.lstrip(" ") if pieces and pieces[-1].endswith("\n") else text


def tidy(text: str) -> str:
    """Text without spaces at the ends of lines that were not meant, and without more than one blank line."""
    lines = (line if line.strip() else "" for line in text.split("\n"))
    return _GAPS.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip()
