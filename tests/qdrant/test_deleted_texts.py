"""Deleted means gone: no file of an index in a folder holds the text of a deleted document."""

import re
from pathlib import Path

import pytest
from helpers.words import WordEncoder

from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant._engines import edge_purge

# Edge compresses payloads one by one: a word that a document has once can be read in its pages.
WORD = re.compile(rb"zq(\d+)qz")
DOCUMENTS = [
    Document(f"u{i}", "has an address", title="of somebody", metadata={"name": f"zq{i}qz"})
    for i in range(300)
]


def held(folder: Path) -> set[int]:
    """The numbers of the documents of which a word is in some file."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {int(number) for path in files for number in WORD.findall(path.read_bytes())}


def numbers(first: int, last: int = 300) -> set[int]:
    return set(range(first, last))


def found(index: DocumentIndex) -> set[str]:
    return set(index.pipeline("cosine").search("an address", 400).ids)


def test_no_file_holds_what_was_deleted_once_the_index_is_closed(tmp_path):
    with DocumentIndex.open(tmp_path, WordEncoder()) as index:
        index.sync(DOCUMENTS, background=False)
        index.delete([f"u{i}" for i in range(250)])
        assert held(tmp_path) == numbers(0)  # the test can see it
    assert held(tmp_path) == numbers(250)
    # Changes are taken, and kept, by the log that was emptied; and again after the next time.
    for first in (260, 270):
        with DocumentIndex.open(tmp_path, WordEncoder()) as index:
            new = Document(f"n{first}", f"zq{first + 1000}qz is new")
            assert index.sync([new, *DOCUMENTS[first:]], prune=True, background=False).added == 1
            assert found(index) == {new.id, *(d.id for d in DOCUMENTS[first:])}
        assert held(tmp_path) == numbers(first) | {first + 1000}
        with DocumentIndex.open(tmp_path, WordEncoder()) as index:
            assert found(index) == {new.id, *(d.id for d in DOCUMENTS[first:])}


def test_purge_takes_replaced_texts_out_of_an_open_index(tmp_path):
    with DocumentIndex.open(tmp_path, WordEncoder()) as index:
        index.sync(DOCUMENTS, background=False)
        index.sync([Document("u7", "nothing")], background=False)
        assert 7 in held(tmp_path)
        index.purge()
        assert held(tmp_path) == numbers(0) - {7}
        assert index.corpus.documents(["u7"])["u7"].text == "nothing"
        index.sync([Document("u8", "nothing")], background=False)
    with DocumentIndex.open(tmp_path, WordEncoder()) as index:
        assert [index.corpus.documents([name])[name].text for name in ("u7", "u8")] == ["nothing", "nothing"]


@pytest.mark.parametrize("step", ["_vacuum", "finish_purge", "_probe"])
def test_a_purge_that_was_interrupted_is_done_by_the_next_who_changes_the_index(tmp_path, monkeypatch, step):
    class Killed(BaseException):
        """As if the process ended here."""

    def killed(folder: Path) -> None:
        raise Killed

    index = DocumentIndex.open(tmp_path, WordEncoder())
    index.sync(DOCUMENTS, background=False)
    index.delete([f"u{i}" for i in range(250)])
    with monkeypatch.context() as patch:
        patch.setattr(edge_purge, step, killed)
        with pytest.raises(Killed):
            index.close()
    with DocumentIndex.open(tmp_path, WordEncoder()) as again:  # reads, and then changes
        assert found(again) == {d.id for d in DOCUMENTS[250:]}
        assert again.sync([Document("new", "zq2000qz")], background=False).added == 1
    assert held(tmp_path) == numbers(250) | {2000}
    with DocumentIndex.open(tmp_path, WordEncoder()) as again:
        assert found(again) == {"new", *(d.id for d in DOCUMENTS[250:])}
