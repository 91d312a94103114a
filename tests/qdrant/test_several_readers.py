"""One embedded index, several programs: any number read it, or one changes it."""

import hashlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from helpers.programs import Program
from helpers.words import WordEncoder

from surprise_rerank import Document, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant._engines import edge_opening

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked there"),
]

DOCUMENTS = [Document(str(i), f"text w{i} and w{i % 7}", metadata={"year": i}) for i in range(200)]


def reads(index: DocumentIndex) -> None:
    assert next(iter(index.pipeline("auto").search("w3 and w5"))).document.text


def writes(index: DocumentIndex) -> None:
    index.sync([Document("other", "another text")])


def use(
    told: Connection, folder: Path, does: Callable[[DocumentIndex], None], own: Path | None = None
) -> None:
    """Does something with an index, says so, and has it open until it is told to end; as nobody, of `own`."""
    if own is not None:
        # Everything is imported before, from where the other user may not be allowed to read.
        with DocumentIndex.open(own, WordEncoder()) as index:
            reads(index)
        os.setuid(65534)
    with DocumentIndex.open(folder, WordEncoder()) as index:
        does(index)
        told.send("done")
        told.recv()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(DOCUMENTS)
        index.corpus.term_statistics()
    return tmp_path / "index"


def contents(folder: Path) -> dict[str, str]:
    """Path -> hash of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_several_programs_read_one_index_and_change_nothing(folder):
    before = contents(folder)
    with Program(use, folder, reads) as one, Program(use, folder, reads) as other:
        assert (one.said(), other.said()) == ("done", "done")
        with DocumentIndex.open(folder, WordEncoder()) as index, DocumentIndex.open(folder, None) as again:
            assert len(index) == len(again) == 200
            assert again.status().documents == 200
            hits = index.pipeline("bm25").search("w150")
            assert hits.ids[0] == "150"
        assert contents(folder) == before
    assert contents(folder) == before


def test_an_index_is_readable_by_its_owner_only(folder):
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_who_is_refused_to_write_is_told_before_anything_is_encoded_and_reads_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_opening, "_PATIENCE", 0.1)
    before, encoder = contents(folder), WordEncoder()
    with DocumentIndex.open(folder, encoder) as index, DocumentIndex.open(folder, WordEncoder()) as other:
        for change in (
            lambda: index.sync([Document("other", "another text")]),
            lambda: index.delete(["3"]),
            lambda: index.set_ensemble(index.ensemble()),
            lambda: index.rebuild(DOCUMENTS),
        ):
            with pytest.raises(StoreError, match=r"has it open; close that one"):
                change()
        assert encoder.encoded_texts == []
        assert index.sync(DOCUMENTS).unchanged == 200, "nothing is to be written"
        assert len(index) == len(other) == 200
        assert contents(folder) == before
        other.close()
        assert index.delete(["3"]) == 1


def test_a_writer_waits_for_a_reader_that_is_about_to_end(folder):
    with Program(use, folder, reads) as reader:
        assert reader.said() == "done"
        reader.end()
        with DocumentIndex.open(folder, WordEncoder()) as index:
            assert index.delete(["3"]) == 1


def test_what_a_killed_writer_stored_is_read(folder):
    writer = Program(use, folder, writes)
    assert writer.said() == "done"
    writer.kill()
    with (
        DocumentIndex.open(folder, WordEncoder()) as index,
        DocumentIndex.open(folder, WordEncoder()) as other,
    ):
        assert len(index) == len(other) == 201
        (found,) = index.fetch(["other"], frozenset({"documents"})).documents or ()
        assert found.text == "another text"


def test_readers_that_settle_an_index_at_once_find_it_whole(folder):
    shard, together = folder / "1" / "edge", threading.Barrier(4)

    def read(_: int) -> None:
        for _ in range(6):
            if together.wait(60) == 0:
                (folder / "1" / "edge.files.json").unlink(missing_ok=True)
            together.wait(60)
            opened, lock = edge_opening.open_to_read(shard)
            together.wait(60)
            del opened
            lock.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [None] * 4


def test_a_reader_sees_nothing_of_a_version_that_is_replaced_while_it_opens(folder, monkeypatch):
    from surprise_rerank.connectors.qdrant._storage import folder as module

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
def test_an_index_that_may_not_be_written_to_is_read_from_a_copy(folder):
    # Not in pytest's own folder, which others of its sessions close to everybody else.
    with tempfile.TemporaryDirectory() as shared:
        place = Path(shared, "index")
        shutil.copytree(folder, place)
        for path in (Path(shared), place, *place.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        with Program(use, place, reads, folder) as reader, Program(use, place, reads, folder) as other:
            assert reader.said() == other.said() == "done"
        with Program(use, place, writes, folder) as writer:
            assert "it is read-only; choose another folder" in writer.said()
