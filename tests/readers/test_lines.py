"""Benchmark files: lines, fields, numbers and labels, and what is said of malformed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.line_files import data_folder, read_lines, same_length


def written(tmp_path: Path, content: bytes, name: str = "pairs.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffa\u0085b\r\nc\u2028d\n\n".encode())
    assert [(line.number, line.text) for line in read_lines(path)] == [
        (1, "a\u0085b"),
        (2, "c\u2028d"),
        (3, ""),
    ]


def test_other_encodings_are_read(tmp_path: Path) -> None:
    (line,) = read_lines(written(tmp_path, b"caf\xe9"), "latin-1")
    assert line.text == "café"


@pytest.mark.parametrize(
    ("content", "separator", "said"),
    [
        (
            b"a\tb\n",
            "\t",
            "line 1: 2 columns, expected 3 columns (word, word, score) with tabs between: 'a\\tb'",
        ),
        (b"a b c d\n", None, "line 1: 4 columns, expected 3 columns (word, word, score) with white space"),
    ],
)
def test_a_missing_column_is_named(tmp_path: Path, content: bytes, separator: str | None, said: str) -> None:
    (line,) = read_lines(written(tmp_path, content))
    with pytest.raises(DataError) as told:
        line.fields(separator, ("word", "word", "score"))
    assert f"{line.path}, {said}" in str(told.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("high", "the score is 'high', expected a number"),
        ("", "the score is '', expected a number"),
        ("nan", "the score is 'nan', expected a number from 0 to 5"),
        ("6", "the score is '6', expected a number from 0 to 5"),
    ],
)
def test_a_score_that_is_no_number_is_named(tmp_path: Path, text: str, said: str) -> None:
    line = next(read_lines(written(tmp_path, b"\n\n")))
    with pytest.raises(DataError, match=f"line 1: {said}"):
        line.number_in(text, "score", 0, 5)


def test_an_unknown_label_is_named(tmp_path: Path) -> None:
    (line,) = read_lines(written(tmp_path, b"x"))
    assert line.label("b", ("a", "b")) == 1
    with pytest.raises(DataError, match="line 1: unknown label 'c', expected one of a, b"):
        line.label("c", ("a", "b"))


def test_bytes_of_another_encoding_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pairs.txt, line 2: not utf-8"):
        list(read_lines(written(tmp_path, b"a\n\xff\n")))


def test_files_of_unequal_length_are_named_with_the_line_where_one_ends(tmp_path: Path) -> None:
    first = list(read_lines(written(tmp_path, b"a\nb\n", "input.txt")))
    second = list(read_lines(written(tmp_path, b"1\n", "gold.txt")))
    for pair in ((first, second), (second, first)):
        with pytest.raises(DataError, match=r"gold.txt ends after line 1, .*input.txt has 2 lines"):
            same_length(*pair)
    with pytest.raises(DataError, match=r"the file beside .*input.txt is empty, expected 2 lines"):
        same_length(first, [])
    same_length(first, first)


def test_a_data_folder_is_found_where_it_may_be(tmp_path: Path) -> None:
    deep = tmp_path / "evalrank" / "word_evalrank"
    deep.mkdir(parents=True)
    for given in (tmp_path, tmp_path / "evalrank", deep):
        assert data_folder(given, "evalrank", "word_evalrank") == deep
    with pytest.raises(DatasetError, match=r"there is no folder sts/STS12 in .*; looked for .*sts/STS12"):
        data_folder(tmp_path, "sts", "STS12")
    with pytest.raises(DatasetError, match="give --data FOLDER, or set SURPRISE_RERANK_DATA"):
        data_folder(None, "sts")
