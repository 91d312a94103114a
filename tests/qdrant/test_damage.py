"""Files of an index that were lost or changed behind its back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.words import WordEncoder

from surprise_rerank import Document
from surprise_rerank._errors import UnreadableIndexError
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant._storage.folder import check_files

ENCODER = WordEncoder(16)
DOCUMENTS = [Document(str(i), f"w{i} w{i % 7} common") for i in range(60)]

_STORE_AND_DIE = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from helpers.words import WordEncoder
from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex
index = DocumentIndex.open({folder!r}, WordEncoder(16))
index.sync([Document("new", "w3 w4")], background=False)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with DocumentIndex.open(tmp_path / "index", ENCODER) as index:
        index.sync(DOCUMENTS, background=False)
    return tmp_path / "index"


def _vectors(folder: Path) -> list[Path]:
    """The files of more than a page, but for those that nobody has written to."""
    files = [path for path in (folder / "1" / "edge" / "segments").rglob("*") if path.is_file()]
    large = [path for path in files if path.stat().st_size > 8192 and path.read_bytes()[4096:].strip(b"\0")]
    return sorted(large, key=lambda path: path.stat().st_blocks)


def test_a_bit_deep_inside_a_file_is_found_by_reading_all_of_them(folder):
    assert check_files(folder) > 2**20
    for path in _vectors(folder)[::5]:
        content = bytearray(path.read_bytes())
        place = len(content.rstrip(b"\0")) - 1
        state = path.stat()
        content[place] ^= 8
        path.write_bytes(content)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        with pytest.raises(
            UnreadableIndexError, match=rf"{path.name} is damaged: it is not what was written"
        ):
            check_files(folder)
        content[place] ^= 8
        path.write_bytes(content)
    assert check_files(folder) > 2**20


def test_what_a_later_change_did_not_touch_is_still_compared(folder):
    with DocumentIndex.open(folder, ENCODER) as index:
        index.sync([Document("new", "w3 w4")], background=False)
    assert check_files(folder) > 2**20
    path = _vectors(folder)[-1]
    content = bytearray(path.read_bytes())
    content[len(content.rstrip(b"\0")) - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnreadableIndexError, match="is damaged"):
        check_files(folder)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills a process")
def test_what_is_lost_after_a_kill_is_not_taken_for_an_empty_index(folder):
    tests = Path(__file__).parents[1]
    program = _STORE_AND_DIE.format(tests=str(tests), folder=str(folder))
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    for path in (folder / "1" / "edge").rglob("*mutable_id_tracker.mappings"):
        path.unlink()
    with pytest.raises(UnreadableIndexError, match=r"is damaged: \d+ points are left of 61"):
        DocumentIndex.open(folder, ENCODER)
