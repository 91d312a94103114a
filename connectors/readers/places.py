"""Pages, slides, sheets and headings of files that kreuzberg reads."""

from __future__ import annotations

import bisect
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from surprise_rerank.connectors.readers.lines import EXTRA
from surprise_rerank.core.extras import import_extra
from surprise_rerank.places import Place, Places, combined, headed

_TELLING = 20  # characters of a line that is hardly on two pages by chance


def pdf_places(raw: bytes, text: str, pages: Sequence[Mapping[str, Any]]) -> Places:
    """The pages of a PDF with their labels, and the headings of its outline.

    Args:
        raw: the file.
        text: what was read of it.
        pages: number and text of each, with headers and page numbers that `text` may not have.
    """
    labels, outline = _labels_and_outline(raw)
    starts = page_starts(text, [(page["page_number"], page["content"]) for page in pages])
    placed = tuple((start, _page(number, labels)) for start, number in starts)
    marks = sorted(
        _outline_marks(text, {number: start for start, number in starts}, outline), key=lambda mark: mark[0]
    )
    return combined(placed, headed(marks))


def page_starts(text: str, pages: Sequence[tuple[int, str]]) -> list[tuple[int, int]]:
    """Where each page begins in a text, as offset and number.

    The lines of the text are lines of the pages, in their order, but not all: what every page has on top or
    at the bottom may be left out. So each is taken for the next one of its kind, on this page or the next
    one; only a long line may skip a page.
    """
    filled = [
        (number, [line.strip() for line in lines.splitlines() if line.strip()]) for number, lines in pages
    ]
    filled = [page for page in filled if page[1]]
    page_of = [place for place, (_, lines) in enumerate(filled) for _ in lines]
    where: dict[str, list[int]] = {}
    for row, line in enumerate(line for _, lines in filled for line in lines):
        where.setdefault(line, []).append(row)
    starts: list[tuple[int, int]] = []
    offset = row = current = 0
    for line in text.split("\n"):
        shown = line.strip()
        rows = where.get(shown, ())
        place = bisect.bisect_left(rows, row)
        if shown and place < len(rows) and (page_of[rows[place]] <= current + 1 or len(shown) >= _TELLING):
            row = rows[place] + 1
            if not starts or page_of[row - 1] != current:
                current = page_of[row - 1]
                starts.append((offset, filled[current][0]))
        offset += len(line) + 1
    return starts


def slide_places(content: str, boundaries: Sequence[Mapping[str, Any]]) -> Places:
    """The slides of a presentation, from where they begin in bytes of the text, or just before."""
    raw = content.encode()
    places = []
    for slide in boundaries:
        before = raw[: slide["byte_start"]].decode("utf-8", "ignore")
        gap = re.compile(r"\s*").match(content, len(before))
        start = len(content[: gap.end() if gap else 0].replace("\r\n", "\n"))
        places.append((start, Place(slide=slide["page_number"])))
    return tuple(places)


def structure_places(
    text: str, nodes: Sequence[Mapping[str, Any]], title: str, *, is_workbook: bool
) -> Places:
    """The headings of a document, or the sheets of a workbook, found one after the other in its text."""
    marks, position = [], 0
    for node in nodes:
        content = node["content"]
        line = str(content.get("text") or "").strip().partition("\n")[0].strip()
        start = text.find(line, position) if line else -1
        if start < 0:
            continue
        position = start + len(line)
        if content["node_type"] == "heading":
            marks.append((start, int(content.get("level") or 1), line))
    if is_workbook:
        return tuple((start, Place(sheet=line)) for start, _, line in marks)
    return headed(marks, title)


def _page(number: int, labels: Sequence[str]) -> Place:
    label = labels[number - 1] if number <= len(labels) else ""
    return Place(page=number, label="" if label == str(number) else label)


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
