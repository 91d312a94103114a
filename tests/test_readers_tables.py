"""Tables as documents: JSONL, CSV and TSV, Parquet, and data sets saved by `datasets`."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.connectors.readers import Fields, jsonl, open_documents
from surprise_rerank.connectors.readers import delimited as delimited_module
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError

LINES = (
    b'{"_id": "d1", "title": "one", "text": "first", "year": 1999}\n'
    b'{"_id": 2, "text": "second", "metadata": {"lang": "en"}}\n'
)
DOCUMENTS = [
    Document("d1", "first", "one", {"year": 1999}),
    Document("2", "second", "", {"lang": "en"}),
]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


# --- JSONL ---


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "A.JSONL", "a.jsonl.gz", "a.ndjson.gz"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n \t\r\n"])
def test_jsonl_is_read_as_often_as_one_likes(tmp_path: Path, name: str, start: bytes):
    source = open_documents(write(tmp_path / name, start + LINES))
    assert list(source) == DOCUMENTS
    assert list(source) == DOCUMENTS
    assert source.name == name
    assert str(source.skipped) == "nothing skipped"


def test_jsonl_in_utf_16_is_read(tmp_path: Path):
    raw = '{"id": "1", "text": "caf\u00e9\u2028\U0001f600"}\n'.encode("utf-16")
    assert [d.text for d in open_documents(write(tmp_path / "a.jsonl", raw))] == ["caf\u00e9\u2028\U0001f600"]


any_text = st.text(st.characters(), max_size=20)


@given(
    st.lists(st.tuples(any_text.filter(bool), any_text, any_text), min_size=1),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_jsonl_comes_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], escaped: bool, end: str
):
    lines = [json.dumps({"id": i, "text": x, "note": n}, ensure_ascii=escaped) for i, x, n in rows]
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    path.write_bytes(encodable(end.join(lines)).encode() if not escaped else end.join(lines).encode())
    found = [(d.id, d.text, d.metadata["note"]) for d in open_documents(path)]
    assert found == [tuple(map(encodable, row)) for row in rows]


BAD_LINES = [
    (b"{", "not valid JSON"),
    (b'{"id": "x", "text": "y", "n": ' + b"9" * 5000 + b"}", "not valid JSON"),
    (b"[" * 100_000, "not valid JSON"),
    (b"[1, 2]", "must be a JSON object"),
    (b"null", "must be a JSON object"),
    (b'{"_id": "x"}', "`text` is missing"),
    (b'{"_id": "x", "text": null}', "`text` is missing or null"),
    (b'{"_id": "x", "text": ["y"]}', "`text` must be a string, got a value of type list"),
    (b'{"text": "y"}', "`_id` is missing"),
    (b'{"_id": "", "text": "y"}', "`_id` is missing, null or empty"),
    (b'{"_id": 1.5, "text": "y"}', "`_id` must be a string or an integer"),
    (b'{"_id": true, "text": "y"}', "`_id` must be a string or an integer"),
    (b'{"_id": "x", "text": "y", "title": 7}', "`title` must be a string"),
    (b'{"_id": "x", "text": "\xff"}', "not valid UTF-8"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_malformed_line_is_named_or_counted(tmp_path: Path, line: bytes, message: str):
    first, second = LINES.splitlines(keepends=True)
    path = write(tmp_path / "a.jsonl", first + b"\n" + line + b"\n" + second)

    with pytest.raises(DataError) as error:
        list(open_documents(path))
    assert str(error.value).startswith(f"{path}:3: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)

    source = open_documents(path, on_error="skip")
    assert list(source) == DOCUMENTS
    assert source.skipped.total == 1
    (shown,) = source.skipped.lines()
    assert shown.startswith(f"{path}:3: ")


def test_the_account_counts_all_and_shows_the_first_places(tmp_path: Path):
    path = write(tmp_path / "a.jsonl", LINES + b"{\n" * 7 + b"[]\n")
    source = open_documents(path, on_error="skip")
    assert len(list(source)) == len(list(source)) == 2
    assert source.skipped.counts == {"not valid JSON": 7, "not an object": 1}
    assert source.skipped.places["not valid JSON"] == [f"{path}:{n}" for n in range(3, 8)]
    assert str(source.skipped).startswith("8 skipped: 7 not valid JSON (")


def test_an_endless_line_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jsonl, "MAX_ROW", 100)
    first, second = LINES.splitlines(keepends=True)
    path = write(tmp_path / "a.jsonl", first + b'{"id": "' + b"x" * 1000 + b'"}\n' + second)
    source = open_documents(path, on_error="skip")
    assert list(source) == DOCUMENTS
    assert source.skipped.lines() == [f"{path}:2: too long"]


def test_a_damaged_gzip_stream_is_an_error_even_where_rows_are_skipped(tmp_path: Path):
    rows = b"".join(b'{"id": "%d", "text": "%d"}\n' % (n, n * n) for n in range(5000))
    whole = gzip.compress(rows)
    path = tmp_path / "a.jsonl.gz"
    for broken in (whole[: len(whole) // 2], whole[:2000] + b"???" + whole[2003:], b"no gzip"):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="damaged or cut short"):
            list(open_documents(path, on_error="skip"))


def test_lone_surrogates_are_replaced_in_metadata_and_its_keys_too(tmp_path: Path):
    raw = rb'{"id": "\ud800", "text": "\udfff", "k\ud800": ["\ud83d\ude00", {"x": "\udc00"}]}'
    (document,) = open_documents(write(tmp_path / "a.jsonl", raw))
    assert document == Document("\ufffd", "\ufffd", "", {"k\ufffd": ["\U0001f600", {"x": "\ufffd"}]})


def test_numbers_that_are_none_become_null(tmp_path: Path):
    raw = b'{"id": "1", "text": "x", "a": NaN, "b": [Infinity, 1.5]}'
    (document,) = open_documents(write(tmp_path / "a.jsonl", raw))
    assert document.metadata == {"a": None, "b": [None, 1.5]}


def test_metadata_that_stands_beside_a_key_of_its_own_loses_nothing(tmp_path: Path):
    raw = b'{"id": "1", "text": "x", "lang": "en", "metadata": {"lang": "de", "year": 1}}'
    (document,) = open_documents(write(tmp_path / "a.jsonl", raw))
    assert document.metadata == {"lang": "en", "year": 1, "metadata": {"lang": "de"}}


# --- which column is which ---


@pytest.mark.parametrize("text", ["text", "contents", "content", "body", "passage", "page_content", "Body "])
@pytest.mark.parametrize("name", ["_id", "id", "ID", "doc_id", "docid", "docno"])
def test_usual_names_are_found(tmp_path: Path, text: str, name: str):
    raw = json.dumps({"other": "o", text: "t", "Headline": "h", name: "n"}).encode()
    (document,) = open_documents(write(tmp_path / "a.jsonl", raw))
    assert document == Document("n", "t", "h", {"other": "o"})


def test_columns_can_be_named(tmp_path: Path):
    path = write(tmp_path / "a.csv", b"id,text,key,story,name,year\n1,x,k,s,n,1999\n")
    fields = Fields(id="key", text="story", title="name", metadata=["year"])
    assert list(open_documents(path, fields=fields)) == [Document("k", "s", "n", {"year": "1999"})]
    (document,) = open_documents(path, fields=Fields(id="key", text="story"))
    assert document.metadata == {"id": "1", "text": "x", "name": "n", "year": "1999"}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_table_without_ids_says_what_there_is_and_what_to_do(tmp_path: Path, name: str):
    path = tmp_path / name
    if name.endswith("csv"):
        write(path, b"name,text\nx,y\n")
    elif name.endswith("jsonl"):
        write(path, b'{"name": "x", "text": "y"}\n')
    else:
        pq.write_table(pa.table({"name": ["x"], "text": ["y"]}), path)
    for on_error in ("raise", "skip"):
        with pytest.raises(DataError, match=r"id among name, text; .*Fields\(id='content'\)"):
            list(open_documents(path, on_error=on_error))

    (document,) = open_documents(path, fields=Fields(id="content"))
    assert document == Document(Document("", "y").content_hash, "y", "", {"name": "x"})
    assert [d.id for d in open_documents(path, fields=Fields(id="row"))] == ["1"]


def test_a_hash_of_the_content_does_not_depend_on_the_place(tmp_path: Path):
    path = write(tmp_path / "a.csv", b"title,text\na,1\nb,2\n")
    ids = [d.id for d in open_documents(path, fields=Fields(id="content"))]
    write(path, b"text,title\n2,b\n1,a\n")
    assert [d.id for d in open_documents(path, fields=Fields(id="content"))] == ids[::-1]


def test_row_numbers_are_those_of_the_file_and_a_column_of_that_name_goes_first(tmp_path: Path):
    path = write(tmp_path / "a.jsonl", b'\n{"text": "x"}\n{\n{"text": "y"}\n')
    source = open_documents(path, fields=Fields(id="row"), on_error="skip")
    assert [d.id for d in source] == ["2", "4"]
    path = write(tmp_path / "a.csv", b"row,text\nseven,x\n")
    assert [d.id for d in open_documents(path, fields=Fields(id="row"))] == ["seven"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (Fields(id="key"), "no column 'key' for the id among id, text"),
        (Fields(text="story"), "no column 'story' for the text among id, text"),
        (Fields(title="name"), "'name'"),
        (Fields(metadata=["year"]), "'year'"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_column_that_is_named_and_missing_is_an_error(
    tmp_path: Path, name: str, fields: Fields, message: str
):
    raw = b"id,text\n1,x\n" if name == "a.csv" else b'{"id": "1", "text": "x"}\n'
    with pytest.raises(DataError, match=message):
        list(open_documents(write(tmp_path / name, raw), fields=fields))


def test_metadata_fields_must_be_a_list():
    with pytest.raises(DataError, match="list of columns"):
        Fields(metadata="year")


# --- CSV and TSV ---


def test_line_numbers_count_the_lines_of_quoted_fields(tmp_path: Path):
    raw = b'\n\nid,text\r\n1,"two\r\nlines, ""and"" a comma"\r\n\r\n2,x,too many\r\n3,"a\nb\nc"\r\n4\r\n5,end'
    path = write(tmp_path / "a.csv", raw)
    with pytest.raises(DataError, match=r"a\.csv:7: 3 columns, but the head has 2"):
        list(open_documents(path))
    source = open_documents(path, on_error="skip", fields=Fields(id="row"))
    assert [(d.id, d.text) for d in source] == [
        ("1", 'two\r\nlines, "and" a comma'),
        ("3", "a\nb\nc"),
        ("5", "end"),
    ]
    assert source.skipped.places == {"wrong number of columns": [f"{path}:7", f"{path}:11"]}


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(
    st.lists(st.tuples(cells.filter(bool), cells), min_size=1),
    st.sampled_from([(".csv", ","), (".csv", ";"), (".tsv", "\t")]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_tables_come_back_as_csv_wrote_them(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    kind: tuple[str, str],
    end: str,
    encoding: str,
):
    suffix, delimiter = kind
    written = io.StringIO(newline="")
    table = csv.writer(written, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    table.writerows([("id", "text", "x"), *((i, t, "") for i, t in rows)])
    path = tmp_path_factory.mktemp("csv") / f"a{suffix}"
    path.write_bytes(written.getvalue().encode(encoding))
    assert [(d.id, d.text) for d in open_documents(path)] == rows


def test_a_quote_that_is_not_closed_is_named_and_swallows_nothing_silently(tmp_path: Path):
    path = write(tmp_path / "a.csv", b'id,text\n1,x\n2,"y\n3,z\n')
    with pytest.raises(DataError, match=r"a\.csv:3: not valid CSV"):
        list(open_documents(path))
    source = open_documents(path, on_error="skip")
    assert [d.id for d in source] == ["1"]
    assert source.skipped.lines() == [f"{path}:3: not valid CSV"]


def test_quotes_in_a_tsv_can_mean_nothing(tmp_path: Path):
    path = write(tmp_path / "a.tsv", b'id\ttext\n1\t"Hello" he said\n2\t"never closed\n')
    with pytest.raises(DataError, match="format='tsv-unquoted'"):
        list(open_documents(path))
    texts = [d.text for d in open_documents(path, format="tsv-unquoted")]
    assert texts == ['"Hello" he said', '"never closed']


def test_a_long_field_is_read_and_an_endless_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "a.csv", b"id,text\n1," + b"x" * 300_000 + b"\n")
    assert [len(d.text) for d in open_documents(path)] == [300_000]
    monkeypatch.setattr(delimited_module, "MAX_ROW", 1000)
    with pytest.raises(DataError, match=r"a\.csv:2: the line is longer than 1000 characters"):
        list(open_documents(path, on_error="skip"))


def test_other_encodings_are_guessed_or_given_and_bad_bytes_further_down_are_named(tmp_path: Path):
    text = "Les élèves français préfèrent le café crème à la crêperie où ils étudièrent naguère."
    path = write(tmp_path / "a.csv", f"id,text\n1,{text}\n".encode("latin-1"))
    assert [d.text for d in open_documents(path)] == [text]
    path = write(tmp_path / "a.csv", "id,text\n1,\u0142\u00f3d\u017a\n".encode("cp1250"))
    assert [d.text for d in open_documents(path, encoding="cp1250")] == ["\u0142\u00f3d\u017a"]
    with pytest.raises(DataError, match="no encoding 'klingon'"):
        open_documents(path, encoding="klingon")
    rows = "".join(f"{n},{'x' * 1000}\n" for n in range(100))
    path = write(tmp_path / "a.csv", f"id,text\n{rows}100,caf".encode() + b"\xe9\n101,y\n")
    with pytest.raises(DataError, match=r"a\.csv:102: not valid UTF-8"):
        list(open_documents(path))
    assert len(list(open_documents(path, on_error="skip"))) == 101


def test_the_head_must_name_every_column_once(tmp_path: Path):
    with pytest.raises(DataError, match=r"the column 'x' occurs twice"):
        list(open_documents(write(tmp_path / "a.csv", b"id,text,x,x\n1,2,3,4\n")))
    (document,) = open_documents(write(tmp_path / "a.csv", b",id,text\n0,1,2\n"))
    assert document == Document("1", "2", "", {"column_1": "0"})


@pytest.mark.parametrize("raw", [b"", b"\n\n", b"id,text\n"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz"])
def test_an_empty_table_is_an_error(tmp_path: Path, name: str, raw: bytes):
    path = write(tmp_path / name, raw.replace(b",", b"\t") if "tsv" in name else raw)
    with pytest.raises(DatasetError, match="holds no documents"):
        list(open_documents(path))


# --- Parquet ---

NESTED = {
    "id": [1, 2],
    "text": ["a", "b"],
    "title": ["A", None],
    "day": [datetime.date(2024, 5, 1), None],
    "at": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns", "UTC")),
    "took": pa.array([1_500_000_000, None], pa.duration("ns")),
    "price": [Decimal("1.50"), None],
    "score": [float("nan"), 0.5],
    "tags": [["x", None], []],
    "author": [{"name": "N", "born": datetime.date(1900, 1, 1)}, None],
    "count": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    "kind": pa.array(["u", "v"]).dictionary_encode(),
}


def test_parquet_with_nulls_dates_and_nested_columns(tmp_path: Path):
    pq.write_table(pa.table(NESTED), tmp_path / "a.parquet")
    source = open_documents(tmp_path / "a.parquet")
    first, second = source
    assert (first.id, first.text, first.title) == ("1", "a", "A")
    assert first.metadata == {
        "day": "2024-05-01",
        "at": "2023-11-14T22:13:20.123456+00:00",
        "took": 1.5,
        "price": "1.50",
        "score": None,
        "tags": ["x", None],
        "author": {"name": "N", "born": "1900-01-01"},
        "count": [["k", 1]],
        "kind": "u",
    }
    assert second.title == ""
    assert {**second.metadata, "tags": None, "score": None, "kind": None} == dict.fromkeys(first.metadata)
    json.dumps([dict(first.metadata), dict(second.metadata)], allow_nan=False)
    assert list(source) == [first, second]


def test_bytes_are_refused_by_name_and_can_be_left_out(tmp_path: Path):
    table = pa.table({"id": ["1"], "text": ["a"], "image": [{"bytes": b"\x89PNG"}], "year": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet, row 1: `image\.bytes` holds bytes.*metadata="):
        list(open_documents(tmp_path / "a.parquet"))
    (document,) = open_documents(tmp_path / "a.parquet", fields=Fields(metadata=["year"]))
    assert document.metadata == {"year": 1}


def test_parquet_rows_without_text_are_named_by_their_number(tmp_path: Path):
    texts = [str(n) if n != 700 else None for n in range(1000)]
    table = pa.table({"id": list(range(1000)), "text": texts})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    source = open_documents(tmp_path / "a.parquet", on_error="skip")
    assert [d.id for d in source] == [str(n) for n in range(1000) if n != 700]
    assert source.skipped.lines() == [f"{tmp_path / 'a.parquet'}, row 701: no text"]


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path):
    (tmp_path / "data").mkdir()
    for name, numbers in (("data/b", [3, 4]), ("data/a", [1, 2]), ("z", [5])):
        pq.write_table(
            pa.table({"id": numbers, "text": list(map(str, numbers))}), tmp_path / f"{name}.parquet"
        )
    (tmp_path / "README.md").write_text("# About")
    source = open_documents(tmp_path)
    assert [d.id for d in source] == ["1", "2", "3", "4", "5"]
    assert source.skipped.lines() == ["README.md: not a parquet file"]
    rows = [d.id for d in open_documents(tmp_path, fields=Fields(id="row"))]
    assert rows == [
        *("data/a.parquet:1", "data/a.parquet:2", "data/b.parquet:1", "data/b.parquet:2", "z.parquet:1")
    ]


@pytest.mark.parametrize("raw", [b"", b"no parquet", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_a_damaged_parquet_file_is_named(tmp_path: Path, raw: bytes):
    path = write(tmp_path / "a.parquet", raw)
    with pytest.raises(DataError, match=r"a\.parquet: damaged, or of another format"):
        list(open_documents(path))


# --- data sets saved by `datasets` ---


def save(folder: Path, *parts: dict[str, list[Any]]) -> Path:
    folder.mkdir(parents=True)
    names = [f"data-{n:05}-of-{len(parts):05}.arrow" for n in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        table = pa.table(part)
        with pa.ipc.new_stream(str(folder / name), table.schema) as stream:
            stream.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def test_a_saved_dataset_is_read_from_its_arrow_files(tmp_path: Path):
    numbers = list(range(600))
    folder = save(
        tmp_path / "set",
        {"id": numbers, "text": [str(n) for n in numbers]},
        {"id": [600], "text": ["last"]},
    )
    source = open_documents(folder)
    assert [d.id for d in source] == [str(n) for n in range(601)]
    assert [d.id for d in open_documents(folder, fields=Fields(id="row"))] == [str(n + 1) for n in range(601)]
    assert source.name == "set"


def test_a_split_is_chosen_by_its_folder(tmp_path: Path):
    save(tmp_path / "set" / "train", {"id": ["1"], "text": ["a"]})
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    assert [d.id for d in open_documents(tmp_path / "set")] == ["1"]
    save(tmp_path / "set" / "test", {"id": ["2"], "text": ["b"]})
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DatasetError, match=r"has the splits train, test; name the folder of one"):
        list(open_documents(tmp_path / "set"))
    assert [d.id for d in open_documents(tmp_path / "set" / "test")] == ["2"]


def test_what_the_library_saves_is_what_is_read(tmp_path: Path):
    datasets = pytest.importorskip("datasets")
    rows = {"id": ["1", "2", "3"], "text": ["a", "b", "c"], "year": [1, None, 3]}
    saved = datasets.Dataset.from_dict(rows).select([2, 0])
    saved.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": saved}).save_to_disk(tmp_path / "split")
    for folder in ("one", "split", "split/train"):
        found = list(open_documents(tmp_path / folder))
        assert found == [Document("3", "c", "", {"year": 3}), Document("1", "a", "", {"year": 1})]


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"_data_files": 1}', '{"_data_files": [{}]}'])
def test_a_damaged_saved_dataset_is_named(tmp_path: Path, state: str):
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(DataError, match=r"state\.json: does not list _data_files"):
        list(open_documents(tmp_path))


def test_a_saved_dataset_points_to_no_file_outside(tmp_path: Path):
    save(tmp_path / "other", {"id": ["1"], "text": ["a"]})
    (tmp_path / "set").mkdir()
    state = {"_data_files": [{"filename": "../other/data-00000-of-00001.arrow"}]}
    (tmp_path / "set" / "state.json").write_text(json.dumps(state))
    with pytest.raises(DatasetError, match="cannot be read"):
        list(open_documents(tmp_path / "set"))
