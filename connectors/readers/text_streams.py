"""The characters of text files: compressed or not, in any encoding."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.readers.source import EXTRA, Place, RefusedError
from surprise_rerank.core.extras import import_extra
from surprise_rerank.errors import DataError, DatasetError

MAX_ROW = 64 * 2**20  # characters; a longer row is the sign of another format

# UTF-32 goes first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 64 * 2**10
_WESTERN = "cp1252"
_TOLERANCE = 0.15  # of charset-normalizer's "chaos": enough for French, too little for Polish and Czech
_BINARY_SAMPLE = 8000  # where git looks for a NUL
_UNDECODED = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of bytes


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the operating system's and gzip's errors into one line.

    Raises:
        DataError: if the file is damaged.
        DatasetError: if it cannot be read.
    """
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: the gzip stream is damaged or cut short ({error}); fetch the file again"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not valid {error.encoding} ({error.reason}); save the file as UTF-8"
        ) from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from error


@contextmanager
def open_text(
    path: Path, *, newline: str, encoding: str | None = None, place: Place | None = None
) -> Iterator[io.TextIOWrapper]:
    """A file's characters; bytes that are none of its encoding come as lone surrogates, see `check_decoded`.

    Args:
        path: a name that ends in `.gz` is decompressed.
        newline: as for `open`.
        encoding: of a file that has no byte order mark and does not begin in UTF-8; guessed by default.
        place: is told how far the file was read.

    Raises:
        DataError: if the file is damaged.
        DatasetError: if it cannot be read.
        MissingExtraError: if the encoding is to be guessed and that is not installed.
    """
    with reading(path):
        with _open(path, Place()) as stream:
            sample = stream.read(_SAMPLE)
        found = marked_encoding(sample) or ("utf-8" if _begins_utf8(sample) else encoding)
        if found is None:
            found = guessed_encoding(sample) or "utf-8"
        with (
            _open(path, place or Place()) as stream,
            io.TextIOWrapper(stream, encoding=found, errors="surrogateescape", newline=newline) as text,
        ):
            yield text


def check_decoded(text: str) -> None:
    """Check that every byte was a character.

    Raises:
        RefusedError: if one was not.
    """
    if not text.isascii() and _UNDECODED.search(text):
        raise RefusedError("not valid UTF-8", "not valid UTF-8; save the file as UTF-8")


def decoded(raw: bytes, *claims: str | None) -> tuple[str, str]:
    """A whole file's text and the encoding that it is in.

    A byte order mark decides, then UTF-8, then the claims in their order, then a guess.

    Args:
        raw: the file.
        claims: encodings that the file or the user names.

    Raises:
        RefusedError: if it is no text.
        MissingExtraError: if the encoding has to be guessed and that is not installed.
    """
    marked = marked_encoding(raw)
    if marked is None and b"\0" in raw[:_BINARY_SAMPLE]:
        raise RefusedError("binary", "is binary, not text")
    for encoding in [marked] if marked else ["utf-8", *claims]:
        try:
            if encoding:
                return raw.decode(encoding), encoding
        except (UnicodeDecodeError, LookupError):
            continue
    if marked:
        raise RefusedError(f"not valid {marked}", f"is marked as {marked}, and is not; save it as UTF-8")
    guess = guessed_encoding(raw[:_SAMPLE])
    if guess is None:
        raise RefusedError("binary", "is binary, or in an encoding that cannot be guessed; save it as UTF-8")
    return raw.decode(guess, "replace"), guess


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a reader extracts from a file.

    Attributes:
        text: its text.
        title: its own title, empty where it has none.
        metadata: what else is known of it.
    """

    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def plain_text(raw: bytes, encoding: str | None = None) -> Extracted:
    """A text file as it is.

    Args:
        raw: the file.
        encoding: of a file that is not UTF-8; guessed by default.

    Raises:
        RefusedError: if it is no text.
        MissingExtraError: if its encoding has to be guessed and that is not installed.
    """
    text, found = decoded(raw, encoding)
    return Extracted(text.replace("\r\n", "\n"), metadata=encoding_metadata(found))


def encoding_metadata(encoding: str) -> dict[str, str]:
    """Metadata of an encoding that may be guessed; none for UTF-8."""
    return {} if encoding in ("utf-8", "utf-8-sig") else {"encoding": encoding}


def marked_encoding(raw: bytes) -> str | None:
    """The encoding of a byte order mark."""
    return next((encoding for mark, encoding in _MARKS if raw.startswith(mark)), None)


def guessed_encoding(sample: bytes) -> str | None:
    """The likeliest encoding of a text that is not UTF-8, None for what is no text.

    Raises:
        MissingExtraError: if charset-normalizer is not installed.
    """
    normalizer = import_extra("charset_normalizer", EXTRA)
    utils = import_extra("charset_normalizer.utils", EXTRA)
    # Half a character at the end would rule its encoding out; no character but a line's end has that byte.
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    # Without a mark and without a NUL it is not UTF-16, which short texts are taken for.
    found = normalizer.from_bytes(sample, cp_exclusion=["utf_16", "utf_16_le", "utf_16_be"])
    best = found.best()
    if best is None:
        return None
    # Languages of western Europe come out as Central European or Baltic by chance. That is rarer by far.
    is_likely = any(
        _WESTERN in match.could_be_from_charset and match.chaos <= best.chaos + _TOLERANCE for match in found
    )
    is_western = is_likely and not utils.is_multi_byte_encoding(best.encoding)
    return _WESTERN if is_western else str(best.encoding)


@contextmanager
def _open(path: Path, place: Place) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    with path.open("rb") as file, place.within(file):
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=file) as stream:
                yield stream
        else:
            yield file


def _begins_utf8(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return True
