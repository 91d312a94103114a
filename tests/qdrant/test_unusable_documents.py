"""Documents that are in their place and cannot be read this time: no prune and no rebuild drops them."""

from pathlib import Path
from typing import ClassVar

import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document
from surprise_rerank.connectors.qdrant import IndexOptions
from surprise_rerank.connectors.readers import FileRules, open_documents
from surprise_rerank.connectors.readers._source import Unusable

DOCUMENTS = [Document(f"s{i}", f"a short text about topic{i}") for i in range(6)]


class Lost(list):
    """Documents of a source, a folder of which could not be read."""

    unusable: ClassVar = [Unusable("letters/2019 (input/output error)", None)]


def test_nothing_is_removed_for_a_folder_that_could_not_be_read(open_index):
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS, background=False)
        with pytest.raises(DataError, match=r"could not be read, such as letters/2019 .*nothing was removed"):
            index.sync(Lost(DOCUMENTS[:2]), prune=True, background=False)
        with pytest.raises(DataError, match=r"could not be read, such as letters/2019 .*nothing was removed"):
            index.rebuild(Lost(DOCUMENTS[:2]), background=False)
        assert len(index) == 6
        assert index.sync(Lost(DOCUMENTS), prune=True, background=False).unchanged == 6  # nothing is in doubt


def link_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\0\0"),
        lambda path: path.write_text("x" * 5000),
        link_nowhere,
    ],
    ids=["empty", "binary", "too large", "a dangling link"],
)
def test_a_document_whose_file_is_there_and_cannot_be_read_stays(open_index, tmp_path, damage):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"topic{name}")
    source = open_documents(tmp_path, files=FileRules(max_bytes=1000)).with_prefix("mine/")
    with open_index(WordEncoder()) as index:
        index.sync(source, background=False)
        damage(tmp_path / "a.txt")
        (tmp_path / "b.txt").unlink()
        report = index.sync(source, prune=True, background=False)
        assert (report.removed, report.kept, len(index)) == (1, 1, 2)
        with pytest.raises(DataError, match=r"1 stored documents, such as 'mine/a.txt', could not be read"):
            index.rebuild(source, background=False)
        assert len(index) == 2
        (tmp_path / ".gitignore").write_text("a.txt")
        report = index.sync(source, prune=True, background=False)
        assert (report.removed, report.kept, len(index)) == (1, 0, 1)


def test_a_broken_row_is_not_taken_for_a_document_that_is_gone(open_index, tmp_path):
    table = tmp_path / "t.jsonl"
    rows = [f'{{"id": "{i}", "text": "topic{i}"}}' for i in range(4)]
    table.write_text("\n".join(rows))
    with open_index(WordEncoder()) as index:
        index.sync(open_documents(table), background=False)
        table.write_text("\n".join([rows[0], '{"id": "1", "text": null}', rows[2][:10]]))
        source = open_documents(table, on_error="skip")
        with pytest.raises(DataError, match=r"1 files.*t.jsonl:3 .not valid JSON.*nothing was removed"):
            index.sync(source, prune=True, background=False)
        table.write_text("\n".join([rows[0], '{"id": "1", "text": null}']))
        report = index.sync(source, prune=True, background=False)
        assert (report.removed, report.kept, len(index)) == (2, 1, 2)


def test_an_id_that_occurs_twice_is_named_with_its_places(open_index, tmp_path):
    table = tmp_path / "t.jsonl"
    table.write_text('{"id": "a", "text": "x"}\n\n{"id": "b", "text": "y"}\n{"id": "a", "text": "z"}\n')
    with (
        open_index(WordEncoder()) as index,
        pytest.raises(DataError, match=r"'a' occurs twice \(\S+t.jsonl:1 and \S+t.jsonl:4\).*--id-field"),
    ):
        index.sync(open_documents(table), background=False)


def test_a_search_of_an_empty_index_says_that_it_is_empty(open_index):
    with open_index(WordEncoder()) as index:
        answer = index.pipeline("cosine").answer("topic1")
        assert answer.shown.verdict.reason.startswith("the index is empty: fill it")
        index.sync(DOCUMENTS, background=False)
        assert "empty" not in index.pipeline("cosine").answer("topic1").shown.verdict.reason


def test_a_tenant_without_documents_is_no_empty_index(open_index):
    with open_index(WordEncoder(), options=IndexOptions(tenant="tenant")) as index:
        index.sync([Document("1", "topic1", metadata={"tenant": "acme"})], background=False)
        answer = index.pipeline("cosine", tenant="nobody").answer("topic1")
        assert answer.shown.verdict.reason.startswith("no document matches")
