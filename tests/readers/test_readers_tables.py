"""Tables as documents: their columns, their malformed rows, and every kind of file that holds one."""

import datetime
import gzip
import json
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from surprise_rerank import DataError, DatasetError
from surprise_rerank.connectors.readers import Fields, open_documents
from surprise_rerank.connectors.readers import _lines as lines

ROWS = [{"id": "1", "text": "dogs bark", "year": 1999}, {"id": "2", "text": "cats purr", "year": 2024}]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "kind", ["jsonl", "jsonl.gz", "jsonl.zst", "ndjson", "utf-16", "csv", "tsv", "semicolons", "parquet"]
)
def test_every_kind_of_table_gives_the_same_documents(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    match kind:
        case "jsonl.zst":
            written(path, pyarrow.compress(LINES.encode(), "zstd", asbytes=True))
        case "jsonl.gz":
            written(path, gzip.compress(LINES.encode()))
        case "utf-16":
            path = written(tmp_path / "a.jsonl", LINES.encode("utf-16"))
        case "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
        case "csv" | "tsv" | "semicolons":
            delimiter = {"csv": ",", "tsv": "\t", "semicolons": ";"}[kind]
            rows = [["id", "text", "year"], *([str(value) for value in row.values()] for row in ROWS)]
            path = written(
                tmp_path / f"a.{'csv' if kind == 'semicolons' else kind}",
                "\n".join(map(delimiter.join, rows)),
            )
        case _:
            written(path, f"\ufeff\n{LINES}" if kind == "jsonl" else LINES)
    source = open_documents(path)
    for _ in range(2):
        assert [(d.id, d.text, d.metadata["year"]) for d in source] == [
            ("1", "dogs bark", 1999),
            ("2", "cats purr", 2024),
        ]
    assert {d.source for d in source} == {str(path.resolve())}


@pytest.mark.parametrize(
    ("name", "bad", "reason"),
    [
        ("a.jsonl", b'{"id": "3"', "not valid JSON"),
        ("a.jsonl", b"[" * 100_000, "not valid JSON"),
        ("a.jsonl", b"[1]", "not an object"),
        ("a.jsonl", b'{"id": "3"}', "no text"),
        ("a.jsonl", b'{"id": "3", "text": 7}', "text is not a string"),
        ("a.jsonl", b'{"id": 1.5, "text": "x"}', "id is not a string"),
        ("a.jsonl", b'{"id": "", "text": "x"}', "no id"),
        ("a.jsonl", b'{"id": "caf\xe9", "text": "x"}', "not valid UTF-8"),
        ("a.csv", b"3", "wrong number of columns"),
        ("a.csv", b'3,"x"y', "not valid CSV"),
    ],
)
def test_a_malformed_row_is_named_or_counted(tmp_path, name, bad, reason):
    head = b"id,text\n1,dogs\n" if name == "a.csv" else LINES.splitlines()[0].encode() + b"\n"
    path = written(tmp_path / name, head + bad + b"\n")
    line = 3 if name == "a.csv" else 2
    with pytest.raises(DataError, match=rf"a\.\w+:{line}: "):
        list(open_documents(path))
    source = open_documents(path, on_error="skip")
    assert [d.id for d in source] == ["1"]
    assert source.skipped.places == {reason: [f"{path}:{line}"]}


def test_columns_are_found_by_their_names_or_named(tmp_path):
    path = written(tmp_path / "a.csv", "Key,Headline,story,question,answer,section\nk,T,s,who?,me,x\n")
    with pytest.raises(DataError, match=r"no column for the id among Key, Headline.*name it .--id-field"):
        list(open_documents(path))
    named = Fields(id="Key", text="story", metadata=["section"])
    (found,) = open_documents(path, fields=named)
    assert (found.id, found.title, found.text, found.metadata) == ("k", "T", "s", {"section": "x"})
    (found,) = open_documents(path, fields=Fields(id="row", text="question,answer"))
    assert (found.id, found.text) == ("1", "who?\n\nme")
    assert found.metadata.keys() == {"Key", "story", "section"}
    for wrong in (Fields(id="Key", text="question,nothing"), Fields(id="Key", text="story", title="nothing")):
        with pytest.raises(DataError, match="'nothing'"):
            list(open_documents(path, fields=wrong))
    with pytest.raises(DataError, match="metadata must be a list of strings"):
        Fields(metadata="section")


def test_of_several_text_columns_some_may_be_missing(tmp_path):
    rows = '{"question": "q1", "answer": null}\n{"question": null, "answer": null}\n'
    path = written(tmp_path / "a.jsonl", rows)
    source = open_documents(path, fields=Fields(id="content", text="question,answer"), on_error="skip")
    assert [d.text for d in source] == ["q1"]
    assert source.skipped.counts == {"no text": 1}
    assert next(iter(source)).id == next(iter(source)).content_hash
    misspelled = Fields(id="content", text="question", title="titel")
    with pytest.raises(DataError, match="no row has the column 'titel'"):
        list(open_documents(path, fields=misspelled, on_error="skip"))


def test_metadata_is_json(tmp_path):
    day = datetime.datetime(2024, 5, 1, 12)
    row = {
        "id": 1,
        "text": "x",
        "day": day,
        "nan": float("nan"),
        "meta": {"id": 2, "lang": "en"},
        "tags": ["a"],
    }
    table = pyarrow.Table.from_pylist([row]).set_column(
        2, "day", pyarrow.array([day], pyarrow.timestamp("ns"))
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    (found,) = open_documents(tmp_path / "a.parquet")
    assert found.metadata == {"day": "2024-05-01T12:00:00", "nan": None, "id": 2, "lang": "en", "tags": ["a"]}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{**row, "raw": b"x"}]), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"`raw` holds bytes.*Fields\(metadata"):
        list(open_documents(tmp_path / "b.parquet"))
    assert list(open_documents(tmp_path / "b.parquet", fields=Fields(metadata=["tags"])))
    surrogate = written(tmp_path / "c.jsonl", '{"id": "1", "text": "x", "a\\ud800": "\\udfff"}\n')
    assert next(iter(open_documents(surrogate))).metadata == {"a\ufffd": "\ufffd"}


def test_quotes_span_lines_or_mean_nothing(tmp_path):
    path = written(tmp_path / "a.csv", 'id,text\n1,"two\nlines, ""quoted"""\n2\n')
    with pytest.raises(DataError, match=r"a\.csv:4: 1 columns, but the head has 2"):
        list(open_documents(path))
    assert next(iter(open_documents(path))).text == 'two\nlines, "quoted"'
    plain = written(tmp_path / "b.tsv", 'id\ttext\n1\t"open\n2\tx\n')
    with pytest.raises(DataError, match="tsv-unquoted"):
        list(open_documents(plain))
    assert [d.text for d in open_documents(plain, format="tsv-unquoted")] == ['"open', "x"]
    with pytest.raises(DataError, match="'id' occurs twice"):
        list(open_documents(written(tmp_path / "c.csv", "id,text,id\n")))
    western = written(tmp_path / "d.csv", "id,text\n1,Größe über Äpfel für Öl\n".encode("cp1252"))
    assert next(iter(open_documents(western))).text == "Größe über Äpfel für Öl"


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a.jsonl.gz"])
def test_an_empty_or_damaged_table_is_an_error(tmp_path, name):
    with pytest.raises((DataError, DatasetError), match=r"a\."):
        list(open_documents(written(tmp_path / name, b"")))
    if not name.endswith(("jsonl", "csv")):
        with pytest.raises(DataError, match=r"a\..*damaged"):
            list(open_documents(written(tmp_path / name, b"PAR1 nothing"), on_error="skip"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv"])
def test_a_line_without_end_takes_no_memory_and_its_neighbours_are_read(tmp_path, name, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    rows = ['{"id": "%d", "text": "%s"}', "id,text"] if ".jsonl" in name else ["%d,%s", "id,text"]
    texts = [rows[0] % (i, text) for i, text in enumerate(("short", "x" * 3001, "short"))]
    raw = "\n".join(texts if ".jsonl" in name else [rows[1], *texts]).encode()
    path = written(tmp_path / name, gzip.compress(raw) if name.endswith("gz") else raw)
    source = open_documents(path, on_error="skip")
    assert [d.id for d in source] == ["0", "2"]
    assert source.skipped.counts == {"a line too long": 1}
    assert source.expected() == 3


def test_a_table_of_many_columns_is_read_in_time(tmp_path):
    count = 100_000
    head, row = ",".join(f"c{i}" for i in range(count)), ",".join("1" for _ in range(count))
    path = written(tmp_path / "a.csv", f"id,text,{head}\n1,x,{row}\n".encode())
    begun = time.monotonic()
    (document,) = open_documents(path)
    assert len(document.metadata) == count
    assert time.monotonic() - begun < 20  # names were compared with each other: minutes
