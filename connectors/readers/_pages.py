"""The text of plain files, programs, subtitles and manuals; that shown of HTML, Markdown, OpenDocument."""

from __future__ import annotations

import io
import re
import tomllib
import zipfile
import zlib
from dataclasses import replace
from typing import Any, NamedTuple

import yaml
from lxml import etree
from markdown_it import MarkdownIt

from surprise_rerank._places import Place, Places, combined, headed
from surprise_rerank.connectors.readers._lines import decoded
from surprise_rerank.connectors.readers._source import RefusedError

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
_HEAD = 4096  # characters that a title or a kind is looked for in
# A line between or above others of signs, as in reStructuredText, or after equals signs, as in AsciiDoc.
_HEADING = re.compile(
    r"^(?:(?P<ruled>[^\W_][^\n]*)\n(?P<sign>[=\-~^\"'#*+`:.])(?P=sign){2,}[ \t]*$"
    r"|(?P<level>={1,6}) (?P<marked>[^\n]+)$)",
    re.MULTILINE,
)
_TAG = re.compile(r"</?[a-z][^<>\n]{0,40}>|\{\\[^{}\n]{0,40}\}", re.IGNORECASE)
_ROFF = re.compile(r"^[.'][ \t]*(TH|Dd|Dt|SH|Sh|so)\b", re.MULTILINE)
_ROFF_ESCAPE = re.compile(
    r"\\(?:f(?:\[[^]\n]*\]|\(..|.)|s[+-]?\d+|\*?\[[^]\n]*\]|\*?\(..|\*.|\".*|[hv]'[^'\n]*'|.)"
)
_ROFF_PAIRS = r"""
\- - \e \ \\ \ \(em - \(en - \(bu - \(aq ' \(cq ' \(oq ' \(lq " \(rq " \(dq " \*(lq " \*(rq " \' ' \` ` \. .
\(co © \(rs \ \(ha ^ \(ti ~
"""
_ROFF_SIGNS = dict(zip(_ROFF_PAIRS.split()[::2], _ROFF_PAIRS.split()[1::2], strict=True))
_ROFF_SIGNS |= {"\\ ": " ", "\\~": " "}
_ROFF_WORD = re.compile(r'"([^"\n]*)"?|(\S+)')
_NOT_PRINTED_NAMES = """
\\" de ig . so ds nr if ie el ft nf fi ad na hy nh ne in ta tr Dd Os UC sp rm rn als do
RS RE EX EE
"""
_NOT_PRINTED = frozenset(_NOT_PRINTED_NAMES.split())
_JOINED = frozenset({"BR", "RB", "BI", "IB", "IR", "RI"})  # fonts of words without space between
_GAP = frozenset({"PP", "P", "LP", "TP", "IP", "HP", "Pp", "It", "sp", "br"})
_XML_TAG = re.compile(r"</?\w[^<>]*>|<\?[^<>]*\?>|<!DOCTYPE[^<>\[]*(?:\[[^\]]{0,9999}\]\s*)?>")
_OPEN_TAG = re.compile(rb"<(/?)text:[ph]\b[^<>]*>")
_OPEN_SPACE = re.compile(rb"<text:(?:s|tab|line-break)\b[^<>]*/>")
# Words that a name is defined after. C and Java have none before a function: its token says what it is.
_DEFINING_WORDS = "class def enum fn fun func function impl interface module object struct sub trait type"
_DEFINING = frozenset(_DEFINING_WORDS.split())
_LONGEST_PROGRAM = 500_000  # characters that are searched for definitions; generated ones are longer
_NESTED = 100  # lists and quotes in each other; what is nested deeper is left out


class ExtractedText(NamedTuple):
    """The text of a file, its title (or ""), its metadata, and the places within it."""

    text: str
    title: str = ""
    metadata: dict[str, Any] = {}  # noqa: RUF012 (of a NamedTuple)
    places: Places = ()


def plain_text(raw: bytes) -> ExtractedText:
    """Return the text of a text file, unchanged but for the ends of lines."""
    text, encoding = decoded(raw)
    lines = ((0, Place(line=1)),)
    return ExtractedText(text.replace("\r\n", "\n"), metadata=encoding_metadata(encoding), places=lines)


def table_text(raw: bytes) -> ExtractedText:
    """Return the text of a table; its first line is cited as the head of the rows below it."""
    text, _, metadata, places = plain_text(raw)
    head = re.match(r"\s*([^\n]+)\n", text)
    if head is not None:
        row = Place(line=1 + text.count("\n", 0, head.end()), table=head[1].strip())
        places = (*places, (head.end(), row))
    return ExtractedText(text, metadata=metadata, places=places)


def encoding_metadata(encoding: str) -> dict[str, str]:
    """Metadata of an encoding that may be guessed; none for UTF-8."""
    return {} if encoding in ("utf-8", "utf-8-sig") else {"encoding": encoding}


def headed_text(raw: bytes) -> ExtractedText:
    """Return a text of reStructuredText or AsciiDoc with its headings; the first one is its title."""
    text, _, metadata, _ = plain_text(raw)
    marks, signs = list[tuple[int, int, str]](), dict[str, int]()
    for heading in _HEADING.finditer(text):
        # In reStructuredText a sign is of a higher level the earlier it comes.
        level = len(heading["level"] or "") or signs.setdefault(heading["sign"], len(signs) + 1)
        marks.append((heading.start(), level, heading["ruled"] or heading["marked"]))
    title = marks[0][2] if marks and marks[0][0] < _HEAD else ""
    return ExtractedText(text, title, metadata, _with_lines(text, headed(marks, title)))


def program_text(suffix: str, raw: bytes) -> ExtractedText:
    """Return the text of a program; its functions and classes are its headings, with their lines."""
    from pygments.lexers import get_lexer_for_filename
    from pygments.token import Comment, Name

    text, _, metadata, _ = plain_text(raw)
    marks, keyword, depth = list[tuple[int, int, str]](), "", 0
    lexer = get_lexer_for_filename(f"program{suffix}", stripnl=False, ensurenl=False)
    tokens = lexer.get_tokens_unprocessed(text) if len(text) <= _LONGEST_PROGRAM else ()
    for offset, kind, word in tokens:
        if keyword == "func" and word in ("(", ")"):  # what a method of Go belongs to
            depth += 1 if word == "(" else -1
        elif word.strip() and kind not in Comment and not depth:
            if kind in (Name.Function, Name.Class) or (keyword and kind in Name):
                start = text.rfind("\n", 0, offset) + 1
                indented = len(text[start:offset]) - len(text[start:offset].lstrip())
                marks.append((start, indented, word))
            keyword = word if word in _DEFINING else ""
    return ExtractedText(text, "", metadata, _with_lines(text, headed(marks)))


def _with_lines(text: str, places: Places) -> Places:
    """Places with the number of the line that each begins on, and one at the beginning of the text."""
    numbered, line, before = list[tuple[int, Place]](), 1, 0
    for start, place in ((0, Place()), *places):
        line += text.count("\n", before, start)
        before = start
        numbered.append((start, replace(place, line=line)))
    return tuple(numbered)


def subtitle_text(raw: bytes) -> ExtractedText:
    """What is said in subtitles, SubRip or WebVTT, without numbers and times."""
    text, _, metadata, _ = plain_text(raw)
    blocks = (block.split("\n") for block in re.split(r"\n[ \t]*\n", text))
    said = (lines[i + 1 :] for lines in blocks for i, line in enumerate(lines[:2]) if " --> " in line)
    return ExtractedText(_TAG.sub("", "\n".join(" ".join(lines) for lines in said)), "", metadata)


def manual_text(raw: bytes) -> ExtractedText:
    """A manual page without the requests and escapes of roff; its title is what `.TH` or `.Dt` names."""
    source, _, metadata, _ = plain_text(raw)
    if not _ROFF.search(source[:_HEAD]):
        raise RefusedError("of no kind that is read", "is no manual page", is_gone=True)
    title, lines, definition, headings = "", list[str](), False, list[tuple[str, int]]()
    for line in source.split("\n"):
        name, _, words = line[1:].strip().partition(" ") if line[:1] in (".", "'") else ("", "", line)
        if definition or name in _NOT_PRINTED:
            definition = (definition or name in ("de", "ig")) and name != "."
            continue
        words = _ROFF_ESCAPE.sub(lambda escape: _ROFF_SIGNS.get(escape[0], ""), words)
        if name:
            parts = [quoted or plain for quoted, plain in _ROFF_WORD.findall(words)]
            words = ("" if name in _JOINED else " ").join(parts)
        if name in ("TP", "IP"):  # how far they are indented
            words = parts[0] if name == "IP" and parts else ""
        if name in ("TH", "Dt"):
            title = "{}({})".format(*parts[:2]) if len(parts) > 1 else words
        else:
            is_heading = name.upper() in ("SH", "SS")
            headings += [(words, 1 + (name in ("SS", "Ss")))] if is_heading and words else []
            lines.append(f"{chr(10) if is_heading or name in _GAP else ''}{words}{chr(10) * is_heading}")
    text, position = _GAPS.sub("\n\n", "\n".join(lines)).strip(), 0
    marks = list[tuple[int, int, str]]()
    for words, level in headings:
        position = max(f"\n{text}".find(f"\n{words}\n", position), position)
        marks.append((position, level, words))
    return ExtractedText(text, title, metadata, headed(marks))


def open_document_text(raw: bytes) -> ExtractedText:
    """The paragraphs of an ODT, ODS or ODP file, cells of a row apart, as kreuzberg reads the first alone."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            names = archive.namelist()
            content, about = (archive.read(n) if n in names else b"" for n in ("content.xml", "meta.xml"))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise RefusedError("damaged", f"is damaged, or encrypted: {error}") from error
    body = content[max(content.find(b"<office:body"), 0) :]
    text = _visible_text(
        _OPEN_TAG.sub(rb"<\1p>", _OPEN_SPACE.sub(b" ", body)).decode("utf-8", "replace")
    ).text
    title = re.search(rb"<dc:title>([^<]*)", about)
    return ExtractedText(text, _visible_text(title[1].decode("utf-8", "replace")).text if title else "")


class _Page:
    """Takes a parser's events, so that no tree is made: pages nest as deeply as they like."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.title = ""
        # Where it begins, its level, and the pieces of a heading; of the head of a table's columns, which its
        # rows begin behind, and of the end of a table, which has no pieces, the level is 0.
        self.marks: list[tuple[int, int, slice]] = []
        self._open = dict.fromkeys(("title", "kept", "not shown"), 0)
        self._begun, self._cells = 0, set[str]()  # of the row, or of the heading; kinds of the row's cells

    def start(self, tag: str, _: object) -> None:
        self._tag(tag, 1)
        if tag == "tr" or tag in _HEADINGS:
            self._begun, self._cells = len(self.pieces), set()
        elif tag in ("td", "th"):
            self._cells.add(tag)

    def end(self, tag: str) -> None:
        self._tag(tag, -1)
        end = len(self.pieces)
        if self._open["not shown"]:
            return
        if tag in _HEADINGS:
            self.marks.append((self._begun, int(tag[1]), slice(self._begun, end)))
        elif tag == "tr" and self._cells == {"th"}:
            self.marks.append((end, 0, slice(self._begun, end)))
        elif tag == "table":
            self.marks.append((end, 0, slice(end, end)))

    def _tag(self, tag: str, change: int) -> None:
        for name in (tag, "kept" if tag in _KEPT else "", "not shown" if tag in _NOT_SHOWN else ""):
            if name in self._open:
                self._open[name] += change
        if tag in _BLOCKS or tag in ("td", "th"):
            self.pieces.append("\n" if tag in _BLOCKS else " ")

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


def html_text(raw: bytes) -> ExtractedText:
    """The shown text of a page without its navigation, blocks on lines of their own; its <title>."""
    text, encoding = _declared(raw)
    return _visible_text(text)._replace(metadata=encoding_metadata(encoding))


def xml_text(raw: bytes) -> ExtractedText:
    """The text of a file of XML, that of each element apart, as kreuzberg drops signs such as `<`."""
    text, encoding = _declared(raw)
    plain = _XML_TAG.sub("<p>", text.replace("<![CDATA[", "").replace("]]>", ""))
    return ExtractedText(_visible_text(plain).text, metadata=encoding_metadata(encoding))


def _declared(raw: bytes) -> tuple[str, str]:
    """Return the text of an HTML or XML file, and its encoding: the declared one, or else a guess."""
    declared = _DECLARED.search(raw[:_HEAD])
    return decoded(raw, declared[1].decode("ascii") if declared else None)


def markdown_text(raw: bytes) -> ExtractedText:
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
        title = _visible_text(parser.renderer.render(tokens[heading : heading + 3], parser.options, {})).text
        tokens = tokens[3:] if heading == 0 else tokens
    for token in (child for block in tokens for child in block.children or ()):
        if token.type == "image":
            token.type, token.tag = "text", ""  # what it is called
    shown = _visible_text(parser.renderer.render(tokens, parser.options, {}), title)
    return shown._replace(metadata=encoding_metadata(encoding))


def _front_title(front: re.Match[str]) -> str:
    """Return the title that front matter in TOML or YAML names, or ""."""
    read = tomllib.loads if front["fence"] == "+++" else yaml.safe_load
    try:
        values = read(front["front"])
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    title = values.get("title") if isinstance(values, dict) else None
    return title if isinstance(title, str) else ""


def _visible_text(page: str, title: str = "") -> ExtractedText:
    """Return the text of a page that a reader sees, with its places; `title` replaces that of the page."""
    parser = etree.HTMLParser(target=_Page(), huge_tree=True)
    try:
        for start in range(0, len(page), _PART):
            parser.feed(page[start : start + _PART])
        parsed = parser.close() if page.strip() else _Page()
    except etree.LxmlError as error:
        raise RefusedError("damaged", f"is damaged, or no HTML: {error}") from error
    lines = (line.rstrip() for line in "".join(parsed.pieces).split("\n"))
    text = _GAPS.sub("\n\n", "\n".join(lines)).strip()
    title = title or _SPACES.sub(" ", parsed.title).strip()
    return ExtractedText(text, title, places=_places(parsed, text, title))


def _places(page: _Page, text: str, title: str) -> Places:
    """Headings and heads of tables, in a text that has all characters of the page but some white space."""
    words = re.finditer(r"\S+", text)
    word, piece, behind = next(words, None), 0, 0  # characters between the word and the mark
    headings, tables = list[tuple[int, int, str]](), list[tuple[int, Place]]()
    for position, level, pieces in sorted(page.marks, key=lambda mark: mark[0]):
        behind += sum(len("".join(text_piece.split())) for text_piece in page.pieces[piece:position])
        piece = position
        while word is not None and behind >= len(word[0]):
            behind -= len(word[0])
            word = next(words, None)
        if word is None:
            break
        line = " ".join("".join(page.pieces[pieces]).split())
        if not level:
            tables.append((word.start() + behind, Place(table=line)))
        elif line:
            headings.append((word.start() + behind, level, line))
    return combined(headed(headings, title), tuple(tables)) if tables else headed(headings, title)
