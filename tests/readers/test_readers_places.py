"""Where passages stand in the files that they were read from, from the reader to the hit."""

import zipfile
from pathlib import Path

import pytest
from helpers.files import ANIMALS, handbook, pdf
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import Document, DocumentIndex, Passages, Place
from surprise_rerank.connectors.qdrant import IndexOptions
from surprise_rerank.connectors.readers import open_documents


def test_a_pdf_of_scans_needs_ocr_also_where_it_has_an_outline(tmp_path):
    (tmp_path / "in").mkdir()
    pdf(tmp_path / "in" / "scan.pdf", [[], [], []])
    (tmp_path / "in" / "a.txt").write_text("dogs")
    source = open_documents(tmp_path / "in")
    assert [document.id for document in source] == ["a.txt"]
    assert source.skipped.places == {"no text": ["scan.pdf"]}


PROGRAMS = {
    "a.py": (
        "import os\n\nclass A:\n    def f(self):\n        return self.__len__()\n\ndef g(): return A.f(1)\n",
        [("A", 3), ("A > f", 4), ("g", 7)],
    ),
    "a.c": (
        "/* h(); */\nstatic int f(int a)\n{\n  return g(a);\n}\nstruct S { int x; };\n",
        [("f", 2), ("S", 6)],
    ),
    "a.java": ("class A {\n  int x = f(1);\n  int g(int y) { return h(y); }\n}\n", [("A", 1), ("A > g", 3)]),
    "a.go": (
        "func F() int { return g() }\n\nfunc (r *R) M() {}\n\ntype T struct {}\n",
        [("F", 1), ("M", 3), ("T", 5)],
    ),
    "a.ts": ("export function f(a: number) { g(a); }\nexport class A {}\n", [("f", 1), ("A", 2)]),
    "a.rs": ("impl S {\n    fn m(&self) { g() }\n}\n", [("S", 1), ("S > m", 2)]),
    "a.sh": ("f() {\n  g\n}\n", []),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_of_programs_are_told_with_their_lines(tmp_path, name):
    text, expected = PROGRAMS[name]
    (tmp_path / name).write_text(text)
    (document,) = open_documents(tmp_path)
    assert document.text == text
    functions = [(place.heading, place.line) for _, place in document.places if place.heading]
    assert functions == expected


def test_a_passage_of_a_program_is_a_function(tmp_path):
    names = ("bark", "sleep", "hunt")
    body = "".join(f"    {{0}}_{i} = warn(owner_{i}, stranger_{i})\n" for i in range(12))
    (tmp_path / "a.py").write_text(
        "class Dog:\n" + "".join(f"  def {n}(self):\n{body.format(n)}" for n in names)
    )
    options = IndexOptions(passages=Passages(tokens=60, overlap=5))
    with DocumentIndex.open(":memory:", WordEncoder(window=64), options=options) as index:
        index.sync(open_documents(tmp_path), background=False)
        places = []
        for name in names:
            hit = index.pipeline("cosine", unit="passage").search(f"{name}_1 {name}_2 {name}_3")[0]
            places.append((hit.place.heading, hit.place.line, hit.place.last_line))
    assert places == [
        ("Dog > bark", 1, 14),
        ("Dog > sleep", 15, 27),
        ("Dog > hunt", 28, 40),
    ]  # a short line is joined


def test_every_passage_of_a_pdf_has_its_page_its_label_and_its_heading(tmp_path):
    handbook(tmp_path / "in")
    options = IndexOptions(passages=Passages(tokens=40, overlap=5))
    with DocumentIndex.open(":memory:", WordEncoder(window=64), options=options) as index:
        index.sync(open_documents(tmp_path / "in"), background=False)
        pipeline = index.pipeline("bm25", unit="passage")
        for number, animal in enumerate(ANIMALS, start=1):
            hit = pipeline.search(animal, top_k=1)[0]
            assert animal in hit.text
            assert number in range(hit.place.page or 0, (hit.place.last_page or hit.place.page or 0) + 1)
        hit = pipeline.search("cats", top_k=1)[0]
        late = models.FieldCondition(key="place.page", range=models.Range(gte=5))
        found = pipeline.search("bark at night", filter=models.Filter(must=[late]))
    assert {own.place.page for own in found if own.place} <= {5, 6}
    assert len(found)
    start = hit.document.content.index("cats of this page")
    place = hit.document.place(start, start + 10)
    assert place == Place(page=2, label="ii", heading="Mammals > Cats")
    assert hit.citation.startswith("handbook.pdf, p")
    assert hit.metadata["pages"] == len(ANIMALS)


def test_a_table_of_a_pdf_comes_once_and_on_its_own_page(tmp_path):
    # kreuzberg repeats what it takes for a table behind the last page.
    rows = [("Year", "Dogs", "Cats"), *((str(1990 + i), str(i * 3), str(i * 5)) for i in range(12))]
    columns = [
        ") Tj ".join(
            [first, *(f"1 0 0 1 {180 + 110 * k} {740 - 14 * i} Tm ({cell}" for k, cell in enumerate(cells))]
        )
        for i, (first, *cells) in enumerate(rows)
    ]
    pdf(tmp_path / "a.pdf", [columns, ["The end."], ["An appendix."]])
    (document,) = open_documents(tmp_path)
    assert document.text.count("1997") == 1
    assert document.text.endswith("An appendix.")
    place = place_at(document, "1997")
    assert place.page == 1


TEXTS = {
    "a.html": (
        "<title>Guide</title><nav>Setup</nav><h1>Guide</h1><p>Setup, then Windows.</p><h2>Setup</h2><p>First."
        "</p><h3>Windows</h3><p>Run it.</p><h2>Use</h2><p>Start   it.</p>"
    ),
    "a.md": (
        "# Guide\n\nSetup, then Windows.\n\n## Setup\n\nFirst.\n\n### Windows\n\nRun it.\n\n"
        "## Use\n\nStart it.\n"
    ),
    "foo.1": ".TH FOO 1\n.SH SETUP\nFirst.\n.SS Windows\nRun it.\n.SH USE\nStart it.\n",
    "a.rst": "Guide\n=====\n\nSetup\n-----\n\nFirst.\n\nWindows\n~~~\n\nRun it.\n\nUse\n---\n\nStart it.\n",
    "a.adoc": "= Guide\n\n== Setup\n\nFirst.\n\n=== Windows\n\nRun it.\n\n== Use\n\nStart it.\n",
}


@pytest.mark.parametrize("name", [*TEXTS, "a.docx"])
def test_headings_are_paths(tmp_path, name):
    if name == "a.docx":
        pytest.importorskip("kreuzberg")
        office_document(tmp_path / name)
    else:
        (tmp_path / name).write_text(TEXTS[name])
    (document,) = open_documents(tmp_path)
    for text, path in (("First.", "Setup"), ("Run it.", "Setup > Windows"), ("Start it.", "Use")):
        place = place_at(document, text)
        assert place.heading.casefold() == path.casefold()
        if name in ("a.rst", "a.adoc"):
            assert TEXTS[name].splitlines()[place.line - 1] == text
        else:
            assert place == Place(heading=place.heading, line=place.line)
    if "then Windows" in document.text:
        assert place_at(document, "then Windows") in (None, Place())


def test_a_plain_text_has_lines(tmp_path):
    (tmp_path / "c.txt").write_text("one\r\n\r\nthree")
    (document,) = open_documents(tmp_path)
    assert place_at(document, "three") == Place(line=3)


ROWS = [("Name", "City"), *((f"owner{i}", f"town{i}") for i in range(30))]


def markdown_table() -> str:
    lines = [f"| {name} | {city} |" for name, city in ROWS]
    return "\n".join(["# Owners\n\nAll of them.\n", lines[0], "|---|---|", *lines[1:], "\nThe end."])


def html_table() -> str:
    rows = "".join(f"<tr><td>{name}<td>{city}" for name, city in ROWS[1:])
    return f"<title>Owners</title><p>All.<table><tr><th>Name<th>City{rows}</table><p>The end."


def sheet(path: Path) -> None:
    kind = "http://schemas.openxmlformats.org"
    office = f"{kind}/officeDocument/2006/relationships"
    main, of = f"{kind}/spreadsheetml/2006/main", f"{kind}/package/2006"
    cell = "<c t='inlineStr'><is><t>{}</t></is></c>"
    rows = "".join(f"<row>{cell.format(name)}{cell.format(city)}</row>" for name, city in ROWS)
    link = "<Relationship Id='r' Type='{}/{}' Target='{}'/>"
    links = f"<Relationships xmlns='{of}/relationships'>{link}</Relationships>"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", f"<Types xmlns='{of}/content-types'/>")
        archive.writestr("_rels/.rels", links.format(office, "officeDocument", "xl/workbook.xml"))
        archive.writestr("xl/_rels/workbook.xml.rels", links.format(office, "worksheet", "worksheets/s.xml"))
        one = "<sheet name='Owners' sheetId='1' r:id='r'/>"
        archive.writestr(
            "xl/workbook.xml",
            f"<workbook xmlns='{main}' xmlns:r='{office}'><sheets>{one}</sheets></workbook>",
        )
        archive.writestr(
            "xl/worksheets/s.xml", f"<worksheet xmlns='{main}'><sheetData>{rows}</sheetData></worksheet>"
        )


@pytest.mark.parametrize("name", ["a.md", "a.html", "a.xlsx"])
def test_rows_of_a_table_are_whole_and_have_its_head_before_them(tmp_path, name):
    if name == "a.xlsx":
        pytest.importorskip("kreuzberg")
        sheet(tmp_path / name)
    else:
        (tmp_path / name).write_text(markdown_table() if name == "a.md" else html_table())
    (document,) = open_documents(tmp_path)
    passages, encoder = Passages(tokens=24, overlap=0), WordEncoder(window=32)
    (parts,) = passages.split([document], encoder)
    (texts,) = passages.texts([document], [parts], encoder)
    inside = [text for text in texts[1:] if "owner" in text]
    assert len(inside) > 2
    for text in inside:
        assert "Name City\n" in text
        rows = [line.split() for line in text.partition("Name City\n")[2].splitlines() if "owner" in line]
        assert all(town == owner.replace("owner", "town") for owner, town in rows)
    place = place_at(document, "owner7")
    assert place.table == "Name City"
    if name == "a.xlsx":
        assert str(place) == "sheet Owners, row 9"
    else:
        end = place_at(document, "The end.")
        assert end.table == ""


def office_document(path: Path) -> None:
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'

    def paragraph(text: str, style: str = "") -> str:
        chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
        return f"<w:p>{chosen}<w:r><w:t>{text}</w:t></w:r></w:p>"

    body = paragraph("Windows is in the contents.") + paragraph("Setup", "Heading1") + paragraph("First.")
    body += paragraph("Windows", "Heading2") + paragraph("Run it.") + paragraph("Use", "Heading1")
    body += paragraph("Start it.")
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{i}"><w:name w:val="heading {i}"/></w:style>'
        for i in (1, 2)
    )
    with zipfile.ZipFile(path, "w") as archive:
        types = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
        archive.writestr("[Content_Types].xml", types)
        archive.writestr("word/document.xml", f"<w:document {space}><w:body>{body}</w:body></w:document>")
        archive.writestr("word/styles.xml", f"<w:styles {space}>{styles}</w:styles>")


def place_at(document: Document, text: str) -> Place | None:
    start = document.content.index(text)
    return document.place(start, start + len(text))
