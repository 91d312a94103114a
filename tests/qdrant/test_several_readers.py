"""One embedded index, several programs: any number read it, or one changes it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.engines.edge_shard import open_to_read
from surprise_rerank.documents import Document
from surprise_rerank.errors import StoreError

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked there"),
]

DOCUMENTS = [Document(str(i), f"text w{i} and w{i % 7}", metadata={"year": i}) for i in range(200)]
TESTS = Path(__file__).parents[1]

# Opens an index, does something, says so, and stays as it is until it is told to end.
PROGRAM = """
import os, sys
sys.path.insert(0, {tests!r})
from words import WordEncoder
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.documents import Document
from surprise_rerank.errors import StoreError
try:
    {first}
    index = DocumentIndex.open({folder!r}, WordEncoder())
    {does}
except StoreError as error:
    print("refused:", error, flush=True)
    sys.exit(2)
print("done", flush=True)
sys.stdin.read()
index.close()
"""
READS = "assert next(iter(index.pipeline('auto').search('w3 and w5'))).document.text"
WRITES = "index.sync([Document('other', 'another text')])"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(DOCUMENTS)
        index.term_statistics()
    return tmp_path / "index"


@contextlib.contextmanager
def program(folder: Path, does: str, first: str = "") -> Iterator[subprocess.Popen[str]]:
    """A program that has done something with an index, and still has it open."""
    code = PROGRAM.format(tests=str(TESTS), folder=str(folder), does=does, first=first)
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS.parent,
    )
    try:
        yield started
    finally:
        started.communicate("", timeout=60)


def said(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def contents(folder: Path) -> dict[str, str]:
    """Path -> hash of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_several_programs_read_one_index_and_change_nothing(folder: Path) -> None:
    before = contents(folder)
    with program(folder, READS) as one, program(folder, READS) as other:
        assert (said(one), said(other)) == ("done", "done")
        with DocumentIndex.open(folder, WordEncoder()) as index, DocumentIndex.open(folder, None) as again:
            assert len(index) == len(again) == 200
            assert again.status().documents == 200
            hits = index.pipeline("bm25").search("w150")
            assert hits.ids[0] == "150"
        assert contents(folder) == before
    assert contents(folder) == before


def test_who_cannot_write_is_told_before_anything_is_encoded(folder: Path) -> None:
    encoder = WordEncoder()
    with DocumentIndex.open(folder, WordEncoder()), DocumentIndex.open(folder, encoder) as index:
        with pytest.raises(StoreError, match="has it open"):
            index.sync([Document("other", "another text")])
        assert index.sync(DOCUMENTS).unchanged == 200, "nothing is to be written"
    assert encoder.encoded_texts == []


def test_an_index_is_readable_by_its_owner_only(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_who_is_refused_to_write_reads_on(folder: Path) -> None:
    before = contents(folder)
    with (
        DocumentIndex.open(folder, WordEncoder()) as index,
        DocumentIndex.open(folder, WordEncoder()) as other,
    ):
        for change in (
            lambda: index.delete(["3"]),
            lambda: index.set_ensemble(index.ensemble()),
            lambda: index.rebuild(DOCUMENTS),
        ):
            with pytest.raises(StoreError, match=r"has it open; close that one"):
                change()
        assert len(index) == len(other) == 200
        assert contents(folder) == before
        other.close()
        assert index.delete(["3"]) == 1


def test_a_writer_waits_for_a_reader_that_is_about_to_end(folder: Path) -> None:
    with program(folder, READS) as reader:
        assert said(reader) == "done"
        assert reader.stdin is not None
        reader.stdin.close()
        reader.stdin = None
        with DocumentIndex.open(folder, WordEncoder()) as index:
            assert index.delete(["3"]) == 1


def test_what_a_killed_writer_stored_is_read(folder: Path) -> None:
    with program(folder, WRITES) as writer:
        assert said(writer) == "done"
        writer.kill()
    with (
        DocumentIndex.open(folder, WordEncoder()) as index,
        DocumentIndex.open(folder, WordEncoder()) as other,
    ):
        assert len(index) == len(other) == 201
        (found,) = index.fetch(["other"], frozenset({"documents"})).documents or ()
        assert found.text == "another text"


def test_readers_that_settle_an_index_at_once_find_it_whole(folder: Path) -> None:
    shard, together = folder / "1" / "edge", threading.Barrier(4)

    def read(_: int) -> None:
        for _ in range(10):
            if together.wait(60) == 0:
                (folder / "1" / "edge.files.json").unlink(missing_ok=True)
            together.wait(60)
            opened, lock = open_to_read(shard)
            together.wait(60)
            del opened
            lock.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [None] * 4


def test_a_reader_sees_nothing_of_a_version_that_is_replaced_while_it_opens(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surprise_rerank.connectors.qdrant.storage import folder as module

    read, times = module._read_manifest, []

    def slowly(own: Path) -> object:
        manifest = read(own)
        if not times:
            times.append(1)
            with DocumentIndex.open(folder, WordEncoder()) as index:
                index.rebuild(DOCUMENTS[:50])
        return manifest

    monkeypatch.setattr(module, "_read_manifest", slowly)
    with DocumentIndex.open(folder, WordEncoder()) as index:
        assert len(index) == 50


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user")
def test_an_index_that_may_not_be_written_to_is_read_from_a_copy(folder: Path) -> None:
    place = folder.parent / "shared"
    shutil.copytree(folder, place)
    closed = [parent for parent in place.parents if not parent.stat().st_mode & 0o001]
    for path in (*closed, *place.rglob("*"), place):
        path.chmod(0o755 if path.is_dir() else 0o644)
    # Everything is imported before, from where the other user may not be allowed to read.
    first = f"index = DocumentIndex.open({str(folder)!r}, WordEncoder()); {READS}; index.close()"
    first += "; os.setuid(65534)"
    with program(place, READS, first) as reader, program(place, READS, first) as other:
        assert said(reader) == said(other) == "done"
    with program(place, WRITES, first) as writer:
        assert "it is read-only; choose another folder" in said(writer)
