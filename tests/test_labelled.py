"""Labelled texts from files, and their vectors in the cache."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.encoders.base import Encoded, Kind
from surprise_rerank.errors import DataError, DatasetError, StoreError
from surprise_rerank.eval.labelled import vectors as vectors_module
from surprise_rerank.eval.labelled.data import LabelledTexts, read_labelled, read_texts
from surprise_rerank.eval.labelled.vectors import VectorFolder

QUIET = Terminal(quiet=True)


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


# Reading


def test_tables_of_every_kind_give_the_same_texts(tmp_path: Path):
    rows = [{"text": "a dog, barking", "label": "pets"}, {"text": "", "label": "none"}]
    jsonl = lines(tmp_path / "a.jsonl", *rows)
    (tmp_path / "b.csv").write_text('text,label\n"a dog, barking",pets\n"",none\n')
    (tmp_path / "c.tsv").write_text("text\tlabel\na dog, barking\tpets\n\tnone\n")
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write(jsonl.read_text())
    files = [jsonl, tmp_path / "b.csv", tmp_path / "c.tsv", tmp_path / "d.jsonl.gz"]
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "e.parquet")
    found = [read_labelled(path) for path in [*files, tmp_path / "e.parquet"]]
    for texts in found:
        assert texts.texts == ("a dog, barking", "")
        assert texts.labels == ("pets", "none")
        assert texts.digest == found[0].digest
    assert found[0].name == "a.jsonl"


def test_columns_are_named_and_labels_may_be_numbers(tmp_path: Path):
    path = lines(
        tmp_path / "x.jsonl",
        {"question": "who?", "intent": 3},
        {"question": "why?", "intent": True},
        {"question": "how?", "intent": 2.0},
        {"question": "when?", "intent": " time "},
    )
    found = read_labelled(path, text="question", label="intent")
    assert found.labels == ("3", "true", "2", "time")
    assert found.classes == ("2", "3", "time", "true")


def test_a_label_may_be_in_a_column_that_is_called_title(tmp_path: Path):
    path = lines(tmp_path / "x.jsonl", {"text": "who?", "title": "human"})
    assert read_labelled(path, label="title").labels == ("human",)
    assert read_labelled(path, label="title").texts == ("who?",)


@pytest.mark.parametrize("label", [None, "", "  ", 1.5, ["a"], {"a": 1}])
def test_a_row_without_a_label_is_told_or_left_out(tmp_path: Path, label: object):
    path = lines(tmp_path / "x.jsonl", {"text": "a", "label": "x"}, {"text": "b", "label": label})
    with pytest.raises(DataError, match=r"x\.jsonl, row 2: no label in the column 'label' .*'b'"):
        read_labelled(path)
    found = read_labelled(path, on_error="skip")
    assert (found.texts, found.left_out) == (("a",), 1)


def test_rows_without_a_text_are_left_out_too(tmp_path: Path):
    path = lines(tmp_path / "x.jsonl", {"text": "a", "label": "x"}, {"text": None, "label": "x"})
    with pytest.raises(DataError, match=r"x\.jsonl:2: `text` is missing or null"):
        read_labelled(path)
    assert read_labelled(path, on_error="skip").left_out == 1


@pytest.mark.parametrize(
    ("text", "label", "error", "message"),
    [
        ("text", "text", DataError, "text and label are both the column 'text'"),
        ("body", "label", DataError, "no column 'body' for the text among text, label"),
        (None, "class", DataError, "no label in the column 'class'"),
    ],
)
def test_wrong_columns_are_one_line(
    tmp_path: Path, text: str | None, label: str, error: type[Exception], message: str
):
    path = lines(tmp_path / "x.jsonl", {"text": "a", "label": "x"})
    with pytest.raises(error, match=message) as found:
        read_labelled(path, text=text, label=label)
    assert "\n" not in str(found.value)


def test_files_that_are_missing_or_empty_are_told(tmp_path: Path):
    with pytest.raises(DatasetError, match="no such file"):
        read_labelled(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DatasetError, match="holds no documents"):
        read_labelled(tmp_path / "empty.jsonl")


def test_the_digest_tells_texts_labels_and_order_apart():
    given = [(["a", "b"], ["x", "y"]), (["b", "a"], ["x", "y"]), (["a", "b"], ["y", "x"]), (["ab"], ["x"])]
    digests = {LabelledTexts.of("n", texts, labels).digest for texts, labels in given}
    assert len(digests) == 4
    assert all(len(digest) == 16 for digest in digests)
    assert LabelledTexts.of("other", ["a"], ["x"]).digest == LabelledTexts.of("n", ["a"], ["x"]).digest


def test_a_sample_is_random_and_always_the_same():
    texts = LabelledTexts.of("n", [str(i) for i in range(100)], ["x"] * 50 + ["y"] * 50)
    sample = texts.sample(20)
    assert sample.texts == texts.sample(20).texts
    assert list(sample.texts) == sorted(sample.texts, key=int)
    assert set(sample.labels) == {"x", "y"}  # the first 20 are all x
    assert all(texts.labels[int(t)] == label for t, label in zip(sample.texts, sample.labels, strict=True))
    assert sample.digest != texts.digest
    assert texts.sample(None) is texts
    assert texts.sample(100) is texts


def test_texts_without_labels_are_read_from_tables_and_lines(tmp_path: Path):
    (tmp_path / "x.txt").write_text("a dog\n\n  barks \n")
    assert read_texts(tmp_path / "x.txt") == ("a dog", "  barks ")
    assert read_texts(lines(tmp_path / "x.jsonl", {"q": "a"}, {"q": "b"}), text="q") == ("a", "b")
    (tmp_path / "x.txt").write_text("\n")
    with pytest.raises(DatasetError, match="holds no text"):
        read_texts(tmp_path / "x.txt")


# Vectors


def made(folder: Path, encoder: WordEncoder, texts: Sequence[str], kind: Kind = "document") -> np.ndarray:
    return VectorFolder(folder).vectors(encoder, "0123456789abcdef", texts, kind, QUIET, "encoding")


def test_texts_are_encoded_once(tmp_path: Path):
    encoder, texts = WordEncoder(), ["a dog", "", "a cat", "a dog"]
    first = made(tmp_path, encoder, texts)
    np.testing.assert_array_equal(first, encoder.encode(texts).dense)
    again = WordEncoder()
    np.testing.assert_array_equal(made(tmp_path, again, texts), first)
    assert again.encoded_texts == []
    assert first.dtype == np.float32


@pytest.mark.parametrize(
    ("other", "texts", "kind"),
    [
        (WordEncoder(fingerprint="1"), ["a", "b"], "document"),
        (WordEncoder(name="others"), ["a", "b"], "document"),
        (WordEncoder(dimension=8), ["a", "b"], "document"),
        (WordEncoder(), ["b", "a"], "document"),
        (WordEncoder(), ["a", "b", "c"], "document"),
        (WordEncoder(), ["a", "b"], "query"),
    ],
)
def test_vectors_of_something_else_are_not_read(
    tmp_path: Path, other: WordEncoder, texts: list[str], kind: Kind
):
    made(tmp_path, WordEncoder(), ["a", "b"])
    made(tmp_path, other, texts, kind)
    assert other.encoded_texts[-len(texts) :] == texts


def test_no_texts_have_no_vectors(tmp_path: Path):
    assert made(tmp_path, WordEncoder(), []).shape == (0, 16)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-8], lambda raw: b"", lambda raw: b"x" * len(raw)])
def test_damaged_files_are_made_again(tmp_path: Path, damage: Callable[[bytes], bytes]):
    first = made(tmp_path, WordEncoder(), ["a", "b"])
    (path,) = tmp_path.rglob("*.npy")
    path.write_bytes(damage(path.read_bytes()))
    np.testing.assert_array_equal(made(tmp_path, WordEncoder(), ["a", "b"]), first)


def test_an_interrupted_encoding_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vectors_module, "_PART", 2)
    texts = ["a", "b", "c", "d", "e"]

    class Interrupted(WordEncoder):
        def encode(self, texts: Sequence[str], *more: object, **named: object) -> Encoded:
            if "d" in texts:
                raise KeyboardInterrupt
            return super().encode(texts)

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, Interrupted(), texts)
    encoder = WordEncoder()
    found = made(tmp_path, encoder, texts)
    assert encoder.encoded_texts == ["c", "d", "e"]
    np.testing.assert_array_equal(found, WordEncoder().encode(texts).dense)
    assert [path.suffix for path in (tmp_path / "labelled").iterdir()] == [".npy"]


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "labelled").write_text("")
    with pytest.raises(StoreError, match="cannot use the vectors in"):
        VectorFolder(tmp_path)
