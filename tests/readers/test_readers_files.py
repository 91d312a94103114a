"""Files and folders as documents: what is read, what is left out and why, and that no file can stop it."""

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, DatasetError, DocumentIndex, MissingExtraError, Place
from surprise_rerank.connectors.readers import FileRules, open_documents
from surprise_rerank.connectors.readers import _extraction as extraction_module
from surprise_rerank.connectors.readers import _patterns as patterns_module
from surprise_rerank.connectors.readers._pages import ExtractedText, html_text, markdown_text

PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
    b"endobj\n4 0 obj<</Length 43>>stream\nBT /F 12 Tf 72 700 Td (dogs bark at) Tj ET \nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
    b"trailer<</Size 6/Root 1 0 R>>\n%%EOF"
)


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_a_folder_is_read_in_the_order_of_its_names_with_its_tables(tmp_path):
    write(
        tmp_path,
        {
            "b/page.html": "<title>Pets</title><p>dogs<p>cats",
            "a.txt": "wolves howl",
            "c.md": "# Head\n\n*owls* hoot",
            "d.jsonl": '{"id": "x", "text": "frogs"}\n',
            "e.csv": "id,text\ny,toads\n",
            "f.csv": "year,count\n1999,3\n",
            "g.bin": "?",
            ".hidden.txt": "no",
        },
    )
    source = open_documents(tmp_path)
    found = list(source)
    assert [(d.id, d.title, d.text) for d in found] == [
        ("a.txt", "a", "wolves howl"),
        ("b/page.html", "Pets", "dogs\n\ncats"),
        ("c.md", "Head", "owls hoot"),
        ("x", "", "frogs"),
        ("y", "", "toads"),
        ("f.csv", "f", "year,count\n1999,3\n"),
    ]
    assert found[0].metadata.keys() == {"path", "bytes", "modified"}
    assert {d.source for d in found} == {str(tmp_path.resolve())}
    assert source.skipped.places == {"of no kind that is read": ["g.bin"]}
    assert str(source.skipped).startswith("1 skipped: 1 of no kind")


def test_a_table_of_a_folder_without_ids_has_numbers_of_rows_and_one_without_texts_is_a_text(tmp_path):
    write(
        tmp_path,
        {
            "a.csv": "text,year\nfrogs,1999\ntoads,2000\n",
            "b.csv": "\nyear,count\n1999,3\n2000,5\n",
            "c.jsonl": '{"text": "newts"}\n',
            "d.jsonl": '{"count": 3}\n',
        },
    )
    source = open_documents(tmp_path)
    documents = list(source)
    assert [(d.id, d.title, d.text) for d in documents] == [
        ("a.csv:1", "", "frogs"),
        ("a.csv:2", "", "toads"),
        ("b.csv", "b", "\nyear,count\n1999,3\n2000,5\n"),
        ("c.jsonl:1", "", "newts"),
    ]
    assert documents[0].metadata == {"year": 1999}
    assert documents[2].place(13, 19) == Place(line=3, table="year,count")
    assert source.skipped.counts == {"no column for the text": 1}


def test_a_damaged_table_in_a_folder_is_counted_and_the_others_are_read(tmp_path):
    whole = gzip.compress(b"".join(b'{"id": "%d", "text": "frogs"}\n' % i for i in range(9000)))
    damaged = {
        "a.parquet": b"PAR1 no",
        "b.csv": 'id,"text\n1,x',
        "c.csv": "id,id,text\n",
        "d.jsonl.gz": whole[:-99],
    }
    write(tmp_path, {**damaged, "e.csv": "id,text\ny,toads\n"})
    source = open_documents(tmp_path)
    assert [d.id for d in source][-1] == "y"
    assert source.skipped.places == {"damaged": list(damaged)}
    assert [place.id for place in source.unusable] == [None] * len(damaged)  # of which nobody knows the ids
    write(tmp_path, {"e.csv": "id,text\ny\nz,newts\n", "empty.jsonl": ""})
    assert [d.id for d in source][-1] == "z"
    assert source.skipped.places["wrong number of columns"] == [f"{tmp_path}/e.csv:2"]
    assert source.skipped.places["empty"] == ["empty.jsonl"]
    with pytest.raises(DataError, match=r"e.csv:2: 1 columns, but the head has 2; .*--set on_error=skip"):
        list(open_documents(tmp_path / "e.csv"))


def test_an_index_in_the_folder_is_no_document_of_it(tmp_path):
    (tmp_path / "a.txt").write_text("about dogs")
    (tmp_path / "site" / "1").mkdir(parents=True)
    (tmp_path / "site" / "1" / "manifest.json").write_text('{"about": "cats"}')  # no index
    source = open_documents(tmp_path)
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(source, background=False)
        assert index.sync(source, prune=True, background=False).unchanged == 2
        assert len(index) == 2
    assert source.skipped.counts == {"an index": 1}


def test_gitignore_and_node_modules_are_respected_and_counted(tmp_path):
    names = ["a.log.txt", "build/x.txt", "keep.txt", "node_modules/p/readme.md", "sub/a.log.txt", "sub/b.txt"]
    write(tmp_path, dict.fromkeys(names, "text"))
    write(tmp_path, {".gitignore": "*.log.txt\nbuild/\n", "sub/.gitignore": "!a.log.txt\n/b.txt\n"})
    source = open_documents(tmp_path)
    assert [d.id for d in source] == ["keep.txt", "sub/a.log.txt"]
    assert source.skipped.counts == {"ignored by .gitignore": 3, "node_modules": 1}


def test_patterns_choose_as_those_of_gitignore_do(tmp_path):
    write(tmp_path, dict.fromkeys(["a.txt", "docs/b.py", "docs/drafts/c.txt", "docs/d.txt"], "text"))
    rules = FileRules(include=["docs/", "*.py"], exclude=["drafts/"])
    assert [d.id for d in open_documents(tmp_path, files=rules)] == ["docs/b.py", "docs/d.txt"]
    with pytest.raises(DataError, match="include must be a list of strings"):
        FileRules(include="*.md")
    with pytest.raises(DataError, match="at least 1"):
        FileRules(max_bytes=0)


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")
def test_what_cannot_be_used_is_counted_with_its_reason(tmp_path):
    folder = write(
        tmp_path / "in", {"a.txt": "text", "big.txt": "x" * 2000, "empty.txt": " ", "nul.txt": b"\0x"}
    )
    write(folder, {"broken.pdf": b"%PDF-1.4 nothing", "broken.docx": b"PK", "sub/b.txt": "text"})
    (tmp_path / "out.txt").write_text("out")
    (folder / "out.txt").symlink_to(tmp_path / "out.txt")
    (folder / "sub2").symlink_to(folder / "sub")
    os.mkfifo(folder / "pipe.txt")
    source = open_documents(folder, files=FileRules(max_bytes=1000))
    assert [d.id for d in source] == ["a.txt", "sub/b.txt"]
    assert source.skipped.places == {
        "larger than 1000 bytes": ["big.txt"],
        "damaged": ["broken.docx", "broken.pdf"],
        "no text": ["empty.txt"],
        "binary": ["nul.txt"],
        "a link out of the folder": ["out.txt"],
        "not a regular file": ["pipe.txt"],
        "a link to a folder": ["sub2"],
    }
    # What is of another kind or place is gone from an index by `prune`; what is damaged or too large is not.
    kept = {"big.txt", "broken.docx", "broken.pdf", "empty.txt", "nul.txt"}
    assert {place.id for place in source.unusable} == kept


def test_a_file_that_takes_too_long_is_left_out_and_the_next_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(extraction_module, "SECONDS", 4)
    slow = "[" * 300_000 + "m" + "]" * 300_000  # takes the parser many seconds
    write(tmp_path, {"a.md": slow, "b.pdf": PDF})
    source = open_documents(tmp_path)
    assert [d.id for d in source] == ["b.pdf"]
    assert source.skipped.counts == {"not read in 4 s": 1}
    assert source.unusable == [("a.md (not read in 4 s)", "a.md")]


def test_what_a_library_raises_is_of_that_file_alone():
    def broken(raw: bytes) -> ExtractedText:
        raise KeyError("in a\ntable")

    told = ["refused", "damaged", "is damaged: KeyError: 'in a\\ntable'"]
    assert extraction_module._answer(b"", broken) == told


@pytest.mark.parametrize(
    "end",
    [
        "raise BaseException('panic')",  # as a library in Rust: no Exception of Python, and an exit code of 1
        """print('["text", "hal', end='')""",  # killed while it sends
    ],
)
def test_a_reader_that_crashes_is_not_called_late(tmp_path, monkeypatch, end):
    def crashing() -> subprocess.Popen[bytes]:
        code = f"import sys; sys.stdin.buffer.readline(); {end}"
        return subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL)

    write(tmp_path / "in", {"a.md": "text", "b.txt": "text"})
    monkeypatch.setattr(extraction_module, "_start_reader", crashing)
    source = open_documents(tmp_path / "in")
    assert [d.id for d in source] == ["b.txt"]
    assert source.skipped.places == {"its reader crashed": ["a.md"]}


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "dangling link", "large", "late"])
def test_a_gitignore_that_cannot_be_used_is_counted_and_the_files_are_read(tmp_path, kind, monkeypatch):
    if kind == "late":
        monkeypatch.setattr(patterns_module, "_SECONDS", -1.0)
    write(tmp_path, {"a.txt": "text"})
    ignore = tmp_path / ".gitignore"
    make = {
        "pipe": lambda: os.mkfifo(ignore),
        "device": lambda: ignore.symlink_to("/dev/zero"),
        "folder": ignore.mkdir,
        "dangling link": lambda: ignore.symlink_to("nowhere"),
        "large": lambda: ignore.write_bytes(b"x\n" * 2**20),
        "late": lambda: ignore.write_text("*a*a*a*.md\n"),
    }
    make[kind]()
    source = open_documents(tmp_path)
    assert [d.id for d in source] == ["a.txt"]
    (reason,) = source.skipped.counts
    assert reason.startswith(".gitignore not respected: ")
    assert source.skipped.places[reason] == [".gitignore"]
    assert [place.id for place in source.unusable] == [".gitignore"]


@pytest.mark.parametrize(
    "pattern", ["*a" * 60 + "b", "**/a/" * 25 + "b", "*a?" * 60 + "c", "**/**/" * 40 + "c"]
)
def test_no_pattern_of_a_gitignore_takes_for_ever(tmp_path, pattern):
    names = {f"{'a' * 200}.txt", f"{'a/' * 60}x.txt"}
    write(tmp_path, {**dict.fromkeys(names, "text"), ".gitignore": pattern})
    begun = time.monotonic()
    assert {d.id for d in open_documents(tmp_path)} == names
    assert time.monotonic() - begun < 20


def test_lines_of_a_gitignore_that_are_no_patterns_are_left_out(tmp_path, recwarn):
    lines = b"!\n[z-a]\n[[x]\n\xff\n/\nb.txt\n"
    write(tmp_path, {"a.txt": "text", "b.txt": "text", ".gitignore": lines})
    assert [d.id for d in open_documents(tmp_path)] == ["a.txt"]
    assert not recwarn.list
    with pytest.raises(DataError, match=r"exclude='!' is no pattern; give those of .gitignore"):
        list(open_documents(tmp_path, files=FileRules(exclude=["!"])))


def test_a_single_file_is_a_document_or_an_error(tmp_path):
    write(tmp_path, {"a.txt": "text", "b.txt": " ", "c.dat": "log"})
    assert [d.id for d in open_documents(tmp_path / "a.txt")] == ["a.txt"]
    assert [d.text for d in open_documents(tmp_path / "c.dat", format="text")] == ["log"]
    with pytest.raises(DataError, match=r"b\.txt: holds no text"):
        list(open_documents(tmp_path / "b.txt"))
    with pytest.raises(DatasetError, match="holds no documents"):
        list(open_documents(tmp_path / "b.txt", on_error="skip"))
    with pytest.raises(DatasetError, match="cannot be recognised"):
        open_documents(tmp_path / "c.dat")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-16", "naïve Zürich"),
        ("utf-32", "naïve Zürich"),
        ("cp1252", "Die Straße nach Zürich führt über die Brücke. Größe, Äpfel, Öl. " * 3),
        ("cp1251", "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 3),
        ("shift_jis", "日本語の文章です。これはテストです。東京へ行きます。" * 3),
    ],
)
def test_encodings_are_recognised(tmp_path, encoding, text):
    write(tmp_path, {"a.txt": text.encode(encoding), "b.html": f"<p>{text}".encode(encoding)})
    assert [d.text for d in open_documents(tmp_path)] == [text, text.strip()]


def test_html_is_shown_text_with_blocks_apart():
    page = """<html><head><title>My
    page</title><style>.s{}</style><script>if (a<b) x()</script></head><body><nav>menu</nav><h1>Head</h1>
    <p>al<b>pha</b> &amp; beta<table><tr><td>c1<td>c2</table><ul><li>i1<li>i2</ul><!-- c --><pre>a
      b</pre><a href="javascript:x()">link</a><label>name</label>"""
    found = html_text(page.encode())
    assert found.title == "My page"
    assert found.text == "Head\n\nalpha & beta\n\n c1  c2\n\ni1\n\ni2\n\na\n      b\nlinkname"
    declared = "<meta charset='cp1250'><p>Zażółć gęślą jaźń"
    assert html_text(declared.encode("cp1250")).text == "Zażółć gęślą jaźń"
    assert html_text(b"").text == ""


@pytest.mark.parametrize("tags", ["<div>", "<b>", "<ul><li>", "<table><tr><td>", "<a href=x>", "<!--", "<"])
def test_html_may_nest_without_end(tags):
    seconds = []
    for times in (10_000, 100_000):
        begun = time.process_time()
        assert html_text(f"<p>before{tags * times}deep".encode()).text.startswith("before")
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 40 * max(seconds[0], 0.02)  # ten times as much, and not a hundred


@pytest.mark.parametrize(
    ("source", "title", "text"),
    [
        ("---\ntitle: Front\n---\n# Head\n\n*bo*dy", "Front", "Head\n\nbody"),
        ('+++\ntitle = "Front"\n+++\nbody', "Front", "body"),
        ("---\n\nrule", "", "rule"),
        ("Head\n===\n\n- a\n  - b\n\n`code` [link](u) ![what](x.png)", "Head", "a\n\nb\n\ncode link what"),
        ("text <b>bold</b>\n\n<script>no</script>", "", "text bold"),
        ("```\ndef f(): <x>\n```", "", "def f(): <x>"),
    ],
)
def test_markdown_is_rendered_as_plain_text(source, title, text):
    found = markdown_text(source.encode())
    assert (found.title, found.text.split()) == (title, text.split())


def test_without_the_extra_the_pip_line_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "surprise_rerank.core._extras.is_installed", lambda module: module != "charset_normalizer"
    )
    write(tmp_path, {"a.txt": "Größe".encode("cp1252")})
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[files\]'"):
        list(open_documents(tmp_path))
