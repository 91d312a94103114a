"""Kinds of files that people have: what is read of each, its title, and what is named as not read."""

import gzip
import io
import json
import mailbox
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pyarrow
import pytest

from surprise_rerank import DataError, Document
from surprise_rerank.connectors.qdrant._highlights import excerpts
from surprise_rerank.connectors.readers import Fields, FileRules, open_documents

MAIL = "Hi, I asked HR in Zürich about this.\n\n> Databases are backed up every night.\n\nAnn\n"
CELLS = [
    {"cell_type": "markdown", "metadata": {}, "source": ["# Head\n", "words"]},
    {"cell_type": "code", "metadata": {}, "source": "print(1)", "outputs": [], "execution_count": 1},
]
NOTEBOOK = json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
MANUAL = (
    '.\\" A comment\n.de Sp\n.if n .sp\n..\n.TH LS 1 "2020"\n.SH NAME\nls \\- list \\fBfiles\\fR\n'
    '.SH OPTIONS\n.TP 4\n.BR \\-a ", " \\-\\-all\nhidden ones, too\n'
)
BOOK = (
    "<description><title-info><book-title>Title</book-title></title-info></description>"
    "<body><section><title><p>Part</p></title><p>dogs</p></section></body>"
)
SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i> dogs\nand cats\n\n2\n00:00:03,000 --> 00:00:04,000\nbye\n"
)


def mail(number: int = 0) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = f"Backups {number}", "ann@x.org", "bob@x.org"
    message["Date"], message["Message-ID"] = "Mon, 01 Jan 2024 10:00:00 +0100", f"<{number}@x.org>"
    message.set_content(MAIL)
    return message


def open_document(body: str) -> bytes:
    names = ("office", "text", "table", "drawing", "dc")
    spaces = " ".join(f'xmlns:{name}="urn:{name}"' for name in names)
    content = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
    about = f"<office:document-meta {spaces}><dc:title>My title</dc:title></office:document-meta>"
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("content.xml", content)
        archive.writestr("meta.xml", about)
    return raw.getvalue()


def read(path: Path, content: str | bytes, **options: object) -> list[Document]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(open_documents(path, **options))


@pytest.mark.parametrize(
    ("name", "content", "title", "text"),
    [
        ("a.rst", "=====\nTitle\n=====\n\nHello *dogs*.\n", "Title", "Hello *dogs*."),
        ("a.rst", "A line.\n\nTitle\n-----\n\ndogs\n", "Title", "dogs"),
        ("a.adoc", "= Title\n\n== Part\n\ndogs\n", "Title", "== Part"),
        ("a.rtf", r"{\rtf1\ansi\ansicpg1252 {\info{\title Title}}{\b dogs} caf\'e9}", "Title", "dogs café"),
        ("a.doc", "Dear all,\n\ndogs bark.\n", "a", "dogs bark."),
        ("a.doc", r"{\rtf1\ansi {\info{\title Title}}dogs}", "Title", "dogs"),
        ("a.xls", "<title>Title</title><table><tr><td>dogs<td>1</table>", "Title", "dogs  1"),
        ("a.msg", "::msgcat::mcset de dogs Hunde\n", "a", "dogs Hunde"),
        ("a.ipynb", NOTEBOOK, "a", "Head\n\nwords\n\nprint(1)"),
        ("a.fb2", f"<FictionBook>{BOOK}</FictionBook>", "Title", "Part\n\ndogs"),
        (
            "a.xml",
            "<list><!-- cats --><item a='1'>dogs &lt; 3</item><![CDATA[a <b>b</b>]]></list>",
            "a",
            "dogs < 3\n\na\n\nb",
        ),
        ("a.rss", "<rss><channel><title>dogs</title></channel></rss>", "a", "dogs"),
        ("a.yaml", "# dogs\nname: bark\n", "a", "# dogs\nname: bark"),
        ("a.qmd", "# Title\n\ndogs\n", "Title", "dogs"),
        ("app.log.1", "dogs barked\n", "app.log", "dogs barked"),
        ("ls.1ssl", MANUAL, "LS(1)", "ls - list files"),
        ("ls.1", MANUAL, "LS(1)", "ls - list files\n\nOPTIONS\n\n-a, --all\nhidden ones, too"),
        ("a.srt", SUBTITLES, "a", "Hello dogs and cats\nbye"),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000 align:left\n<v Ann>Hello\n", "a", "Hello"),
        ("a.py", 'def f(x):\n    """Return x."""\n    return x\n', "a", '    """Return x."""'),
        (
            "a.tex",
            "\\documentclass{article}\n\\title{Title}\n\\begin{document}\ndogs\n\\end{document}\n",
            "Title",
            "dogs",
        ),
        (
            "a.odt",
            open_document("<text:h>Head</text:h><text:p>dogs<text:s/>bark</text:p>"),
            "My title",
            "Head\n\ndogs bark",
        ),
        (
            "a.odp",
            open_document("<drawing:page><text:p>dogs</text:p><text:p/></drawing:page>"),
            "My title",
            "dogs",
        ),
        (
            "a.ods",
            open_document("<table:table-row><text:p>1</text:p><text:p>x</text:p></table:table-row>"),
            "My title",
            "1\n\nx",
        ),
        ("a.json", '{"name": "pkg", "about": "dogs"}', "a", "name: pkg\n\nabout: dogs"),
        ("a.md.gz", gzip.compress(b"# Title\n\n*dogs*", mtime=0), "Title", "dogs"),
        ("a.md.zst", pyarrow.compress(b"# Title\n\n*dogs*", "zstd", asbytes=True), "Title", "dogs"),
    ],
)
def test_a_file_is_read_with_its_title(tmp_path, name, content, title, text):
    (document,) = read(tmp_path / name, content)
    assert (document.id, document.title) == (name, title)
    assert text in document.text


def test_json_is_a_document_or_an_array_of_documents(tmp_path):
    rows = [{"id": 7, "title": "T", "text": "dogs", "year": 1999}, {"id": 8, "text": ["cats", "purr"]}]
    found = read(tmp_path / "a.json", json.dumps(rows))
    assert [(d.id, d.title, d.text) for d in found] == [("7", "T", "dogs"), ("8", "", "cats\n\npurr")]
    assert found[0].metadata == {"year": 1999}
    assert [d.id for d in read(tmp_path / "b.json", '[{"text": "dogs"}, {"text": "cats"}]')] == [
        "b.json#1",
        "b.json#2",
    ]
    assert [d.id for d in read(tmp_path / "c.json", '{"text": "dogs"}')] == ["c.json"]
    (document,) = read(
        tmp_path / "d.json", '{"key": "d", "story": "dogs"}', fields=Fields(id="key", text="story")
    )
    assert (document.id, document.text) == ("d", "dogs")
    with pytest.raises(DataError, match=r"d.json: not valid JSON.*on_error=skip"):
        read(tmp_path / "d.json", '{"key":')


def test_a_mail_is_its_body_and_what_its_header_says_is_metadata(tmp_path):
    (document,) = read(tmp_path / "a.eml", bytes(mail()))
    assert (document.title, document.text.strip()) == ("Backups 0", MAIL.strip())
    assert document.content.count("Backups 0") == 1
    known = {"from": "ann@x.org", "to": ["bob@x.org"], "date": "2024-01-01T10:00:00+01:00"}
    assert known.items() <= document.metadata.items()
    (excerpt, _) = excerpts("when are databases backed up?", [document.text, "Cats purr."])
    assert excerpt.text == "Databases are backed up every night."


def test_mailboxes_and_maildirs_are_their_mails(tmp_path):
    (tmp_path / "in").mkdir()
    box = mailbox.mbox(tmp_path / "in" / "box.mbox")
    for number in range(3):
        box.add(mail(number))
    box.add("Subject: Large\n\n" + "dogs bark\n" * 500)
    box.flush()
    directory = mailbox.Maildir(tmp_path / "in" / "dir")
    directory.add(mail(7))
    source = open_documents(tmp_path / "in", files=FileRules(max_bytes=2000))
    found = list(source)
    assert [d.id for d in found[:3]] == [f"box.mbox#{number}@x.org" for number in range(3)]
    assert [d.title for d in found] == ["Backups 0", "Backups 1", "Backups 2", "Backups 7"]
    assert source.skipped.places == {"larger than 2000 bytes": ["box.mbox#4"]}
    assert source.unusable[0].id == "box.mbox"  # so that none of its mails is taken for gone


def test_images_are_named_as_such_and_programs_are_no_manual(tmp_path):
    read(tmp_path / "a.txt", "text")
    for name in ("scan.png", "lib.so.1", "notes.7", "program"):
        (tmp_path / name).write_bytes(b"an \0 ELF")
    read(tmp_path / "README", "dogs")
    read(tmp_path / "changelog.Debian.gz", gzip.compress(b"cats"))
    source = open_documents(tmp_path)
    assert [d.id for d in source] == ["README", "a.txt", "changelog.Debian.gz"]
    assert source.skipped.places == {
        "of no kind that is read": ["lib.so.1", "notes.7", "program"],
        "an image, which needs OCR": ["scan.png"],
    }
    assert not source.unusable


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_compressed_file_is_as_large_as_what_it_holds(tmp_path, name):
    raw = b"x" * 10**7
    raw = gzip.compress(raw) if name.endswith("gz") else pyarrow.compress(raw, "zstd", asbytes=True)
    with pytest.raises(DataError, match=r"is larger than 9 MiB; raise the limit with .*--set max_bytes="):
        read(tmp_path / name, raw, files=FileRules(max_bytes=9 * 2**20))
    with pytest.raises(DataError, match="damaged"):
        read(tmp_path / name, raw[: len(raw) // 2])
