"""Progress: how much of how much, how fast, and how long still; a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from words import WordEncoder

from surprise_rerank.connectors.progress import Expected, Terminal, Work, total_of
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.readers import DocumentSource, from_iterable, open_documents
from surprise_rerank.connectors.readers.source import expected_of
from surprise_rerank.documents import Document

RATE = re.compile(r", [0-9.,]+/(s|min|h)")


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_is_that_of_the_lengths() -> None:
    clock = Clock()
    work = Work("indexing", 100, "documents", clock)
    work.found(100, 10_000)
    work.skip(20, 2_000)
    assert (work.speed, work.seconds_left) == (0, None)
    for _ in range(10):  # long ones first
        clock.now += 1
        work(1, 400)
    assert str(work) == "indexing: 30 of 100 documents, 1.0/s, 10 s left"
    assert work.share == pytest.approx(0.6)
    work(70, 4_000)
    assert work.share == 1
    clock.now += 10
    assert work.ended() == "indexing: 100 documents in 20 s, 4.0/s"


def test_the_speed_is_that_of_lately_and_falls_where_nothing_comes() -> None:
    clock = Clock()
    work = Work("reading", None, "documents", clock)
    for speed in (1000, 10):
        for _ in range(60):
            clock.now += 1
            work(speed)
    assert work.facts() == ["60,600 documents", "10/s"]
    clock.now += 600
    assert 0 < work.speed < 1
    assert work.facts()[1].endswith("/min")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".csv"])
def test_a_file_of_lines_has_about_as_many_documents(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"documents{suffix}"
    lines = [json.dumps({"id": str(i), "text": "dogs"}) for i in range(5000)]
    if suffix == ".csv":
        lines = ["id,text", *(f"{i},dogs" for i in range(5000))]
    content = ("\n".join(lines) + "\n\n").encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    source = open_documents(path)
    assert source.expected() == Expected(5001, exact=False)
    assert "2,500 of about" in str(_done(Work("indexing", source.expected, "documents"), 2500))
    assert len(list(source)) == 5000
    assert source.expected() == Expected(5000)
    assert expected_of([source, open_documents(path)]) == Expected(10_001, exact=False)


def _done(work: Work, count: int) -> Work:
    work(count)
    return work


def test_what_knows_its_number_tells_it_before_it_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"id": [str(i) for i in range(300)], "text": ["dogs bark"] * 300})
    parquet.write_table(table, tmp_path / "documents.parquet")
    folder, beir = tmp_path / "letters", tmp_path / "beir"
    folder.mkdir()
    beir.mkdir()
    for name in ("a.txt", "b.md", "c.bin"):
        (folder / name).write_text("dogs bark")
    (beir / "corpus.jsonl").write_text('{"_id": "1", "text": "dogs"}\n{"_id": "2", "text": "cats"}\n')
    sources = [
        open_documents(tmp_path / "documents.parquet"),
        open_documents(folder),
        open_documents(beir),
        open_documents("demo"),
        from_iterable([("1", "dogs"), ("2", "cats"), ("3", "wings")]),
    ]
    counts = [source.expected() for source in sources]
    assert counts == [
        Expected(300),
        Expected(2),
        Expected(2, exact=False),
        Expected(len(list(sources[3]))),
        Expected(3),
    ]
    assert expected_of(sources) == Expected(307 + len(list(sources[3])), exact=False)
    assert expected_of([*sources, DocumentSource("stream", lambda _: iter(()))]) is None


def test_documents_without_a_length_have_no_total() -> None:
    assert total_of(iter([1])) is None
    assert total_of([1, 2]) == 2


def test_where_there_is_no_terminal_it_is_lines_with_a_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(every=0.1).bar("encoding [b]\x1b", 40, "texts") as advance:
        for _ in range(40):
            time.sleep(0.01)
            advance(1)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) >= 3
    assert all(re.match(r"encoding \[b\] : \d+ of 40 texts", line) for line in lines[:-1])
    assert all(RATE.search(line) for line in lines[1:])
    assert all(line.endswith(" left") for line in lines[1:-1])
    assert lines[-1].startswith("encoding [b] : 40 texts in 1 s")


def test_what_is_short_or_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for terminal in (Terminal(), Terminal(quiet=True, every=0.01)):
        with terminal.bar("encoding", 2, "texts") as advance:
            time.sleep(0.05)
            advance(2)
    assert capsys.readouterr().err == ""


def test_an_error_ends_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    bar = contextlib.ExitStack()
    bar.enter_context(Terminal(every=0.02).bar("encoding", 2, "texts"))
    time.sleep(0.1)
    with pytest.raises(ValueError, match="broken"), bar:
        raise ValueError("broken")
    told = capsys.readouterr().err
    assert told.startswith("encoding: 0 of 2 texts\n")
    assert " in " not in told
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_the_bar_ends_full(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    parts: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # as the end of a terminal is told
            parts.extend(iter(lambda: os.read(master, 4096), b""))

    reader = threading.Thread(target=read)
    reader.start()
    with open(slave, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        with Terminal().bar("indexing [red]", 10, "documents") as advance:
            for _ in range(10):
                advance(1)
                time.sleep(0.02)
    reader.join(20)
    os.close(master)
    drawn = b"".join(parts).decode()
    assert "indexing [red]" in drawn
    assert "10 of 10 documents" in drawn


def test_indexing_counts_every_document_with_its_length(tmp_path: Path) -> None:
    seen: list[Work] = []

    documents = [Document(str(i), "dogs bark " * (1 + i % 50)) for i in range(400)]

    def watched(self: Terminal, title: str, total: object, unit: str) -> Iterator[Work]:
        seen.append(Work(title, total, unit))  # type: ignore[arg-type]
        yield seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Terminal, "bar", contextlib.contextmanager(watched))
        with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
            index.sync(documents[:100], background=False)
            index.sync(from_iterable(documents), background=False)
    first, second = seen
    assert (first.done, second.done) == (100, 400)
    assert first.share == second.share == 1
    assert second.total == Expected(400)
    assert second.ended().startswith("indexing: 400 documents in")
