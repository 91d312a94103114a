"""The text of Markdown files, rendered: without marks, with code."""

from __future__ import annotations

import re
from typing import Any

from surprise_rerank.connectors.readers.html_text import parsed, shown_text, tidy
from surprise_rerank.connectors.readers.source import EXTRA
from surprise_rerank.connectors.readers.text_streams import Extracted, decoded, encoding_metadata
from surprise_rerank.core.extras import import_extra

# YAML between lines of ---, or TOML between lines of +++, at the very beginning. A line of --- can be a rule
# as well: then what follows is no key.
_FRONT_BEGIN = re.compile(r"(?P<fence>---|\+\+\+)[ \t]*\n(?=#|[\w\"'.-]+[ \t]*[:=]|---|\+\+\+|\.\.\.)")
_FRONT_END = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*(?:\n|\Z)", re.MULTILINE),
}
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(?P<title>\S.*?)[ \t]*$", re.MULTILINE)
_PARTS = frozenset({"list_item_close", "thead_close", "tbody_close"})  # their lines end already
_DEEPEST = 100  # nested lists and quotes; what is nested deeper is left out


def markdown_text(raw: bytes, encoding: str | None = None) -> Extracted:
    """The text of a Markdown file without its front matter; the title of that, or else the first heading.

    A heading that is the title and begins the file is not in the text as well.

    Args:
        raw: the file.
        encoding: of a file that is not UTF-8; guessed by default.

    Raises:
        RefusedError: if it is no text.
        MissingExtraError: if markdown-it-py is not installed.
    """
    source, found = decoded(raw, encoding)
    source = source.replace("\r\n", "\n")
    front, source = _split_front_matter(source)
    title = _front_title(front)
    tokens = _parse(source)
    if not title:
        heading = next((i for i, token in enumerate(tokens) if token.type == "heading_open"), None)
        if heading is not None:
            title = tidy(_inline(tokens[heading + 1].children or []))
            if heading == 0:
                tokens = tokens[3:]
    return Extracted(_rendered(tokens), title, encoding_metadata(found))


def _split_front_matter(source: str) -> tuple[str, str]:
    begin = _FRONT_BEGIN.match(source)
    end = _FRONT_END[begin["fence"]].search(source, begin.end()) if begin else None
    if begin is None or end is None:
        return "", source
    return source[begin.end() : end.start()], source[end.end() :]


def _front_title(front: str) -> str:
    match = _FRONT_TITLE.search(front)
    if not match:
        return ""
    title = match["title"]
    if len(title) > 1 and title[0] == title[-1] and title[0] in "'\"":
        return title[1:-1]
    # Text over several lines, lists and the like are for a parser of YAML.
    return "" if title[0] in "|>[{&*!'\"" else title


def _parse(source: str) -> list[Any]:
    markdown = import_extra("markdown_it", EXTRA)
    parser = markdown.MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    return list(parser.parse(source))


def _rendered(tokens: list[Any]) -> str:
    pieces: list[str] = []
    for token in tokens:
        if token.type == "inline":
            pieces.append(_inline(token.children or []))
        elif token.type in ("fence", "code_block"):
            pieces.append(f"{token.content}\n")
        elif token.type == "html_block":
            pieces.append(f"{shown_text(parsed(token.content))}\n\n")
        elif token.type in ("td_close", "th_close"):
            pieces.append(" ")
        elif token.type == "tr_close" or (token.type == "paragraph_close" and token.hidden):
            pieces.append("\n")
        elif token.type.endswith("_close") and token.type not in _PARTS:
            pieces.append("\n\n")
    return tidy("".join(pieces))


def _inline(children: list[Any]) -> str:
    pieces: list[str] = []
    for token in children:
        if token.type in ("softbreak", "hardbreak") or token.content.lower().startswith("<br"):
            pieces.append("\n")
        elif token.type == "image":
            pieces.append(_inline(token.children or []))
        elif token.type in ("text", "code_inline", "text_special"):
            pieces.append(token.content)
    return "".join(pieces)
