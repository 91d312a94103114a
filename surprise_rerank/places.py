"""Where a stretch of a document stands in what it was read from: page, slide, heading, lines."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeAlias

from surprise_rerank import border

# Offset in a text -> the place from there on, ascending.
Places: TypeAlias = tuple[tuple[int, "Place"], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands, as far as its reader can tell; a DataError if a number is below 1.

    Attributes:
        page, last_page: of a PDF, counted from 1.
        label, last_label: what is printed on these pages, where the file says so, as `xii`.
        slide, last_slide: of a presentation, from 1.
        sheet: of a workbook.
        heading: the path of headings, as `Setup > Windows`.
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
    heading: str = ""
    line: int | None = None
    last_line: int | None = None
    table: str = ""

    def __post_init__(self) -> None:
        numbers = ("page", "last_page", "slide", "last_slide", "line", "last_line")
        border.fields(self, **dict.fromkeys(numbers, border.or_none(border.count)))
        border.fields(
            self, **dict.fromkeys(("label", "last_label", "sheet", "heading", "table"), border.text)
        )

    def __str__(self) -> str:
        """As it is cited: `p. 12, Setup > Windows`; empty where nothing is known."""
        pages = _span("p.", "pp.", self.label or self.page, self.last_label or self.last_page)
        slides = _span("slide", "slides", self.slide, self.last_slide)
        line = "row" if self.sheet else "line"
        lines = _span(line, f"{line}s", self.line, self.last_line)
        sheet = f"sheet {self.sheet}" if self.sheet else ""
        return ", ".join(filter(None, (pages, slides, sheet, self.heading, lines)))

    def to_json(self) -> dict[str, Any]:
        """What is known of it, as JSON values."""
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

    Its first and last page, slide and line; the heading at its beginning, or else the first one in it.
    """
    # A passage may begin with the white space behind the page before.
    start, end = (
        start + len(text[start:end]) - len(text[start:end].lstrip()),
        start + len(text[start:end].rstrip()),
    )
    offset = partial(bisect.bisect_right, places, key=lambda pair: pair[0])
    first = max(offset(start) - 1, 0)
    inside = [place for _, place in places[first : offset(max(end - 1, start))]]
    if not inside:
        return None
    head, tail = inside[0], inside[-1]
    changes: dict[str, Any] = {"heading": next((place.heading for place in inside if place.heading), "")}
    if head.page != tail.page:
        changes |= {"last_page": tail.page, "last_label": tail.label}
    if head.slide != tail.slide:
        changes |= {"last_slide": tail.slide}
    if head.line is not None:
        begun = places[first][0]
        line = head.line + text.count("\n", begun, start)
        last_line = line + text.count("\n", start, end)
        changes |= {"line": line, "last_line": None if last_line == line else last_line}
    return replace(head, **changes)


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


def _span(one: str, several: str, first: object, last: object) -> str:
    if not first:
        return ""
    return f"{one} {first}" if not last or last == first else f"{several} {first}-{last}"
