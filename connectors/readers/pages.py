"""The text of plain files, the shown text of HTML pages and of Markdown files."""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

import yaml
from lxml import etree
from markdown_it import MarkdownIt

from surprise_rerank.connectors.readers.lines import decoded
from surprise_rerank.connectors.readers.source import RefusedError
from surprise_rerank.places import Place, Places, headed

_NOT_SHOWN = ("canvas", "iframe", "nav", "noscript", "object", "script", "style", "svg", "template", "title")
_BLOCK_NAMES = """
address article aside blockquote body br button caption center dd details dialog dir div dl dt fieldset
figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu ol option p pre search
section select summary table tbody textarea tfoot thead tr ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_KEPT = ("pre", "textarea")
_DECLARED = re.compile(
    rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE
)
_SPACES = re.compile(r"[ \t\n\f\r]+")
_GAPS = re.compile(r"\n{3,}")
_PART = 2**16  # characters that are parsed at a time
# YAML between lines of ---, or TOML between lines of +++, at the very beginning. A line of --- can be a rule
# as well: then what follows is no key.
_FRONT = re.compile(
    r"(?P<fence>---|\+\+\+)[ \t]*\n(?P<front>(?:#|[\w\"'.-]+[ \t]*[:=]).*?|)"
    r"^(?:(?P=fence)|\.\.\.)[ \t]*(?:\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
_NESTED = 100  # lists and quotes in each other; what is nested deeper is left out


class Extracted(NamedTuple):
    """What is read of a file: its text, its own title or none, what else is known of it, and its places."""

    text: str
    title: str = ""
    metadata: dict[str, Any] = {}  # noqa: RUF012 (of a NamedTuple)
    places: Places = ()


def plain_text(raw: bytes) -> Extracted:
    """A text file as it is."""
    text, encoding = decoded(raw)
    lines = ((0, Place(line=1)),)
    return Extracted(text.replace("\r\n", "\n"), metadata=encoding_metadata(encoding), places=lines)


def encoding_metadata(encoding: str) -> dict[str, str]:
    """Metadata of an encoding that may be guessed; none for UTF-8."""
    return {} if encoding in ("utf-8", "utf-8-sig") else {"encoding": encoding}


class _Page:
    """Takes a parser's events, so that no tree is made: pages nest as deeply as they like."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.headings: list[tuple[int, int, int]] = []  # level, and the pieces between which it stands
        self.title = ""
        self._open = dict.fromkeys(("title", "kept", "not shown"), 0)

    def start(self, tag: str, _: object) -> None:
        self._tag(tag, 1)

    def end(self, tag: str) -> None:
        self._tag(tag, -1)

    def _tag(self, tag: str, change: int) -> None:
        for name in (tag, "kept" if tag in _KEPT else "", "not shown" if tag in _NOT_SHOWN else ""):
            if name in self._open:
                self._open[name] += change
        if tag in _BLOCKS or tag in ("td", "th"):
            self.pieces.append("\n" if tag in _BLOCKS else " ")
        if tag in _HEADINGS and not self._open["not shown"]:
            if change > 0:
                self.headings.append((int(tag[1]), len(self.pieces), len(self.pieces)))
            elif self.headings:
                level, begun, _ = self.headings[-1]
                self.headings[-1] = level, begun, len(self.pieces)

    def data(self, text: str) -> None:
        if self._open["title"]:
            self.title += text
        if self._open["not shown"]:
            return
        if not self._open["kept"]:  # a line's end is a space, and a space at a line's beginning nothing
            text = _SPACES.sub(" ", text)
            text = text.lstrip(" ") if self.pieces and self.pieces[-1].endswith("\n") else text
        self.pieces.append(text)

    def close(self) -> Any:
        return self


def html_text(raw: bytes) -> Extracted:
    """The shown text of a page without its navigation, blocks on lines of their own; its <title>."""
    declared = _DECLARED.search(raw[:4096])
    text, encoding = decoded(raw, declared[1].decode("ascii") if declared else None)
    shown, title, headings = _shown(text)
    return Extracted(shown, title, encoding_metadata(encoding), headed(headings, title))


def markdown_text(raw: bytes) -> Extracted:
    """The text of a Markdown file without marks and front matter; the title of that, or the first heading.

    A heading that is the title and begins the file is not in the text as well.
    """
    source, encoding = decoded(raw)
    source = source.replace("\r\n", "\n")
    front = _FRONT.match(source)
    title = _front_title(front) if front else ""
    parser = MarkdownIt("commonmark", {"maxNesting": _NESTED}).enable(["table", "strikethrough"])
    tokens = parser.parse(source[front.end() :] if front else source)
    heading = next((i for i, token in enumerate(tokens) if token.type == "heading_open"), None)
    if not title and heading is not None:
        title, *_ = _shown(parser.renderer.render(tokens[heading : heading + 3], parser.options, {}))
        tokens = tokens[3:] if heading == 0 else tokens
    for token in (child for own in tokens for child in own.children or ()):
        if token.type == "image":
            token.type, token.tag = "text", ""  # what it is called
    text, _, headings = _shown(parser.renderer.render(tokens, parser.options, {}))
    return Extracted(text, title, encoding_metadata(encoding), headed(headings, title))


def _front_title(front: re.Match[str]) -> str:
    read = tomllib.loads if front["fence"] == "+++" else yaml.safe_load
    try:
        values = read(front["front"])
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    title = values.get("title") if isinstance(values, dict) else None
    return title if isinstance(title, str) else ""


def _shown(page: str) -> tuple[str, str, list[tuple[int, int, str]]]:
    """The shown text of a page or a piece of one, its title, and offset, level and text of its headings."""
    parser = etree.HTMLParser(target=_Page(), huge_tree=True)
    try:
        for start in range(0, len(page), _PART):
            parser.feed(page[start : start + _PART])
        found = parser.close() if page.strip() else _Page()
    except etree.LxmlError as error:
        raise RefusedError("damaged", f"is damaged, or no HTML: {error}") from error
    lines = (line.rstrip() for line in "".join(found.pieces).split("\n"))
    text = _GAPS.sub("\n\n", "\n".join(lines)).strip()
    return text, _SPACES.sub(" ", found.title).strip(), _headings(found, text)


def _headings(page: _Page, text: str) -> list[tuple[int, int, str]]:
    """Where headings stand in a text that has all characters of the page but some white space."""
    words = re.finditer(r"\S+", text)
    headings, piece, behind, word = [], 0, 0, next(words, None)  # characters between here and there
    for level, begun, ended in page.headings:
        behind += sum(len("".join(own.split())) for own in page.pieces[piece:begun])
        piece = begun
        while word is not None and behind >= len(word[0]):
            behind -= len(word[0])
            word = next(words, None)
        heading = " ".join("".join(page.pieces[begun:ended]).split())
        if word is not None and heading:
            headings.append((word.start() + behind, level, heading))
    return headings
