"""One way to open everything: what is recognised, Python objects, collections of Qdrant, data sets."""

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.words import WordEncoder
from qdrant_client import QdrantClient, models

from surprise_rerank import DataError, DatasetError, Document, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.readers import (
    Fields,
    from_iterable,
    open_documents,
)


def test_a_beir_folder_has_the_fields_of_its_own(tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes(
        b'{"_id": "1", "text": "x", "url": "u", "metadata": {"k": 1}}\n{"_id": "2"}\n'
    )
    with pytest.raises(DataError, match="fields are for tables and collections"):
        open_documents(tmp_path, fields=Fields(id="url"))
    with pytest.raises(DataError, match=r"corpus\.jsonl:2: `text` is missing"):
        list(open_documents(tmp_path))
    source = open_documents(tmp_path, on_error="skip")
    assert [(d.id, d.metadata) for d in source] == [("1", {"k": 1})]


def test_a_folder_goes_before_an_id_of_the_same_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("msmarco-passage", "demo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("mine")
    for spec in ("msmarco-passage", "./demo", "demo/", Path("demo")):
        assert [d.text for d in open_documents(spec)] == ["mine"]
    demo = open_documents("demo")
    assert next(iter(demo)).id.startswith("numpy.")
    assert (demo.name, open_documents("beir/scifact/test").name) == ("demo", "beir/scifact")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"spec": "nothing.jsonl"}, "nothing.jsonl: no such file or folder"),
        ({"spec": "./nothing"}, "no such file or folder"),
        ({"spec": ""}, "no data set was named"),
        ({"spec": "http://localhost:6333"}, "names no collection; give a url such as"),
        ({"spec": "https://example.org/a.jsonl"}, "download it first"),
        ({"spec": "a.jsonl", "collection": "c"}, "belongs to a client"),
        ({"spec": [], "collection": "c"}, "belongs to a client"),
        ({"spec": "demo", "format": "xml"}, "format='xml' is not known; there are: jsonl, csv"),
        ({"spec": "demo", "on_error": "ignore"}, "on_error='ignore' is not known; there are: raise, skip"),
        ({"spec": "demo", "fields": Fields(id="x")}, "leave them out"),
        ({"spec": 7}, "iterable of a Document"),
        ({"spec": b"demo"}, "iterable of a Document"),
    ],
)
def test_what_cannot_be_opened_is_told(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((DataError, DatasetError)) as error:
        open_documents(**arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# --- Python objects ---


def test_documents_mappings_and_pairs_are_documents():
    items = [
        Document("a", "as it is", metadata={"k": 1}),
        {"id": np.int64(3), "body": "b", "title": None, "year": np.int32(1999)},
        ("c", "pair"),
        (4, "number"),
        [uuid.UUID(int=5), "uuid"],
    ]
    source = open_documents(items)
    assert list(source) == [
        items[0],
        Document("3", "b", "", {"year": 1999}),
        Document("c", "pair"),
        Document("4", "number"),
        Document("00000000-0000-0000-0000-000000000005", "uuid"),
    ]
    assert list(source) == list(source)
    assert list(from_iterable([])) == []


def test_values_of_python_become_json():
    values = {
        "day": (datetime.date(2024, 5, 1), "2024-05-01"),
        "at": (datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC), "2024-05-01T12:00:00+00:00"),
        "clock": (datetime.time(12, 30), "12:30:00"),
        "took": (datetime.timedelta(minutes=2), 120.0),
        "price": (Decimal("9.90"), "9.90"),
        "none": (Decimal("NaN"), None),
        "array": (np.array([[1.0, np.nan]]), [[1.0, None]]),
        "bool": (np.bool_(True), True),
        "stamp": (np.datetime64("2024-05-01T00:00:00.000000001"), "2024-05-01T00:00:00.000000001"),
        "nat": (np.datetime64("NaT"), None),
        "path": (Path("a/b"), str(Path("a/b"))),
        "pair": ((1, "x"), [1, "x"]),
        "7": ({"nested": {8: float("-inf")}}, {"nested": {"8": None}}),
    }
    given = {name: value for name, (value, _) in values.items()}
    (document,) = from_iterable([{"id": "1", "text": "x", **given}])
    assert document.metadata == {name: json for name, (_, json) in values.items()}


def test_missing_values_of_pandas_become_null():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": ["1", "2"], "text": ["x", "y"], "n": pandas.array([1, None], "Int64")})
    frame["at"] = pandas.to_datetime(["2024-05-01", None])
    first, second = from_iterable(frame.to_dict("records"))
    assert first.metadata == {"n": 1, "at": "2024-05-01T00:00:00"}
    assert second.metadata == {"n": None, "at": None}


def cyclic() -> dict[str, Any]:
    row: dict[str, Any] = {"id": "1", "text": "x"}
    row["self"] = row
    return row


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("text", "must be a Document, a mapping or an (id, text) pair, got str"),
        (("", "x"), "got tuple"),
        (None, "got NoneType"),
        ({"id": "1", "text": "x", "raw": b"x"}, "`raw` holds bytes"),
        ({"id": "1", "text": "x", "deep": {"er": [object()]}}, "`deep.er` holds object"),
        (cyclic(), "nested too deeply"),
    ],
)
def test_an_object_that_is_no_document_is_told_or_skipped(item, message):
    items = [{"id": "0", "text": "good"}, item]
    with pytest.raises(DataError) as error:
        list(from_iterable(items, name="pets"))
    assert str(error.value).startswith("pets, item 2: ")
    assert message in str(error.value)
    source = from_iterable(items, on_error="skip")
    assert [d.id for d in source] == ["0"]
    assert source.skipped.total == 1


def test_a_generator_is_read_once_and_a_function_as_often_as_one_likes():
    def pairs() -> Iterator[tuple[str, str] | None]:
        yield from (("1", "x"), None, ("2", "y"))

    once = open_documents(pairs(), on_error="skip")
    assert len(list(once)) == 2
    with pytest.raises(DataError, match="read already; give a list, or a function"):
        list(once)
    often = open_documents(pairs, on_error="skip")
    first, second = iter(often), iter(often)  # their accounts do not mix
    next(first), next(second)
    assert [d.id for d in second] == [d.id for d in first] == ["2"]
    assert often.skipped.total == 1


# --- Qdrant ---


def collection(payloads: list[dict[str, Any] | None]) -> QdrantClient:
    client, name = QdrantClient(":memory:"), "papers"
    client.create_collection(name, vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    points = [models.PointStruct(id=n, vector=[1.0, 0.0], payload=p) for n, p in enumerate(payloads, start=1)]
    if points:
        client.upsert(name, points)
    return client


def test_payloads_are_documents_and_points_give_ids_where_payloads_do_not():
    payloads = [
        {"page_content": "x", "metadata": {"source": "a.pdf", "page": 3}},
        {"page_content": "y", "metadata": None},
    ]
    client = collection(payloads)
    source = open_documents(client, collection="papers")
    assert source.name == "papers"
    assert list(source) == [
        Document("1", "x", "", {"source": "a.pdf", "page": 3}),
        Document("2", "y", "", {"metadata": None}),
    ]
    assert list(source) == list(source)
    hashed = open_documents(client, collection="papers", fields=Fields(id="content"))
    assert [d.id for d in hashed] == [Document("", text).content_hash for text in "xy"]


def test_all_pages_of_a_collection_are_read_and_bad_payloads_are_named_by_their_point():
    payloads: list[dict[str, Any] | None] = [{"text": f"t{n}"} for n in range(600)]
    payloads[256] = None
    client = collection(payloads)
    with pytest.raises(DataError, match=r"collection 'papers', point 257: `text` is missing"):
        list(open_documents(client, collection="papers"))
    source = open_documents(client, collection="papers", on_error="skip")
    assert [d.id for d in source] == [str(n + 1) for n in range(len(payloads)) if n != 256]
    assert source.skipped.counts == {"no text": 1}


def test_an_index_of_this_package_comes_back_without_its_token_vectors(qdrant):
    documents = [
        Document("a", "dogs bark", "Pets", {"year": 1999, "hash": "mine"}),
        Document("b", "cats purr " * 500),
    ]
    with DocumentIndex.open(f"{qdrant.url}/{qdrant.prefix}", WordEncoder()) as index:
        index.sync(documents)
    found = sorted(open_documents(f"{qdrant.url}/{qdrant.prefix}"), key=lambda d: d.id)
    assert found == documents


def test_a_collection_that_is_missing_or_empty_is_told():
    client = collection([])
    with pytest.raises(StoreError, match="has no collection 'books'; there is papers"):
        list(open_documents(client, collection="books"))
    with pytest.raises(DatasetError, match="papers holds no documents"):
        list(open_documents(client, collection="papers"))


def test_a_server_that_is_not_there_is_told_at_once_without_secrets(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "sesame")
    source = open_documents("http://user:hunter2@127.0.0.1:9/papers")
    with pytest.raises(StoreError, match=r"cannot reach the Qdrant server at http://127\.0\.0\.1:9") as error:
        list(source)
    assert "hunter2" not in str(error.value)
    assert "sesame" not in f"{error.value!r} {error.value.__cause__!r} {source!r}"
