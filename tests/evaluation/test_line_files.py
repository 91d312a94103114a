"""Benchmark files: lines, rows, numbers and labels, and what is said of malformed ones."""

from pathlib import Path

import pytest

from surprise_rerank import DataError, DatasetError
from surprise_rerank.eval.line_files import data_folder, read_lines


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "pairs.txt"
    path.write_bytes(content)
    return path


def test_only_a_line_feed_ends_a_line_of_any_encoding(tmp_path):
    path = written(tmp_path, "\ufeffa\u0085b\r\nc\u2028d\n\n".encode())
    assert list(read_lines(path)) == ["a\u0085b", "c\u2028d", ""]
    assert list(read_lines(written(tmp_path, b""))) == []
    assert list(read_lines(written(tmp_path, b"caf\xe9"), "latin-1")) == ["café"]
    with pytest.raises(DataError, match=r"pairs.txt, line 2: not utf-8"):
        list(read_lines(written(tmp_path, b"a\n\xff\n")))
    with pytest.raises(DatasetError, match=r"there is no file .*nothing\.txt"):
        list(read_lines(tmp_path / "nothing.txt"))


def test_a_data_folder_is_found_where_it_may_be(tmp_path):
    deep = tmp_path / "evalrank" / "word_evalrank"
    deep.mkdir(parents=True)
    for data in (tmp_path, tmp_path / "evalrank", deep):
        assert data_folder(data, "evalrank", "word_evalrank") == deep
    with pytest.raises(DatasetError, match=r"there is no folder sts/STS12 in .*; looked for .*sts/STS12"):
        data_folder(tmp_path, "sts", "STS12")
    with pytest.raises(DatasetError, match="give --data FOLDER, or set SURPRISE_RERANK_DATA"):
        data_folder(None, "sts")
