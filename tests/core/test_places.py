"""Where stretches of a text stand: pages, headings and lines, and how they are cited."""

import json

import pytest

from surprise_rerank import DataError, Document, Hit, Passage, Place
from surprise_rerank._places import combined, headed, place_of, places_from, places_json

TEXT = "first page\n\nsecond page\n\nthird page"
PAGES = ((0, Place(page=1, label="i")), (12, Place(page=2, label="ii")), (25, Place(page=3)))


def test_a_stretch_has_its_first_and_its_last_page():
    assert place_of(TEXT, PAGES, 0, 10) == Place(page=1, label="i")
    assert place_of(TEXT, PAGES, 10, 23) == Place(page=2, label="ii")  # but for the white space before it
    assert place_of(TEXT, PAGES, 6, len(TEXT)) == Place(page=1, label="i", last_page=3)
    assert place_of(TEXT, (), 0, 10) is None
    assert str(place_of(TEXT, PAGES, 0, 23)) == "pp. i-ii"


def test_headings_are_paths_and_the_title_is_none_of_them():
    marks = [(0, 1, "Guide"), (10, 2, "Setup"), (20, 3, "Windows"), (30, 2, "Use"), (40, 1, "Index")]
    paths = [place.heading for _, place in headed(marks, "Guide")]
    assert paths == ["", "Setup", "Setup > Windows", "Use", "Index"]


def test_a_stretch_of_several_sections_is_cited_by_the_first_and_the_last():
    text = "Guide\nabout it\nSetup\nWindows\nopen it\nUse\nuse it\n"
    names = ("Guide", "Setup", "Windows", "Use")
    guide, setup, windows, use = starts = [text.index(name) for name in names]
    places = headed(zip(starts, (1, 2, 3, 2), names, strict=True))
    stretches = {"a part": (setup, use), "two": (windows, len(text)), "the whole": (guide, len(text))}
    cited = {name: str(place_of(text, places, *stretch)) for name, stretch in stretches.items()}
    assert cited == {
        "a part": "Guide > Setup > Windows",  # of Setup it has the heading alone
        "two": "Guide > Setup > Windows to Use",
        "the whole": "Guide",
    }


def test_the_name_of_a_sheet_is_none_of_its_rows_and_rows_of_two_sheets_are_no_span():
    text = "Stock\npart\nbolt\n\nPrices\npart\n"
    prices = text.index("Prices")
    rows = ((6, Place(sheet="Stock", line=1)), (prices + 7, Place(sheet="Prices", line=1)))
    places = combined(((0, Place(sheet="Stock")), (prices, Place(sheet="Prices"))), rows)
    assert str(place_of(text, places, 0, prices)) == "sheet Stock, rows 1-2"
    assert str(place_of(text, places, 0, len(text))) == "sheets Stock-Prices"


def test_lines_are_counted_from_the_text():
    text = "one\ntwo\n\nfour\nfive\n"
    lines = ((0, Place(line=1)),)
    assert place_of(text, lines, 4, 8) == Place(line=2)
    assert place_of(text, lines, 4, len(text)) == Place(line=2, last_line=5)
    assert str(place_of(text, lines, 4, len(text))) == "lines 2-5"


def test_two_readings_are_one_and_come_back_from_json():
    headings = headed([(5, 1, "Setup"), (14, 1, "Use")])
    places = combined(PAGES, headings)
    assert place_of(TEXT, places, 6, 10) == Place(page=1, label="i", heading="Setup")
    assert place_of(TEXT, places, 15, 20) == Place(page=2, label="ii", heading="Use")
    assert places_from(json.loads(json.dumps(places_json(places)))) == places


@pytest.mark.parametrize("title", ["", "Handbook", " "])
def test_places_are_of_the_text_and_stretches_of_the_content(title):
    document = Document("d", TEXT, title, {"path": "manuals/handbook.pdf"}, places=PAGES)
    start = document.content.index("second")
    assert document.place(start, start + 11) == Place(page=2, label="ii")
    hit = Hit("d", 1.0, {}, document, Passage(1, start, len(document.content)))
    assert hit.place == Place(page=2, label="ii", last_page=3)
    assert hit.citation == "handbook.pdf, pp. ii-3"
    assert Hit("d", 1.0, {}, Document("d", TEXT, title)).citation == (title.strip() or "d")


@pytest.mark.parametrize(
    "places", [[(0, "p. 1")], [(5, Place()), (0, Place())], [(0, Place(), 1)], ["p. 1"], 5]
)
def test_places_of_another_kind_are_refused(places):
    with pytest.raises(DataError, match=r"Document\.places"):
        Document("d", TEXT, places=places)
    with pytest.raises(DataError, match=r"Place\.page"):
        Place(page=0)
