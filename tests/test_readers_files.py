"""Text, Markdown, HTML and PDF files as documents, alone and in folders."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject

from surprise_rerank.connectors.readers import FileRules, open_documents
from surprise_rerank.connectors.readers.html_text import html_text
from surprise_rerank.connectors.readers.markdown_text import markdown_text
from surprise_rerank.connectors.readers.pdf_text import pdf_text
from surprise_rerank.connectors.readers.source import RefusedError
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError, MissingExtraError


def tree(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def texts(root: Path, **options: object) -> dict[str, str]:
    return {document.id: document.text for document in open_documents(root, **options)}


def pdf(pages: Sequence[str], title: str | None = None, password: str | None = None) -> bytes:
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(width=300, height=300)
        draw(writer, page, f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode() if text else b"")
    if title is not None:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    return written(writer)


def draw(writer: PdfWriter, page: DictionaryObject, content: bytes, **forms: DictionaryObject) -> None:
    stream = DecodedStreamObject()
    stream.set_data(content)
    page[NameObject("/Contents")] = writer._add_object(stream)
    page[NameObject("/Resources")] = resources(**forms)


def resources(**forms: DictionaryObject) -> DictionaryObject:
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    return DictionaryObject(
        {
            NameObject("/Font"): DictionaryObject({NameObject("/F1"): font}),
            NameObject("/XObject"): DictionaryObject({NameObject(f"/{n}"): f for n, f in forms.items()}),
        }
    )


def written(writer: PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


# --- folders ---


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path):
    tree(
        tmp_path,
        {
            "b.txt": "B",
            "a/z.md": "# Zed\n\ntext",
            "a/b/c.html": "<title>C</title><p>see</p>",
            "a.txt": "A",
            "report.pdf": pdf(["One", "Two"], "Year"),
            ".hidden.txt": "no",
            ".git/x.txt": "no",
            "picture.png": b"\x89PNG\0",
        },
    )
    os.utime(tmp_path / "b.txt", (1_700_000_000.9, 1_700_000_000.9))
    source = open_documents(tmp_path)
    found = list(source)
    assert [d.id for d in found] == ["a/b/c.html", "a/z.md", "a.txt", "b.txt", "report.pdf"]
    assert [d.title for d in found] == ["C", "Zed", "a", "b", "Year"]
    assert [d.text for d in found] == ["see", "text", "A", "B", "One\n\nTwo"]
    assert found[3].metadata == {"path": "b.txt", "bytes": 1, "modified": "2023-11-14T22:13:20+00:00"}
    assert found[4].metadata["pages"] == 2
    assert source.skipped.lines() == ["picture.png: not a text, Markdown, HTML or PDF file"]
    assert list(source) == found
    assert source.skipped.total == 1
    assert source.name == tmp_path.name


def test_what_cannot_be_used_is_counted_with_its_reason(tmp_path: Path):
    tree(
        tmp_path,
        {
            "good.txt": "good",
            "empty.txt": b"",
            "blank.md": "---\ntitle: x\n---\n \n",
            "zeros.txt": b"\0" * 1000,
            "program.txt": b"\x7fELF\x02\x01\x01\0",
            "noise.txt": bytes(range(128, 256)) * 20,
            "large.txt": "x" * 101,
            "letters/secret.pdf": pdf(["x"], password="p"),
            "letters/broken.pdf": b"%PDF-1.7\nnonsense",
            "letters/scan.pdf": pdf([""]),
            "script.html": "<script>let x</script>",
        },
    )
    source = open_documents(tmp_path, files=FileRules(max_bytes=100))
    assert [d.id for d in source] == ["good.txt"]
    source = open_documents(tmp_path, files=FileRules(exclude=["large.txt"]))
    assert [d.id for d in source] == ["good.txt"]
    assert source.skipped.places == {
        "no text": ["blank.md", "empty.txt", "letters/scan.pdf", "script.html"],
        "damaged": ["letters/broken.pdf"],
        "encrypted": ["letters/secret.pdf"],
        "binary": ["noise.txt", "program.txt", "zeros.txt"],
    }


def test_a_size_limit_is_told_in_its_unit(tmp_path: Path):
    tree(tmp_path, {"a.txt": "x", "b.txt": "x" * (2**20 + 1)})
    source = open_documents(tmp_path, files=FileRules(max_bytes=2**20))
    assert [d.id for d in source] == ["a.txt"]
    assert source.skipped.lines() == ["b.txt: larger than 1 MiB"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], ["a.txt", "docs/b.md", "docs/old/c.txt"]),
        (["*.txt"], [], ["a.txt", "docs/old/c.txt"]),
        (["docs/*"], [], ["docs/b.md", "docs/old/c.txt", "docs/setup.py"]),
        (["*.py"], [], ["docs/setup.py"]),
        ([], ["old"], ["a.txt", "docs/b.md"]),
        ([], ["docs/old"], ["a.txt", "docs/b.md"]),
        ([], ["docs/*"], ["a.txt"]),
        (["?.md", "*.txt"], ["a.*"], ["docs/b.md", "docs/old/c.txt"]),
        (["[ab].*"], [], ["a.txt", "docs/b.md"]),
        (["*.TXT"], ["*"], []),
    ],
)
def test_patterns_choose(tmp_path: Path, include: list[str], exclude: list[str], expected: list[str]):
    tree(tmp_path, {"a.txt": "a", "docs/b.md": "b", "docs/old/c.txt": "c", "docs/setup.py": "x = 1"})
    source = open_documents(tmp_path, files=FileRules(include=include, exclude=exclude))
    if expected:
        assert [d.id for d in source] == expected
    else:
        with pytest.raises(DatasetError, match="holds no documents"):
            list(source)


def test_rules_are_checked():
    with pytest.raises(DataError, match="list of patterns"):
        FileRules(include="*.txt")
    with pytest.raises(DataError, match="positive"):
        FileRules(max_bytes=0)


def test_links_lead_nowhere_but_to_files_of_the_folder(tmp_path: Path):
    tree(tmp_path, {"in/a.txt": "a", "in/sub/b.txt": "b", "in/.store/c": "c", "out/secret.txt": "s"})
    root = tmp_path / "in"
    (root / "c.txt").symlink_to(root / ".store" / "c")
    (root / "outside.txt").symlink_to(tmp_path / "out" / "secret.txt")
    (root / "upwards.txt").symlink_to("../out/secret.txt")
    (root / "outside").symlink_to(tmp_path / "out")
    (root / "sub" / "cycle").symlink_to(root)
    (root / "self.txt").symlink_to("self.txt")
    (root / "broken.txt").symlink_to("nothing.txt")
    source = open_documents(root)
    assert {d.id: d.text for d in source} == {"a.txt": "a", "c.txt": "c", "sub/b.txt": "b"}
    reasons = source.skipped.places
    assert reasons["a link out of the folder"] == ["outside", "outside.txt", "upwards.txt"]
    assert reasons["a link to a folder"] == ["sub/cycle"]
    assert source.skipped.total == 6

    (tmp_path / "link").symlink_to(root)
    assert texts(tmp_path / "link") == {"a.txt": "a", "c.txt": "c", "sub/b.txt": "b"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path):
    tree(tmp_path, {"a.txt": "a"})
    os.mkfifo(tmp_path / "pipe.txt")
    source = open_documents(tmp_path)
    assert [d.id for d in source] == ["a.txt"]
    assert source.skipped.lines() == ["pipe.txt: not a regular file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_counted(tmp_path: Path):
    tree(tmp_path, {"a.txt": "a", "closed/b.txt": "b", "c.txt": "c"})
    (tmp_path / "closed").chmod(0)
    (tmp_path / "c.txt").chmod(0)
    try:
        source = open_documents(tmp_path)
        assert [d.id for d in source] == ["a.txt"]
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert sorted(source.skipped.places["permission denied"]) == ["c.txt", "closed"]


def test_a_file_that_is_gone_when_its_turn_comes_is_counted(tmp_path: Path):
    tree(tmp_path, {"a.txt": "a", "b.txt": "b"})
    source = open_documents(tmp_path)
    documents = iter(source)
    next(documents)
    (tmp_path / "b.txt").unlink()
    assert list(documents) == []
    assert source.skipped.lines() == ["b.txt: no such file or directory"]


def test_folders_nest_deeply(tmp_path: Path):
    folder = tmp_path
    for _ in range(400):
        folder = folder / "d"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("deep")
    assert list(texts(tmp_path).values()) == ["deep"]


def test_names_of_files_can_be_odd(tmp_path: Path):
    names = ["caf\u00e9 \U0001f600.txt", "a b,c;'\".txt", "\n.txt", "UPPER.TXT"]
    tree(tmp_path, dict.fromkeys(names, "x"))
    try:
        (tmp_path / os.fsdecode(b"\xff.txt")).write_text("x")
        names.append("\ufffd.txt")
    except OSError:
        pass  # this file system takes only text
    assert sorted(texts(tmp_path)) == sorted(names)


def test_a_folder_of_nothing_is_an_error(tmp_path: Path):
    with pytest.raises(DatasetError, match="holds no documents"):
        list(open_documents(tmp_path))
    tree(tmp_path, {"x.png": b"\0", "y.exe": b"\0"})
    with pytest.raises(DatasetError, match=r"2 skipped: 2 not a text.* \(x\.png, y\.exe\)"):
        list(open_documents(tmp_path))


# --- one file ---


def test_a_single_file_is_a_document_or_an_error(tmp_path: Path):
    tree(tmp_path, {"a.md": "text", "b.pdf": pdf(["x"], password="p")})
    (document,) = open_documents(tmp_path / "a.md")
    assert (document.id, document.title, document.text) == ("a.md", "a", "text")
    with pytest.raises(DataError, match=r"b\.pdf: is encrypted; save it without a password"):
        list(open_documents(tmp_path / "b.pdf"))


def test_any_file_can_be_read_as_text(tmp_path: Path):
    tree(tmp_path, {"setup.py": "x = 1"})
    with pytest.raises(DatasetError, match=r"format=.*'files' reads it as text"):
        open_documents(tmp_path / "setup.py")
    assert [d.text for d in open_documents(tmp_path / "setup.py", format="files")] == ["x = 1"]


# --- encodings ---

FRENCH = "Les élèves préfèrent le café crème à la crêperie, où ils étudient l'été et la forêt."


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
        ("latin-1", "cp1252"),
        ("cp1252", "cp1252"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_encodings_are_recognised(tmp_path: Path, name: str, encoding: str, told: str | None):
    tree(tmp_path, {name: FRENCH.encode(encoding)})
    (document,) = open_documents(tmp_path)
    assert document.text == FRENCH
    assert document.metadata.get("encoding") == told


def test_big_endian_utf_16_is_recognised(tmp_path: Path):
    tree(tmp_path, {"a.txt": b"\xfe\xff" + FRENCH.encode("utf-16-be")})
    assert texts(tmp_path) == {"a.txt": FRENCH}


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy, protože byl hladový."),
        ("cp1251", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
        ("shift_jis", "これは日本語の文章です。漢字とひらがなが含まれています。"),
    ],
)
def test_other_scripts_are_recognised_or_given(tmp_path: Path, encoding: str, text: str):
    tree(tmp_path, {"a.txt": text.encode(encoding)})
    assert texts(tmp_path) == {"a.txt": text}
    long = f"{text}\n" * 3000
    tree(tmp_path, {"a.txt": long.encode(encoding)})
    assert texts(tmp_path) == {"a.txt": long}
    tree(tmp_path, {"a.txt": text[:6].encode(encoding)})
    assert texts(tmp_path, encoding=encoding) == {"a.txt": text[:6]}


@given(st.text(st.characters(exclude_characters="\r\0"), min_size=1).filter(str.strip))
def test_text_in_utf_8_comes_back_as_it_is(tmp_path_factory: pytest.TempPathFactory, text: str):
    folder = tmp_path_factory.mktemp("text")
    text = encodable(text).removeprefix("\ufeff") or "x"
    (folder / "a.txt").write_bytes(text.encode())
    if text.strip():
        assert texts(folder) == {"a.txt": text}


def test_without_the_extra_text_is_read_and_the_rest_names_the_pip_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surprise_rerank.core.extras.is_installed", lambda _: False)
    tree(tmp_path / "plain", {"a.txt": "caf\u00e9", "b.txt": "b".encode("utf-16")})
    assert texts(tmp_path / "plain") == {"a.txt": "caf\u00e9", "b.txt": "b"}
    odd = {
        "a.txt": FRENCH.encode("latin-1"),
        "a.md": "x",
        "a.html": "x",
        "a.pdf": b"x",
        "a.csv": b"id,\xe9\n",
    }
    for name, content in odd.items():
        tree(tmp_path, {name: content})
        with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[files\]'"):
            list(open_documents(tmp_path / name))


# --- HTML ---


def test_html_is_shown_text_with_blocks_apart():
    raw = b"""<!DOCTYPE html><html><head><title> My\n &amp; page </title><style>p {x}</style></head><body>
    <nav>Home | About</nav><!-- hidden -->
    <h1>Head&shy;line</h1><p>One <b>bold</b>, <i>it</i>alic&nbsp;&eacute;.<br>Next
    line</p><p>Two</p><ul><li>a<li>b</ul>
    <table><tr><th>k</th><td>v</td></tr><tr><td>x</td><td>y</td></tr></table>
    <pre>def f():
    return 1</pre><script>alert("x")</script><noscript>no</noscript>
    <div>three<div>four</div>five</div></body></html>"""
    page = html_text(raw)
    assert page.title.strip() == "My & page"
    lines = [line for line in page.text.split("\n") if line]
    assert lines == [
        *("Head\u00adline", "One bold, italic\u00a0\u00e9.", "Next line", "Two", "a", "b"),
        *("k v", "x y", "def f():", "    return 1", "three", "four", "five"),
    ]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"<p>a<p>b", "a\nb"),
        (b"<html><head><title>t</title><body><p>x", "x"),
        (b"no marks at all", "no marks at all"),
        (b"<p>1 < 2 & 3 > 2</p>", "1 < 2 & 3 > 2"),
        (b"<b>un<i>closed", "unclosed"),
        (b"<?php echo 1 ?><p>y", "y"),
        (b"</div></p>z", "z"),
        (b"", ""),
        ("<meta charset='windows-1251'><p>Привет".encode("cp1251"), "Привет"),
        ("<meta charset='latin-1'><p>é".encode(), "é"),
        (b"<meta charset='klingon'><p>x", "x"),
    ],
)
def test_html_need_not_be_valid(raw: bytes, text: str):
    assert html_text(raw).text == text


def test_html_may_be_deep_and_wide():
    deep = html_text(b"<div>" * 5000 + b"x" + b"</div>" * 5000)
    assert deep.text == "x"
    wide = html_text(b"<p>x" + b"<br>y" * 20_000)
    assert wide.text.count("y") == 20_000
    unclosed = html_text(b"<p>x" * 5000 + b"<li>y" * 5000)
    assert unclosed.text == "\n".join(["x"] * 5000 + ["y"] * 5000)


# --- Markdown ---

PAGE = """---
layout: post
tags: [a, b]
---

# The *title* &amp; `code`

A paragraph with **bold**, [a link](https://example.org "tip"), ![a picture](x.png)
and `code`. <b>Marked</b><br>up ~~gone~~.

## Second

1. one
2. two
   - nested

> quoted

```python
def f(x):
    return x * 2
```

| k | v |
|---|---|
| a | b |

<div><p>raw</p> html</div>

***
the end
"""


def test_markdown_is_rendered_as_plain_text():
    page = markdown_text(PAGE.encode())
    assert page.title == "The title & code"
    assert page.text == (
        "A paragraph with bold, a link, a picture\nand code. Marked\nup gone.\n\nSecond\n\n"
        "one\ntwo\nnested\n\nquoted\n\ndef f(x):\n    return x * 2\n\nk v\na b\n\nraw\nhtml\n\nthe end"
    )


@pytest.mark.parametrize(
    ("source", "title", "text"),
    [
        ("no heading", "", "no heading"),
        ("before\n\n# Head\n\nafter", "Head", "before\n\nHead\n\nafter"),
        ("Head\n====\nx", "Head", "x"),
        ("---\ntitle: 'From the front'\n---\n# Head\nx", "From the front", "Head\n\nx"),
        ('+++\ntitle = "TOML"\ndraft = true\n+++\nx', "TOML", "x"),
        ("---\r\ntitle: Windows\r\n---\r\nx\r\ny", "Windows", "x\ny"),
        ("---\ntitle: >\n  folded\n---\n# Head\nx", "Head", "x"),
        ("---\nnever: closed\n\nx", "", "never: closed\n\nx"),
        ("---\n\nbetween rules\n\n---\n\nx", "", "between rules\n\nx"),
        ("---\n---\nx", "", "x"),
        ("\ufeff# Head\nx", "Head", "x"),
        ("a &lt;b&gt; \\*c\\*", "", "a <b> *c*"),
        ("    code\n    block", "", "code\n    block".replace("    ", "")),
        ("", "", ""),
    ],
)
def test_titles_and_front_matter(source: str, title: str, text: str):
    page = markdown_text(source.encode())
    assert (page.title, page.text) == (title, text)


def test_markdown_may_be_deep():
    assert "x" in markdown_text(b">" * 50 + b" x").text
    assert markdown_text(b"[" * 5000 + b"x").text.endswith("x")


# --- PDF ---


def test_pdf_titles_fall_back_to_the_name(tmp_path: Path):
    tree(tmp_path, {"named.pdf": pdf(["x"]), "blank.pdf": pdf(["x"], "  "), "own.pdf": pdf(["x"], "My\nown")})
    assert [d.title for d in open_documents(tmp_path)] == ["blank", "named", "My own"]


def test_a_pdf_that_opens_without_a_password_is_read(tmp_path: Path):
    tree(tmp_path, {"a.pdf": pdf(["free"], password="")})
    assert texts(tmp_path) == {"a.pdf": "free"}


def outcome(raw: bytes) -> str:
    try:
        return pdf_text(raw).text[:9]
    except RefusedError as refused:
        return refused.reason


@pytest.mark.parametrize("cut", [0, 5, 100, 300, -200, -20])
def test_damaged_pdfs_are_refused_or_mended_but_never_crash(cut: int, capfd: pytest.CaptureFixture[str]):
    level = logging.getLogger("pypdf").level
    raw = pdf(["some text"] * 3)
    for damaged in (raw[:cut], raw[:cut] + b"\xff" * 50 + raw[cut + 50 :] if cut > 0 else raw[:cut]):
        assert outcome(damaged) in ("some text", "damaged", "no text")
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("pypdf").level == level


def bomb(levels: int, width: int) -> bytes:
    """A page whose form draws another one many times, and that one another, and so on."""
    writer = PdfWriter()
    inner: DictionaryObject | None = None
    for level in range(levels):
        form = DecodedStreamObject()
        form.set_data(b"BT /F1 12 Tf (boom) Tj ET" if inner is None else b"/X Do " * width)
        form[NameObject("/Type")] = NameObject("/XObject")
        form[NameObject("/Subtype")] = NameObject("/Form")
        form[NameObject("/BBox")] = ArrayObject([NumberObject(n) for n in (0, 0, 9, 9)])
        form[NameObject("/Resources")] = resources(**({} if inner is None else {"X": inner}))
        form[NameObject("/Level")] = NumberObject(level)
        inner = writer._add_object(form)
    page = writer.add_blank_page(width=100, height=100)
    draw(writer, page, b"/X Do", X=inner)
    return written(writer)


def test_a_pdf_that_unfolds_without_end_is_refused():
    raw = bomb(levels=6, width=10)
    assert len(raw) < 10_000
    with pytest.raises(RefusedError, match="unfolds to more"):
        pdf_text(raw, max_characters=1000)
    with pytest.raises(RefusedError, match="unfolds to more"):
        pdf_text(raw, max_seconds=0.01)
    assert pdf_text(bomb(levels=2, width=3)).text.count("boom") == 3


def test_a_stream_of_a_gigabyte_is_refused():
    writer = PdfWriter()
    page = writer.add_blank_page(width=100, height=100)
    draw(writer, page, b" " * 2**27)
    page.compress_content_streams()
    raw = written(writer)
    assert len(raw) < 2**20
    with pytest.raises(RefusedError, match="unfolds to more"):
        pdf_text(raw)


def test_every_document_can_be_stored(tmp_path: Path):
    tree(tmp_path, {"a.txt": "x\x00y"[:1], "b.md": "# \ud7ff", "c.html": "<p>\u2028"})
    for document in open_documents(tmp_path, on_error="skip"):
        assert isinstance(document, Document)
        assert document.content.encode()
