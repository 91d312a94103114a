"""Progress: a bar on a terminal, lines elsewhere, and how many documents a source says that it has."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator

import pytest
from helpers.words import WordEncoder

from surprise_rerank import Document, FunctionEncoder
from surprise_rerank.connectors._progress import Terminal, total_of
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.readers import DocumentSource, from_iterable, open_documents
from surprise_rerank.eval.cli.options import Sources


def test_what_knows_its_number_tells_it_before_it_is_read(tmp_path):
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
    places = (tmp_path / "documents.parquet", folder, beir, "demo")
    sources = [*map(open_documents, places), from_iterable([("1", "dogs"), ("2", "cats"), ("3", "wings")])]
    demo = len(list(sources[3]))
    assert [source.expected() for source in sources] == [300, 2, 2, demo, 3]
    assert Sources(["s"] * 5, sources).expected() == 307 + demo
    stream = DocumentSource("stream", lambda _: iter(()))
    assert Sources(["s"] * 6, [*sources, stream]).expected() is None
    assert (total_of(iter([1])), total_of([1, 2])) == (None, 2)


@pytest.mark.parametrize("total", [40, lambda: 20, None])
def test_where_there_is_no_terminal_it_is_lines_with_a_last_one(capsys, total):
    with Terminal(every=0.1).bar("encoding [b]\x1b", total, "texts") as advance:
        for _ in range(40):
            time.sleep(0.01)
            advance(1)
    out, err = capsys.readouterr()
    *lines, last = err.splitlines()
    assert out == ""
    assert len(lines) >= 2
    counts = [re.match(r"encoding \[b\] : (\d+) (?:of (\d+) )?texts", line).groups() for line in lines]
    assert all((of is None) == (total is None) and int(done) <= int(of or 40) for done, of in counts)
    assert re.search(r", [0-9.,]+/s", lines[-1])
    assert last.startswith("encoding [b] : 40 texts in 0:00:0")


def test_an_error_ends_the_lines_and_what_is_short_or_quiet_has_none(capsys):
    bar = contextlib.ExitStack()
    bar.enter_context(Terminal(every=0.02).bar("encoding", 2, "texts"))
    time.sleep(0.1)
    with pytest.raises(ValueError, match="broken"), bar:
        raise ValueError("broken")
    written = capsys.readouterr().err
    assert written.startswith("encoding 2 texts: 0:00:00 so far\n")
    assert " in " not in written
    for terminal in (Terminal(), Terminal(quiet=True, every=0.01)):
        with terminal.bar("encoding", 2, "texts") as advance:
            time.sleep(0.05)
            advance(2)
    assert capsys.readouterr().err == ""


def test_the_time_left_is_told_from_the_first_unit_on_and_parts_of_one_are_no_numbers(capsys):
    with Terminal(every=0.2).bar("indexing", 14, "documents") as advance:
        time.sleep(0.1)
        advance(0.14)
        time.sleep(0.4)  # longer than any window of rich would show it
        advance(1)
        time.sleep(0.3)
    first, *_, last, _ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"indexing: 0 of 14 documents, [0-9.]+/s, 0:00:\d\d left", first)
    assert re.fullmatch(r"indexing: 1 of 14 documents, [0-9.]+/s, 0:00:\d\d left", last)


def test_the_time_left_is_that_of_the_work_and_not_of_the_number(capsys):
    with Terminal(every=0.5).bar("indexing", 1010, "documents") as advance:
        advance(900, 0)  # unchanged ones took no time
        time.sleep(0.2)
        advance(1, 55)  # the longest goes first
        time.sleep(0.4)
    first, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"indexing: 901 of 1,010 documents, [0-9,]+/s, 0:00:0[01] left", first)


def test_what_is_not_counted_tells_the_time_alone(capsys):
    with Terminal(every=0.1).bar("loading a model"):
        time.sleep(0.3)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("loading a model: 0:00:00 so far", "loading a model: 0:00:00")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_the_bar_ends_full_below_what_is_said(monkeypatch):
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
        terminal = Terminal()
        with terminal.bar("indexing [red]", 10, "documents") as advance:
            for _ in range(10):
                advance(1)
                time.sleep(0.02)
            terminal.say("a [bold] word")
    reader.join(20)
    os.close(master)
    drawn = b"".join(parts).decode()
    for expected in ("indexing [red]", "10/10", "documents", "0:00:00 left", "a [bold] word"):
        assert expected in drawn


def test_indexing_counts_every_document(tmp_path):
    seen: list[tuple[object, list[int]]] = []
    documents = [Document(str(i), "dogs bark " * (1 + i % 50)) for i in range(40)]
    long = Document("long", " ".join(f"Dogs bark {i} times at night." for i in range(1000)))

    def watched(self: Terminal, title: str, total: object, unit: str) -> Iterator[object]:
        seen.append((total, []))
        yield lambda count, effort=None: seen[-1][1].append(count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Terminal, "bar", contextlib.contextmanager(watched))
        with DocumentIndex.open(tmp_path / "index", WordEncoder(window=40)) as index:
            index.sync(documents[:10], background=False)
            index.sync(from_iterable(documents), background=False)
            index.sync([long], background=False)
    (first, done), (second, done_again), (_, of_long) = seen
    assert (first, sum(done), sum(done_again)) == (10, 10, 40)
    assert callable(second)
    assert second() == 40
    # A large document does not stand at none.
    steps = [step for step in of_long if step]
    assert len(steps) > 5
    assert max(steps) < 0.5
    assert sum(steps) == pytest.approx(1)


def test_indexing_is_told_batch_by_batch_where_the_encoder_tells_it(monkeypatch):
    begun: list[float] = []  # how much is done when a batch is begun
    steps: list[float] = []

    def embed(texts: list[str]) -> list[list[float]]:
        begun.append(sum(steps))
        return [[1.0, float(len(text))] for text in texts]

    @contextlib.contextmanager
    def watched(self: Terminal, title: str, total: object, unit: str) -> Iterator[object]:
        yield lambda count, effort=None: steps.append(count)

    monkeypatch.setattr(Terminal, "bar", watched)
    encoder = FunctionEncoder(embed, name="lengths", dimension=2, batch=16)
    with DocumentIndex.open(":memory:", encoder, options=IndexOptions(tokens=False)) as index:
        index.sync([Document(str(i), "dogs bark") for i in range(64)], background=False)
    assert begun == [0, 16, 32, 48]
    assert sum(steps) == 64
