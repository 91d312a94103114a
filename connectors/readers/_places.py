"""Pages, slides, sheets and headings of files that kreuzberg reads."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from surprise_rerank._places import Place, Places, combined, headed
from surprise_rerank.connectors.readers._lines import EXTRA
from surprise_rerank.core._extras import import_extra

# What kreuzberg is told to write before each slide, which no text has.
SLIDE_MARK = "\x02{page_num}\x03"
_MARK = re.compile(r"\x02(\d+)\x03")


def slides_of(marked: str) -> list[dict[str, Any]]:
    """The slides of a text with marks before them, as kreuzberg has pages of a PDF."""
    numbers, texts = _MARK.split(marked)[1::2], _MARK.split(marked)[2::2]
    return [{"page_number": int(n), "content": text} for n, text in zip(numbers, texts, strict=True)]


def paged_text(pages: Sequence[Mapping[str, Any]]) -> tuple[str, dict[int, int]]:
    r"""The text of pages or slides, and where each that is not empty begins.

    kreuzberg's whole text has what it takes for tables once more, behind the last page.

    >>> paged_text([{"page_number": 1, "content": "Dogs "}, {"page_number": 3, "content": "a cat\x02"}])
    ('Dogs\n\na cat-', {1: 0, 3: 6})
    """
    parts, starts, offset = list[str](), dict[int, int](), 0
    for page in pages:
        part = page["content"].replace("\r\n", "\n").replace("\x02", "-").strip()  # a hyphen at a line's end
        if part:
            starts[page["page_number"]] = offset
            parts.append(part)
            offset += len(part) + 2
    return "\n\n".join(parts), starts


def pdf_places(raw: bytes, text: str, starts: Mapping[int, int]) -> Places:
    """The pages of a PDF, which begin there in its text, with their labels, and headings of its outline."""
    labels, outline = _labels_and_outline(raw)
    printed = {n: "" if label == str(n) else label for n, label in enumerate(labels, start=1)}
    placed = tuple((start, Place(page=n, label=printed.get(n, ""))) for n, start in starts.items())
    marks = sorted(_outline_marks(text, starts, outline), key=lambda mark: mark[0])
    return combined(placed, headed(marks))


def structure_places(
    text: str, nodes: Sequence[Mapping[str, Any]], title: str, *, is_workbook: bool
) -> Places:
    """The headings and tables of a document, or the sheets and rows of a workbook, in their order."""
    marks, tables, position = list[tuple[int, int, str]](), list[tuple[int, Place]](), 0
    for node in nodes:
        content = node["content"]
        if content["node_type"] == "table":
            head, last = _rows(content["grid"]["cells"])
            start, end = text.find(head, position), text.find(last, position)
            if head and 0 <= start < end:
                row = 1 if is_workbook else None
                body = start + len(head) + 1
                tables += [(start, Place(line=row)), (body, Place(line=row and row + 1, table=head))]
                position = end + len(last)
                tables.append((position, Place()))
            continue
        line = str(content.get("text") or "").strip().partition("\n")[0].strip()
        start = text.find(line, position) if line else -1
        if start < 0:
            continue
        position = start + len(line)
        if content["node_type"] == "heading":
            marks.append((start, int(content.get("level") or 1), line))
    sheets = tuple((start, Place(sheet=line)) for start, _, line in marks)
    return combined(sheets if is_workbook else headed(marks, title), tuple(tables))


def _rows(cells: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The first row of a table, where that is its head, and the last one, as they are in the text."""
    rows: dict[int, list[str]] = {}
    for cell in cells:
        rows.setdefault(cell["row"], []).append(cell["content"])
    is_headed = any(cell["is_header"] for cell in cells)
    first, last = (
        " ".join(rows.get(number, ())).strip() for number in (min(rows, default=0), max(rows, default=0))
    )
    return (first if is_headed else ""), last


def _labels_and_outline(raw: bytes) -> tuple[list[str], list[tuple[int, int, str]]]:
    """What is printed on each page, and page, level and text of the outline; both empty without any.

    A file whose text could be read may still have an outline that cannot.
    """
    pypdf = import_extra("pypdf", EXTRA)
    try:
        reader = pypdf.PdfReader(io.BytesIO(raw))
        root = reader.trailer["/Root"]
        labels = list(reader.page_labels) if "/PageLabels" in root else []
        outline = list(_entries(reader, reader.outline, 1)) if "/Outlines" in root else []
    except Exception:  # noqa: BLE001 - pypdf raises whatever damaged numbers and names lead to
        return [], []
    return labels, outline


def _entries(reader: Any, items: Sequence[Any], level: int) -> Iterator[tuple[int, int, str]]:
    for item in items:
        if isinstance(item, list):
            yield from _entries(reader, item, level + 1)
            continue
        page = reader.get_destination_page_number(item)
        if page is not None and page >= 0:
            yield page + 1, level, " ".join(str(item.title).split())


def _outline_marks(
    text: str, starts: Mapping[int, int], outline: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[int, int, str]]:
    """Where headings of an outline stand: on a line that ends with them, or else where the page begins."""
    ends = dict(zip(starts, [*list(starts.values())[1:], len(text)], strict=False))  # none of scanned pages
    position = 0
    for page, level, heading in outline:
        if page not in starts or not heading:
            continue
        words = r"\s+".join(map(re.escape, heading.split()))
        line = re.compile(rf"^[^\n]{{0,12}}{words}[ \t.]*$", re.MULTILINE)
        match = line.search(text, max(starts[page], position), ends[page])
        position = match.end() if match else max(starts[page], position)
        yield match.start() if match else position, level, heading
