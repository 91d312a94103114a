"""Where a stretch of a document stands in what it was read from: page, slide, heading, lines."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeAlias

from surprise_rerank import _border as border

# Offset in a text -> the place from there on, ascending.
Places: TypeAlias = tuple[tuple[int, "Place"], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands, as far as its reader can tell; a DataError if a number is below 1.

    Attributes:
        page, last_page: of a PDF, counted from 1.
        label, last_label: what is printed on these pages, where the file says so, as `xii`.
        slide, last_slide: of a presentation, from 1.
        sheet, last_sheet: of a workbook.
        heading, last_heading: paths of headings, as `Setup > Windows`; the last only if it is not below the
            first.
        line, last_line: of a file of plain text, or rows of a sheet, from 1.
        table: the line above the columns of a table, in whose rows it begins.
    """

    page: int | None = None
    last_page: int | None = None
    label: str = ""
    last_label: str = ""
    slide: int | None = None
    last_slide: int | None = None
    sheet: str = ""
    last_sheet: str = ""
    heading: str = ""
    last_heading: str = ""
    line: int | None = None
    last_line: int | None = None
    table: str = ""

    def __post_init__(self) -> None:
        numbers = ("page", "last_page", "slide", "last_slide", "line", "last_line")
        names = (part.name for part in fields(self) if part.name not in numbers)
        border.fields(self, **dict.fromkeys(numbers, border.or_none(border.count)))
        border.fields(self, **dict.fromkeys(names, border.text))

    def __str__(self) -> str:
        """Return the place as it is cited: `p. 12, Setup > Windows`; "" where nothing is known."""
        pages = _span("p.", "pp.", self.label or self.page, self.last_label or self.last_page)
        slides = _span("slide", "slides", self.slide, self.last_slide)
        line = "row" if self.sheet else "line"
        lines = _span(line, f"{line}s", self.line, self.last_line)
        sheets = _span("sheet", "sheets", self.sheet, self.last_sheet)
        above, _, last_heading = self.last_heading.rpartition(" > ")
        if not self.heading.startswith(f"{above} > "):
            last_heading = self.last_heading
        headings = " to ".join(filter(None, (self.heading, last_heading)))
        return ", ".join(filter(None, (pages, slides, sheets, headings, lines)))

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, as JSON values."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: value for name, value in values.items() if value}


def checked_places(name: str, places: object) -> Places:
    """Pairs of an ascending offset and a place; a DataError for anything else."""
    pairs = list(border.instances(name, places, tuple, "give pairs of an offset and a Place"))
    for position, pair in enumerate(pairs):
        border.equal(f"the length of {name}[{position}]", len(pair), 2, "give an offset and a Place")
        border.count(f"{name}[{position}][0]", pair[0], 0 if not position else pairs[position - 1][0])
        border.instance(f"{name}[{position}][1]", pair[1], Place)
    return tuple(pairs)


def place_of(text: str, places: Places, start: int, end: int) -> Place | None:
    """The place of a stretch of a text; None where nothing is known.

    Its first and last page, slide, sheet and line; the heading at its beginning, or else the first one in it,
    and the last one.
    """
    # A passage may begin with the white space behind the page before.
    start, end = (
        start + len(text[start:end]) - len(text[start:end].lstrip()),
        start + len(text[start:end].rstrip()),
    )
    offset = partial(bisect.bisect_right, places, key=lambda pair: pair[0])
    inside = places[max(offset(start) - 1, 0) : offset(max(end - 1, start))]
    if not inside:
        return None
    head, tail = inside[0][1], inside[-1][1]
    changes: dict[str, Any] = {
        f"last_{name}": getattr(tail, name)
        for name in ("page", "label", "slide", "sheet")
        if getattr(tail, name) != getattr(head, name)
    }
    headings = _headings(text, inside, start, end)
    if headings:
        is_below = all(f"{heading} > ".startswith(f"{headings[0]} > ") for heading in headings)
        changes |= {"heading": headings[0], "last_heading": "" if is_below else headings[-1]}
    # The name of a sheet stands above its rows; those of several sheets are no span.
    lined = [(begun, place.line) for begun, place in inside if place.line] if tail.sheet == head.sheet else []
    line = last_line = None
    if lined:
        begun, line = lined[0]
        line += text.count("\n", begun, max(start, begun))
        last_line = line + text.count("\n", max(start, begun), end)
    return replace(head, **changes, line=line, last_line=None if last_line == line else last_line)


def headed(marks: Iterable[tuple[int, int, str]], title: str = "") -> Places:
    """The paths of headings, from offset, level and text of each; one that is the title is none."""
    path: list[tuple[int, str]] = []
    places = []
    for offset, level, heading in marks:
        path = [heading for heading in path if heading[0] < level]
        if heading and heading != title:
            path.append((level, heading))
        places.append((offset, Place(heading=" > ".join(text for _, text in path))))
    return tuple(places)


def combined(one: Places, other: Places) -> Places:
    """Both in one, of which each says what the other does not."""
    values: dict[str, dict[str, Any]] = {"one": {}, "other": {}}
    places: dict[int, Place] = {}
    steps = [(offset, "one", place) for offset, place in one] + [
        (offset, "other", place) for offset, place in other
    ]
    for offset, side, place in sorted(steps, key=lambda step: step[0]):
        values[side] = place.to_json()
        places[offset] = Place(**{**values["one"], **values["other"]})
    return tuple(places.items())


def places_json(places: Places) -> list[list[Any]]:
    """Places as JSON values."""
    return [[offset, place.to_json()] for offset, place in places]


def places_from(values: Sequence[Sequence[Any]]) -> Places:
    """The places that `places_json` has written."""
    return tuple((offset, Place(**place)) for offset, place in values)


def _headings(text: str, inside: Places, start: int, end: int) -> list[str]:
    """The headings of a stretch, without one of which it has the line alone, before the heading of a part."""
    headings = []
    for (begun, place), (until, part) in zip(inside, [*inside[1:], (end, Place())], strict=True):
        is_above = part.heading.startswith(f"{place.heading} > ")
        if place.heading and not (is_above and "\n" not in text[max(begun, start) : until].strip()):
            headings.append(place.heading)
    return headings


def _span(one: str, several: str, first: object, last: object) -> str:
    if not first:
        return ""
    return f"{one} {first}" if not last or last == first else f"{several} {first}-{last}"
